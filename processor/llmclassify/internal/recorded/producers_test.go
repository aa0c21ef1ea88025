package recorded

import (
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/harness"
	"github.com/otelllm/otelllm-go/semconv"
)

// The producers of which these tests know how they record what went wrong.
var (
	vercel5      = framework{"ai", values{"gen_ai.system": "openai.chat", "gen_ai.request.model": "gpt-test"}}
	agentsJS     = framework{"@arizeai/openinference-instrumentation-openai-agents", values{"llm.system": "openai"}}
	agentsPython = framework{"opentelemetry.instrumentation.openai_agents", values{"gen_ai.provider.name": "openai"}}
	inferenceJS  = framework{"@arizeai/openinference-instrumentation-openai", values{"llm.system": "openai"}}
	llmetryJS    = framework{"@traceloop/instrumentation-openai", values{"gen_ai.provider.name": "openai", "gen_ai.request.model": "gpt-test"}}
	openaiJS     = framework{"@opentelemetry/instrumentation-openai", values{"gen_ai.system": "openai", "gen_ai.request.model": "gpt-test"}}
	openaiPython = framework{"opentelemetry.instrumentation.openai_v2", values{"gen_ai.system": "openai", "gen_ai.request.model": "gpt-test"}}
	anthropicTS  = framework{"com.anthropic.sdk.typescript", values{"gen_ai.provider.name": "anthropic", "gen_ai.request.stream": true}}
	anthropicGo  = framework{"com.anthropic.sdk.go", values{"gen_ai.provider.name": "anthropic", "gen_ai.request.stream": true}}
	goCompile    = framework{"go.opentelemetry.io/otelc/instrumentation/github.com/openai/openai-go/v3", values{"gen_ai.provider.name": "openai", "gen_ai.request.is_stream": true}}
	handmade     = framework{"agent", values{}}
	undici       = framework{"@opentelemetry/instrumentation-undici", values{"http.request.method": "POST", "server.address": "api.openai.com"}}
	someUsage    = values{"gen_ai.usage.input_tokens": 42, "gen_ai.usage.output_tokens": 6}
	someTokens   = values{"llm.token_count.prompt": 42, "llm.token_count.completion": 5, "llm.token_count.total": 47}
)

// call is a request beneath span 1.
func (f framework) call(id byte, from, to float64, more ...values) framed {
	all := values{"gen_ai.operation.name": "chat"}
	for _, v := range more {
		maps.Copy(all, v)
	}
	return f.span(id, 1, "chat", from, to, all).kindOf(ptrace.SpanKindClient)
}

func reason(words ...any) values { return values{"gen_ai.response.finish_reasons": words} }

func (s framed) failedWith(words string) framed {
	s.Status, s.words = ptrace.StatusCodeError, words
	return s
}

func whatIsSaid(t *testing.T, spans ...framed) says {
	t.Helper()
	h := harness.New(t, harness.DefaultConfig(), nil)
	require.NoError(t, h.ConsumeTraces(t.Context(), framedTraces(t, spans)))
	h.Pass(t, 2*harness.MaxHold)
	got := says{}
	for id, span := range harness.SpansOf(h.Out()) {
		got[id[7]] = saidOf(span)
	}
	return got
}

