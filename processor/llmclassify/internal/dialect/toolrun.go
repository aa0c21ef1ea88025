package dialect

import (
	"strconv"
	"strings"

	"go.opentelemetry.io/collector/pdata/ptrace"
	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
)

// Attributes of a tool that some producers record beside error.type, or in its place. Rig
// (0.37, crates/rig-core/src/tool) has the first two; others have one of them. The third is that
// of OpenLLMetry for LangChain.
const (
	keyToolOutcome = "gen_ai.tool.call.outcome"
	keyToolError   = "gen_ai.tool.error.type"
	keyTaskStatus  = "gen_ai.task.status"
)

// toolOutcomes are the values of keyToolOutcome and keyTaskStatus, and those of keyToolError that say more than
// that the tool failed. "denied" is Rig's word for a call that was refused before or by the
// tool; "skipped" is a call that a hook answered in place of the tool.
var toolOutcomes = map[string]toolOutcome{
	"success": {outcome: semconv.ToolOutcomeSucceeded}, "succeeded": {outcome: semconv.ToolOutcomeSucceeded},
	"ok": {outcome: semconv.ToolOutcomeSucceeded}, "completed": {outcome: semconv.ToolOutcomeSucceeded},
	"error": {outcome: semconv.ToolOutcomeFailed}, "failed": {outcome: semconv.ToolOutcomeFailed}, "failure": {outcome: semconv.ToolOutcomeFailed},
	"timeout": {outcome: semconv.ToolOutcomeTimedOut}, "timed_out": {outcome: semconv.ToolOutcomeTimedOut},
	"cancelled": {outcome: semconv.ToolOutcomeInterrupted}, "canceled": {outcome: semconv.ToolOutcomeInterrupted},
	"interrupted": {outcome: semconv.ToolOutcomeInterrupted}, "aborted": {outcome: semconv.ToolOutcomeInterrupted},
	"denied": {outcome: semconv.ToolOutcomeRejected}, "rejected": {outcome: semconv.ToolOutcomeRejected}, "refused": {outcome: semconv.ToolOutcomeRejected},
	"invalid_args": {outcome: semconv.ToolOutcomeInvalidInput}, "invalid_arguments": {outcome: semconv.ToolOutcomeInvalidInput},
	"invalid_input": {outcome: semconv.ToolOutcomeInvalidInput},
	"pending":       {waits: true}, "deferred": {waits: true}, "paused": {waits: true}, "suspended": {waits: true},
	"approval_required": {waits: true}, "requires_approval": {waits: true}, "waiting_for_approval": {waits: true},
	"skipped": {skipped: true},
}

// toolOutcome is how a tool ended, as an attribute says.
type toolOutcome struct {
	outcome semconv.ToolOutcome
	waits   bool // it waits for a person or a job
	skipped bool // it was not executed, and the model has an output all the same
}

// readTool reads a tool's span. The keys are the producer's, of the call's id and the
// tool's name.
func readTool(span ptrace.Span, t *classify.Tool, idKey, nameKey string) {
	*t = classify.Tool{Start: at(span.StartTimestamp()), End: at(span.EndTimestamp())}
	var said toolOutcome // by keyToolOutcome
	kind := ""           // by keyToolError
	for key, v := range span.Attributes().All() {
		switch key {
		case idKey:
			t.CallID = id(v)
		case nameKey:
			t.Name = text(v)
		case string(otelsemconv.ErrorTypeKey):
			t.ErrorType = errorTypeOf(v)
		case keyToolOutcome, keyTaskStatus:
			said = toolOutcomes[strings.ToLower(shortString(v))]
		case keyToolError:
			kind = shortString(v)
		}
	}
	if t.ErrorType == "" {
		t.ErrorType = kind
	}
	switch failed(span) {
	case classify.Yes:
		t.Outcome = semconv.ToolOutcomeFailed
	case classify.No:
		t.Outcome = semconv.ToolOutcomeSucceeded
	case classify.NotObserved: // only the result may report a failure
		if t.ErrorType == mcpToolError || isExitCode(t.ErrorType) {
			t.Outcome = semconv.ToolOutcomeFailed
		}
	}
	f := faultOf(span, t.ErrorType)
	if t.ErrorType == "" {
		t.ErrorType = f.name
	}
	t.ErrorType = typeName(t.ErrorType)
	applyOutcome(t, said, kind)
	switch {
	case f.pause: // whatever the status: some producers set OK before, which stays
		t.Outcome, t.ErrorType, t.Waits = semconv.ToolOutcomeUnset, "", true
	case t.Outcome != semconv.ToolOutcomeFailed:
	case isHandover(f.name):
		t.Outcome, t.ErrorType = semconv.ToolOutcomeSucceeded, ""
	case f.abort == semconv.AbortSourceDeadline, f.watchdog != semconv.WatchdogKindUnset:
		t.Outcome = semconv.ToolOutcomeTimedOut
	case f.abort != semconv.AbortSourceUnset:
		t.Outcome, t.Abort.Source = semconv.ToolOutcomeInterrupted, f.abort
	}
}

