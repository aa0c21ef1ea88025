// Package semconv is the vocabulary of the project's spans: attribute keys and
// constructors, typed enums, event names and bounds. It is the contract between
// the client that records facts, the processor that writes verdicts, and every
// dashboard, alert and program that reads them.
//
// All of it is generated from the registry in the folder model. What each name
// means, and which spans have it, is in docs/reference/attributes.md.
//
// Attributes that OpenTelemetry's conventions have keep their names, as of version 1.41.0:
// the last one with gen_ai.*. Names that the conventions' GenAI repository has added since,
// such as handle_conversation_turn, are read from spans of others in both forms; what is
// written stays with 1.41.0 until that repository has a release.
//
// A constructor has the name of its key without Key. If an enum type already has that
// name, the constructor's name ends in Attr: [StreamEnd] is the type, [StreamEndAttr]
// makes the attribute.
package semconv

//go:generate go run ./internal/gen