// An agent that handed over to another one has done its work, and so has the workflow around
// both.
func TestHandover(t *testing.T) {
	t.Run("openai-agents, OpenInference", func(t *testing.T) {
		generation := func(id, parent byte, from, to float64, finish string) framed {
			all := values{"openinference.span.kind": "LLM", "llm.finish_reason": finish}
			maps.Copy(all, someTokens)
			return agentsJS.span(id, parent, "generation", from, to, all).ok()
		}
		agent := func(id byte, name string, from, to float64) framed {
			return agentsJS.span(id, 9, name, from, to, values{"openinference.span.kind": "AGENT", "graph.node.id": name}).ok()
		}
		got := whatIsSaid(t,
			agentsJS.span(9, 0, "Agent workflow", 0, 6, values{"openinference.span.kind": "AGENT"}).ok(),
			agent(1, "triage", 0, 2), generation(2, 1, 0.1, 1, "tool_calls"),
			agentsJS.span(3, 1, "handoff to billing", 1, 1.1, values{"openinference.span.kind": "TOOL", "tool.name": "handoff_to_billing"}).ok(),
			agent(10, "billing", 2, 5), generation(4, 10, 2.1, 4, "stop"),
		)
		for _, id := range []byte{1, 10} {
			assert.Equal(t, semconv.RunOutcomeSucceeded, got[id].outcome, "%d", id)
		}
		assert.Equal(t, said{}, got[9], "the trace is no run")
	})
	t.Run("openai-agents, OpenLLMetry", func(t *testing.T) {
		agent := func(id byte, name string, from, to float64) framed {
			return agentsPython.span(id, 9, name, from, to, values{"gen_ai.operation.name": "invoke_agent", "traceloop.span.kind": "agent", "gen_ai.agent.name": name}).ok()
		}
		got := whatIsSaid(t,
			agentsPython.span(9, 0, "Agent Workflow", 0, 9, values{"traceloop.span.kind": "workflow"}).ok(),
			agent(1, "triage", 0.1, 3), agentsPython.call(2, 0.2, 1, reason("tool_call"), someUsage).ok(),
			agentsPython.span(3, 1, "triage → billing.handoff", 1, 1.1, values{"gen_ai.operation.name": "handoff", "traceloop.span.kind": "handoff"}).ok(),
			agent(10, "billing", 3.1, 8), under(agentsPython.call(4, 3.2, 7, reason("stop"), someUsage).ok(), 10),
		)
		for _, id := range []byte{1, 9, 10} {
			assert.Equal(t, semconv.RunOutcomeSucceeded, got[id].outcome, "%d", id)
		}
	})
	t.Run("and the other one never began", func(t *testing.T) {
		got := whatIsSaid(t,
			agentsPython.span(9, 0, "Agent Workflow", 0, 9, values{"traceloop.span.kind": "workflow"}).ok(),
			under(agentsPython.span(1, 0, "triage", 0.1, 3, values{"gen_ai.operation.name": "invoke_agent", "traceloop.span.kind": "agent"}).ok(), 9),
			agentsPython.call(2, 0.2, 1, reason("tool_call"), someUsage).ok(),
		)
		assert.Equal(t, semconv.RunOutcomeIncomplete, got[1].outcome)
	})
}

// A workflow around an agent of which it is not recorded how it ended is not incomplete for
// that: it may have answered by a call of its output tool. What else failed in it counts.
func TestWorkflowAroundAnAgentThatReturnsCalls(t *testing.T) {
	workflow := func() framed {
		return pydantic.span(9, 0, "invoke_workflow report", 0, 9, values{"gen_ai.operation.name": "invoke_workflow"})
	}
	agent, asks := under(pydantic.run(4), 9), pydantic.chat(2, 0.1, 1, finished("tool_call"))
	second := under(pydantic.run(8), 9)
	second.ID, second.From = 10, 4.1
	other := func(finish string) []framed {
		return []framed{second, under(pydantic.chat(3, 4.2, 5, finished(finish)), 10)}
	}

	got := whatIsSaid(t, workflow(), agent, asks)
	assert.Equal(t, says{1: {}, 2: {}, 9: {}}, got)

	got = whatIsSaid(t, append(other("stop"), workflow(), agent, asks)...)
	assert.Equal(t, semconv.RunOutcomeSucceeded, got[10].outcome)
	assert.Equal(t, said{}, got[9])

	got = whatIsSaid(t, append(other("MALFORMED_FUNCTION_CALL"), workflow(), agent, asks)...)
	assert.Equal(t, semconv.RunOutcomeFailed, got[10].outcome)
	assert.Equal(t, semconv.RunOutcomeIncomplete, got[9].outcome)

	got = whatIsSaid(t, workflow().raising("ValueError", secret), agent, asks)
	assert.Equal(t, semconv.RunOutcomeFailed, got[9].outcome)

	outer := under(workflow(), 11)
	got = whatIsSaid(t, pydantic.span(11, 0, "invoke_workflow all", 0, 10, values{"gen_ai.operation.name": "invoke_workflow"}), outer, agent, asks)
	assert.Equal(t, said{}, got[11], "a workflow around the workflow")
}

// OpenLLMetry for JavaScript begins the result of each stream with the finish reason stop, and
// writes it under the older key, whatever came.
func TestInventedStop(t *testing.T) {
	got := whatIsSaid(t, handmade.run(4), llmetryJS.span(2, 1, "openai.chat", 0.1, 1, values{
		"llm.request.type": "chat", "gen_ai.completion.0.role": "assistant", "gen_ai.completion.0.finish_reason": "stop",
	}))
	assert.Equal(t, semconv.RunOutcomeIncomplete, got[1].outcome, "a stream that was cut has the same attributes")
}

