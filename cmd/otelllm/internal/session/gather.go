package session

import (
	"container/list"

	"go.opentelemetry.io/otel/trace"

	"github.com/otelllm/otelllm-go/semconv"
)

// gatherer puts the requests of a run into the run's trace. It is not safe for concurrent use.
//
// A request that the proxy serves begins a trace, because its body is not read yet when its
// span starts. Once it is read, the span names the run that the request belongs to, and has
// a link to it. Here nothing has left the process yet, so the request can become what it is:
// a child of the run. A span waits until its trace's first span has ended.
type gatherer struct {
	waiting map[trace.TraceID]*list.Element     // of waits
	waits   *list.List                          // of *wait, the oldest first
	runs    map[trace.TraceID]trace.SpanContext // of ended requests, by their trace; not valid: none elsewhere
	order   []trace.TraceID                     // of runs, the oldest first
}

// wait is what waits for the first span of a trace.
type wait struct {
	trace trace.TraceID
	spans []*span
}

const (
	// maxTraces bounds how many traces are remembered for spans that end after their request.
	maxTraces = 1024
	// maxWaits bounds how many traces wait: a first span may be lost, and never comes then.
	maxWaits = 1 << 16
)

func newGatherer() *gatherer {
	return &gatherer{waiting: make(map[trace.TraceID]*list.Element), waits: list.New(), runs: make(map[trace.TraceID]trace.SpanContext)}
}

// add makes a span wait. It returns the spans of the trace that has waited for longest if too
// many do.
func (g *gatherer) add(id trace.TraceID, s *span) []*span {
	if g.waiting[id] == nil {
		g.waiting[id] = g.waits.PushBack(&wait{trace: id})
	}
	w := g.waiting[id].Value.(*wait)
	w.spans = append(w.spans, s)
	if g.waits.Len() <= maxWaits {
		return nil
	}
	return g.take(g.waits.Front().Value.(*wait).trace)
}

// take returns the spans of a trace that wait, which do so no longer.
func (g *gatherer) take(id trace.TraceID) []*span {
	e := g.waiting[id]
	if e == nil {
		return nil
	}
	delete(g.waiting, id)
	return g.waits.Remove(e).(*wait).spans
}

// gather takes spans in, and returns those that can go on.
func (g *gatherer) gather(ended []*span) []*span {
	var ready []*span
	for _, s := range ended {
		id := s.context.TraceID()
		run, known := g.runs[id]
		local := s.parent.IsValid() && !s.parent.IsRemote()
		switch {
		case known:
			ready = append(ready, within(s, run))
		case local && runID(s) == "":
			ready = append(ready, g.add(id, s)...)
		case local: // in the run's trace already
			ready = append(ready, s)
		default:
			run := runOf(s)
			g.remember(id, run)
			for _, waiting := range append(g.take(id), s) {
				ready = append(ready, within(waiting, run))
			}
		}
	}
	return ready
}

// runID returns the run that a span names, or "".
func runID(s *span) string {
	for i := range s.attrs {
		if s.attrs[i].Key == semconv.RunIDKey {
			return s.attrs[i].Value.AsString()
		}
	}
	return ""
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
func runOf(s *span) trace.SpanContext {
	if s.parent.IsValid() {
		return trace.SpanContext{}
	}
	id := runID(s)
	for i := range s.links {
		if l := s.links[i].SpanContext; l.SpanID().String() == id && l.TraceID() != s.context.TraceID() {
			return l
		}
	}
	return trace.SpanContext{}
}

// within puts the span into the run's trace: beneath the run, if it has no parent. Without a run
// the span stays as it is.
func within(s *span, run trace.SpanContext) *span {
	if !run.IsValid() {
		return s
	}
	if s.parent.IsValid() {
		s.parent = s.parent.WithTraceID(run.TraceID())
	} else {
		s.parent = run.WithRemote(false)
	}
	s.context = s.context.WithTraceID(run.TraceID())
	return s
}

// rest returns what waits, as it is: nothing comes any more.
func (g *gatherer) rest() (rest []*span) {
	for e := g.waits.Front(); e != nil; e = g.waits.Front() {
		rest = append(rest, g.take(e.Value.(*wait).trace)...)
	}
	return rest
}
