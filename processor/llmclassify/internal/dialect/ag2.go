package dialect

import (
	"go.opentelemetry.io/collector/pdata/ptrace"
	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
)

// AG2, by the source of its versions 0.10 to 1.0 (autogen/opentelemetry, ag2/middleware): chat,
// execute_tool and invoke_agent by the conventions, in the scope
// opentelemetry.instrumentation.ag2. No span has OK, and a failure is ERROR with an exception.
//
// Up to 0.x, whose scope has a version, an invoke_agent is one reply in a conversation: that of the
// model, or the execution of the calls in another agent's reply. The run is the conversation. It also
// ends well at its bound on turns, whatever the last answer asked for. Finish reasons are JSON in
// a string, and a function that failed is UNSET with the error.type ExecutionError. From 1.0 on an
// invoke_agent is the run.

// Names of AG2.
const (
	scopeNameAG2 = "opentelemetry.instrumentation.ag2"
	keyAG2Type   = "ag2.span.type"

	opAG2Conversation  = "conversation"
	opAG2Conversations = "initiate_chats"

	ag2ExecutionError = "ExecutionError"
)

// ag2Versioned is appended to the name of AG2's scope if that has a version.
const ag2Versioned = "@"

// ag2Operation returns the operation of a span of AG2 up to 0.x, as other producers name it.
func ag2Operation(span ptrace.Span, operation string) string {
	if _, ok := span.Attributes().Get(keyAG2Type); !ok {
		return operation // of another instrumentation, with the same scope
	}
	switch operation {
	case opAG2Conversation, opAG2Conversations:
		return opInvokeAgent
	case opInvokeAgent:
		return ""
	default:
		return operation
	}
}

func (d GenAI) readAG2(span ptrace.Span, into Facts) {
	d.read(span, into)
	switch {
	case into.Run != nil:
		into.Run.ReturnsCalls = true
	case into.Tool != nil:
		v, ok := span.Attributes().Get(string(otelsemconv.ErrorTypeKey))
		if ok && shortString(v) == ag2ExecutionError && failed(span) == classify.NotObserved {
			into.Tool.Outcome = semconv.ToolOutcomeFailed
		}
	}
}
