package recorded

import (
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/otelllm/otelllm-go/semconv"
)

// A tool threw, the model answered, and the run failed after that: not on the tool. Where nothing is
// known of that last request this is so already.
func TestToolAnsweredAndRunFailedLater(t *testing.T) {
	tool := func(f framework) framed {
		return f.span(3, 1, "execute_tool write", 1.1, 2, values{"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "write"}).raising("ValueError", "x")
	}
	for name, f := range map[string]framework{"conventions": handmade, "pydantic": pydantic, "agent framework": msAgents} {
		t.Run(name, func(t *testing.T) {
			unknown := whatIsSaid(t, f.run(4).raising("ValidationError", "x"), f.call(2, .1, 1, reason("tool_calls")), tool(f), f.call(4, 2.1, 3))
			assert.Equal(t, semconv.ClassUnclassified, unknown[1].class, "nothing is known of the last request")
			got := whatIsSaid(t, f.run(4).raising("ValidationError", "x"), f.call(2, .1, 1, reason("tool_calls")), tool(f), f.call(4, 2.1, 3, reason("stop"), someUsage))
			assert.Equal(t, semconv.ClassUnclassified, got[1].class, "the model answered")
		})
	}
}

// A length limit under OpenAI's agents SDK, in a response that is long, as such responses are.
func TestLengthOfLongResponses(t *testing.T) {
	long := strings.Repeat("a", 64<<10)
	for name, more := range map[string]values{
		"Responses, in the parameters beside long instructions": {"llm.invocation_parameters": `{"id":"resp_1","incomplete_details":{"reason":"max_output_tokens"},"instructions":"` + long + `"}`},
		"Responses, in the response":                            {"output.value": `{"id":"r","status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"output":[{"content":"` + long + `"}]}`},
		"Chat Completions":                                      {"output.value": `[{"choices":[{"finish_reason":"length","message":{"content":"` + long + `"}}]}]`},
		"a finish reason made up beside it":                     {"llm.finish_reason": "stop", "llm.invocation_parameters": `{"incomplete_details":{"reason":"max_output_tokens"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			all := values{"openinference.span.kind": "LLM"}
			maps.Copy(all, someTokens)
			maps.Copy(all, more)
			got := whatIsSaid(t, agentsJS.span(2, 1, "response", .1, 1, all).ok(), agentsJS.span(1, 0, "agent", 0, 2, values{"openinference.span.kind": "AGENT", "graph.node.id": "a"}).ok())
			assert.NotEqual(t, semconv.RunOutcomeSucceeded, got[1].outcome)
		})
	}
}

// OK of a stream that is no longer read is no success. That it was one is also known by the time to its first
// chunk, which the conventions have as an attribute.
func TestChunksNoLongerRead(t *testing.T) {
	for _, key := range []string{"gen_ai.response.time_to_first_chunk", "gen_ai.client.operation.time_to_first_chunk"} {
		got := whatIsSaid(t, handmade.run(2), handmade.call(2, .1, 1, values{key: 0.2}).ok())
		assert.NotEqual(t, semconv.RunOutcomeSucceeded, got[1].outcome, key)
	}
}

// An answer with tokens of output, whose messages have no parts as content is not recorded, is not empty.
func TestContentIsNotRecorded(t *testing.T) {
	for tokens, want := range map[int]semconv.RunOutcome{50: semconv.RunOutcomeSucceeded, 0: semconv.RunOutcomeFailed} {
		got := whatIsSaid(t, handmade.run(2).ok(), handmade.call(2, .1, 1, reason("stop"), values{
			"gen_ai.usage.input_tokens": 9, "gen_ai.usage.output_tokens": tokens,
			"gen_ai.output.messages": `[{"role":"assistant","parts":[],"finish_reason":"stop"}]`,
		}))
		assert.Equal(t, want, got[1].outcome, "%d tokens", tokens)
	}
}
