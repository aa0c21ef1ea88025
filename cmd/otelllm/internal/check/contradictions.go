package check

import (
	"fmt"
	"slices"
	"time"

	"go.opentelemetry.io/collector/pdata/ptrace"
	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/otelllm/otelllm-go/semconv"
)

// contradiction describes facts that cannot all be true. It contains names of facts and
// numbers, never the content of a string.
type contradiction = string

// maxIDs is the maximum length of the vocabulary's lists of ids: a list of this length
// may have been cut.
const maxIDs = 64

// contradictions returns the contradictions among the span's facts.
func (s *spanFacts) contradictions() []contradiction {
	var found []contradiction
	say := func(holds bool, format string, args ...any) {
		if holds {
			found = append(found, fmt.Sprintf(format, args...))
		}
	}
	say(s.span.TraceID().IsEmpty(), "the span has no trace id")
	say(s.span.SpanID().IsEmpty(), "the span has no id")
	say(s.span.StartTimestamp() == 0, "the span has no start")
	say(s.span.EndTimestamp() < s.span.StartTimestamp(), "the span ends before it starts")
	switch s.kind {
	case kindRequest:
		s.requestEnd(say)
		s.requestCounts(say)
		s.requestTimes(say)
	case kindTool:
		s.tool(say)
	case kindRun:
		say(s.has(string(otelsemconv.ErrorTypeKey)) && !s.failed(), "%s is set, but the span's status is not ERROR", otelsemconv.ErrorTypeKey)
	case kindOther:
	}
	return found
}

type reportFunc func(holds bool, format string, args ...any)

// requestEnd checks how the request ended against its phase.
func (s *spanFacts) requestEnd(say reportFunc) {
	end := func(e semconv.StreamEnd) string { return string(semconv.StreamEndKey) + "=" + e.String() }
	inBand := s.bool(string(semconv.ProviderErrorInBandKey))
	cause := s.text(string(semconv.TransportCauseKey))
	started := s.phase >= semconv.PhaseResponseStarted && s.phase <= semconv.PhaseStreamEnd
	whole := s.end == semconv.StreamEndTerminalEvent

	say(s.phase == semconv.PhaseToolExecution || s.phase == semconv.PhaseToolOutputDelivery,
		"%s=%s: this phase is not a phase of a request", semconv.StreamPhaseKey, s.phase)
	say(whole && !inBand && s.phase != semconv.PhaseUnset && s.phase != semconv.PhaseUnknown && s.phase != semconv.PhaseStreamEnd,
		"%s, but %s=%s: a complete answer has reached its end", end(s.end), semconv.StreamPhaseKey, s.phase)
	// A gateway's server span may record a cause of the upstream although its own
	// response was complete.
	say(whole && cause != "" && s.span.Kind() != ptrace.SpanKindServer, "%s, but %s is set: a connection that broke has no terminal event", end(s.end), semconv.TransportCauseKey)
	say(whole && s.has(string(semconv.AbortSourceKey)), "%s, but %s is set: this side did not end a complete answer", end(s.end), semconv.AbortSourceKey)
	say(whole && s.status >= 400, "%s, and %s=%d", end(s.end), otelsemconv.HTTPResponseStatusCodeKey, s.status)
	say(s.end == semconv.StreamEndHTTPError && s.status > 0 && s.status < 400, "%s, and %s=%d", end(s.end), otelsemconv.HTTPResponseStatusCodeKey, s.status)
	say(s.end == semconv.StreamEndNoResponse && (s.status > 0 || started),
		"%s, but there is a response (%s=%d, %s=%s)", end(s.end), otelsemconv.HTTPResponseStatusCodeKey, s.status, semconv.StreamPhaseKey, orAbsent(s.phase.String()))
	say(inBand && s.status >= 400, "%s=true, but %s=%d: an in-band error is inside a 200", semconv.ProviderErrorInBandKey, otelsemconv.HTTPResponseStatusCodeKey, s.status)
	say(s.has(string(semconv.WatchdogKindKey)) && s.end != semconv.StreamEndUnset && s.end != semconv.StreamEndWatchdog,
		"%s is set, but %s", semconv.WatchdogKindKey, end(s.end))
	switch s.end {
	case semconv.StreamEndReadError, semconv.StreamEndHTTPError, semconv.StreamEndNoResponse, semconv.StreamEndEOF, semconv.StreamEndWatchdog:
		say(!s.failed(), "%s, but the span's status is not ERROR", end(s.end))
	default:
	}
}

func orAbsent(text string) string {
	if text == "" {
		return "absent"
	}
	return text
}

