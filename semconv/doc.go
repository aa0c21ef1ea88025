// Package semconv is the vocabulary of the project's spans: attribute keys and
// constructors, typed enums, event names and bounds. It is the contract between
// the client that records facts, the processor that writes verdicts, and every
// dashboard, alert and program that reads them.
//
// All of it is generated from the registry in the folder model. What each name
// means, and which spans have it, is in docs/reference/attributes.md.
//
// A constructor has its key's name without Key. Where an enum type has that very
// name, the constructor's ends in Attr: [StreamEnd] is the type, [StreamEndAttr]
// makes the attribute.
package semconv

//go:generate go run ./internal/gen
