// Package semconv is the vocabulary of the project's spans: attribute keys and
// constructors, typed enums, event names and bounds. It is the contract between
// the client that records facts, the processor that writes verdicts, and every
// dashboard, alert and program that reads them.
//
// All of it is generated from the registry in the folder model. What each name
// means, and which spans have it, is in docs/reference/attributes.md.
//
// Attributes that OpenTelemetry's conventions have keep their names, as of version 1.41.0:
// the last one with gen_ai.*. The GenAI conventions have a repository of their own since,
// and a release, 0.1.0. The names that they change, such as cache_creation to cache_write,
// are listed in docs/semconv-proposal.md: they are read from spans of others in both forms,
// and written as in 1.41.0, or as in 0.1.0 if OTEL_SEMCONV_STABILITY_OPT_IN asks for it.
//
// A constructor has the name of its key without Key. If an enum type already has that
// name, the constructor's name ends in Attr: [StreamEnd] is the type, [StreamEndAttr]
// makes the attribute.
package semconv

//go:generate go run ./internal/gen
