package dialect

import (
	"strconv"

	"go.opentelemetry.io/collector/pdata/ptrace"
	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
)

// readTool reads a tool's span. The keys are the producer's, of the call's id and the
// tool's name.
func readTool(span ptrace.Span, t *classify.Tool, idKey, nameKey string) {
	*t = classify.Tool{Start: at(span.StartTimestamp()), End: at(span.EndTimestamp())}
	for key, v := range span.Attributes().All() {
		switch key {
		case idKey:
			t.CallID = id(v)
		case nameKey:
			t.Name = text(v)
		case string(otelsemconv.ErrorTypeKey):
			t.ErrorType = text(v)
		}
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
	if t.Outcome != semconv.ToolOutcomeFailed {
		return
	}
	switch {
	case isLangGraphInterrupt(f.name):
		t.Outcome, t.ErrorType, t.Waits = semconv.ToolOutcomeUnset, "", true
	case isLangGraphHandover(f.name):
		t.Outcome, t.ErrorType = semconv.ToolOutcomeSucceeded, ""
	case f.abort == semconv.AbortSourceDeadline, f.watchdog != semconv.WatchdogKindUnset:
		t.Outcome = semconv.ToolOutcomeTimedOut
	case f.abort != semconv.AbortSourceUnset:
		t.Outcome, t.Abort.Source = semconv.ToolOutcomeInterrupted, f.abort
	}
}

// LangGraph for Python steers by exceptions, which instrumentations of LangChain record as
// errors: of what waits for a person, and of an agent or a tool that hands over to the graph
// around it (langgraph/errors.py).

func isLangGraphInterrupt(name string) bool {
	name = baseName(name)
	return name == "GraphInterrupt" || name == "NodeInterrupt"
}

func isLangGraphHandover(name string) bool { return baseName(name) == "ParentCommand" }

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
		run.ErrorType = text(v)
	}
	f := faultOf(span, run.ErrorType)
	if run.ErrorType == "" {
		run.ErrorType = f.name
	}
	run.ErrorType = typeName(run.ErrorType)
	switch {
	case run.Failed != classify.Yes:
	case isLangGraphInterrupt(f.name):
		run.Failed, run.ErrorType, run.Waits = classify.No, "", true
	case isLangGraphHandover(f.name): // or no graph around it has that agent, and the application fails
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
