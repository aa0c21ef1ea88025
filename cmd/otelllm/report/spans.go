package report

import (
	"cmp"
	"slices"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/processor/llmclassify/live"
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
	Events     []Event // those of the vocabulary
	Verdict    Verdict

	kind kind
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
	for _, rs := range td.ResourceSpans().All() {
		for _, ss := range rs.ScopeSpans().All() {
			for _, span := range ss.Spans().All() {
				s.AddSpan(rs.Resource(), ss.Scope(), span)
			}
		}
	}
}

// AddSpan copies one span.
func (s *Spans) AddSpan(resource pcommon.Resource, scope pcommon.InstrumentationScope, span ptrace.Span) {
	if s.traces == nil {
		s.traces = make(map[pcommon.TraceID][]Span)
	}
	service := ""
	if v, ok := resource.Attributes().Get(serviceName); ok {
		service = v.AsString()
	}
	id := span.TraceID()
	if _, known := s.traces[id]; !known {
		s.order = append(s.order, id)
	}
	read := read(span, scope.Name(), service)
	read.kind = kindIn(resource, scope, span)
	s.traces[id] = append(s.traces[id], read)
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
		Attributes: attrs, Events: readEvents(span), Verdict: ReadVerdict(attrs),
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
func (s *Spans) Runs(id pcommon.TraceID) []Run { return newForest(s.Trace(id)).runs() }

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

func kindOf(s *Span) kind { return s.kind }

// kindIn returns the kind of a span, as llm_classify recognises it: each instrumentation has its
// own marks of a model call.
func kindIn(resource pcommon.Resource, scope pcommon.InstrumentationScope, span ptrace.Span) kind {
	switch live.KindOf(resource, scope, span) {
	case live.KindRequest:
		return kindRequest
	case live.KindTool:
		return kindTool
	default:
		return kindOther
	}
}
