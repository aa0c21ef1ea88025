package dialect

import "go.opentelemetry.io/collector/pdata/pcommon"

// The GenAI conventions' operations that matter to a diagnosis.
const (
	opChat            = "chat"
	opTextCompletion  = "text_completion"
	opGenerateContent = "generate_content"
	opExecuteTool     = "execute_tool"
	opInvokeAgent     = "invoke_agent"
	opInvokeWorkflow  = "invoke_workflow"
)

// operation says what a span of this gen_ai.operation.name is.
func operation(v pcommon.Value) Kind {
	if v.Type() != pcommon.ValueTypeStr {
		return Other
	}
	switch v.Str() {
	case opChat, opTextCompletion, opGenerateContent:
		return Request
	case opExecuteTool:
		return Tool
	case opInvokeAgent, opInvokeWorkflow:
		return Run
	default:
		return Other
	}
}
