// Package spanread reads facts back from the attributes of spans, for tests that compare
// what is written with what is judged live. It is the inverse of package spanfacts, and
// deliberately shares no table with it.
package spanread

import (
	"math"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
)

// Span is the part of a span from which facts are read.
type Span struct {
	Start, End time.Time
	Attributes []attribute.KeyValue
	Error      bool // whether its status is ERROR
}

type values map[attribute.Key]attribute.Value

func (s *Span) values() values {
	m := make(values, len(s.Attributes))
	for _, kv := range s.Attributes {
		m[kv.Key] = kv.Value
	}
	return m
}

func (m values) text(key attribute.Key) string { return m[key].AsString() }

func (m values) list(key attribute.Key) []string {
	v, ok := m[key]
	if !ok {
		return nil
	}
	return v.AsStringSlice()
}

func (m values) count(key attribute.Key) classify.Count {
	v, ok := m[key]
	if !ok {
		return 0
	}
	return classify.Counted(int(v.AsInt64()))
}

func (m values) fact(key attribute.Key) classify.Fact {
	v, ok := m[key]
	if !ok {
		return classify.NotObserved
	}
	return classify.FactOf(v.AsBool())
}

func (m values) seconds(key attribute.Key) time.Duration {
	return time.Duration(math.Round(m[key].AsFloat64() * float64(time.Second)))
}

func enum[T any](m values, key attribute.Key, parse func(string) (T, bool)) T {
	v, _ := parse(m.text(key))
	return v
}

func (m values) abort() classify.Abort {
	return classify.Abort{Source: enum(m, semconv.AbortSourceKey, semconv.ParseAbortSource), Reason: m.text(semconv.AbortReasonKey)}
}

// Request reads the span of a request.
func Request(s *Span) classify.Request {
	m := s.values()
	r := classify.Request{
		Start: s.Start, End: s.End,
		Attempt: m.count(semconv.RequestAttemptKey).N(),
		Phase:   enum(m, semconv.StreamPhaseKey, semconv.ParsePhase),
		Ended:   enum(m, semconv.StreamEndKey, semconv.ParseStreamEnd),
		Status:  int(m["http.response.status_code"].AsInt64()),
		Transport: classify.Transport{
			Stage: enum(m, semconv.TransportStageKey, semconv.ParseTransportStage),
			Cause: enum(m, semconv.TransportCauseKey, semconv.ParseTransportCause),
			Code:  m.text(semconv.TransportCodeKey),
		},
		Provider: classify.ProviderError{
			Kind:    enum(m, semconv.ProviderErrorKindKey, semconv.ParseProviderErrorKind),
			Code:    m.text(semconv.ProviderErrorCodeKey),
			InBand:  m[semconv.ProviderErrorInBandKey].AsBool(),
			History: enum(m, semconv.ProviderErrorHistoryKey, semconv.ParseProviderErrorHistory),

			Intermediary: m[semconv.ProviderErrorIntermediaryKey].AsBool(),
		},
		Abort: m.abort(),
		Watchdog: classify.Watchdog{
			Kind:  enum(m, semconv.WatchdogKindKey, semconv.ParseWatchdogKind),
			Limit: m.seconds(semconv.WatchdogLimitKey),
		},
		Connection: classify.Connection{
			Reused:   m.fact(semconv.ConnectionReusedKey),
			Idle:     m.seconds(semconv.ConnectionIdleKey),
			Protocol: m.text("network.protocol.version"),
		},
		Unread:               m[semconv.StreamUnreadKey].AsBool(),
		Background:           m[semconv.RequestBackgroundKey].AsBool(),
		Finish:               classify.ParseFinish(m.list("gen_ai.response.finish_reasons")),
		Text:                 m.count(semconv.StreamTextChunksKey),
		Reasoning:            m.count(semconv.StreamReasoningChunksKey),
		ToolInputsStarted:    m.count(semconv.StreamToolInputsStartedKey),
		ToolInputsCompleted:  m.count(semconv.StreamToolInputsCompletedKey),
		ToolInputsInvalid:    m.count(semconv.StreamToolInputsInvalidKey),
		ToolCalls:            m.count(semconv.StreamToolCallsKey),
		CallIDs:              m.list(semconv.StreamToolCallIDsKey),
		CallNames:            m.list(semconv.StreamToolCallNamesKey),
		OpenCallIDs:          m.list(semconv.StreamOpenToolCallIDsKey),
		ProviderTools:        m.list(semconv.RequestProviderToolsKey),
		ProviderToolsStarted: m.count(semconv.StreamProviderToolsStartedKey),
		ProviderToolTypes:    m.list(semconv.StreamProviderToolsKey),
		HistoryCalls:         m.list(semconv.HistoryToolCallsKey),
		HistoryOutputs:       m.list(semconv.HistoryToolOutputsKey),
		MaxTokens:            m.count("gen_ai.request.max_tokens"),
		OutputTokens:         m.count("gen_ai.usage.output_tokens"),

		HistoryEndsWithOutputs: m[semconv.HistoryEndsWithOutputsKey].AsBool(),
		Events:                 m.count(semconv.StreamEventsKey),
		TimeToHeaders:          m.seconds(semconv.StreamTimeToHeadersKey),
		LastProgress:           m.seconds(semconv.StreamLastProgressKey),
		LongestGap:             m.seconds(semconv.StreamLongestGapKey),
		RetryAfter:             m.seconds(semconv.RetryAfterKey),
	}
	if r.Ended != semconv.StreamEndUnset {
		r.Basis = classify.Typed
	}
	switch {
	case s.Error:
		r.Failed = classify.Yes
	case r.Ended == semconv.StreamEndTerminalEvent:
		r.Failed = classify.No
	}
	return r
}