// A finish reason that is an error is no success.
func TestFailedFinish(t *testing.T) {
	for _, words := range []string{
		"MALFORMED_FUNCTION_CALL", "malformed_function_call", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS", "MALFORMED_RESPONSE",
		"MISSING_THOUGHT_SIGNATURE", "malformed_model_output", "malformed_tool_use", "insufficient_system_resource",
	} {
		for name, spans := range map[string][]framed{
			"gen_ai":    {handmade.run(4), openaiPython.call(2, 0.1, 1, reason(words), someUsage)},
			"adk":       {adk.run(4), adkCall(2, 0.1, 2, finished(words))},
			"openai_js": {handmade.run(4), openaiJS.call(2, 0.1, 1, reason(words), someUsage)},
			"strands":   {strands.run(4).ok(), strands.chat(2, 0.1, 1, finished("")).ok().chose(words)},
		} {
			got := whatIsSaid(t, spans...)[1]
			assert.Greater(t, got.safety, harness.Safe, "%s: %s", name, words)
			if words == "MISSING_THOUGHT_SIGNATURE" {
				assert.Equal(t, semconv.ClassHistoryBroken, got.class, name)
				continue
			}
			assert.Equal(t, semconv.RunOutcomeFailed, got.outcome, "%s: %s", name, words)
			assert.Equal(t, semconv.ClassProviderError, got.class, "%s: %s", name, words)
		}
	}
}

// A stream that ends cleanly within the input of a call, and a tool that fails on what it got:
// that is not known to be the tool's failure.
func TestHalfInput(t *testing.T) {
	parses := func(s framed) framed { return s.raising("SyntaxError", secret) }
	tool := parses(handmade.tool(1, 1.5, "call_1"))
	operation := func(f framework, id, parent byte, name string, from, to float64, finish string) framed {
		return f.span(id, parent, name, from, to, values{
			"ai.operationId": name, "ai.response.finishReason": finish, "gen_ai.response.finish_reasons": []any{finish}, "ai.response.id": "chatcmpl-1",
		})
	}
	vercelTool := parses(vercel5.span(3, 1, "ai.toolCall", 1.1, 1.5, values{"ai.operationId": "ai.toolCall", "ai.toolCall.name": "write", "ai.toolCall.id": "call_1"}))
	failed := handmade.run(4).failedWith("x")
	inBand := values{"error.type": "api_error", "http.response.status_code": 200}
	for name, spans := range map[string][]framed{
		"vercel 6": {
			operation(vercel5, 1, 0, "ai.streamText", 0, 4, "other"), operation(vercel5, 2, 1, "ai.streamText.doStream", 0.1, 1, "other"), vercelTool,
		},
		"vercel 5": {
			operation(vercel5, 1, 0, "ai.streamText", 0, 4, "unknown"), operation(vercel5, 2, 1, "ai.streamText.doStream", 0.1, 1, "unknown"), vercelTool,
		},
		"anthropic, TypeScript": {failed, anthropicTS.call(2, 0.1, 1, inBand).failedWith(""), tool},
		"anthropic, Go":         {failed, anthropicGo.call(2, 0.1, 1, inBand).failedWith(""), tool},
		"go compile":            {failed, goCompile.call(2, 0.1, 1, reason("error")).failedWith("stream aborted"), tool},
		"openai_js":             {failed, openaiJS.call(2, 0.1, 1, reason()), tool},
		"openinference": {
			failed, inferenceJS.span(2, 1, "ChatCompletions", 0.1, 1, values{"openinference.span.kind": "LLM", "llm.invocation_parameters": `{"stream":true}`}), tool,
		},
		"openllmetry": {failed, llmetryJS.call(2, 0.1, 1, reason("stop")), tool},
	} {
		got := whatIsSaid(t, spans...)
		assert.NotEqual(t, semconv.ClassToolFailed, got[3].class, "%s: the tool", name)
		assert.NotEqual(t, semconv.ClassToolFailed, got[1].class, "%s: the run", name)
	}
}

// Versions 4 and 5 of the AI SDK end an empty stream with the finish reason unknown.
func TestEmptyStreamOfOlderVercel(t *testing.T) {
	for _, finish := range []string{"unknown", "other"} {
		of := func(id, parent byte, name string, more values) framed {
			all := values{"ai.operationId": name, "ai.response.finishReason": finish}
			maps.Copy(all, more)
			return vercel5.span(id, parent, name, 0, 4, all)
		}
		got := whatIsSaid(t, of(1, 0, "ai.streamText", nil), of(2, 1, "ai.streamText.doStream", values{
			"gen_ai.response.finish_reasons": []any{finish}, "ai.response.text": "", "gen_ai.response.id": "aitxt-1", "ai.response.id": "aitxt-1",
		}))
		assert.Equal(t, semconv.ClassEmptyCompletion, got[2].class, finish)
		assert.Equal(t, semconv.ClassEmptyCompletion, got[1].class, finish)
	}
}

// A connection that the other side closed before there was a status broke before the headers.
func TestSocketBeforeHeaders(t *testing.T) {
	exchange := func(more values) framed {
		all := values{"error.type": "UND_ERR_SOCKET"}
		maps.Copy(all, more)
		return under(undici.span(20, 2, "POST", 0.2, 0.9, all).kindOf(ptrace.SpanKindClient).failedWith("x"), 2)
	}
	request := handmade.call(2, 0.1, 1, values{"error.type": "UND_ERR_SOCKET"}).failedWith("x")
	got := whatIsSaid(t, handmade.run(4).failedWith("x"), request, exchange(nil))
	assert.Equal(t, semconv.CauseClosedBeforeHeaders, got[2].cause)
	got = whatIsSaid(t, handmade.run(4).failedWith("x"), request, exchange(values{"http.response.status_code": 200}))
	assert.Equal(t, semconv.CauseBodyTruncated, got[2].cause)
}

