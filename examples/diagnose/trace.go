package main

import (
	"fmt"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/examples/internal/backend"
	"github.com/otelllm/otelllm-go/semconv"
)

// trace is everything in the input about one trace.
type trace struct {
	id    pcommon.TraceID
	td    ptrace.Traces
	spans int
}

// collection groups spans by trace, in the order in which the traces arrive. It keeps a
// span that arrives twice only once.
type collection struct {
	list  []*trace
	index map[pcommon.TraceID]*trace
	known map[spanKey]bool
}

type spanKey struct {
	trace pcommon.TraceID
	span  pcommon.SpanID
}

// add moves the spans out of td.
func (c *collection) add(td ptrace.Traces) {
	if c.index == nil {
		c.index, c.known = make(map[pcommon.TraceID]*trace), make(map[spanKey]bool)
	}
	for _, rs := range td.ResourceSpans().All() {
		for _, ss := range rs.ScopeSpans().All() {
			c.addScope(rs, ss)
		}
	}
}

func (c *collection) addScope(rs ptrace.ResourceSpans, ss ptrace.ScopeSpans) {
	places := make(map[pcommon.TraceID]ptrace.SpanSlice)
	for _, span := range ss.Spans().All() {
		key := spanKey{span.TraceID(), span.SpanID()}
		if c.known[key] && !key.span.IsEmpty() {
			continue
		}
		c.known[key] = true
		t := c.index[key.trace]
		if t == nil {
			t = &trace{id: key.trace, td: ptrace.NewTraces()}
			c.index[key.trace] = t
			c.list = append(c.list, t)
		}
		place, ok := places[key.trace]
		if !ok {
			newRS := t.td.ResourceSpans().AppendEmpty()
			rs.Resource().CopyTo(newRS.Resource())
			newRS.SetSchemaUrl(rs.SchemaUrl())
			newSS := newRS.ScopeSpans().AppendEmpty()
			ss.Scope().CopyTo(newSS.Scope())
			newSS.SetSchemaUrl(ss.SchemaUrl())
			place = newSS.Spans()
			places[key.trace] = place
		}
		span.MoveTo(place.AppendEmpty())
		t.spans++
	}
}

// only returns the trace with this id.
func (c *collection) only(id pcommon.TraceID) ([]*trace, error) {
	if t := c.index[id]; t != nil {
		return []*trace{t}, nil
	}
	return nil, fmt.Errorf("trace %s is not in the input, which has %d other traces: %w", id, len(c.list), backend.ErrNotFound)
}

// judged reports whether a run of the trace has a verdict that is not only the
// recording client's own.
func (t *trace) judged() bool {
	for span := range t.all() {
		if _, ok := span.Attributes().Get(string(semconv.RunOutcomeKey)); !ok {
			continue
		}
		by, ok := span.Attributes().Get(string(semconv.ClassificationTriggerKey))
		if !ok || by.Str() != semconv.TriggerClient.String() {
			return true
		}
	}
	return false
}

// all yields the spans of the trace.
func (t *trace) all() func(yield func(ptrace.Span) bool) {
	return func(yield func(ptrace.Span) bool) {
		for _, rs := range t.td.ResourceSpans().All() {
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
