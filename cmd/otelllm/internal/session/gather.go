package session

import (
	"container/list"
	"context"
	"errors"
	"sync"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/otelllm/otelllm-go/semconv"
)

// gatherer is an exporter that puts the requests of a run into the run's trace.
//
// A request that the proxy serves begins a trace, because its body is not read yet when its
// span starts. Once it is read, the span names the run that the request belongs to, and has
// a link to it. Here nothing has left the process yet, so the request can become what it is:
// a child of the run. A span waits until its trace's first span has ended.
type gatherer struct {
	next sdktrace.SpanExporter

	mu      sync.Mutex
	waiting map[trace.TraceID]*list.Element     // of waits; guarded by mu
	waits   *list.List                          // of *wait, the oldest first; guarded by mu
	runs    map[trace.TraceID]trace.SpanContext // of ended requests, by their trace; not valid: none elsewhere; guarded by mu
	order   []trace.TraceID                     // of runs, the oldest first; guarded by mu
}

// wait is what waits for the first span of a trace.
type wait struct {
	trace trace.TraceID
	spans []sdktrace.ReadOnlySpan
}

const (
	// maxTraces bounds how many traces are remembered for spans that end after their request.
	maxTraces = 4096
	// maxWaits bounds how many traces wait: a first span may be lost, and never comes then.
	maxWaits = 1 << 16
)

func newGatherer(next sdktrace.SpanExporter) *gatherer {
	return &gatherer{next: next, waiting: make(map[trace.TraceID]*list.Element), waits: list.New(), runs: make(map[trace.TraceID]trace.SpanContext)}
}

// add makes a span wait. It returns the spans of the trace that has waited for longest if too
// many do.
func (g *gatherer) add(id trace.TraceID, span sdktrace.ReadOnlySpan) []sdktrace.ReadOnlySpan {
	if g.waiting[id] == nil {
		g.waiting[id] = g.waits.PushBack(&wait{trace: id})
	}
	w := g.waiting[id].Value.(*wait)
	w.spans = append(w.spans, span)
	if g.waits.Len() <= maxWaits {
		return nil
	}
	return g.take(g.waits.Front().Value.(*wait).trace)
}

// take returns the spans of a trace that wait, which do so no longer.
func (g *gatherer) take(id trace.TraceID) []sdktrace.ReadOnlySpan {
	e := g.waiting[id]
	if e == nil {
		return nil
	}
	delete(g.waiting, id)
	return g.waits.Remove(e).(*wait).spans
}

// ExportSpans implements sdktrace.SpanExporter.
func (g *gatherer) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	if ready := g.gather(spans); len(ready) > 0 {
		return g.next.ExportSpans(ctx, ready)
	}
	return nil
}

// gather takes spans in, and returns those that can go on.
func (g *gatherer) gather(spans []sdktrace.ReadOnlySpan) []sdktrace.ReadOnlySpan {
	g.mu.Lock()
	defer g.mu.Unlock()
	var ready []sdktrace.ReadOnlySpan
	for _, span := range spans {
		id := span.SpanContext().TraceID()
		run, known := g.runs[id]
		switch {
		case known:
			ready = append(ready, within(span, run))
		case span.Parent().IsValid() && !span.Parent().IsRemote() && !isOfRun(span):
			ready = append(ready, g.add(id, span)...)
		case span.Parent().IsValid() && !span.Parent().IsRemote():
			ready = append(ready, span)
		default:
			run := runOf(span)
			g.remember(id, run)
			for _, s := range append(g.take(id), span) {
				ready = append(ready, within(s, run))
			}
		}
	}
	return ready
}

// isOfRun reports whether a span with a parent names its run: then it is in the run's trace,
// and does not wait for the run.
func isOfRun(span sdktrace.ReadOnlySpan) bool {
	for _, a := range span.Attributes() {
		if a.Key == semconv.RunIDKey {
			return true
		}
	}
	return false
}

// remember keeps where the spans of a trace belong, for those that end after their request.
func (g *gatherer) remember(id trace.TraceID, run trace.SpanContext) {
	g.runs[id] = run
	g.order = append(g.order, id)
	if len(g.order) > maxTraces {
		delete(g.runs, g.order[0])
		g.order = g.order[1:]
	}
}

// runOf returns the run that a request without a parent names, if it is in another trace,
// and else a context that is not valid.
func runOf(span sdktrace.ReadOnlySpan) trace.SpanContext {
	if span.Parent().IsValid() {
		return trace.SpanContext{}
	}
	id := ""
	for _, a := range span.Attributes() {
		if a.Key == semconv.RunIDKey {
			id = a.Value.AsString()
		}
	}
	for _, l := range span.Links() {
		if l.SpanContext.SpanID().String() == id && l.SpanContext.TraceID() != span.SpanContext().TraceID() {
			return l.SpanContext
		}
	}
	return trace.SpanContext{}
}

// movedSpan is a span in another trace.
type movedSpan struct {
	sdktrace.ReadOnlySpan
	context, parent trace.SpanContext
}

// SpanContext implements sdktrace.ReadOnlySpan.
func (s movedSpan) SpanContext() trace.SpanContext { return s.context }

// Parent implements sdktrace.ReadOnlySpan.
func (s movedSpan) Parent() trace.SpanContext { return s.parent }

// within returns the span as one of the run's trace: beneath the run, if it has no parent.
// Without a run the span stays as it is.
func within(span sdktrace.ReadOnlySpan, run trace.SpanContext) sdktrace.ReadOnlySpan {
	if !run.IsValid() {
		return span
	}
	parent := span.Parent()
	if parent.IsValid() {
		parent = parent.WithTraceID(run.TraceID())
	} else {
		parent = run.WithRemote(false)
	}
	return movedSpan{ReadOnlySpan: span, context: span.SpanContext().WithTraceID(run.TraceID()), parent: parent}
}

// Shutdown implements sdktrace.SpanExporter. Spans whose request has not ended go as they
// are.
func (g *gatherer) Shutdown(ctx context.Context) error {
	g.mu.Lock()
	var rest []sdktrace.ReadOnlySpan
	for e := g.waits.Front(); e != nil; e = g.waits.Front() {
		rest = append(rest, g.take(e.Value.(*wait).trace)...)
	}
	g.mu.Unlock()
	var err error
	if len(rest) > 0 {
		err = g.next.ExportSpans(ctx, rest)
	}
	return errors.Join(err, g.next.Shutdown(ctx))
}
