package input

import (
	"iter"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
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

// Trace returns the trace with this id, or nil.
func (c *Traces) Trace(id pcommon.TraceID) *Trace { return c.index[id] }

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
