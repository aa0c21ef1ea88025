package dialect

// The GenAI conventions' operations that matter to a diagnosis. Those of OpenTelemetry's
// semantic conventions 1.41 are read beside two that its GenAI repository adds:
// handle_conversation_turn for the entry point of a framework, and fetch_response (0.1.0) for
// a response that is made in the background. Its span type for runs,
// gen_ai.invocation.internal, is recorded in no span.
//
// The other operations of 0.1.0 are no part of a diagnosis: embeddings and retrieval, the
// seven on memories and their stores (search_memory, create_memory_store and so on) and
// create_agent neither answer nor run a tool that a model called, and plan only groups
// the requests beneath it.
const (
	opChat            = "chat"
	opTextCompletion  = "text_completion"
	opGenerateContent = "generate_content"
	opFetchResponse   = "fetch_response"
	opExecuteTool     = "execute_tool"
	opInvokeAgent     = "invoke_agent"
	opInvokeWorkflow  = "invoke_workflow"
	opHandleTurn      = "handle_conversation_turn"
)

// requestOperations are the operations of model calls: those of the conventions, and the names
// that Semantic Kernel has for them. Those with a dot are in .NET from 1.14 to 1.66 and in Python
// from 1.4 to 1.37, text_completions is in Python since (see semantickernel.go).
var requestOperations = map[string]bool{
	opChat: true, opTextCompletion: true, opGenerateContent: true, opFetchResponse: true,

	"chat.completions": true, "text.completions": true, "text_completions": true,
	"chat.streaming_completions": true, "text.streaming_completions": true,
}

// mcpToolCall is the mcp.method.name of a tool call.
const mcpToolCall = "tools/call"

// operation is the kind of a span with this gen_ai.operation.name.
func operation(name string) Kind {
	if requestOperations[name] {
		return Request
	}
	switch name {
	case opExecuteTool:
		return Tool
	case opInvokeAgent, opInvokeWorkflow, opHandleTurn:
		return Run
	default:
		return Other
	}
}
