package dialect

import (
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
)

// Strands Agents for Python (scope strands.telemetry.tracer) writes a chat for each attempt,
// execute_tool and invoke_agent. Its spans are OK unless an exception was raised, then ERROR
// with an exception event: ModelThrottledException is a rate limit. A tool whose result
// reports an error is ERROR, too.
//
// The finish reason of a chat is only in the event gen_ai.choice, whose other attributes are
// content and are not read. It is end_turn, and the status is OK, also for a stream that
// ended before the model said why: both count only beside tokens of output, which come with
// the end of a response. "cancelled" is the application's own. Written from
// strands-agents/sdk-python 1.40.0 (telemetry/tracer.py, event_loop/streaming.py).

// Names of Strands' spans.
const (
	eventChoice     = "gen_ai.choice"
	keyChoiceFinish = "finish_reason"
	strandsDefault  = "end_turn"
	strandsWaits    = "interrupt"  // of a run: a tool asks a person
	strandsPauses   = "checkpoint" // of a run: it is stored, to be continued
)

func readStrands(span ptrace.Span, into Facts) {
	switch {
	case into.Request != nil:
		strandsRequest(span, into.Request)
	case into.Tool != nil:
		genAITool(span, into.Tool)
	case into.Run != nil:
		strandsRun(span, into.Run)
	}
}

func strandsRequest(span ptrace.Span, r *classify.Request) {
	var e ending
	e.begin(span, r)
	for key, v := range span.Attributes().All() {
		e.read(key, v, r)
	}
	reason := choiceReason(span)
	counted := e.output.N() > 0
	switch {
	case reason == statusCancelled:
		e.reasons = nil
	case reason != "" && (counted || reason != strandsDefault):
		e.reasons = []string{reason}
	}
	e.end(span, r)
	if r.Failed == classify.No && !counted {
		r.Failed = classify.NotObserved
	}
	if reason == statusCancelled && r.Failed != classify.Yes {
		r.Failed, r.Ended, r.Abort.Source = classify.NotObserved, semconv.StreamEndCancelled, semconv.AbortSourceUnknown
		return
	}
	e.conclude(r)
}

// strandsRun reads a run, whose choice has the reason for which it ended.
func strandsRun(span ptrace.Span, run *classify.Run) {
	said := failed(span)
	readRunWithoutOK(span, run)
	switch reason := choiceReason(span); {
	case said != classify.No:
	case reason == strandsWaits:
		run.Failed, run.Waits = classify.No, true
	case reason == strandsPauses:
		run.Failed = classify.No
	case reason == statusCancelled:
		run.Abort.Source = semconv.AbortSourceUnknown
	}
}

// choiceReason is the finish reason in the event of an answer, or "".
func choiceReason(span ptrace.Span) string {
	for event := range eventsOf(span) {
		if event.Name() == eventChoice {
			if v, ok := event.Attributes().Get(keyChoiceFinish); ok {
				return shortString(v)
			}
		}
	}
	return ""
}
