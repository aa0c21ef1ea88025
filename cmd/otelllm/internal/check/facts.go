package check

import (
	"go.opentelemetry.io/collector/pdata/pcommon"
	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/otelllm/otelllm-go/semconv"
)

// fact is one attribute that a check looks for.
type fact struct {
	key    string
	valid  func(pcommon.Value) string // returns what is wrong with a value, or ""
	due    func(*spanFacts) bool      // whether the span has to have it; nil for always
	needed bool                       // a verdict needs it; the others only add detail
	why    string                     // what is unknown without it
}

// requestFacts are the facts of a request, most valuable first: the first ones cost a
// verdict most if they are missing.
var requestFacts = []fact{
	{string(otelsemconv.GenAIOperationNameKey), isText, nil, true, "the span is not recognised at all"},
	{string(semconv.StreamEndKey), isEnum(semconv.ParseStreamEnd), nil, true, "how it ended can only be guessed: confidence is low, and nothing is tried again without asking"},
	{string(semconv.WatchdogKindKey), isEnum(semconv.ParseWatchdogKind), endedBy(semconv.StreamEndWatchdog), true, "which watchdog fired"},
	{string(semconv.AbortSourceKey), isEnum(semconv.ParseAbortSource), endedBy(semconv.StreamEndCancelled, semconv.StreamEndConsumerClosed, semconv.StreamEndAbandoned), true, "whether a person, a shutdown or a deadline ended it, which may never, and may after asking, be tried again"},
	{string(semconv.ProviderErrorKindKey), isEnum(semconv.ParseProviderErrorKind), (*spanFacts).providerFailed, true, "whether the error passes (rate limit, overload) or not (quota, bad request)"},
	{string(semconv.TransportCauseKey), isEnum(semconv.ParseTransportCause), endedBy(semconv.StreamEndReadError, semconv.StreamEndNoResponse), true, "what broke the connection"},
	{string(semconv.TransportCodeKey), isText, (*spanFacts).tlsFailed, true, "whether a certificate did not verify, which does not pass"},
	{string(semconv.StreamPhaseKey), isEnum(semconv.ParsePhase), nil, true, "how far the answer had come"},
	{string(semconv.StreamTextChunksKey), isCount, (*spanFacts).answering, true, "whether text had been shown: it has to be asked for"},
	{string(semconv.StreamToolCallsKey), isCount, (*spanFacts).answering, true, "whether a tool call was handed over, and so whether a tool may have run"},
	{string(semconv.StreamToolInputsCompletedKey), isCount, (*spanFacts).answering, true, "whether the input of a call was whole, and so whether a tool may have run"},
	{string(semconv.StreamToolCallIDsKey), isTexts, (*spanFacts).handedOver, true, "which tool spans are the answer's calls"},
	{string(semconv.RequestProviderToolsKey), isTexts, (*spanFacts).sent, true, "whether the provider may have run a tool of its own"},
	{string(semconv.HistoryToolCallsKey), isTexts, (*spanFacts).sent, true, "whether the request lacked the output of a tool that had run"},
	{string(semconv.HistoryToolOutputsKey), isTexts, (*spanFacts).sent, true, "whether the request carried the output of a tool that had run"},
	{string(semconv.RunIDKey), isSpanID, (*spanFacts).hasRun, true, "which run it belongs to"},
	{string(otelsemconv.HTTPResponseStatusCodeKey), isCount, (*spanFacts).responded, false, "the provider's own word for it"},
	{string(otelsemconv.GenAIResponseFinishReasonsKey), isTexts, (*spanFacts).complete, false, "whether a whole answer was cut by a limit"},
	{string(semconv.StreamToolInputsStartedKey), isCount, (*spanFacts).answering, false, "whether a tool call had been begun"},
	{string(semconv.StreamReasoningChunksKey), isCount, (*spanFacts).answering, false, "whether the model had been reasoning"},
	{string(semconv.StreamProviderToolsStartedKey), isCount, (*spanFacts).answering, false, "whether a tool on the provider's side had begun"},
	{string(semconv.StreamProviderToolsKey), isTexts, (*spanFacts).ranProviderTool, false, "which of its tools the provider began: one that only searches changes nothing"},
	{string(semconv.StreamOpenToolCallIDsKey), isTexts, (*spanFacts).leftOpen, false, "which calls were cut in their input"},
	{string(semconv.StreamEventsKey), isCount, (*spanFacts).answering, false, "whether anything came at all"},
	{string(semconv.RequestAttemptKey), isCount, nil, false, "which try of the call it is"},
	{string(semconv.TransportStageKey), isEnum(semconv.ParseTransportStage), (*spanFacts).broke, false, "where the connection broke"},
	{string(semconv.TransportErrorChainKey), isTexts, (*spanFacts).broke, false, "which types the error was made of"},
	{string(semconv.StreamTimeToHeadersKey), isSeconds, (*spanFacts).responded, false, "when the answer began"},
	{string(semconv.StreamLastProgressKey), isSeconds, (*spanFacts).progressed, false, "when the answer last went on"},
	{string(semconv.RequestIDKey), isText, (*spanFacts).responded, false, "what to ask the provider about"},
	{string(otelsemconv.ErrorTypeKey), isText, (*spanFacts).failed, false, "the kind of the error, for those who read no llm.*"},
	{string(otelsemconv.GenAIProviderNameKey), isText, nil, false, "whose model it was"},
	{string(otelsemconv.GenAIRequestModelKey), isText, nil, false, "which model was asked"},
	{string(semconv.WatchdogLimitKey), isSeconds, endedBy(semconv.StreamEndWatchdog), false, "how long the watchdog had waited"},
}

