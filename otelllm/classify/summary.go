package classify

import (
	"strconv"
	"strings"
	"time"

	"github.com/otelllm/otelllm-go/semconv"
)

// summarize writes the summary of a verdict and its key. The summary says in plain words
// what failed and when, what had or had not happened by then, and what to do. It consists
// of fixed templates and the names of tools: it never contains error text or content.
func summarize(d *Diagnosis, k *risk) {
	var b strings.Builder
	b.Grow(256)
	if k.relayed {
		b.WriteString(textRelayed)
		b.WriteString(lowerFirst(failureText(d, k)))
	} else {
		b.WriteString(failureText(d, k))
	}
	if during := phaseText(d, k); during != "" {
		b.WriteByte(' ')
		b.WriteString(during)
	}
	b.WriteByte('.')
	if k.lastSeen != "" {
		b.WriteString(" Last seen: ")
		b.WriteString(k.lastSeen)
		b.WriteByte('.')
	}
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
		if d.Origin == semconv.OriginCallerTimer {
			return "The caller closed the stream after " + durationText(k.silence) + " without progress, and sent the request again"
		}
		return watchdogText("A watchdog stopped the request", cause, k.limit)
	case semconv.ClassLocalAbort:
		if d.Phase == semconv.PhaseToolExecution {
			return withAbort(toolNamed("A", k.failedTool)+" was cancelled on the client side", cause)
		}
		phrase := "The request was cancelled on the client side"
		if cause == semconv.CauseConsumerClosed { // maybe not on purpose: a process that is killed closes its connections, too
			phrase = "The client side stopped reading"
		}
		text := withAbort(phrase, cause)
		if k.silence > 0 {
			text += ", after " + durationText(k.silence) + " without progress"
		}
		return text
	case semconv.ClassProviderError:
		if cause == semconv.CauseUnknownEnd {
			return "The model's answer ended for a reason that is not known to be a good one"
		}
		if d.Origin == semconv.OriginGateway {
			return withCause("Something in front of the model provider, a gateway or a proxy, reported an error", cause)
		}
		return withCause(textProviderError, cause)
	case semconv.ClassConnectionFailed:
		return withCause("The connection to the model could not be established", cause)
	case semconv.ClassStreamInterrupted:
		if cause == semconv.CauseCleanEOF {
			return "The model's answer stopped early: the stream closed without its final event"
		}
		if cause == semconv.CauseShutdown {
			return "The connection to the model was lost (a gateway was shutting down)"
		}
		return withCause("The connection to the model was lost", cause)
	case semconv.ClassProtocolViolation:
		return withCause("The model's response did not follow the protocol", cause)
	case semconv.ClassOutputLimited:
		return withCause("The model's answer was cut short", cause)
	case semconv.ClassHistoryBroken:
		return withCause("The model provider refused the conversation history", cause)
	case semconv.ClassEmptyCompletion:
		if cause == semconv.CauseSwallowedError {
			return "The model's answer was empty because a gateway hid an error of its upstream"
		}
		if cause == semconv.CauseReasoningOnly {
			return "The model's answer had nothing but reasoning"
		}
		return "The model's answer was complete but empty"
	case semconv.ClassToolFailed:
		if k.handoff {
			return withCause("The handoff to another agent failed", cause)
		}
		return withCause(toolNamed("A", k.failedTool)+" failed", cause)
	case semconv.ClassToolOutputLost:
		if k.call {
			return withCause("The model never got the output of its call of "+lowerFirst(toolNamed("A", k.failedTool)), cause)
		}
		if k.unsent {
			return "The model asked for " + lowerFirst(toolNamed("A", k.failedTool)) + ", and the conversation ended before it got an output"
		}
		if k.ownFailure {
			return withCause(toolNamed("A", k.failedTool)+" failed, and its error never reached the model", cause)
		}
		return withCause("The output of "+lowerFirst(toolNamed("A", k.failedTool))+" never reached the model", cause)
	case semconv.ClassApplicationError:
		if cause != semconv.CauseRunError {
			return withCause("The application made a request that cannot be sent", cause)
		}
		return "The agent reported a failure that none of its model calls or tools explains"
	case semconv.ClassRunAbandoned:
		if cause == semconv.CauseProcessDied {
			if k.basis == Typed {
				return "The agent's process died before the run ended: it was killed, or it crashed"
			}
			return "The run never ended, and no process is known that could continue it"
		}
		if cause == semconv.CauseMissingChildren {
			return "The record of the run is incomplete: requests or tools that it announced never arrived"
		}
		if k.idle {
			return "The model asked for tool calls, and no request with their outputs followed: the agent stopped, or waits for someone"
		}
		return "The run never reported its end; its process probably crashed or was killed"
	default:
		if k.incomplete {
			return "The model's answer is not complete, and nothing recorded shows why"
		}
		if k.nothingMarkedFailed {
			return "Nothing recorded shows how it ended"
		}
		return "Something failed, but nothing recorded shows what"
	}
}

