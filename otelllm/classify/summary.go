package classify

import (
	"strings"

	"github.com/otelllm/otelllm-go/semconv"
)

// summarize writes the summary of a verdict and its key. The summary says in plain words
// what failed and when, what had or had not happened by then, and what to do. It consists
// of fixed templates and the names of tools: it never contains error text or content.
func summarize(d *Diagnosis, k *risk) {
	var b strings.Builder
	b.Grow(256)
	b.WriteString(failureText(d, k))
	if during := phaseText(d); during != "" {
		b.WriteByte(' ')
		b.WriteString(during)
	}
	b.WriteByte('.')
	d.SummaryKey = summaryKeyOf(d, k)
	if state := stateText(d.SummaryKey, k); state != "" {
		b.WriteByte(' ')
		b.WriteString(state)
	}
	b.WriteByte(' ')
	b.WriteString(advice(d, k))
	d.Summary = b.String()
}

// maxToolName bounds the name of a tool in a summary and in a timeline, in bytes.
const maxToolName = 64

// safeName returns the name of a tool if it may be shown, and "" otherwise.
func safeName(name string) string {
	if name = SanitizeCode(name); name == Redacted || len(name) > maxToolName {
		return ""
	}
	return name
}

// toolNamed returns a noun phrase for a tool: with its name if it may be shown, and with
// the article otherwise.
func toolNamed(article, name string) string {
	if name = safeName(name); name != "" {
		return "The tool " + name
	}
	return article + " tool"
}

// failureText returns the clause that says what failed.
func failureText(d *Diagnosis, k *risk) string {
	cause := d.Cause
	switch d.Class {
	case semconv.ClassWatchdogTimeout:
		return withCause("The request was stopped by a watchdog", cause)
	case semconv.ClassLocalAbort:
		if d.Phase == semconv.PhaseToolExecution {
			return withCause(toolNamed("A", k.failedTool)+" was stopped on this side", cause)
		}
		return withCause("The request was stopped on this side", cause)
	case semconv.ClassProviderError:
		return withCause("The model provider reported an error", cause)
	case semconv.ClassConnectionFailed:
		return withCause("The connection to the model could not be made", cause)
	case semconv.ClassStreamInterrupted:
		if cause == semconv.CauseCleanEOF {
			return "The answer of the model ended early, without the event that closes it"
		}
		return withCause("The connection to the model was lost", cause)
	case semconv.ClassProtocolViolation:
		return withCause("The response was not what the protocol allows", cause)
	case semconv.ClassOutputLimited:
		return withCause("The model did not give its whole answer", cause)
	case semconv.ClassHistoryBroken:
		return withCause("The model provider refused the history of the conversation", cause)
	case semconv.ClassEmptyCompletion:
		if cause == semconv.CauseSwallowedError {
			return "The model call came back empty, because a gateway had swallowed an error of its upstream"
		}
		return "The model call came back complete, but with nothing in it"
	case semconv.ClassToolFailed:
		if k.handoff {
			return withCause("Handing over to another agent failed", cause)
		}
		return withCause(toolNamed("A", k.failedTool)+" failed", cause)
	case semconv.ClassToolOutputLost:
		return withCause("The output of "+lowerFirst(toolNamed("A", k.failedTool))+" never reached the model", cause)
	case semconv.ClassApplicationError:
		if cause != semconv.CauseRunError {
			return withCause("The application made a request that cannot be sent", cause)
		}
		return "The agent reported a failure, and none of its model calls or tools explains it"
	case semconv.ClassRunAbandoned:
		return withCause("The record of the run is not whole", cause)
	default:
		if k.nothingMarkedFailed {
			return "Nothing recorded says how it went"
		}
		return "Something failed, and nothing recorded says what"
	}
}

// lowerFirst returns a phrase in the form that it has within a sentence.
func lowerFirst(phrase string) string { return strings.ToLower(phrase[:1]) + phrase[1:] }

