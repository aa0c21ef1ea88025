package check

import (
	"slices"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/otelllm/otelllm-go/semconv"
)

// kind is the kind of a span.
type kind uint8

const (
	kindOther kind = iota
	kindRequest
	kindTool
	kindRun
)

func (k kind) String() string { return [...]string{"other", "request", "tool", "run"}[k] }

// The kinds of spans by their evidence: the operation, or a fact that only this kind has.
var (
	kindByOperation = map[string]kind{
		"chat": kindRequest, "text_completion": kindRequest, "generate_content": kindRequest,
		"execute_tool": kindTool, "invoke_agent": kindRun,
	}
	kindByFact = []struct {
		key  string
		kind kind
	}{
		{string(semconv.StreamEndKey), kindRequest},
		{string(semconv.StreamPhaseKey), kindRequest},
		{string(semconv.ToolOutcomeKey), kindTool},
		{string(semconv.ToolEffectKey), kindTool},
		{string(semconv.RunRequestsKey), kindRun},
		{string(semconv.RunToolsKey), kindRun},
	}
)

// spanFacts is one span with the facts that decide what else it has to have.
type spanFacts struct {
	span  ptrace.Span
	attrs pcommon.Map
	kind  kind
	run   bool // the trace has a run, and only llm.run.id can show that the span belongs to it
	tools bool // the trace has a tool, or a call that was delivered

	end    semconv.StreamEnd
	phase  semconv.Phase
	status int64
}

func readFacts(span ptrace.Span) spanFacts {
	s := spanFacts{span: span, attrs: span.Attributes()}
	s.kind = kindByOperation[s.text(string(otelsemconv.GenAIOperationNameKey))]
	for _, by := range kindByFact {
		if s.kind == kindOther && s.has(by.key) {
			s.kind = by.kind
		}
	}
	if span.Name() == semconv.SpanRunAbandoned { // has a verdict and no facts
		s.kind = kindOther
	}
	s.end, _ = semconv.ParseStreamEnd(s.text(string(semconv.StreamEndKey)))
	s.phase, _ = semconv.ParsePhase(s.text(string(semconv.StreamPhaseKey)))
	s.status = s.int(string(otelsemconv.HTTPResponseStatusCodeKey))
	return s
}

func (s *spanFacts) has(key string) bool {
	_, ok := s.attrs.Get(key)
	return ok
}

func (s *spanFacts) text(key string) string {
	if v, ok := s.attrs.Get(key); ok && v.Type() == pcommon.ValueTypeStr {
		return v.Str()
	}
	return ""
}

// int returns an int attribute, or 0 if it is missing.
func (s *spanFacts) int(key string) int64 {
	if v, ok := s.attrs.Get(key); ok {
		return v.Int()
	}
	return 0
}

func (s *spanFacts) bool(key string) bool {
	v, ok := s.attrs.Get(key)
	return ok && v.Bool()
}

func (s *spanFacts) list(key string) []string {
	v, ok := s.attrs.Get(key)
	if !ok || v.Type() != pcommon.ValueTypeSlice {
		return nil
	}
	list := make([]string, 0, v.Slice().Len())
	for _, e := range v.Slice().All() {
		list = append(list, e.Str())
	}
	return list
}

// endedBy returns a function that reports whether the request ended in one of these ways.
func endedBy(ends ...semconv.StreamEnd) func(*spanFacts) bool {
	return func(s *spanFacts) bool { return slices.Contains(ends, s.end) }
}

// sent reports whether, as far as is known, a part of the request left this side.
func (s *spanFacts) sent() bool { return s.phase != semconv.PhaseBeforeConnection }

// responded reports whether response headers arrived.
func (s *spanFacts) responded() bool {
	return s.phase >= semconv.PhaseResponseStarted && s.phase <= semconv.PhaseStreamEnd || s.status > 0
}

// recordsTools reports whether the producer records tools, or had one to record.
func (s *spanFacts) recordsTools() bool { return s.tools }

// answering reports whether an answer may have arrived and was read. If a part of it was
// not read, a count of zero is rightly left out.
func (s *spanFacts) answering() bool {
	switch s.phase {
	case semconv.PhaseBeforeConnection, semconv.PhaseAwaitingResponse:
		return false
	default:
		return !s.bool(string(semconv.StreamUnreadKey)) && s.status < 400 && s.end != semconv.StreamEndHTTPError && s.end != semconv.StreamEndNoResponse
	}
}

func (s *spanFacts) complete() bool { return s.end == semconv.StreamEndTerminalEvent }

func (s *spanFacts) progressed() bool { return s.int(string(semconv.StreamEventsKey)) > 0 }

func (s *spanFacts) handedOver() bool { return s.int(string(semconv.StreamToolCallsKey)) > 0 }

func (s *spanFacts) ranProviderTool() bool {
	return s.int(string(semconv.StreamProviderToolsStartedKey)) > 0
}

func (s *spanFacts) leftOpen() bool {
	return s.int(string(semconv.StreamToolInputsStartedKey)) > s.int(string(semconv.StreamToolInputsCompletedKey))
}

func (s *spanFacts) providerFailed() bool {
	return s.end == semconv.StreamEndHTTPError || s.bool(string(semconv.ProviderErrorInBandKey))
}

func (s *spanFacts) broke() bool {
	cause, _ := semconv.ParseTransportCause(s.text(string(semconv.TransportCauseKey)))
	return (s.end == semconv.StreamEndReadError || s.end == semconv.StreamEndNoResponse) && cause != semconv.TransportCauseUnset
}

func (s *spanFacts) tlsFailed() bool {
	return s.text(string(semconv.TransportCauseKey)) == semconv.TransportCauseTLS.String()
}

func (s *spanFacts) failed() bool { return s.span.Status().Code() == ptrace.StatusCodeError }

func (s *spanFacts) hasRun() bool { return s.run && s.span.Kind() != ptrace.SpanKindServer }

// hasOutput reports whether the tool has a result that the model should get.
func (s *spanFacts) hasOutput() bool {
	outcome, _ := semconv.ParseToolOutcome(s.text(string(semconv.ToolOutcomeKey)))
	return outcome != semconv.ToolOutcomeUnset && outcome != semconv.ToolOutcomeInterrupted
}

func (s *spanFacts) deliveryFailed() bool {
	return s.text(string(semconv.ToolOutputDeliveryKey)) == semconv.OutputDeliveryFailed.String()
}