// Tool reads the span of a tool.
func Tool(s *Span) classify.Tool {
	m := s.values()
	return classify.Tool{
		Start: s.Start, End: s.End,
		CallID:             m.text("gen_ai.tool.call.id"),
		Name:               m.text("gen_ai.tool.name"),
		Effect:             enum(m, semconv.ToolEffectKey, semconv.ParseToolEffect),
		Outcome:            enum(m, semconv.ToolOutcomeKey, semconv.ParseToolOutcome),
		FailedBeforeEffect: m[semconv.ToolFailedBeforeEffectKey].AsBool(),
		Delivery:           enum(m, semconv.ToolOutputDeliveryKey, semconv.ParseOutputDelivery),
		DeliveryError:      m.text(semconv.ToolOutputErrorKey),
		FromHistory:        m.text(semconv.ToolObservedKey) == semconv.ToolObservedHistory.String(),
		ErrorType:          m.text("error.type"),
		Abort:              m.abort(),
	}
}

// Run reads the span of a run, without its parts.
func Run(s *Span) classify.Run {
	m := s.values()
	run := classify.Run{
		Start: s.Start, End: s.End, Ended: classify.Yes,
		ErrorType:         m.text("error.type"),
		Abort:             m.abort(),
		AnnouncedRequests: m.count(semconv.RunRequestsKey),
		AnnouncedTools:    m.count(semconv.RunToolsKey),
	}
	run.EndedBy, _ = semconv.ParseRunEnd(m.text(semconv.RunEndKey))
	run.Previous, _ = semconv.ParseRunPrevious(m.text(semconv.RunPreviousKey))
	_, judged := m[semconv.ClassificationTriggerKey]
	switch {
	case s.Error && (run.ErrorType != "" || !judged): // without an error type, the status is only the client's verdict
		run.Failed = classify.Yes
	case run.Abort.Source == semconv.AbortSourceUnset && (run.EndedBy == semconv.RunEndUnset || run.EndedBy == semconv.RunEndAnswer):
		run.Failed = classify.No
	}
	return run
}