// causeTexts has the text of the causes whose value does not read well as text.
var causeTexts = map[semconv.Cause]string{
	semconv.CauseConnect:               "no connection in time",
	semconv.CauseFirstProgress:         "no first sign of an answer in time",
	semconv.CauseIdle:                  "the stream stood still for too long",
	semconv.CauseTotal:                 "it took too long altogether",
	semconv.CauseUser:                  "a person pressed stop",
	semconv.CauseApplication:           "the application cancelled it",
	semconv.CauseShutdown:              "the process was shutting down",
	semconv.CauseDeadline:              "the deadline of the caller had passed",
	semconv.CauseConsumerClosed:        "the reader closed the stream",
	semconv.CauseOverloaded:            "it is overloaded",
	semconv.CauseRateLimited:           "rate limit",
	semconv.CauseQuotaExhausted:        "the quota is exhausted",
	semconv.CauseAuthentication:        "the credentials were not accepted",
	semconv.CausePermission:            "permission denied",
	semconv.CauseNotFound:              "no such model or address",
	semconv.CauseInvalidRequest:        "the request is not valid",
	semconv.CauseContextLengthExceeded: "the request is too long for the model",
	semconv.CauseContentPolicy:         "content policy",
	semconv.CauseServerError:           "an error on its side",
	semconv.CauseDNSNotFound:           "the host name does not exist",
	semconv.CauseDNSTemporary:          "the host name could not be looked up for now",
	semconv.CauseConnectRefused:        "connection refused",
	semconv.CauseConnectUnreachable:    "the host or network is unreachable",
	semconv.CauseConnectTimeout:        "connecting took too long",
	semconv.CauseTLS:                   "the TLS handshake failed",
	semconv.CauseProxy:                 "the proxy could not be reached",
	semconv.CauseProxyRefused:          "the proxy refused to connect",
	semconv.CauseInvalidURL:            "its URL is not valid",
	semconv.CauseMissingOutput:         "a tool call in it has no output",
	semconv.CauseMissingCall:           "a tool output in it belongs to no call",
	semconv.CauseLostState:             "the provider no longer has what it refers to",
	semconv.CauseInvalidSignature:      "a signature of the provider in it is missing or not valid",
	semconv.CausePanic:                 "it panicked",
	semconv.CauseWriteFailed:           "the request could not be sent whole",
	semconv.CauseClosedBeforeHeaders:   "closed before any response",
	semconv.CauseHeaderTimeout:         "no response headers in time",
	semconv.CauseBodyTruncated:         "the response was cut short",
	semconv.CauseH2StreamReset:         "HTTP/2 stream reset",
	semconv.CauseH2Goaway:              "the server closed the HTTP/2 connection",
	semconv.CauseConnectionLost:        "connection lost",
	semconv.CauseMalformedEvent:        "an event could not be read",
	semconv.CauseUnexpectedContentType: "another kind of content, such as a web page",
	semconv.CauseEventTooLong:          "an event was too long",
	semconv.CauseMaxOutputTokens:       "the limit of output tokens was reached",
	semconv.CauseContentFilter:         "a content filter cut it",
	semconv.CauseRefusal:               "it refused",
	semconv.CauseContextWindow:         "its context window was full",
	semconv.CausePaused:                "it paused and waits to be continued",
	semconv.CauseExecutionError:        "its execution ended in an error",
	semconv.CauseInterrupted:           "it was interrupted",
	semconv.CauseRejected:              "the call was rejected",
	semconv.CauseInvalidInput:          "the input was not valid",
	semconv.CauseIncompleteInput:       "it ran on an input that the model had never completed",
	semconv.CauseDeliveryFailed:        "sending it failed",
	semconv.CauseNeverAnswered:         "the run ended before it was sent",
	semconv.CauseOmittedFromRetry:      "a later request left it out",
	semconv.CauseMissingEnd:            "its end never came",
	semconv.CauseMissingChildren:       "parts that it announced never came",
}

// withCause adds the cause in parentheses, unless it is unknown.
func withCause(phrase string, cause semconv.Cause) string {
	if cause == semconv.CauseUnknown || cause == semconv.CauseUnset {
		return phrase
	}
	words, ok := causeTexts[cause]
	if !ok {
		words = strings.ReplaceAll(cause.String(), "_", " ")
	}
	return phrase + " (" + words + ")"
}

// phaseText returns when it happened, for classes that can occur at any point of a stream.
func phaseText(d *Diagnosis) string {
	switch d.Class {
	case semconv.ClassWatchdogTimeout, semconv.ClassLocalAbort, semconv.ClassStreamInterrupted,
		semconv.ClassProtocolViolation, semconv.ClassProviderError:
	default:
		return ""
	}
	switch d.Phase {
	case semconv.PhaseBeforeConnection:
		return "before a connection had been made"
	case semconv.PhaseAwaitingResponse:
		if d.Class == semconv.ClassProviderError {
			return ""
		}
		return "while the model had not begun to respond"
	case semconv.PhaseResponseStarted:
		if d.Class == semconv.ClassProviderError {
			return "before any output"
		}
		return "just after the response had begun"
	case semconv.PhaseReasoning:
		return "while the assistant was still reasoning"
	case semconv.PhaseText:
		return "while the assistant was writing its answer"
	case semconv.PhaseToolInput:
		return "while the assistant was still writing a tool call"
	case semconv.PhaseToolCallReady:
		return "after the assistant had written a tool call"
	case semconv.PhaseToolExecution:
		return "while a tool was running"
	default:
		return ""
	}
}

