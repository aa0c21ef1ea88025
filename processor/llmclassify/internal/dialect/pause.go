package dialect

import "strings"

// pauses are the classes of errors by which frameworks end a tool, or a run, to wait for a
// person or a job, by their base names. They steer, and are no failures; instrumentations
// that record every exception mark the span as failed all the same. The value is the
// beginning of the full name where others use the base name for something else, else "".
//
// LangGraph: langgraph/errors.py and its port to JavaScript. pydantic-ai: exceptions.py.
// CrewAI: flow/async_feedback/types.py. LlamaIndex: workflows/runtime/types/step_function.py.
// Haystack: core/errors.py and the human_in_the_loop package of haystack-experimental.
// Genkit: blocks/tools.py and tool.ts. ADK: google/adk/workflow/_errors.py. Strands Agents:
// types/interrupt.py. The workflows of Vercel: packages/core/src/global.ts. MCP's SDKs: the
// error -32042, for a page that a person has to open.
var pauses = map[string]string{
	"GraphInterrupt":              "",
	"NodeInterrupt":               "",
	"ApprovalRequired":            "",
	"CallDeferred":                "",
	"HumanFeedbackPending":        "",
	"WaitingForEvent":             "",
	"BreakpointException":         "haystack",
	"HITLBreakpointException":     "",
	"ToolInterruptError":          "",
	"NodeInterruptedError":        "google.adk.",
	"InterruptException":          "strands.",
	"WorkflowSuspension":          "",
	"UrlElicitationRequiredError": "",
	"URLElicitationRequiredError": "",
}

// isPause reports whether an error of this class only means that a tool or a run waits.
func isPause(name string) bool {
	within, known := pauses[baseName(name)]
	return known && strings.HasPrefix(name, within)
}

// isHandover reports whether an error of this class only means that an agent or a tool hands
// over to the graph around it (langgraph/errors.py).
func isHandover(name string) bool { return baseName(name) == "ParentCommand" }