// textRelayed precedes the failure of a gateway's own request, of which this one got an error.
const textRelayed = "A gateway answered with an error, because "

// textProviderError is the clause for an error that the provider itself reported.
const textProviderError = "The model provider reported an error"

// lowerFirst returns a phrase in the form that it has within a sentence.
func lowerFirst(phrase string) string { return strings.ToLower(phrase[:1]) + phrase[1:] }

// causeTexts has the text of the causes whose value does not read well as text. An empty
// text adds nothing to what the class says.
var causeTexts = map[semconv.Cause]string{
	semconv.CauseUser:                  "a person pressed stop",
	semconv.CauseApplication:           "the application cancelled it",
	semconv.CauseShutdown:              "the process was shutting down",
	semconv.CauseDeadline:              "the caller's deadline passed",
	semconv.CauseConsumerClosed:        "it did not say why",
	semconv.CauseRateLimited:           "rate limit exceeded",
	semconv.CauseQuotaExhausted:        "quota exhausted",
	semconv.CauseAuthentication:        "authentication failed",
	semconv.CausePermission:            "permission denied",
	semconv.CauseNotFound:              "model or endpoint not found",
	semconv.CauseInvalidRequest:        "invalid request",
	semconv.CauseContextLengthExceeded: "the input is too long for the model",
	semconv.CauseContentPolicy:         "content policy violation",
	semconv.CauseServerError:           "internal server error",
	semconv.CauseDNSNotFound:           "host name not found",
	semconv.CauseDNSTemporary:          "temporary DNS failure",
	semconv.CauseConnectUnreachable:    "host or network unreachable",
	semconv.CauseConnectRefused:        "connection refused",
	semconv.CauseConnectTimeout:        "connection timed out",
	semconv.CauseTLS:                   "TLS handshake failed",
	semconv.CauseProxy:                 "proxy unreachable",
	semconv.CauseProxyRefused:          "the proxy refused to connect",
	semconv.CauseInvalidURL:            "invalid URL",
	semconv.CauseMissingOutput:         "a tool call has no output",
	semconv.CauseMissingCall:           "a tool output has no call",
	semconv.CauseDuplicateCall:         "two tool calls have the same id",
	semconv.CauseLostState:             "the provider no longer has the state that it refers to",
	semconv.CauseInvalidSignature:      "a signature of the provider is missing or invalid",
	semconv.CausePanic:                 "it panicked",
	semconv.CauseWriteFailed:           "the request was only partly sent",
	semconv.CauseClosedBeforeHeaders:   "closed before any response",
	semconv.CauseHeaderTimeout:         "no response headers in time",
	semconv.CauseBodyTruncated:         "the response was cut short",
	semconv.CauseH2StreamReset:         "HTTP/2 stream reset",
	semconv.CauseH2Goaway:              "the server closed the HTTP/2 connection",
	semconv.CauseConnectionLost:        "",
	semconv.CauseMalformedEvent:        "an event could not be parsed",
	semconv.CauseUnexpectedContentType: "unexpected content type, such as a web page",
	semconv.CauseEventTooLong:          "an event was too long",
	semconv.CauseMaxOutputTokens:       "output token limit reached",

	semconv.CauseInvalidToolInput: "the input of a tool call is not valid",
	semconv.CauseContentFilter:    "content filter",
	semconv.CauseRefusal:          "the model refused",
	semconv.CauseContextWindow:    "context window full",
	semconv.CausePaused:           "the model paused",
	semconv.CauseExecutionError:   "it returned an error",
	semconv.CauseTimeout:          "it timed out",
	semconv.CauseCancelled:        "it was cancelled",
	semconv.CauseInterrupted:      "it was interrupted",
	semconv.CauseRejected:         "the call was rejected",
	semconv.CauseInvalidInput:     "invalid input",
	semconv.CauseIncompleteInput:  "it ran on an incomplete input",
	semconv.CauseDeliveryFailed:   "sending it failed",
	semconv.CauseNeverAnswered:    "the run ended before it was sent",
	semconv.CauseOmittedFromRetry: "a later request left it out",
}

