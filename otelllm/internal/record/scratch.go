package record

import (
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
)

// scratch is reusable memory for the attributes and options that are passed to a tracer or
// a span, both of which copy what they keep. Its slices are empty when it is taken.
type scratch struct {
	attrs   []attribute.KeyValue
	call    []attribute.KeyValue // of an event about a call
	options []trace.EventOption
	start   []trace.SpanStartOption
	end     []trace.SpanEndOption
}

var scratches = sync.Pool{New: func() any {
	return &scratch{
		attrs:   make([]attribute.KeyValue, 0, 48), // few spans have more
		call:    make([]attribute.KeyValue, 0, 2),
		options: make([]trace.EventOption, 0, 2),
		start:   make([]trace.SpanStartOption, 0, 3),
		end:     make([]trace.SpanEndOption, 0, 1),
	}
}}

func takeScratch() *scratch { return scratches.Get().(*scratch) }

// giveBack returns s to the pool, without what it refers to.
func (s *scratch) giveBack() {
	clear(s.attrs)
	clear(s.call[:cap(s.call)])
	clear(s.options[:cap(s.options)])
	clear(s.start)
	clear(s.end)
	s.attrs, s.start, s.end = s.attrs[:0], s.start[:0], s.end[:0]
	scratches.Put(s)
}