// applyOutcome applies what keyToolOutcome (said) and keyToolError (kind, if there is one) say
// to the outcome that the status shows. A success is not taken from an attribute where the
// span failed.
func applyOutcome(t *classify.Tool, said toolOutcome, kind string) {
	of := toolOutcomes[kind]
	switch {
	case said.waits:
		t.Outcome, t.ErrorType, t.Waits = semconv.ToolOutcomeUnset, "", true
	case said.skipped && t.Outcome != semconv.ToolOutcomeFailed:
		t.Outcome, t.FailedBeforeEffect = semconv.ToolOutcomeUnset, true
	case said.outcome == semconv.ToolOutcomeSucceeded:
		if t.Outcome == semconv.ToolOutcomeUnset && kind == "" {
			t.Outcome = semconv.ToolOutcomeSucceeded
		}
	case said.outcome > semconv.ToolOutcomeFailed:
		t.Outcome = said.outcome
	case of.outcome > semconv.ToolOutcomeFailed:
		t.Outcome = of.outcome
	case said.outcome == semconv.ToolOutcomeFailed, kind != "":
		t.Outcome = semconv.ToolOutcomeFailed
	}
	if t.Outcome == semconv.ToolOutcomeInterrupted {
		t.Abort.Source = semconv.AbortSourceUnknown
	}
}

// mcpToolError is the error.type of an MCP result with isError.
const mcpToolError = "tool_error"

// isExitCode reports whether an error.type is the exit code of a command that failed, as
// OpenTelemetry's GenAI repository proposes for tools that run commands. It is at most 255:
// a larger number may be an HTTP status.
func isExitCode(errorType string) bool {
	code, err := strconv.ParseUint(errorType, 10, 8)
	return err == nil && code > 0
}

// readRun reads a run's span.
func readRun(span ptrace.Span, run *classify.Run) {
	*run = classify.Run{
		Start: at(span.StartTimestamp()), End: at(span.EndTimestamp()),
		Ended: classify.Yes, Failed: failed(span),
	}
	if v, ok := span.Attributes().Get(string(otelsemconv.ErrorTypeKey)); ok {
		run.ErrorType = errorTypeOf(v)
	}
	f := faultOf(span, run.ErrorType)
	if run.ErrorType == "" {
		run.ErrorType = f.name
	}
	run.Error = errorOf(span, run.ErrorType)
	run.ErrorType = typeName(run.ErrorType)
	switch {
	case run.Failed != classify.Yes:
	case f.pause:
		run.Failed, run.ErrorType, run.Waits = classify.No, "", true
	case isHandover(f.name): // or no graph around it has that agent, and the application fails
		run.Failed, run.ErrorType, run.OKUnproven = classify.NotObserved, "", true
	}
	if run.Failed != classify.No { // else it handled the exception
		run.Abort.Source = f.abort
	}
}

// withoutOK is for a tool whose producer sets no OK: its result may report a failure.
func withoutOK(t *classify.Tool) {
	if t.Outcome == semconv.ToolOutcomeSucceeded {
		t.Outcome = semconv.ToolOutcomeUnset
	}
}

// readRunWithoutOK reads the span of a run whose producer sets OK whatever happened: it is
// no success.
func readRunWithoutOK(span ptrace.Span, run *classify.Run) {
	readRun(span, run)
	if run.Failed == classify.No {
		run.Failed = classify.NotObserved
	}
}
