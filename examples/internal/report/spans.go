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
	var runs []Run
	for _, carrier := range spans {
		if carrier.Verdict.Outcome == semconv.RunOutcomeUnset {
			continue
		}
		run := Run{Span: carrier}
		asked := make(map[pcommon.SpanID]bool)
		for _, span := range spans {
			if !run.holds(&span) {
				continue
			}
			switch kindOf(&span) {
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

// holds reports whether the span is a part of the run: it names the run, or it
// names none and hangs under the same parent as the span that stands for the run.
func (r *Run) holds(s *Span) bool {
	if id, ok := s.Attributes.Get(string(semconv.RunIDKey)); ok {
		if r.Name == semconv.SpanRunAbandoned { // it stands for a run whose span never came
			return id.Str() == r.Parent.String()
		}
		return id.Str() == r.ID.String()
	}
	return kindOf(&r.Span) != kindOther && s.Parent == r.Parent
}