// withAbort is withCause for a deliberate end. An application that stops a request without a typed
// cause does not say why: a person, a limit of its own, or cleanup.
func withAbort(phrase string, cause semconv.Cause) string {
	if cause == semconv.CauseUnknown {
		return phrase + " (by the application, it did not say why)"
	}
	return withCause(phrase, cause)
}

// withCause adds the cause in parentheses, unless it is unknown or adds nothing.
func withCause(phrase string, cause semconv.Cause) string {
	if cause == semconv.CauseUnknown || cause == semconv.CauseUnset {
		return phrase
	}
	text, ok := causeTexts[cause]
	if !ok {
		text = strings.ReplaceAll(cause.String(), "_", " ")
	}
	if text == "" {
		return phrase
	}
	return phrase + " (" + text + ")"
}

// watchdogTexts says what a watchdog waited for: before a limit that is known, and without
// one.
var watchdogTexts = map[semconv.Cause]struct{ before, without string }{
	semconv.CauseConnect:       {"no connection within ", "no connection in time"},
	semconv.CauseFirstProgress: {"no output within ", "no output in time"},
	semconv.CauseIdle:          {"no progress for ", "no progress for too long"},
	semconv.CauseTotal:         {"it took longer than ", "it took too long"},
}

// watchdogText adds what the watchdog waited for and, if it is known, for how long.
func watchdogText(phrase string, cause semconv.Cause, limit time.Duration) string {
	text, ok := watchdogTexts[cause]
	switch {
	case !ok:
		return phrase
	case limit > 0:
		return phrase + ": " + text.before + durationText(limit)
	default:
		return phrase + ": " + text.without
	}
}

// durationText returns a positive duration in words, in at most two units: "500
// milliseconds", "1.5 seconds", "5 minutes", "1 hour 30 minutes".
func durationText(d time.Duration) string {
	switch {
	case d < time.Second:
		return plural(max(1, d.Milliseconds()), "millisecond")
	case d < time.Minute:
		d = d.Round(100 * time.Millisecond)
		if d%time.Second == 0 {
			return plural(int64(d/time.Second), "second")
		}
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + " seconds"
	case d < time.Hour:
		return twoUnits(d, time.Minute, "minute", time.Second, "second")
	default:
		return twoUnits(d, time.Hour, "hour", time.Minute, "minute")
	}
}

func twoUnits(d, large time.Duration, largeName string, small time.Duration, smallName string) string {
	d = d.Round(small)
	text := plural(int64(d/large), largeName)
	if rest := int64(d % large / small); rest > 0 {
		text += " " + plural(rest, smallName)
	}
	return text
}