// otherRequestFacts are never reported as missing, because they depend on what
// happened. Their values are checked.
var otherRequestFacts = []fact{
	{key: string(semconv.RequestBackgroundKey), valid: isBool},
	{key: string(semconv.RunInferredKey), valid: isBool},
	{key: string(semconv.StreamToolCallNamesKey), valid: isTexts},
	{key: string(semconv.StreamToolInputsInvalidKey), valid: isCount},
	{key: string(semconv.HistoryEndsWithOutputsKey), valid: isBool},
	{key: string(otelsemconv.NetworkProtocolVersionKey), valid: isText},
	{key: string(semconv.ConnectionReusedKey), valid: isBool},
	{key: string(semconv.ConnectionIdleKey), valid: isSeconds},
	{key: string(semconv.StreamUnreadKey), valid: isBool},
	{key: string(semconv.StreamBytesKey), valid: isCount},
	{key: string(semconv.StreamKeepalivesKey), valid: isCount},
	{key: string(semconv.StreamLongestGapKey), valid: isSeconds},
	{key: string(semconv.ProviderErrorCodeKey), valid: isText},
	{key: string(semconv.ProviderErrorInBandKey), valid: isBool},
	{key: string(semconv.ProviderErrorHistoryKey), valid: isEnum(semconv.ParseProviderErrorHistory)},
	{key: string(semconv.ProviderErrorIntermediaryKey), valid: isBool},
	{key: string(semconv.AbortReasonKey), valid: isText},
	{key: string(semconv.RetryAfterKey), valid: isSeconds},
}

// toolFacts are the facts of a tool, most valuable first.
var toolFacts = []fact{
	{string(otelsemconv.GenAIOperationNameKey), isText, nil, true, "the span is not recognised at all"},
	{string(semconv.ToolEffectKey), isEnum(semconv.ParseToolEffect), nil, true, "whether repeating it could do something twice: it has to be asked for"},
	{string(semconv.ToolOutcomeKey), isEnum(semconv.ParseToolOutcome), nil, true, "whether it came to an output"},
	{string(otelsemconv.GenAIToolCallIDKey), isText, nil, true, "which call of the model it executed, and whether the model got its output"},
	{string(semconv.RunIDKey), isSpanID, (*spanFacts).hasRun, true, "which run it belongs to"},
	{string(semconv.ToolOutputDeliveryKey), isEnum(semconv.ParseOutputDelivery), (*spanFacts).hasOutput, false, "whether its output was on its way to the model"},
	{string(otelsemconv.ErrorTypeKey), isText, (*spanFacts).failed, false, "the kind of the error"},
	{string(otelsemconv.GenAIToolNameKey), isText, nil, false, "which tool it was"},
	{string(semconv.ToolOutputErrorKey), isText, (*spanFacts).deliveryFailed, false, "why the output could not be sent"},
}

var otherToolFacts = []fact{
	{key: string(semconv.ToolFailedBeforeEffectKey), valid: isBool},
	{key: string(semconv.ToolObservedKey), valid: isEnum(semconv.ParseToolObserved)},
	{key: string(semconv.RunInferredKey), valid: isBool},
	{key: string(semconv.AbortSourceKey), valid: isEnum(semconv.ParseAbortSource)},
	{key: string(semconv.AbortReasonKey), valid: isText},
}

// runFacts are the facts of a run, most valuable first.
var runFacts = []fact{
	{string(otelsemconv.GenAIOperationNameKey), isText, nil, true, "the span is not recognised at all"},
	{string(semconv.RunToolsKey), isCount, (*spanFacts).recordsTools, true, "whether all tools that ran are in the trace: a call that was handed over may have been executed"},
	{string(semconv.RunRequestsKey), isCount, nil, true, "whether all requests are in the trace, and when the verdict may be given"},
	{string(otelsemconv.ErrorTypeKey), isText, (*spanFacts).failed, false, "the kind of the error"},
	{string(otelsemconv.GenAIAgentNameKey), isText, nil, false, "whose run it was"},
	{string(otelsemconv.GenAIConversationIDKey), isText, nil, false, "which conversation it was part of"},
}

var otherRunFacts = []fact{
	{key: string(semconv.RunInferredKey), valid: isBool},
	{key: string(semconv.RunEndKey), valid: isEnum(semconv.ParseRunEnd)},
	{key: string(semconv.RunPreviousKey), valid: isEnum(semconv.ParseRunPrevious)},
	{key: string(semconv.RunLoopKey), valid: isCount},
	{key: string(semconv.RunIDKey), valid: isSpanID},
	{key: string(semconv.AbortSourceKey), valid: isEnum(semconv.ParseAbortSource)},
	{key: string(semconv.AbortReasonKey), valid: isText},
}
