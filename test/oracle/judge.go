package main

import (
	"fmt"
	"strings"

	"go.opentelemetry.io/otel/attribute"

	"github.com/otelllm/otelllm-go/semconv"
)

// kind is the kind of a finding.
type kind string

const (
	// A retry was called safe although the caller got text, or a call that a program may
	// have executed. This is the worst kind.
	unsafeRetry kind = "unsafe-retry"
	// The caller got content that the facts exclude: they say that it was observed not to
	// exist.
	noText      kind = "text-denied"
	noReasoning kind = "reasoning-denied"
	noInput     kind = "tool-input-denied"
	noComplete  kind = "tool-input-completion-denied"
	noCall      kind = "tool-call-denied"
	noProvider  kind = "provider-tool-denied"
	// The client delivered a complete answer and no error, but the verdict is a failure.
	falseAlarm kind = "false-alarm"
	// The client reported an error or delivered a part of an answer without its end, but
	// the facts say that it is complete.
	falseSuccess kind = "false-success"
	// The recording did not end, or the span is missing.
	noSpan    kind = "no-span"
	moreSpans kind = "more-spans"

	// The remaining kinds are notes about the client and do not indicate a fault of the
	// recording.

	// Everything that the protocol requires was sent, but the client ignored it or
	// misinterpreted it.
	unheardEnd kind = "note: whole on the wire, not for the client"
)

// note reports whether the kind does not fail the run.
func (k kind) note() bool { return strings.HasPrefix(string(k), "note: ") }

// finding is one problem.
type finding struct {
	kind   kind
	detail string
}

// recording is what was recorded for a case.
type recording map[attribute.Key]attribute.Value

// denied reports whether the facts say that there was none. A missing count denies
// nothing.
func (r recording) denied(key attribute.Key) bool {
	v, ok := r[key]
	return ok && v.AsInt64() == 0
}

func (r recording) text(key attribute.Key) string { return r[key].AsString() }

// truth is what happened in a case, independent of the client.
type truth struct {
	final   bool // the protocol's end was sent
	failed  bool // an error inside the stream, or its beginning, was sent
	refused bool // the answer is a refusal, which not every client shows
	broken  bool // the connection broke before the end of the last event, which some clients hide
	spliced bool // another answer began within the answer, which some clients take for one
}

// judge compares what a client delivered to its caller with what was recorded.
func judge(d *delivery, r recording, t truth) (found []finding) {
	add := func(k kind, format string, args ...any) {
		found = append(found, finding{k, fmt.Sprintf(format, args...)})
	}
	for _, c := range []struct {
		given int
		key   attribute.Key
		kind  kind
	}{
		{d.text, semconv.StreamTextChunksKey, noText},
		{d.reasoning, semconv.StreamReasoningChunksKey, noReasoning},
		{d.started, semconv.StreamToolInputsStartedKey, noInput},
		{d.ran, semconv.StreamToolInputsCompletedKey, noComplete},
		{d.handed, semconv.StreamToolCallsKey, noCall},
		{d.provider, semconv.StreamProviderToolsStartedKey, noProvider},
	} {
		if c.given > 0 && r.denied(c.key) {
			add(c.kind, "%d given", c.given)
		}
	}
	class, cause := r.text(semconv.FailureClassKey), r.text(semconv.FailureCauseKey)
	verdict := class + "/" + cause
	if r.text(semconv.RetrySafetyKey) == semconv.RetrySafetySafeAutoRetry.String() {
		if d.text > 0 || d.ran > 0 {
			add(unsafeRetry, "%s, %s; given: text %d, calls that ran %d", verdict, r.text(semconv.RetryReasonKey), d.text, d.ran)
		}
	}
	switch {
	case class != "" && d.whole() && !justified(class, d, t):
		add(falseAlarm, "%s", verdict)
	case class == "" && r.text(semconv.StreamEndKey) == semconv.StreamEndTerminalEvent.String() && !d.finished:
		if t.final {
			add(unheardEnd, "error %T", d.err)
		} else {
			add(falseSuccess, "error %T, sent: error %t", d.err, t.failed)
		}
	}
	return found
}

// justified reports whether the verdict may be a failure of this class although the client
// delivered a complete answer.
func justified(class string, d *delivery, t truth) bool {
	switch class {
	case semconv.ClassStreamInterrupted.String(), semconv.ClassProtocolViolation.String():
		// The connection broke before the last event had ended, whatever the client
		// reports.
		return t.broken || t.spliced && class == semconv.ClassProtocolViolation.String()
	case semconv.ClassOutputLimited.String():
		return d.refused || t.refused || !ordinary(d.finish)
	case semconv.ClassProviderError.String():
		return t.failed
	case semconv.ClassEmptyCompletion.String():
		return d.text+d.complete+d.provider == 0
	default:
		return false
	}
}

// ordinary reports whether the finish reason is one of an answer that was not cut short.
func ordinary(reason string) bool {
	switch reason {
	case "stop", "tool_calls", "function_call", "end_turn", "stop_sequence", "tool_use", "STOP", "response.completed":
		return true
	default:
		return false
	}
}
