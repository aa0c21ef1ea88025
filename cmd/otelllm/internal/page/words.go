package page

import (
	"fmt"

	"github.com/otelllm/otelllm-go/semconv"
)

// words says the values of the vocabulary in plain words, by attribute and value. A value
// that it lacks is shown as it is, with spaces. The sentence of a verdict comes with the
// record; these are for labels, filters and the next step.
var words = map[string]map[string]string{
	"outcome": of(map[semconv.RunOutcome]string{
		semconv.RunOutcomeSucceeded:  "Succeeded",
		semconv.RunOutcomeRecovered:  "Recovered",
		semconv.RunOutcomeLimited:    "Cut short",
		semconv.RunOutcomeWaiting:    "Waiting",
		semconv.RunOutcomeFailed:     "Failed",
		semconv.RunOutcomeAborted:    "Stopped",
		semconv.RunOutcomeIncomplete: "Incomplete",
	}),
	"class": of(map[semconv.Class]string{
		semconv.ClassConnectionFailed:  "No connection",
		semconv.ClassStreamInterrupted: "Stream interrupted",
		semconv.ClassProviderError:     "Provider error",
		semconv.ClassLocalAbort:        "Stopped",
		semconv.ClassWatchdogTimeout:   "Watchdog timeout",
		semconv.ClassProtocolViolation: "Protocol violation",
		semconv.ClassOutputLimited:     "Answer cut short",
		semconv.ClassHistoryBroken:     "History refused",
		semconv.ClassEmptyCompletion:   "Empty answer",
		semconv.ClassToolFailed:        "Tool failed",
		semconv.ClassToolOutputLost:    "Tool output lost",
		semconv.ClassApplicationError:  "Application error",
		semconv.ClassRunAbandoned:      "Run never ended",
		semconv.ClassUnclassified:      "Not classified",
	}),
	"cause": of(map[semconv.Cause]string{ // those whose value with spaces does not read well
		semconv.CauseConnect:               "no connection in time",
		semconv.CauseFirstProgress:         "no output in time",
		semconv.CauseIdle:                  "no progress",
		semconv.CauseTotal:                 "it took too long",
		semconv.CauseUser:                  "a person pressed stop",
		semconv.CauseApplication:           "the application cancelled it",
		semconv.CauseShutdown:              "the process was shutting down",
		semconv.CauseDeadline:              "the caller's deadline passed",
		semconv.CauseConsumerClosed:        "the client side stopped reading",
		semconv.CauseRateLimited:           "rate limit exceeded",
		semconv.CauseContextLengthExceeded: "input too long for the model",
		semconv.CauseServerError:           "internal server error",
		semconv.CauseDNSNotFound:           "host name not found",
		semconv.CauseDNSTemporary:          "temporary DNS failure",
		semconv.CauseConnectUnreachable:    "host unreachable",
		semconv.CauseConnectRefused:        "connection refused",
		semconv.CauseConnectTimeout:        "connection timed out",
		semconv.CauseTLS:                   "TLS handshake failed",
		semconv.CauseInvalidURL:            "invalid URL",
		semconv.CauseH2StreamReset:         "HTTP/2 stream reset",
		semconv.CauseH2Goaway:              "HTTP/2 connection closed",
		semconv.CauseCleanEOF:              "closed without a final event",
		semconv.CauseTimeout:               "it timed out",
		semconv.CauseMaxOutputTokens:       "output token limit reached",
		semconv.CauseMissingOutput:         "a tool call has no output",
		semconv.CauseMissingCall:           "a tool output has no call",
		semconv.CauseExecutionError:        "it returned an error",
		semconv.CauseDeliveryFailed:        "sending it failed",
		semconv.CauseNeverAnswered:         "it was never sent",
		semconv.CauseOmittedFromRetry:      "a later request left it out",
		semconv.CauseRunError:              "the agent reported a failure",
		semconv.CauseMissingEnd:            "no end was recorded",
		semconv.CauseMissingChildren:       "parts never arrived",
		semconv.CauseProcessDied:           "the agent's process died",
	}),
	"origin": of(map[semconv.Origin]string{
		semconv.OriginProvider:    "the provider",
		semconv.OriginTransport:   "the connection",
		semconv.OriginGateway:     "a gateway",
		semconv.OriginTool:        "a tool",
		semconv.OriginApplication: "the application",
		semconv.OriginLocal:       "the client side",
		semconv.OriginWatchdog:    "a watchdog",
		semconv.OriginCallerTimer: "a timer of the caller",
		semconv.OriginUnknown:     "not known",
	}),
	"safety": of(map[semconv.RetrySafety]string{
		semconv.RetrySafetySafeAutoRetry:      "Safe to repeat",
		semconv.RetrySafetyUserConfirmedRetry: "Ask first",
		semconv.RetrySafetyNoRetry:            "Do not repeat",
	}),
	"reason": of(map[semconv.RetryReason]string{
		semconv.RetryReasonUserAbort:              "A person stopped it.",
		semconv.RetryReasonLocalShutdown:          "The process was shutting down, or the application stopped it.",
		semconv.RetryReasonNotTransient:           "The cause does not pass by itself.",
		semconv.RetryReasonToolSideEffect:         "A tool that must not run twice had been started.",
		semconv.RetryReasonToolStateUnknown:       "Whether a tool ran, or what running it twice would do, is not known.",
		semconv.RetryReasonProviderToolSideEffect: "The provider itself executed, or may have executed, a tool with effects.",
		semconv.RetryReasonHistoryIncomplete:      "The history lacks a tool output that exists.",
		semconv.RetryReasonProviderContinues:      "The provider continues the request although the stream is gone.",
		semconv.RetryReasonVisibleOutput:          "Visible text had already been streamed.",
		semconv.RetryReasonDeadline:               "The caller's own deadline had passed.",
		semconv.RetryReasonEvidenceIncomplete:     "Too little is known to call it safe.",
		semconv.RetryReasonNothingLeftClient:      "No byte of the request had left this side.",
		semconv.RetryReasonNoOutput:               "The model had produced no output.",
		semconv.RetryReasonReasoningOnly:          "Only reasoning had been streamed.",
		semconv.RetryReasonIncompleteToolInput:    "A tool call was still being written, so it had not run.",
		semconv.RetryReasonToolCallNotExecuted:    "A tool call was complete and is known not to have been executed.",
		semconv.RetryReasonReadOnlyToolsOnly:      "Only tools that change nothing had run.",
		semconv.RetryReasonIdempotentToolsOnly:    "Only tools that may run twice had run.",
	}),
	"effect": of(map[semconv.ToolEffect]string{
		semconv.ToolEffectReadOnly:      "changes nothing",
		semconv.ToolEffectIdempotent:    "may run twice",
		semconv.ToolEffectNonIdempotent: "has side effects",
		semconv.ToolEffectUnknown:       "effects not known",
	}),
	"tool": of(map[semconv.ToolOutcome]string{
		semconv.ToolOutcomeSucceeded:    "succeeded",
		semconv.ToolOutcomeFailed:       "failed",
		semconv.ToolOutcomeTimedOut:     "timed out",
		semconv.ToolOutcomeInterrupted:  "was interrupted",
		semconv.ToolOutcomeRejected:     "was rejected",
		semconv.ToolOutcomeInvalidInput: "refused its input",
	}),
	"end": of(map[semconv.StreamEnd]string{
		semconv.StreamEndTerminalEvent:  "answer complete",
		semconv.StreamEndEOF:            "closed without a final event",
		semconv.StreamEndReadError:      "connection lost",
		semconv.StreamEndHTTPError:      "error from the provider",
		semconv.StreamEndNoResponse:     "no response",
		semconv.StreamEndCancelled:      "cancelled",
		semconv.StreamEndConsumerClosed: "closed by the reader",
		semconv.StreamEndWatchdog:       "stopped by a watchdog",
		semconv.StreamEndAbandoned:      "never ended",
	}),
}

// of keys a table by the values' names.
func of[T interface {
	comparable
	fmt.Stringer
}](table map[T]string,
) map[string]string {
	out := make(map[string]string, len(table))
	for value, text := range table {
		out[value.String()] = text
	}
	return out
}
