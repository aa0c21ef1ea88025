package report

import (
	"cmp"
	"slices"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/semconv"
)

// Span is one span with its verdict.
type Span struct {
	TraceID    pcommon.TraceID
	ID, Parent pcommon.SpanID
	Name       string
	Kind       ptrace.SpanKind
	Scope      string // name of the instrumentation scope
	Service    string // service.name of the resource
	Start, End time.Time
	Status     ptrace.StatusCode
	Attributes pcommon.Map
	Verdict    Verdict
}

// RetryAfter returns how long the provider asked the client to wait, or 0 if it did
// not.
func (s *Span) RetryAfter() time.Duration { return seconds(s.Attributes, semconv.RetryAfterKey) }

// Run is one run, read from its spans.
type Run struct {
	Span                   // the span with llm.run.outcome
	Requests, Tools []Span // ordered by start time
	Served          []Span // gateways' spans below the requests, for serving them and for asking upstream; ordered by start time
}

// Spans collects spans as they arrive. It is not safe for concurrent use.
type Spans struct {
	traces map[pcommon.TraceID][]Span
	order  []pcommon.TraceID
}

// Add copies the spans of td and keeps no reference to it.
func (s *Spans) Add(td ptrace.Traces) {
	if s.traces == nil {
		s.traces = make(map[pcommon.TraceID][]Span)
	}
	for _, rs := range td.ResourceSpans().All() {
		service := ""
		if v, ok := rs.Resource().Attributes().Get(serviceName); ok {
			service = v.AsString()
		}
		for _, ss := range rs.ScopeSpans().All() {
			for _, span := range ss.Spans().All() {
				id := span.TraceID()
				if _, known := s.traces[id]; !known {
					s.order = append(s.order, id)
				}
				s.traces[id] = append(s.traces[id], read(span, ss.Scope().Name(), service))
			}
		}
	}
}

// serviceName is the resource attribute that distinguishes processes.
const serviceName = "service.name"

func read(span ptrace.Span, scope, service string) Span {
	attrs := pcommon.NewMap()
	span.Attributes().CopyTo(attrs)
	return Span{
		TraceID: span.TraceID(), ID: span.SpanID(), Parent: span.ParentSpanID(),
		Name: span.Name(), Kind: span.Kind(), Scope: scope, Service: service,
		Start: span.StartTimestamp().AsTime(), End: span.EndTimestamp().AsTime(), Status: span.Status().Code(),
		Attributes: attrs, Verdict: ReadVerdict(attrs),
	}
}

// Trace returns every span of a trace, ordered by start time.
func (s *Spans) Trace(id pcommon.TraceID) []Span {
	spans := slices.Clone(s.traces[id])
	slices.SortStableFunc(spans, func(a, b Span) int {
		return cmp.Or(a.Start.Compare(b.Start), b.End.Compare(a.End))
	})
	return spans
}

// Runs returns the judged runs of a trace, ordered by start time.
func (s *Spans) Runs(id pcommon.TraceID) []Run {
	spans := s.Trace(id)
	byID := make(map[pcommon.SpanID]*Span, len(spans))
	for i := range spans {
		byID[spans[i].ID] = &spans[i]
	}
	var runs []Run
	for _, carrier := range spans {
		if carrier.Verdict.Outcome == semconv.RunOutcomeUnset {
			continue
		}
		run := Run{Span: carrier}
		asked := make(map[pcommon.SpanID]bool)
		named := make(map[kind]bool) // kinds with a span that names the run
		for i := range spans {
			if run.named(&spans[i]) {
				named[kindOf(&spans[i])] = true
			}
		}
		for _, span := range spans {
			of := kindOf(&span)
			// If some spans of a kind name the run, a span that does not is another
			// instrumentation's record of the same call.
			if !run.named(&span) && (named[of] || !run.hangsUnder(&span, byID)) {
				continue
			}
			switch of {
			case kindRequest:
				run.Requests = append(run.Requests, span)
				asked[span.ID] = true
			case kindTool:
				run.Tools = append(run.Tools, span)
			case kindOther:
			}
		}
		run.Served = beneath(asked, spans)
		runs = append(runs, run)
	}
	return runs
}

// beneath returns the model calls that are descendants of the spans in asked.
func beneath(asked map[pcommon.SpanID]bool, spans []Span) []Span {
	parents := make(map[pcommon.SpanID]pcommon.SpanID, len(spans))
	for _, s := range spans {
		parents[s.ID] = s.Parent
	}
	var found []Span
	for _, s := range spans {
		if asked[s.ID] || kindOf(&s) != kindRequest {
			continue
		}
		// A missing parent ends the loop, and so does the number of steps, since
		// parents may form a cycle.
		for id, left := s.Parent, len(spans); left > 0 && !id.IsEmpty(); id, left = parents[id], left-1 {
			if asked[id] {
				found = append(found, s)
				break
			}
		}
	}
	return found
}

// All returns the judged runs of every trace, traces in the order of arrival.
func (s *Spans) All() []Run {
	var runs []Run
	for _, id := range s.order {
		runs = append(runs, s.Runs(id)...)
	}
	return runs
}

type kind uint8

const (
	kindOther kind = iota
	kindRequest
	kindTool
)

// operationName is the GenAI conventions' attribute with the kind of a span.
const operationName = "gen_ai.operation.name"

func kindOf(s *Span) kind {
	op, ok := s.Attributes.Get(operationName)
	if !ok {
		return kindOther
	}
	switch op.Str() {
	case "execute_tool":
		return kindTool
	case "chat", "text_completion", "generate_content":
		return kindRequest
	default:
		return kindOther
	}
}

// named reports whether the span names this run as its own.
func (r *Run) named(s *Span) bool {
	id, ok := s.Attributes.Get(string(semconv.RunIDKey))
	if !ok {
		return false
	}
	if r.Name == semconv.SpanRunAbandoned { // it represents a run whose span never arrived
		return id.Str() == r.Parent.String()
	}
	return id.Str() == r.ID.String()
}

// hangsUnder reports whether the span, which names no run, is a descendant of the run's
// span, or has the same parent as the span that represents the run.
func (r *Run) hangsUnder(s *Span, byID map[pcommon.SpanID]*Span) bool {
	if _, ok := s.Attributes.Get(string(semconv.RunIDKey)); ok {
		return false
	}
	if kindOf(&r.Span) != kindOther {
		return s.Parent == r.Parent
	}
	// Walk up to the nearest run. A span below a request is another instrumentation's
	// record of it. A path longer than the number of spans is a cycle.
	up := byID[s.Parent]
	for range byID {
		switch {
		case up == nil || kindOf(up) == kindRequest:
			return false
		case up.Verdict.Outcome != semconv.RunOutcomeUnset:
			return up.ID == r.ID
		}
		up = byID[up.Parent]
	}
	return false
}