func plural(n int64, unit string) string {
	text := strconv.FormatInt(n, 10) + " " + unit
	if n != 1 {
		text += "s"
	}
	return text
}

// phaseText returns when it happened, for classes that can occur at any point of a stream.
// It returns "" if the cause already says so.
func phaseText(d *Diagnosis, k *risk) string {
	switch d.Class {
	case semconv.ClassWatchdogTimeout, semconv.ClassLocalAbort, semconv.ClassStreamInterrupted,
		semconv.ClassProtocolViolation, semconv.ClassProviderError:
	default:
		return ""
	}
	if d.Class == semconv.ClassWatchdogTimeout && (d.Cause == semconv.CauseConnect || d.Cause == semconv.CauseFirstProgress) {
		return ""
	}
	switch d.Phase {
	case semconv.PhaseBeforeConnection:
		return "before a connection was established"
	case semconv.PhaseAwaitingResponse:
		if d.Class == semconv.ClassProviderError || k.relayed {
			return ""
		}
		return "before the model began to respond"
	case semconv.PhaseResponseStarted:
		if k.text == Yes && !k.otherText {
			return "" // an answer that did not stream
		}
		if d.Class == semconv.ClassProviderError || k.relayed {
			return "before any output"
		}
		return "just after the response began"
	case semconv.PhaseReasoning:
		return "while the assistant was still reasoning"
	case semconv.PhaseText:
		return "while the assistant was still writing"
	case semconv.PhaseToolInput:
		return "while the assistant was still writing a tool call"
	case semconv.PhaseToolCallReady:
		return "after the assistant had written a tool call"
	case semconv.PhaseToolExecution:
		if d.Class == semconv.ClassLocalAbort {
			return "" // the tool is what was cancelled
		}
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

// requestText returns in words how a request ended.
func requestText(s state) string {
	switch s {
	case stateFailed:
		return "a model call failed"
	case stateAborted:
		return "a model call ended on the client side"
	case stateUnknown:
		return "a model call"
	default:
		return "a model call completed"
	}
}

// toolText returns in words how far the execution of a tool progressed.
func toolText(t *Tool) string {
	name := safeName(t.Name)
	if name == "" {
		name = "a tool"
	}
	if t.End.IsZero() {
		return name + " started"
	}
	switch t.Outcome {
	case semconv.ToolOutcomeSucceeded:
		return name + " succeeded"
	case semconv.ToolOutcomeFailed:
		return name + " failed"
	case semconv.ToolOutcomeTimedOut:
		return name + " timed out"
	case semconv.ToolOutcomeInterrupted:
		return name + " was interrupted"
	case semconv.ToolOutcomeRejected:
		return name + " was rejected"
	case semconv.ToolOutcomeInvalidInput:
		return name + " refused its input"
	default:
		return name + " ended"
	}
}

// stateText returns the sentence for a summary key. docs/reference/summaries.md lists them
// all.
func stateText(key semconv.SummaryKey, k *risk) string {
	switch key {
	case semconv.SummaryKeyToolChangedNothing:
		return "It changed nothing."
	case semconv.SummaryKeyToolWithEffectsRan:
		if safeName(k.tool) != "" {
			return toolNamed("", k.tool) + ", which has side effects, had already run."
		}
		return "A tool with side effects had already run."
	case semconv.SummaryKeyToolOfUnknownEffectRan:
		return toolNamed("A", k.tool) + " had already run, and its effects are not known."
	case semconv.SummaryKeyToolStateUnknown:
		return "It is not known whether a tool ran."
	case semconv.SummaryKeyProviderToolActed:
		return "A tool on the provider's side may already have run."
	case semconv.SummaryKeyProviderContinues:
		return "The provider continues in the background."
	case semconv.SummaryKeyHarmlessToolsRan:
		return "Only tools that are safe to repeat had run."
	case semconv.SummaryKeyToolRefused:
		return "The tool was called but changed nothing."
	case semconv.SummaryKeyToolNotRun:
		return "The tool had not run."
	case semconv.SummaryKeyTextShown:
		if k.otherText {
			return textOther
		}
		return "Part of the answer had already been shown."
	case semconv.SummaryKeyNothingSent:
		return "Nothing had been sent."
	case semconv.SummaryKeyNothingShown:
		return "Nothing had been shown yet."
	default:
		return ""
	}
}

// textOther says in a summary of a run that the request which failed had shown nothing, unlike
// an earlier one: an attempt before it, or a step.
const textOther = "Another model call had already shown text."

// Advice, and the beginnings of the advice for the two levels of safety that allow a retry.
const (
	adviceSameTool = "Making the same tool call again will not help."

	adviceSafe = "It is safe to retry automatically."
	adviceAsk  = "Ask before retrying: "
)

// advice returns the sentence that says what to do.
func advice(d *Diagnosis, k *risk) string {
	switch d.Retry.Safety {
	case SafeAutoRetry:
		return adviceSafe
	case NoRetry:
		return adviceAgainst(d, k)
	default:
		return adviceAsk + doubt(d, k)
	}
}

// adviceAgainst returns the advice for a failure that a retry would meet again.
func adviceAgainst(d *Diagnosis, k *risk) string {
	stopped := d.Retry.Reason == semconv.RetryReasonUserAbort || d.Retry.Reason == semconv.RetryReasonLocalShutdown
	switch {
	case k.raised() && stopped:
		return "One of its model calls was stopped on purpose: do not retry."
	case k.raised():
		return "One of its model calls must not be repeated: do not retry."
	case stopped:
		return "It was stopped on purpose: do not retry."
	case k.raisedByTool():
		return adviceSameTool
	case d.Cause == semconv.CausePaused:
		return "Continue the answer instead of retrying."
	case d.Class == semconv.ClassLocalAbort:
		return "Do not retry unless asked to."
	case d.Cause == semconv.CauseLostState:
		return "Send the whole history in place of the reference to it; if it was sent over a WebSocket, over a new one."
	case d.Class == semconv.ClassHistoryBroken:
		return "Repair the history before trying again."
	case d.Class == semconv.ClassApplicationError:
		return "Fix the request before trying again."
	case d.Cause == semconv.CauseQuotaExhausted:
		return "Retrying will not help until the quota is renewed."
	case d.Class == semconv.ClassToolFailed:
		return adviceSameTool
	default:
		return "Sending the same request again will not help."
	}
}

// doubt returns why the user has to confirm a retry.
func doubt(d *Diagnosis, k *risk) string {
	switch d.Retry.Reason {
	case semconv.RetryReasonToolSideEffect:
		if name := safeName(k.tool); name != "" {
			return name + " could run twice."
		}
		return "a tool with side effects could run twice."
	case semconv.RetryReasonToolStateUnknown:
		if name := safeName(k.tool); name != "" && k.started.has(semconv.ToolEffectUnknown) {
			return name + " could run twice."
		}
		return "a tool could run twice."
	case semconv.RetryReasonProviderToolSideEffect:
		return "a tool on the provider's side could run twice."
	case semconv.RetryReasonProviderContinues:
		return "the provider could do the same work twice. Fetch the answer from the provider instead."
	case semconv.RetryReasonHistoryIncomplete:
		return "the history lacks the output of a tool that ran."
	case semconv.RetryReasonVisibleOutput:
		if k.toolInput == Yes || k.calls == callsNotExecuted {
			if k.otherText {
				return lowerFirst(textOther)
			}
			return "part of the answer had already been shown."
		}
		return "the answer would be shown again from the start."
	case semconv.RetryReasonDeadline:
		return "the caller's deadline has passed."
	default:
		return "the recorded facts do not prove that it is safe."
	}
}