// Gemini ended with STOP and no part: it only thought. OpenTelemetry's instrumentation for google-genai, with
// content recorded, counts the thoughts as tokens of output and writes a message without parts.
func TestGeminiThoughtOnly(t *testing.T) {
	f := framework{"opentelemetry.instrumentation.google_genai", values{"gen_ai.system": "gemini"}}
	for output, want := range map[int]semconv.RunOutcome{412: semconv.RunOutcomeFailed, 418: semconv.RunOutcomeSucceeded} {
		call := f.call(2, .1, 1, values{
			"gen_ai.operation.name": "generate_content", "gen_ai.response.finish_reasons": []any{"stop"},
			"gen_ai.usage.input_tokens": 900, "gen_ai.usage.output_tokens": output, "gen_ai.usage.reasoning.output_tokens": 412,
			"gen_ai.output.messages": `[{"role":"assistant","parts":[],"finish_reason":"stop"}]`,
		})
		assert.Equal(t, want, whatIsSaid(t, handmade.run(2), call)[1].outcome, output)
	}
}

// OK beside the time to a first chunk alone is a stream that shows no end, by each name of that time.
func TestOKOfAStreamThatShowsItsFirstChunkAlone(t *testing.T) {
	for _, key := range []string{"gen_ai.client.inference.time_to_first_chunk", "gen_ai.client.operation.time_to_first_chunk", "gen_ai.response.time_to_first_chunk"} {
		got := whatIsSaid(t, handmade.run(2), handmade.call(2, .1, 1, values{key: 0.2}).ok())
		assert.NotEqual(t, semconv.RunOutcomeSucceeded, got[1].outcome, key)
	}
}

// A run or a tool that is OK has handled the exception that it recorded.
func TestHandledException(t *testing.T) {
	for _, class := range []string{"CancelledError", "AbortError", "TimeoutError", "ValueError", "httpx.ReadTimeout"} {
		handled := func(s framed) framed { s.raised = class; return s.ok() }
		got := whatIsSaid(t, handled(handmade.run(4)), handmade.call(2, .1, 1, finished("stop")))
		assert.Equal(t, semconv.RunOutcomeSucceeded, got[1].outcome, class)
		got = whatIsSaid(t, handmade.run(4).ok(), handmade.call(2, .1, 1, finished("tool_calls")), handled(handmade.tool(1, 2, "")), handmade.call(4, 2.1, 3, finished("stop")))
		assert.Equal(t, semconv.RunOutcomeSucceeded, got[1].outcome, class)
	}
}

// A content filter in an answer of Chat Completions under OpenAI's agents SDK, of any length.
func TestFilterOfALongResponse(t *testing.T) {
	for _, length := range []int{10, 64 << 10} {
		text := strings.Repeat("a", length)
		all := values{"openinference.span.kind": "LLM", "output.value": `[{"choices":[{"finish_reason":"content_filter","message":{"content":"` + text + `"}}]}]`}
		maps.Copy(all, someTokens)
		got := whatIsSaid(t, agentsJS.span(2, 1, "response", .1, 1, all).ok(), agentsJS.oiAgent(2).ok())
		assert.Equal(t, semconv.CauseContentFilter, got[2].cause, length)
	}
}

// A span with evidence of an answer, whose error is one of a connection that was never made:
// that was not the connection to the model.
func TestAnsweredAndNeverConnected(t *testing.T) {
	for name, more := range map[string]values{
		"finish reason": {"gen_ai.response.finish_reasons": []any{"stop"}},
		"tokens":        someUsage,
		"messages":      {"gen_ai.output.messages": `[{"role":"assistant","parts":[{"type":"text","content":"I have deleted"}]}]`},
		"first chunk":   {"gen_ai.response.time_to_first_chunk": 0.2},
		"model":         {"gen_ai.response.model": "gpt-test"},
		"status":        {"http.response.status_code": 200},
		"id":            {"gen_ai.response.id": "r1"},
	} {
		for _, class := range []string{"ECONNREFUSED", "httpx.ConnectError", "ENOTFOUND", "EAI_AGAIN", "httpx.ConnectTimeout", "429", "RateLimitError"} {
			for _, f := range []framework{handmade, pydantic, msAgents, adk} {
				got := whatIsSaid(t, f.call(2, .1, 1, more).raising(class, secret))
				assert.NotEqual(t, harness.Safe, got[2].safety, "%s, %s, %s: %v", name, class, f.scope, got[2])
			}
		}
	}
}
