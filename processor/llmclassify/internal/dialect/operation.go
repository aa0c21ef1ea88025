package dialect

// The GenAI conventions' operations that matter to a diagnosis. Those of OpenTelemetry's
// semantic conventions 1.41 are read beside handle_conversation_turn, which its GenAI
// repository adds for the entry point of a framework. Its span type for runs,
// gen_ai.invocation.internal, is recorded in no span.
const (
	opChat            = "chat"
	opTextCompletion  = "text_completion"
	opGenerateContent = "generate_content"
	opExecuteTool     = "execute_tool"
	opInvokeAgent     = "invoke_agent"
	opInvokeWorkflow  = "invoke_workflow"
	opHandleTurn      = "handle_conversation_turn"
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
	case opInvokeAgent, opInvokeWorkflow, opHandleTurn:
		return Run
	default:
		return Other
	}
}
