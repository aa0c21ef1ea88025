package dialect

// The GenAI conventions' operations that matter to a diagnosis.
const (
	opChat            = "chat"
	opTextCompletion  = "text_completion"
	opGenerateContent = "generate_content"
	opExecuteTool     = "execute_tool"
	opInvokeAgent     = "invoke_agent"
	opInvokeWorkflow  = "invoke_workflow"
)

// mcpToolCall is the mcp.method.name of a tool call.
const mcpToolCall = "tools/call"

// operation is the kind of a span with this gen_ai.operation.name.
func operation(name string) Kind {
	switch name {
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
