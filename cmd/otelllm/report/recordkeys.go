package report

import (
	"go.opentelemetry.io/otel/attribute"
	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/otelllm/otelllm-go/semconv"
)

// recordKeys are the attributes that a [Record] may have: the vocabulary, and names, counts
// and ids of the semantic conventions.
var recordKeys = keySet(
	// The vocabulary, all of it.
	semconv.AbortSourceKey, semconv.AbortReasonKey, semconv.WatchdogKindKey, semconv.WatchdogLimitKey,
	semconv.ClassificationTriggerKey, semconv.ClassificationStatusSetKey, semconv.ClassificationRulesetKey, semconv.FailureClassKey,
	semconv.FailureCauseKey, semconv.FailurePhaseKey, semconv.FailureOriginKey, semconv.FailureConfidenceKey,
	semconv.FailureSummaryKey, semconv.FailureSummaryKeyKey, semconv.FailureEvidenceKey,
	semconv.FailureMissingEvidenceKey, semconv.ProviderErrorKindKey, semconv.ProviderErrorCodeKey,
	semconv.ProviderErrorInBandKey, semconv.ProviderErrorHistoryKey, semconv.ProviderErrorIntermediaryKey,
	semconv.RequestAttemptKey, semconv.RequestBackgroundKey, semconv.RequestIDKey,
	semconv.RequestProviderToolsKey, semconv.HistoryToolCallsKey, semconv.HistoryToolOutputsKey, semconv.HistoryEndsWithOutputsKey,
	semconv.HistoryMissingOutputsKey, semconv.RetryAfterKey, semconv.RetrySafetyKey, semconv.RetryReasonKey, semconv.RetryDecisionKey, semconv.RetryWaitKey,
	semconv.ResumeSendKey, semconv.ResumeAskKey, semconv.ResumeWaitKey, semconv.ResumeMoreKey, semconv.ResumeRanIDsKey, semconv.ResumeRanNamesKey, semconv.ResumeRanOutputsKey,
	semconv.ResumeMayHaveRunIDsKey, semconv.ResumeMayHaveRunNamesKey, semconv.ResumeNeverRanIDsKey, semconv.ResumeNeverRanNamesKey,
	semconv.RunIDKey, semconv.RunRequestsKey, semconv.RunToolsKey, semconv.RunInferredKey, semconv.RunEndKey,
	semconv.RunPreviousKey, semconv.RunForgottenCallsKey, semconv.RunWarningKey,
	semconv.RunLoopKey, semconv.RunOutcomeKey, semconv.RunTimelineKey, semconv.RunRecoveredFailuresKey,
	semconv.StreamPhaseKey, semconv.StreamEndKey, semconv.StreamUnreadKey, semconv.StreamEventsKey,
	semconv.StreamBytesKey, semconv.StreamKeepalivesKey, semconv.StreamTextChunksKey,
	semconv.StreamReasoningChunksKey, semconv.StreamToolInputsStartedKey, semconv.StreamToolInputsCompletedKey,
	semconv.StreamToolInputsInvalidKey,
	semconv.StreamToolCallsKey, semconv.StreamToolCallIDsKey, semconv.StreamToolCallNamesKey, semconv.StreamOpenToolCallIDsKey,
	semconv.StreamProviderToolsStartedKey, semconv.StreamProviderToolsKey, semconv.StreamTimeToHeadersKey, semconv.StreamLastProgressKey,
	semconv.StreamLongestGapKey, semconv.ToolEffectKey, semconv.ToolObservedKey, semconv.ToolOutcomeKey,
	semconv.ToolFailedBeforeEffectKey, semconv.ToolOutputDeliveryKey, semconv.ToolOutputErrorKey,
	semconv.TransportStageKey, semconv.TransportCauseKey, semconv.TransportCodeKey, semconv.TransportErrorChainKey,
	semconv.ConnectionReusedKey, semconv.ConnectionIdleKey,
	// The semantic conventions.
	otelsemconv.GenAIOperationNameKey, otelsemconv.GenAIProviderNameKey, otelsemconv.GenAIRequestModelKey,
	otelsemconv.GenAIRequestMaxTokensKey,
	otelsemconv.GenAIResponseModelKey, otelsemconv.GenAIResponseIDKey, otelsemconv.GenAIResponseFinishReasonsKey,
	otelsemconv.GenAIConversationIDKey, otelsemconv.GenAIAgentNameKey, otelsemconv.GenAIAgentIDKey,
	otelsemconv.GenAIToolNameKey, otelsemconv.GenAIToolCallIDKey, otelsemconv.GenAIToolTypeKey,
	otelsemconv.GenAIUsageInputTokensKey, otelsemconv.GenAIUsageOutputTokensKey,
	otelsemconv.ErrorTypeKey, otelsemconv.HTTPResponseStatusCodeKey, otelsemconv.ServerAddressKey, otelsemconv.ServerPortKey,
	otelsemconv.NetworkProtocolVersionKey, otelsemconv.UserAgentOriginalKey,
)

// recordEvents are the events that a [Record] may have.
var recordEvents = map[string]bool{
	semconv.EventRequestWritten:           true,
	semconv.EventResponseStarted:          true,
	semconv.EventStreamFirstProgress:      true,
	semconv.EventStreamTextStarted:        true,
	semconv.EventStreamReasoningStarted:   true,
	semconv.EventStreamToolInputStarted:   true,
	semconv.EventStreamToolInputCompleted: true,
	semconv.EventStreamFinish:             true,
	semconv.EventStreamInterrupted:        true,
	semconv.EventAbort:                    true,
	semconv.EventWatchdogFired:            true,
	semconv.EventToolOutputSent:           true,
	semconv.EventToolOutputFailed:         true,
	semconv.EventRetryDecided:             true,
}

func keySet(keys ...attribute.Key) map[string]bool {
	set := make(map[string]bool, len(keys))
	for _, key := range keys {
		set[string(key)] = true
	}
	return set
}
