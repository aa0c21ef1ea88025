// Package semconv is the vocabulary: attribute keys, typed enums and event names,
// the contract between the client, the processor and every reader of their spans.
package semconv
