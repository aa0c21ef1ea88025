package dialect

import (
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// Registry asks dialects in order; the first that recognises a span reads it.
// It is safe for concurrent use.
type Registry struct {
	dialects []Dialect
	// markers says, as a bit set over dialects, whose marker a key is.
	markers map[string]uint32
	// first and length tell most keys apart from markers without hashing them.
	first  [256]bool
	length uint64
}

// maxMarkerLen bounds the length of a marker, in bytes.
const maxMarkerLen = 63

// NewRegistry makes a registry of at most 32 dialects. An earlier one wins where
// two recognise the same span.
func NewRegistry(dialects ...Dialect) *Registry {
	r := &Registry{dialects: dialects, markers: make(map[string]uint32)}
	for i, d := range dialects {
		for _, key := range d.Markers() {
			if key == "" || len(key) > maxMarkerLen {
				panic("dialect " + d.Name() + ": a marker is empty or longer than 63 bytes: " + key)
			}
			r.markers[key] |= 1 << i
			r.first[key[0]] = true
			r.length |= 1 << len(key)
		}
	}
	return r
}

// Default is the registry of every dialect there is.
func Default() *Registry {
	return NewRegistry(OTelLLM{}, GenAI{})
}

// Recognise says what a span is and who reads it. It costs one pass over the
// attributes of a span without markers; the dialect is nil for Other.
func (r *Registry) Recognise(span ptrace.Span) (Head, Dialect) {
	var candidates uint32
	for key := range span.Attributes().All() {
		if len(key) > maxMarkerLen || r.length&(1<<len(key)) == 0 || !r.first[key[0]] {
			continue
		}
		candidates |= r.markers[key]
	}
	for i := 0; candidates != 0; i, candidates = i+1, candidates>>1 {
		if candidates&1 == 0 {
			continue
		}
		if head := r.dialects[i].Recognise(span); head.Kind != Other {
			return head, r.dialects[i]
		}
	}
	return Head{}, nil
}
