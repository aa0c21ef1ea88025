package input

import (
	"fmt"
	"iter"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/cmd/otelllm/backend"
)

// Trace is everything in the input about one trace.
type Trace struct {
	ID    pcommon.TraceID
	Data  ptrace.Traces
	Spans int
}

// Traces groups spans by trace, in the order in which the traces arrive. It keeps a span
// that arrives twice only once. The zero value is empty.
type Traces struct {
	List []*Trace

	index map[pcommon.TraceID]*Trace
	known map[spanKey]bool
	bytes int64 // of the spans, as protobuf
}

type spanKey struct {
	trace pcommon.TraceID
	span  pcommon.SpanID
}

// Add moves the spans out of td.
func (c *Traces) Add(td ptrace.Traces) {
	if c.index == nil {
		c.index, c.known = make(map[pcommon.TraceID]*Trace), make(map[spanKey]bool)
	}
	for _, rs := range td.ResourceSpans().All() {
		for _, ss := range rs.ScopeSpans().All() {
			c.addScope(rs, ss)
		}
	}
}

func (c *Traces) addScope(rs ptrace.ResourceSpans, ss ptrace.ScopeSpans) {
	places := make(map[pcommon.TraceID]ptrace.SpanSlice)
	for _, span := range ss.Spans().All() {
		key := spanKey{span.TraceID(), span.SpanID()}
		if c.known[key] && !key.span.IsEmpty() {
			continue
		}
		c.known[key] = true
		t := c.index[key.trace]
		if t == nil {
			t = &Trace{ID: key.trace, Data: ptrace.NewTraces()}
			c.index[key.trace] = t
			c.List = append(c.List, t)
		}
		place, ok := places[key.trace]
		if !ok {
			newRS := t.Data.ResourceSpans().AppendEmpty()
			rs.Resource().CopyTo(newRS.Resource())
			newRS.SetSchemaUrl(rs.SchemaUrl())
			newSS := newRS.ScopeSpans().AppendEmpty()
			ss.Scope().CopyTo(newSS.Scope())
			newSS.SetSchemaUrl(ss.SchemaUrl())
			place = newSS.Spans()
			places[key.trace] = place
		}
		span.MoveTo(place.AppendEmpty())
		t.Spans++
	}
}

// Has reports whether a span is here.
func (c *Traces) Has(trace pcommon.TraceID, span pcommon.SpanID) bool {
	return c.known[spanKey{trace, span}]
}

// Trace returns the trace with this id, or nil.
func (c *Traces) Trace(id pcommon.TraceID) *Trace { return c.index[id] }

// Only returns the trace with this id alone.
func (c *Traces) Only(id pcommon.TraceID) ([]*Trace, error) {
	if t := c.index[id]; t != nil {
		return []*Trace{t}, nil
	}
	return nil, fmt.Errorf("trace %s is not in the input: %w", id, backend.ErrNotFound)
}

// All yields the spans of the trace.
func (t *Trace) All() iter.Seq[ptrace.Span] {
	return func(yield func(ptrace.Span) bool) {
		for _, rs := range t.Data.ResourceSpans().All() {
			for _, ss := range rs.ScopeSpans().All() {
				for _, span := range ss.Spans().All() {
					if !yield(span) {
						return
					}
				}
			}
		}
	}
}
