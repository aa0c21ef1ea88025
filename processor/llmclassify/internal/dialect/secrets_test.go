package dialect

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/otelllm/classify"
)

// A key that a producer records where an id, a code or a type belongs is in no fact:
// facts are what verdicts are written from. Ids stay comparable.
func TestNoKeyInFacts(t *testing.T) {
	const word = "fKq2LmZx7Rt4VbN8sWc1YhJ6dGp3TeA0"
	for _, key := range []string{"s" + "k-" + word, "s" + "k-ant-" + word, "AIza" + word, "ghp_" + word, "eyJ" + word + ".eyJ" + word + "." + word, word} {
		id := classify.SanitizeID(key)
		assert.Regexp(t, "^id-[0-9a-f]{16}$", id)
		for name, tt := range map[string]struct {
			span  shape
			check func(t *testing.T, f Facts)
		}{
			"own request": {shape{status: statusError, attrs: map[string]any{
				"gen_ai.operation.name": "chat", "llm.stream.end": "read_error", "llm.transport.cause": "connection_reset", "llm.transport.code": key,
				"llm.provider_error.code": key, "llm.abort.source": "user", "llm.abort.reason": key, "network.protocol.version": key,
				"llm.history.tool_calls": []any{key}, "llm.history.tool_outputs": []any{key},
				"llm.stream.tool_call_ids": []any{key}, "llm.stream.open_tool_call_ids": []any{key},
			}}, func(t *testing.T, f Facts) {
				t.Helper()
				for _, list := range [][]string{f.Request.HistoryCalls, f.Request.HistoryOutputs, f.Request.CallIDs, f.Request.OpenCallIDs} {
					assert.Equal(t, []string{id}, list)
				}
				assert.Equal(t, classify.Redacted, f.Request.Transport.Code)
				assert.Equal(t, classify.Redacted, f.Request.Provider.Code)
				assert.Equal(t, classify.Redacted, f.Request.Abort.Reason)
			}},
			"own tool": {shape{status: statusError, attrs: map[string]any{
				"gen_ai.operation.name": "execute_tool", "gen_ai.tool.call.id": key, "error.type": key, "llm.tool.outcome": "failed", "llm.tool.effect": "unknown",
				"llm.tool.output_delivery": "failed", "llm.tool.output_error": key, "llm.abort.source": "user", "llm.abort.reason": key,
			}}, func(t *testing.T, f Facts) {
				t.Helper()
				assert.Equal(t, id, f.Tool.CallID)
				assert.Equal(t, classify.Redacted, f.Tool.ErrorType)
				assert.Equal(t, classify.Redacted, f.Tool.DeliveryError)
			}},
			"own run": {shape{status: statusError, attrs: map[string]any{
				"gen_ai.operation.name": "invoke_agent", "llm.run.requests": 1, "error.type": key, "llm.abort.source": "user", "llm.abort.reason": key,
			}}, nil},
			"tool of the conventions": {shape{status: statusError, attrs: map[string]any{
				"gen_ai.operation.name": "execute_tool", "gen_ai.tool.call.id": key, "error.type": key,
			}, events: []event{{class: key, message: key}}}, func(t *testing.T, f Facts) {
				t.Helper()
				assert.Equal(t, id, f.Tool.CallID)
			}},
			"tool whose error has a message for a type": {shape{status: statusError, attrs: map[string]any{
				"gen_ai.operation.name": "execute_tool", "gen_ai.tool.call.id": key, "error.type": "Incorrect API key provided: " + key,
			}}, nil},
			"tool of Spring AI": {shape{scope: springBoot, status: statusError, attrs: map[string]any{
				"gen_ai.operation.name": "execute_tool", "spring.ai.tool.call.id": key,
			}, events: []event{{class: key, message: key}}}, func(t *testing.T, f Facts) {
				t.Helper()
				assert.Equal(t, id, f.Tool.CallID)
			}},
			"tool of ADK": {shape{scope: adkScope, attrs: map[string]any{
				"gen_ai.operation.name": "execute_tool", "gen_ai.tool.call.id": key, "error.type": key,
			}}, func(t *testing.T, f Facts) {
				t.Helper()
				assert.Equal(t, id, f.Tool.CallID)
				assert.Equal(t, classify.Redacted, f.Tool.ErrorType)
			}},
			"request of pydantic-ai": {shape{scope: "pydantic-ai", status: statusError, attrs: map[string]any{"gen_ai.operation.name": "chat"}, events: []event{
				{class: "pydantic_ai.exceptions.ModelHTTPError", message: "status_code: 401, model_name: " + key + ", body: " + key},
			}}, nil},
			"run of the conventions": {shape{status: statusError, attrs: map[string]any{
				"gen_ai.operation.name": "invoke_agent", "error.type": key,
			}}, nil},
			"request of the conventions": {shape{status: statusError, attrs: map[string]any{
				"gen_ai.operation.name": "chat", "error.type": key, "http.response.status_code": 401,
			}, events: []event{{class: key, message: key}}}, nil},
			"tool of OpenInference": {shape{status: statusError, attrs: map[string]any{
				"openinference.span.kind": "TOOL", "tool_call.id": key,
			}, events: []event{{class: key, message: key}}}, nil},
			"request of OpenInference": {shape{status: statusError, attrs: map[string]any{
				"openinference.span.kind": "LLM", "llm.output_messages.0.message.tool_calls.0.tool_call.id": key,
			}}, func(t *testing.T, f Facts) {
				t.Helper()
				assert.Equal(t, []string{id}, f.Request.CallIDs)
			}},
			"request of OpenLLMetry": {shape{status: statusError, attrs: map[string]any{
				"llm.request.type": "chat", "gen_ai.completion.0.tool_calls.0.id": key, "gen_ai.completion.0.finish_reason": key,
			}}, nil},
		} {
			t.Run(name, func(t *testing.T) {
				span := tt.span.span(t)
				f := factsOfSpan(t, span)
				var all string
				switch {
				case f.Request != nil:
					all = fmt.Sprintf("%+v", *f.Request)
				case f.Tool != nil:
					tool := *f.Tool
					tool.Name = "" // written by classify, as a code
					all = fmt.Sprintf("%+v", tool)
				default:
					all = fmt.Sprintf("%+v", *f.Run)
				}
				assert.NotContains(t, all, word)
				if tt.check != nil {
					tt.check(t, f)
				}
			})
		}
	}
}

func factsOfSpan(t *testing.T, span ptrace.Span) Facts {
	t.Helper()
	head, d := Default().In("").Recognise(span)
	assert.NotEqual(t, Other, head.Kind)
	r := Reading{Dialect: d}
	return r.Facts(span, head.Kind)
}

// A status line in the place of a type is its status; a type of any language is kept.
func TestTypeName(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "429 Too Many Requests": "429", "503": "503", "*net.OpError": "*net.OpError", `App\Exceptions\Declined`: `App\Exceptions\Declined`,
		"Connection error.": classify.Redacted, "https://user:word@host/x": classify.Redacted,
	} {
		assert.Equal(t, want, typeName(in), in)
	}
}
