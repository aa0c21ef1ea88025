// Package ticket is the part of the journal that the spans of a trace keep. It is apart from the journal, so that the rules
// can be compiled without a storage.
package ticket

// Ticket is a span in the journal. Its zero value is no span.
type Ticket struct {
	Entry Entry
	Index uint32 // of the span in its entry
}

// Entry is the spans of one call. Only the journal has a type for it.
type Entry interface{ IsEntry() }
