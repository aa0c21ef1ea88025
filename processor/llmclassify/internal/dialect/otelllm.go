package dialect

import (
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
)

// OTelLLM reads spans of this project's own client, in any language: the
// vocabulary's facts on a span of the GenAI conventions. It is the inverse of
// what the client writes.
type OTelLLM struct{}

var _ Dialect = OTelLLM{}

// Name implements [Dialect].
func (OTelLLM) Name() string { return "otelllm" }

func (OTelLLM) claims() claims { return claims{marks: markOwnRequest | markOwnTool | markOwnRun} }

// Recognise implements [Dialect]. The operation is one of the conventions, so that the
// span must also have a fact of the vocabulary.
func (OTelLLM) Recognise(s *AttributeScan) Head {
	kind := operation(s.operation)
	own := [...]marks{Request: markOwnRequest, Tool: markOwnTool, Run: markOwnRun}
	if kind == Other || !s.marks.has(own[kind]) {
		return Head{}
	}
	head := s.head(kind)
	head.Requests, head.Tools = s.requests, s.tools
	return head
}

// Read implements [Dialect].
func (OTelLLM) Read(span ptrace.Span, into Facts) {
	switch {
	case into.Request != nil:
		ownRequest(span, into.Request, into.Lists)
	case into.Tool != nil:
		ownTool(span, into.Tool)
	case into.Run != nil:
		ownRun(span, into.Run)
	}
}

func ownRequest(span ptrace.Span, r *classify.Request, lists *Lists) {
	// An empty list was observed to be empty; a missing one was not observed.
	r.Start, r.End = at(span.StartTimestamp()), at(span.EndTimestamp())
	for key, v := range span.Attributes().All() {
		if !ownStream(r, key, v, lists) && !ownFailure(r, key, v) {
			ownCall(r, key, v, lists)
		}
	}
	if r.Ended != semconv.StreamEndUnset {
		r.Basis = classify.Typed
	}
	switch {
	case span.Status().Code() == ptrace.StatusCodeError:
		r.Failed = classify.Yes
	case r.Ended == semconv.StreamEndTerminalEvent:
		r.Failed = classify.No // UNSET is success then; without it an abort is UNSET, too
	}
}

// ownCall reads what was asked, and how HTTP and the provider answered.
func ownCall(r *classify.Request, key string, v pcommon.Value, lists *Lists) {
	switch key {
	case string(semconv.RequestAttemptKey):
		r.Attempt = count(v).N()
	case string(semconv.RequestProviderToolsKey):
		r.ProviderTools = list(v, lists)
	case string(semconv.RequestBackgroundKey):
		r.Background = notFalse(v)
	case string(semconv.HistoryToolCallsKey):
		r.HistoryCalls = idList(v, lists)
	case string(semconv.HistoryToolOutputsKey):
		r.HistoryOutputs = idList(v, lists)
	case string(semconv.HistoryEndsWithOutputsKey):
		r.HistoryEndsWithOutputs = boolean(v)
	case string(otelsemconv.GenAIRequestMaxTokensKey):
		r.MaxTokens = count(v)
	case string(otelsemconv.GenAIUsageOutputTokensKey):
		r.OutputTokens = count(v)
	case string(otelsemconv.NetworkProtocolVersionKey):
		r.Connection.Protocol = codeValue(v)
	case string(otelsemconv.HTTPResponseStatusCodeKey):
		r.Status = status(v)
	case string(otelsemconv.GenAIResponseFinishReasonsKey):
		r.Finish = classify.ParseFinish(finishReasons(v, lists))
	}
}

// ownStream reads an attribute of a response's stream. It reports whether it is one.
func ownStream(r *classify.Request, key string, v pcommon.Value, lists *Lists) bool {
	switch key {
	case string(semconv.StreamPhaseKey):
		r.Phase = enum(v, semconv.ParsePhase)
	case string(semconv.StreamEndKey):
		r.Ended = enum(v, semconv.ParseStreamEnd)
	case string(semconv.StreamUnreadKey):
		r.Unread = notFalse(v)
	case string(semconv.StreamEventsKey):
		r.Events = count(v)
	case string(semconv.StreamTextChunksKey):
		r.Text = count(v)
	case string(semconv.StreamReasoningChunksKey):
		r.Reasoning = count(v)
	case string(semconv.StreamToolInputsStartedKey):
		r.ToolInputsStarted = count(v)
	case string(semconv.StreamToolInputsCompletedKey):
		r.ToolInputsCompleted = count(v)
	case string(semconv.StreamToolInputsInvalidKey):
		r.ToolInputsInvalid = count(v)
	case string(semconv.StreamToolCallsKey):
		r.ToolCalls = count(v)
	case string(semconv.StreamToolCallIDsKey):
		r.CallIDs = idList(v, lists)
	case string(semconv.StreamToolCallNamesKey):
		r.CallNames = list(v, lists)
	case string(semconv.StreamOpenToolCallIDsKey):
		r.OpenCallIDs = idList(v, lists)
	case string(semconv.StreamProviderToolsStartedKey):
		r.ProviderToolsStarted = count(v)
	case string(semconv.StreamProviderToolsKey):
		r.ProviderToolTypes = list(v, lists)
	case string(semconv.StreamTimeToHeadersKey):
		r.TimeToHeaders = seconds(v)
	case string(semconv.StreamLastProgressKey):
		r.LastProgress = seconds(v)
	case string(semconv.StreamLongestGapKey):
		r.LongestGap = seconds(v)
	default:
		return false
	}
	return true
}

