package dialect

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
)

// geminiSpan is a span of Gemini CLI 0.61.0, as recorded.
func geminiSpan(operation string, status ptrace.StatusCode, more map[string]any, events ...event) shape {
	attrs := map[string]any{
		"gen_ai.operation.name": operation, "gen_ai.agent.name": "gemini-cli", "gen_ai.conversation.id": "conv", "gen_ai.prompt.name": "conv",
		"gen_ai.request.model": "gemini-2.5-flash", "gen_ai.system_instructions": canary, "gen_ai.tool.definitions": canary,
	}
	maps.Copy(attrs, more)
	return shape{scope: "gemini-cli", name: operation, kind: ptrace.SpanKindInternal, status: status, message: canary, attrs: attrs, events: events}
}

func TestGeminiCLIRequest(t *testing.T) {
	type m = map[string]any
	usage := m{"gen_ai.usage.input_tokens": 11, "gen_ai.usage.output_tokens": 5}
	threw := func(class, message string) shape {
		return geminiSpan("llm_call", statusError, nil, event{class: class, message: message})
	}
	const exhausted = `{"error":{"code":429,"message":"` + canary + `","status":"RESOURCE_EXHAUSTED","details":[{"retryDelay":"1s"}]}}`
	rejected := refusedBy(429, semconv.ProviderErrorKindRateLimited, "RESOURCE_EXHAUSTED")
	rejected.Basis = classify.Corroborated
	badKey := refusedBy(400, semconv.ProviderErrorKindAuthentication, "API_KEY_INVALID")
	badKey.Basis = classify.Corroborated
	overloaded := failedWith(classify.Request{Basis: classify.Corroborated, Provider: classify.ProviderError{
		Kind: semconv.ProviderErrorKindOverloaded, Code: "UNAVAILABLE", InBand: true,
	}})
	checkRequests(t, GeminiCLI{}, []requestCase{
		{"OK", geminiSpan("llm_call", statusOK, nil), []truth{success, cut, inBand, stopped, vacant}, unknown, classify.Request{}},
		{"OK with tokens, which come with every part", geminiSpan("llm_call", statusOK, usage), []truth{success, cut, inBand, stopped}, unknown, classify.Request{}},
		{"refused", threw("ApiError", exhausted), []truth{passing}, ofProvider(semconv.CauseRateLimited, confirm), rejected},
		{
			"a bad key", threw("ApiError", `{"error":{"code":400,"message":"`+canary+`","status":"INVALID_ARGUMENT","details":[`+
				`{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"API_KEY_INVALID","domain":"googleapis.com"},{"reason":"`+canary+`"}]}}`),
			[]truth{refusal},
			ofProvider(semconv.CauseAuthentication, never), badKey,
		},
		{
			"details of another form", threw("ApiError", `{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","details":"`+canary+`"}}`),
			[]truth{passing},
			ofProvider(semconv.CauseRateLimited, confirm), rejected,
		},
		{
			"an error in the stream", threw("ApiError", `got status: UNAVAILABLE. {"error":{"code":503,"message":"`+canary+`","status":"UNAVAILABLE"}}`),
			[]truth{inBand},
			ofProvider(semconv.CauseOverloaded, confirm), overloaded,
		},
		{"another error", threw("ApiError", canary), []truth{passing, inBand, cut}, unclassified, failedWith(classify.Request{})},
		{"no error of the API", threw("Error", exhausted), []truth{passing, inBand, cut}, unclassified, failedWith(classify.Request{})},
		{"a status that is none", threw("ApiError", `{"error":{"code":200}}`), []truth{passing, inBand, cut}, unclassified, failedWith(classify.Request{})},
	})
	many := threw("ApiError", exhausted)
	for range 50 {
		many.events = append([]event{{class: "ApiError", message: `{"error":{"code":503,"status":"UNAVAILABLE"}}`}}, many.events...)
	}
	_, _, last := many.read(t)
	assert.Equal(t, 429, last.Request.Status, "the last error counts")
	checkStopped := threw("AbortError", canary)
	_, _, facts := checkStopped.read(t)
	assert.Equal(t, semconv.AbortSourceUnknown, facts.Request.Abort.Source)
}

func TestGeminiCLISpans(t *testing.T) {
	tool := func(status ptrace.StatusCode) shape {
		return geminiSpan("tool_call", status, map[string]any{"gen_ai.tool.name": "run_shell_command", "gen_ai.tool.call_id": "call_1", "gen_ai.tool.description": canary})
	}
	want := classify.Tool{Start: start, End: end, CallID: "call_1", Name: "run_shell_command"}
	head, d, facts := tool(statusOK).read(t)
	assert.Equal(t, Head{Kind: Tool, Session: keyOf("conv")}, head)
	assert.Equal(t, GeminiCLI{}, d)
	assert.Equal(t, &want, facts.Tool, "its result may be an error")
	want.Outcome = semconv.ToolOutcomeFailed
	_, _, facts = tool(statusError).read(t)
	assert.Equal(t, &want, facts.Tool)

	for _, grouping := range []string{"agent_call", "user_prompt", "schedule_tool_calls"} {
		head, d, _ := geminiSpan(grouping, statusOK, nil).read(t)
		assert.Equal(t, Other, head.Kind, grouping)
		assert.Nil(t, d)
	}
	other := geminiSpan("llm_call", statusOK, nil)
	other.scope = "agent"
	head, _, _ = other.read(t)
	assert.Equal(t, Other, head.Kind)
}
