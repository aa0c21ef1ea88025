package main

import (
	"fmt"
	"strings"

	"go.opentelemetry.io/otel/attribute"

	"github.com/otelllm/otelllm-go/semconv"
)

// kind is what is wrong with a case.
type kind string

const (
	// unsafe: a retry was called safe although text or a whole call had been given to the
	// caller. It is the worst.
	unsafeRetry kind = "unsafe-retry"
	// The caller was given what the facts say was seen not to be.
	noText      kind = "text-denied"
	noReasoning kind = "reasoning-denied"
	noInput     kind = "tool-input-denied"
	noComplete  kind = "tool-input-completion-denied"
	noCall      kind = "tool-call-denied"
	noProvider  kind = "provider-tool-denied"
	// The client gave a whole answer and no error, and the verdict is a failure.
	falseAlarm kind = "false-alarm"
	// The client gave an error or a part of an answer, whose end had not come, and the
	// facts say that it is whole.
	falseSuccess kind = "false-success"
	// The recording did not end, or is not one.
	noSpan    kind = "no-span"
	moreSpans kind = "more-spans"

	// The client reports no error and hands over a call whose input is JSON, although the
	// protocol did not complete it, so that a program executes it; a retry is called safe.
	looseCall kind = "unsafe-retry-of-a-loose-call"

	// What follows is worth knowing, and no fault of the recording.

	// All that the protocol asks for was sent; the client did not take it, or took it for
	// something else.
	unheardEnd kind = "note: whole on the wire, not for the client"
)

// note: the kind does not fail the run.
func (k kind) note() bool { return strings.HasPrefix(string(k), "note: ") }

// finding is one thing that is wrong.
type finding struct {
	kind   kind
	detail string
}

// recording is what was recorded of a case.
type recording map[attribute.Key]attribute.Value

// denied: the facts say that there was none. A count that is absent says nothing.
func (r recording) denied(key attribute.Key) bool {
	v, ok := r[key]
	return ok && v.AsInt64() == 0
}

func (r recording) text(key attribute.Key) string { return r[key].AsString() }

// truth is what really happened in a case, beside what the client says.
type truth struct {
	final   bool // the protocol's end was sent
	failed  bool // an error inside the stream was sent, or its beginning
	refused bool // the answer is a refusal, which not every client shows
	broken  bool // the connection broke before the end of the last event, which some clients hide
}

// judge holds what a client gave to its caller against what was recorded.
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
		{d.complete, semconv.StreamToolInputsCompletedKey, noComplete},
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
		switch why := r.text(semconv.RetryReasonKey); {
		case d.text > 0 || d.complete > 0:
			add(unsafeRetry, "%s, %s; given: text %d, complete calls %d", verdict, why, d.text, d.complete)
		case d.loose:
			add(looseCall, "%s, %s", verdict, why)
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

// justified reports whether a failure of this class may stand on an answer that the
// client gave whole.
func justified(class string, d *delivery, t truth) bool {
	switch class {
	case semconv.ClassStreamInterrupted.String(), semconv.ClassProtocolViolation.String():
		// The connection broke before the last event had ended, whatever the client says.
		return t.broken
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

// ordinary: a finish reason with which an answer ends that nothing cut short.
func ordinary(reason string) bool {
	switch reason {
	case "stop", "tool_calls", "function_call", "end_turn", "stop_sequence", "tool_use", "STOP", "response.completed":
		return true
	default:
		return false
	}
}