// requestCounts checks counts against each other, against the phase and against the
// ids.
func (s *spanFacts) requestCounts(say reportFunc) {
	n := func(key string) int64 { return s.int(key) }
	var (
		text      = string(semconv.StreamTextChunksKey)
		reasoning = string(semconv.StreamReasoningChunksKey)
		started   = string(semconv.StreamToolInputsStartedKey)
		completed = string(semconv.StreamToolInputsCompletedKey)
		calls     = string(semconv.StreamToolCallsKey)
	)
	if s.phase == semconv.PhaseBeforeConnection || s.phase == semconv.PhaseAwaitingResponse || s.phase == semconv.PhaseResponseStarted {
		for _, key := range []string{text, reasoning, started, calls} {
			say(n(key) > 0, "%s=%s, and %s=%d", semconv.StreamPhaseKey, s.phase, key, n(key))
		}
	}
	for _, in := range []struct {
		phase semconv.Phase
		key   string
	}{
		{semconv.PhaseText, text},
		{semconv.PhaseReasoning, reasoning},
		{semconv.PhaseToolInput, started},
		{semconv.PhaseToolCallReady, started},
	} {
		say(s.phase == in.phase && s.has(in.key) && n(in.key) == 0, "%s=%s, and %s=0", semconv.StreamPhaseKey, s.phase, in.key)
	}
	atMost := func(less, more string) {
		say(s.has(less) && s.has(more) && n(less) > n(more), "%s=%d is more than %s=%d", less, n(less), more, n(more))
	}
	atMost(completed, started)
	atMost(calls, started)
	ids := int64(len(s.list(string(semconv.StreamToolCallIDsKey))))
	// A call with complete input may be recorded by its id before it is delivered.
	say(s.has(calls) && s.has(string(semconv.StreamToolCallIDsKey)) && (ids < min(n(calls), maxIDs) || ids > max(n(calls), n(completed))),
		"%s has %d ids, but %s=%d", semconv.StreamToolCallIDsKey, ids, calls, n(calls))
	open := int64(len(s.list(string(semconv.StreamOpenToolCallIDsKey))))
	say(s.has(started) && s.has(completed) && open > max(n(started)-n(completed), 0),
		"%s has %d ids, but %d inputs were left open", semconv.StreamOpenToolCallIDsKey, open, n(started)-n(completed))
	say(s.has(string(semconv.HistoryToolOutputsKey)) && !s.has(string(semconv.HistoryToolCallsKey)) && len(s.list(string(semconv.HistoryToolOutputsKey))) > 0,
		"%s is not empty, but %s is missing: every output belongs to a call", semconv.HistoryToolOutputsKey, semconv.HistoryToolCallsKey)
}

// clockSlack is how much a duration may exceed the span's: different clocks may have
// measured them.
const clockSlack = 10 * time.Millisecond

// requestTimes checks durations against the span's.
func (s *spanFacts) requestTimes(say reportFunc) {
	length := s.span.EndTimestamp().AsTime().Sub(s.span.StartTimestamp().AsTime())
	for _, key := range []string{
		string(semconv.StreamTimeToHeadersKey), string(semconv.StreamLastProgressKey), string(semconv.StreamLongestGapKey),
	} {
		v, ok := s.attrs.Get(key)
		if !ok {
			continue
		}
		say(v.Double() > (length+clockSlack).Seconds(), "%s=%gs is longer than the span, which is %s: the unit is seconds", key, v.Double(), length)
	}
}

func (s *spanFacts) tool(say reportFunc) {
	outcome, _ := semconv.ParseToolOutcome(s.text(string(semconv.ToolOutcomeKey)))
	is := func(o semconv.ToolOutcome) string { return string(semconv.ToolOutcomeKey) + "=" + o.String() }
	succeeded := outcome == semconv.ToolOutcomeSucceeded
	say(succeeded && s.failed(), "%s, but the span's status is ERROR", is(outcome))
	say(succeeded && s.bool(string(semconv.ToolFailedBeforeEffectKey)), "%s, and %s=true", is(outcome), semconv.ToolFailedBeforeEffectKey)
	failures := []semconv.ToolOutcome{semconv.ToolOutcomeFailed, semconv.ToolOutcomeTimedOut}
	say(slices.Contains(failures, outcome) && s.span.Status().Code() == ptrace.StatusCodeOk, "%s, but the span's status is OK", is(outcome))
	say(s.has(string(semconv.ToolOutputErrorKey)) && s.has(string(semconv.ToolOutputDeliveryKey)) && !s.deliveryFailed(),
		"%s is set, but %s=%s", semconv.ToolOutputErrorKey, semconv.ToolOutputDeliveryKey, cut(s.text(string(semconv.ToolOutputDeliveryKey))))
}
