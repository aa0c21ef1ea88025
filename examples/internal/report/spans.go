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

// RetryAfter is how long the provider wished to be left alone, 0 when it said nothing.
func (s *Span) RetryAfter() time.Duration { return seconds(s.Attributes, semconv.RetryAfterKey) }

// Run is one run as its spans tell it.
type Run struct {
	Span                   // the span that carries llm.run.outcome
	Requests, Tools []Span // in the order of their start
	Served          []Span // what gateways did beneath the requests: served them, and asked upstream; likewise
}

// Spans collects spans as they come. It is not safe for concurrent use.
type Spans struct {
	traces map[pcommon.TraceID][]Span
	order  []pcommon.TraceID
}

// Add takes the spans of td, and keeps nothing of td.
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

// serviceName is the resource attribute that tells one process from another.
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

// Trace returns every span of a trace, in the order of their start.
func (s *Spans) Trace(id pcommon.TraceID) []Span {
	spans := slices.Clone(s.traces[id])
	slices.SortStableFunc(spans, func(a, b Span) int {
		return cmp.Or(a.Start.Compare(b.Start), b.End.Compare(a.End))
	})
	return spans
}

// Runs returns the judged runs of a trace, in the order of their start.
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
		named := make(map[kind]bool) // some of this kind name the run
		for i := range spans {
			if run.named(&spans[i]) {
				named[kindOf(&spans[i])] = true
			}
		}
		for _, span := range spans {
			of := kindOf(&span)
			// Where some name the run, one that does not is another's view of them.
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

// beneath are the model calls of spans that lie anywhere beneath those asked.
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
		// A parent that is not there ends the way up, and so does one too many: spans
		// may lie.
		for id, left := s.Parent, len(spans); left > 0 && !id.IsEmpty(); id, left = parents[id], left-1 {
			if asked[id] {
				found = append(found, s)
				break
			}
		}
	}
	return found
}

// All returns the judged runs of every trace, traces in the order of their arrival.
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

// operationName is the GenAI convention's attribute that tells what a span is.
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

// named reports whether the span names the run as its own.
func (r *Run) named(s *Span) bool {
	id, ok := s.Attributes.Get(string(semconv.RunIDKey))
	if !ok {
		return false
	}
	if r.Name == semconv.SpanRunAbandoned { // it stands for a run whose span never came
		return id.Str() == r.Parent.String()
	}
	return id.Str() == r.ID.String()
}

// hangsUnder reports whether the span, which names no run, hangs beneath the run's
// span, or under the same parent as the span that stands for the run.
func (r *Run) hangsUnder(s *Span, byID map[pcommon.SpanID]*Span) bool {
	if _, ok := s.Attributes.Get(string(semconv.RunIDKey)); ok {
		return false
	}
	if kindOf(&r.Span) != kindOther {
		return s.Parent == r.Parent
	}
	// Up to the nearest run. What lies beneath a request is another's view of it. A way
	// longer than there are spans goes round.
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
