package otelllm

import (
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
)

// scratch is memory for what is handed to a tracer or a span, which copies what it
// keeps. Its slices are empty when it is taken.
type scratch struct {
	attrs   []attribute.KeyValue
	call    []attribute.KeyValue // of an event about a call
	options []trace.EventOption
}

var scratches = sync.Pool{New: func() any {
	return &scratch{
		attrs:   make([]attribute.KeyValue, 0, 48), // few spans have more
		call:    make([]attribute.KeyValue, 0, 2),
		options: make([]trace.EventOption, 0, 2),
	}
}}

func takeScratch() *scratch { return scratches.Get().(*scratch) }

// giveBack lets go of s, and of what it refers to.
func (s *scratch) giveBack() {
	clear(s.attrs)
	clear(s.call[:cap(s.call)])
	clear(s.options[:cap(s.options)])
	s.attrs = s.attrs[:0]
	scratches.Put(s)
}