// ownFailure reads an attribute of the connection, or of what stopped the request. It reports whether it is one.
func ownFailure(r *classify.Request, key string, v pcommon.Value) bool {
	switch key {
	case string(semconv.ConnectionReusedKey):
		r.Connection.Reused = fact(v)
	case string(semconv.ConnectionIdleKey):
		r.Connection.Idle = seconds(v)
	case string(semconv.TransportStageKey):
		r.Transport.Stage = enum(v, semconv.ParseTransportStage)
	case string(semconv.TransportCauseKey):
		r.Transport.Cause = enum(v, semconv.ParseTransportCause)
	case string(semconv.TransportCodeKey):
		r.Transport.Code = codeValue(v)
	case string(semconv.ProviderErrorKindKey):
		r.Provider.Kind = enumOr(v, semconv.ParseProviderErrorKind, semconv.ProviderErrorKindUnknown)
	case string(semconv.ProviderErrorCodeKey):
		r.Provider.Code = codeValue(v)
	case string(semconv.ProviderErrorInBandKey):
		r.Provider.InBand = boolean(v)
	case string(semconv.ProviderErrorHistoryKey):
		r.Provider.History = enum(v, semconv.ParseProviderErrorHistory)
	case string(semconv.ProviderErrorIntermediaryKey):
		r.Provider.Intermediary = boolean(v)
	case string(semconv.AbortSourceKey):
		r.Abort.Source = enumOr(v, semconv.ParseAbortSource, semconv.AbortSourceUnknown)
	case string(semconv.AbortReasonKey):
		r.Abort.Reason = codeValue(v)
	case string(semconv.WatchdogKindKey):
		if r.Watchdog.Kind = enum(v, semconv.ParseWatchdogKind); r.Watchdog.Kind == semconv.WatchdogKindUnset && r.Abort.Source == semconv.AbortSourceUnset {
			r.Abort.Source = semconv.AbortSourceUnknown // what stopped it is not known here
		}
	case string(semconv.WatchdogLimitKey):
		r.Watchdog.Limit = seconds(v)
	case string(semconv.RetryAfterKey):
		r.RetryAfter = seconds(v)
	default:
		return false
	}
	return true
}

func ownTool(span ptrace.Span, t *classify.Tool) {
	t.Start, t.End = at(span.StartTimestamp()), at(span.EndTimestamp())
	for key, v := range span.Attributes().All() {
		switch key {
		case string(otelsemconv.GenAIToolCallIDKey):
			t.CallID = id(v)
		case string(otelsemconv.GenAIToolNameKey):
			t.Name = text(v)
		case string(otelsemconv.ErrorTypeKey):
			t.ErrorType = typeName(text(v))
		case string(semconv.ToolEffectKey):
			t.Effect = enum(v, semconv.ParseToolEffect)
		case string(semconv.ToolOutcomeKey):
			t.Outcome = enum(v, semconv.ParseToolOutcome)
		case string(semconv.ToolFailedBeforeEffectKey):
			t.FailedBeforeEffect = boolean(v)
		case string(semconv.ToolOutputDeliveryKey):
			t.Delivery = enum(v, semconv.ParseOutputDelivery)
		case string(semconv.ToolOutputErrorKey):
			t.DeliveryError = typeName(text(v))
		case string(semconv.ToolObservedKey):
			t.FromHistory = text(v) == semconv.ToolObservedHistory.String()
		case string(semconv.AbortSourceKey):
			t.Abort.Source = enumOr(v, semconv.ParseAbortSource, semconv.AbortSourceUnknown)
		case string(semconv.AbortReasonKey):
			t.Abort.Reason = codeValue(v)
		}
	}
}

func ownRun(span ptrace.Span, run *classify.Run) {
	run.Start, run.End, run.Ended = at(span.StartTimestamp()), at(span.EndTimestamp()), classify.Yes
	judged := false // by the client itself
	for key, v := range span.Attributes().All() {
		switch key {
		case string(otelsemconv.ErrorTypeKey):
			run.ErrorType = typeName(text(v))
		case string(semconv.RunRequestsKey):
			run.AnnouncedRequests = count(v)
		case string(semconv.RunToolsKey):
			run.AnnouncedTools = count(v)
		case string(semconv.RunEndKey):
			run.EndedBy = enumOr(v, semconv.ParseRunEnd, semconv.RunEndUnclear)
		case string(semconv.RunPreviousKey):
			run.Previous = enumOr(v, semconv.ParseRunPrevious, semconv.RunPreviousUnset)
		case string(semconv.ClassificationTriggerKey):
			judged = true
		case string(semconv.AbortSourceKey):
			run.Abort.Source = enumOr(v, semconv.ParseAbortSource, semconv.AbortSourceUnknown)
		case string(semconv.AbortReasonKey):
			run.Abort.Reason = codeValue(v)
		}
	}
	switch {
	case span.Status().Code() == ptrace.StatusCodeError && (run.ErrorType != "" || !judged):
		// The run ended with an error. The status alone is the client's verdict, not a fact.
		run.Failed = classify.Yes
	case run.Abort.Source == semconv.AbortSourceUnset && (run.EndedBy == semconv.RunEndUnset || run.EndedBy == semconv.RunEndAnswer):
		run.Failed = classify.No // this producer ends a run with its error, or without one
	}
}
