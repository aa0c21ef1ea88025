package recorded

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/otelllm/otelllm-go/semconv"
)

// Further public reports of spans that mislead: none of them may be called a success where it is
// a failure, or a failure that did not happen. No retry is called safe.
func TestReportedShapes(t *testing.T) {
	const succeeded, failed, waiting, recovered, nothing, incomplete = semconv.RunOutcomeSucceeded, semconv.RunOutcomeFailed, semconv.RunOutcomeWaiting, semconv.RunOutcomeRecovered, semconv.RunOutcomeUnset, semconv.RunOutcomeIncomplete
	smol, chain, traceloop := openInferenceFor("smolagents"), openInferenceFor("langchain"), langGraph
	byHand, agents := producers["by hand"], framework{"opentelemetry.instrumentation.openai_agents", values{"gen_ai.provider.name": "openai"}}
	oiTool := func(f framework) framed {
		return f.span(3, 1, "write", 1.1, 2, values{"openinference.span.kind": "TOOL", "tool.name": "write"})
	}
	oiAnswer := func(f framework, more values) framed {
		s := f.oiLLM(more)
		s.ID, s.From, s.To = 4, 2.1, 3
		return s.ok()
	}
	for _, tt := range []struct {
		report string
		spans  []framed
		want   []semconv.RunOutcome
	}{
		{"openinference 1872: a finally block sets OK over the tool's error", []framed{
			smol.oiAgent(4).raising("smolagents.AgentError", secret).ok(), smol.oiLLM(values{"llm.finish_reason": "tool_calls", "llm.token_count.completion": 6}).ok(),
			oiTool(smol).raising("ValueError", secret).ok(),
		}, []semconv.RunOutcome{nothing, failed, incomplete}},
		{"openinference 1872: the same, and the model answered", []framed{
			smol.oiAgent(4).ok(), smol.oiLLM(values{"llm.finish_reason": "tool_calls", "llm.token_count.completion": 6}).ok(),
			oiTool(smol).raising("ValueError", secret).ok(), oiAnswer(smol, values{"llm.finish_reason": "stop", "llm.token_count.completion": 6}),
		}, []semconv.RunOutcome{succeeded, recovered}},
		{"aegra 427: a middleware node interrupts, and its span is no tool", []framed{
			chain.oiAgent(4).ok(), chain.oiLLM(values{"llm.finish_reason": "tool_calls", "llm.token_count.completion": 6}).ok(),
			chain.span(3, 1, "HumanInTheLoopMiddleware.after_model", 1.1, 2, values{"openinference.span.kind": "CHAIN"}).raising("langgraph.errors.GraphInterrupt", secret),
		}, []semconv.RunOutcome{nothing, waiting, succeeded}},
		{"langfuse 14034: the agent's own span is an error, too", []framed{
			chain.oiAgent(4).raising("langgraph.errors.GraphInterrupt", secret), chain.oiLLM(values{"llm.finish_reason": "tool_calls"}).ok(),
			oiTool(chain).raising("langgraph.errors.GraphInterrupt", secret),
		}, []semconv.RunOutcome{waiting}},
		{"openllmetry 4101: the status of a task is in an attribute", []framed{
			traceloop.span(1, 0, "LangGraph.workflow", 0, 4, values{"traceloop.span.kind": "workflow"}), traceloop.chat(2, .1, 1, finished("tool_calls")),
			traceloop.span(3, 1, "write.tool", 1.1, 2, values{"traceloop.span.kind": "tool", "gen_ai.tool.name": "write", "gen_ai.task.status": "failure"}),
		}, []semconv.RunOutcome{failed}},
		{"openllmetry 3155: a stream broke after its span was set to OK", []framed{
			byHand.run(4), traceloop.chat(2, .1, 1, values{"llm.is_streaming": true}).raising("httpx.ReadError", secret).ok(),
		}, []semconv.RunOutcome{failed, incomplete}},
		{"opentelemetry-python-genai 485: a tool that failed is UNSET", []framed{
			agents.run(4), agents.chat(2, .1, 1, finished("tool_calls")), agents.tool(1, 2, "call_1"), agents.chat(4, 2.1, 3, finished("stop")),
		}, []semconv.RunOutcome{succeeded}},
		{"opentelemetry-python-genai 247: the reader closed the generator", []framed{
			byHand.run(4).raising("GeneratorExit", ""), byHand.chat(2, .1, 1, values{}).raising("GeneratorExit", ""),
		}, []semconv.RunOutcome{semconv.RunOutcomeAborted, nothing, incomplete}},
		{"opentelemetry-python-genai 389: the caller's exception ended the block as a success", []framed{
			byHand.run(4).raising("ValueError", secret), byHand.chat(2, .1, 1, values{"gen_ai.request.stream": true}),
		}, []semconv.RunOutcome{failed, incomplete}},
		{"grasp-agents 167: attempts that did not pass validation, then one that did", []framed{
			byHand.run(4), byHand.chat(2, .1, 1, finished("stop")).raising("grasp_agents.LLMResponseValidationError", secret), byHand.chat(4, 2.1, 3, finished("stop")),
		}, []semconv.RunOutcome{succeeded, recovered}},
		{"natchez 1203: siblings of a failure are cancelled", []framed{
			byHand.run(4), failing(byHand.chat(2, .1, 1, values{}), "InternalServerError", 500), byHand.chat(3, .2, 1.01, values{}).raising("asyncio.exceptions.CancelledError", ""),
		}, []semconv.RunOutcome{failed}},
	} {
		got := whatIsSaid(t, tt.spans...)
		assert.Contains(t, tt.want, got[1].outcome, tt.report)
		for id, v := range got {
			assert.NotEqual(t, semconv.RetrySafetySafeAutoRetry, v.safety, "%s: span %d", tt.report, id)
		}
	}
}