// summaryKeyOf returns the key of what had, or had not, happened by then.
func summaryKeyOf(d *Diagnosis, k *risk) semconv.SummaryKey {
	switch {
	case d.Class == semconv.ClassRunAbandoned, d.Class == semconv.ClassUnclassified:
		return semconv.SummaryKeyNothingToAdd
	case d.Class == semconv.ClassToolFailed && k.calls == callsNotExecuted && k.started == 0:
		return semconv.SummaryKeyToolChangedNothing
	case k.started.has(semconv.ToolEffectNonIdempotent):
		return semconv.SummaryKeyToolWithEffectsRan
	case k.started.has(semconv.ToolEffectUnknown):
		return semconv.SummaryKeyToolOfUnknownEffectRan
	case k.sent == No && k.started == 0:
		return semconv.SummaryKeyNothingSent
	case k.calls == callsUnknown:
		return semconv.SummaryKeyToolStateUnknown
	case k.providerTools == providerToolsBegan || k.providerTools == providerToolsPossible:
		return semconv.SummaryKeyProviderToolActed
	case k.continues:
		return semconv.SummaryKeyProviderContinues
	case k.started != 0:
		return semconv.SummaryKeyHarmlessToolsRan
	case k.calls == callsNotExecuted, k.toolInput == Yes:
		if k.toolRefused {
			return semconv.SummaryKeyToolRefused
		}
		return semconv.SummaryKeyToolNotRun
	case k.text == Yes && d.Class != semconv.ClassOutputLimited:
		return semconv.SummaryKeyTextShown
	case k.text == No && k.observed() && d.Class != semconv.ClassEmptyCompletion && d.Class != semconv.ClassOutputLimited &&
		d.Class != semconv.ClassApplicationError && d.Class != semconv.ClassToolOutputLost && d.Class != semconv.ClassHistoryBroken:
		return semconv.SummaryKeyNothingShown
	default:
		return semconv.SummaryKeyNothingToAdd
	}
}

// stateText returns the sentence for a summary key. docs/reference/summaries.md lists them
// all.
func stateText(key semconv.SummaryKey, k *risk) string {
	switch key {
	case semconv.SummaryKeyToolChangedNothing:
		return "It had not changed anything."
	case semconv.SummaryKeyToolWithEffectsRan:
		if safeName(k.tool) != "" {
			return toolNamed("", k.tool) + ", which changes things, had already run."
		}
		return "A tool that changes things had already run."
	case semconv.SummaryKeyToolOfUnknownEffectRan:
		return toolNamed("A", k.tool) + " had already run, and what it may have changed is not known."
	case semconv.SummaryKeyToolStateUnknown:
		return "Whether a tool ran is not known."
	case semconv.SummaryKeyProviderToolActed:
		return "A tool on the side of the provider may already have acted."
	case semconv.SummaryKeyProviderContinues:
		return "The provider goes on with it in the background."
	case semconv.SummaryKeyHarmlessToolsRan:
		return "Only tools that are safe to repeat had run."
	case semconv.SummaryKeyToolRefused:
		return "The tool had been called and had changed nothing."
	case semconv.SummaryKeyToolNotRun:
		return "The tool had not run."
	case semconv.SummaryKeyTextShown:
		return "Part of the answer had already been shown."
	case semconv.SummaryKeyNothingSent:
		return "Nothing had been sent."
	case semconv.SummaryKeyNothingShown:
		return "Nothing had been shown yet."
	default:
		return ""
	}
}

// advice returns the sentence that says what to do.
func advice(d *Diagnosis, k *risk) string {
	switch d.Retry.Safety {
	case SafeAutoRetry:
		return "It is safe to retry automatically."
	case NoRetry:
		switch d.Retry.Reason {
		case semconv.RetryReasonUserAbort, semconv.RetryReasonLocalShutdown:
			return "It was ended on purpose: do not retry."
		default:
			switch {
			case d.Cause == semconv.CausePaused:
				return "Continue it instead of retrying."
			case d.Class == semconv.ClassLocalAbort:
				return "It ended by a decision on this side: do not retry without a new one."
			case d.Class == semconv.ClassHistoryBroken:
				return "Mend the history before trying again."
			case d.Class == semconv.ClassApplicationError:
				return "Mend the request before trying again."
			case d.Cause == semconv.CauseQuotaExhausted:
				return "Trying again will not help before the quota is renewed."
			}
			return "Trying again as it was would not help."
		}
	default:
		switch d.Retry.Reason {
		case semconv.RetryReasonToolSideEffect:
			if name := safeName(k.tool); name != "" {
				return "Ask before retrying: " + name + " could run twice."
			}
			return "Ask before retrying: it could be done twice."
		case semconv.RetryReasonProviderContinues:
			return "Ask before retrying: the same work could be done twice. Ask the provider for the answer instead."
		case semconv.RetryReasonToolStateUnknown, semconv.RetryReasonProviderToolSideEffect:
			return "Ask before retrying: something could be done twice."
		case semconv.RetryReasonHistoryIncomplete:
			return "Ask before retrying: the history lacks the output of a tool that has run."
		case semconv.RetryReasonVisibleOutput:
			if k.toolInput == Yes || k.calls == callsNotExecuted {
				return "Ask before retrying: part of the answer had already been shown."
			}
			return "Ask before retrying: it would be shown again from the start."
		case semconv.RetryReasonDeadline:
			return "Ask before retrying: the time that the caller allowed is over."
		default:
			return "Ask before retrying: what is recorded does not prove that it is safe."
		}
	}
}
