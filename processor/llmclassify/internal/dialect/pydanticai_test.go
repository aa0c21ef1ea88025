package dialect

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
)

// pydanticChat is a model request of pydantic-ai 2.33, as open_model_request_span writes it.
func pydanticChat(provider string, status ptrace.StatusCode, more map[string]any, events ...event) shape {
	attrs := map[string]any{
		"gen_ai.operation.name": "chat", "gen_ai.provider.name": provider, "gen_ai.system": provider, "gen_ai.request.model": "model-test",
		"server.address": "api.example.com", "gen_ai.agent.name": "agent", "gen_ai.agent.call.id": "run-1", "gen_ai.conversation.id": "conv-1",
		"model_request_parameters": canary, "logfire.json_schema": "{}",
	}
	maps.Copy(attrs, more)
	return shape{scope: "pydantic-ai", name: "chat model-test", kind: ptrace.SpanKindClient, status: status, attrs: attrs, events: events}
}

func TestPydanticAIRequest(t *testing.T) {
	type m = map[string]any
	const (
		finish    = "gen_ai.response.finish_reasons"
		output    = "gen_ai.usage.output_tokens"
		httpError = "pydantic_ai.exceptions.ModelHTTPError"
	)
	refused := func(provider, status string) shape {
		return pydanticChat(provider, statusError, nil, event{class: httpError, message: "status_code: " + status + ", model_name: model-test, body: " + canary})
	}
	kindly := func(kind semconv.ProviderErrorKind) classify.Request {
		r := said(kind, httpError)
		r.Basis = classify.Corroborated
		return r
	}
	raised := func(class, message string) shape {
		return pydanticChat("openai", statusError, nil, event{class: class, message: message})
	}
	streamed := func(provider string, more m) shape {
		s := pydanticChat(provider, statusUnset, m{keyTimeToFirstChunk: 0.4, "gen_ai.response.model": "model-test", "gen_ai.response.id": "resp_1"})
		maps.Copy(s.attrs, more)
		return s
	}
	eof := classify.Request{Ended: semconv.StreamEndEOF}
	checkRequests(t, GenAI{}, []requestCase{
		{"an answer", pydanticChat("openai", statusUnset, m{finish: []any{"stop"}, output: 6}), []truth{success}, well, answered(classify.FinishStop)},
		{"a streamed answer", streamed("openai", m{finish: []any{"stop"}, output: 6}), []truth{success}, well, answered(classify.FinishStop)},
		{"calls", streamed("anthropic", m{finish: []any{"tool_call"}, output: 6}), []truth{success}, well, answered(classify.FinishToolCalls)},
		{
			"a limit", streamed("openai", m{finish: []any{"length"}, output: 6}),
			[]truth{limited},
			verdict{semconv.ClassOutputLimited, semconv.CauseMaxOutputTokens, medium, never},
			answered(classify.FinishMaxTokens),
		},
		{"HTTP 429", refused("openai", "429"), []truth{passing}, ofProvider(semconv.CauseRateLimited, confirm), kindly(semconv.ProviderErrorKindRateLimited)},
		{"HTTP 503", refused("openai", "503"), []truth{passing}, ofProvider(semconv.CauseOverloaded, confirm), kindly(semconv.ProviderErrorKindOverloaded)},
		{"HTTP 529", refused("anthropic", "529"), []truth{passing}, ofProvider(semconv.CauseOverloaded, confirm), kindly(semconv.ProviderErrorKindOverloaded)},
		{"HTTP 401", refused("openai", "401"), []truth{refusal}, ofProvider(semconv.CauseAuthentication, never), kindly(semconv.ProviderErrorKindAuthentication)},
		{"502 in a stream of OpenRouter's", refused("openrouter", "502"), []truth{passing, inBand}, ofProvider(semconv.CauseServerError, confirm), kindly(semconv.ProviderErrorKindServerError)},
		{
			"any failure of the call", raised("pydantic_ai.exceptions.ModelAPIError", "Connection error."),
			[]truth{cut, unsent, inBand, badHost},
			unclassified, failedWith(classify.Request{}),
		},
		{
			"a message that begins as a status, of another class", raised("ValueError", "status_code: 429, model_name: m, body: x"),
			[]truth{refusal, passing},
			unclassified, failedWith(classify.Request{}),
		},
		{
			"a status in the middle of a message", raised(httpError, "failed, status_code: 429, model_name: m"),
			[]truth{refusal, passing},
			unclassified, failedWith(classify.Request{}),
		},
		{
			"cut while it is read", raised("httpx.RemoteProtocolError", "peer closed connection"),
			[]truth{cut},
			interrupted(semconv.CauseBodyTruncated, medium), transport(semconv.TransportCauseBodyTruncated, "httpx.RemoteProtocolError"),
		},
		{"the stream just ended", streamed("openai", nil), []truth{cut}, interrupted(semconv.CauseCleanEOF, low), eof},
		{"the stream just ended, its beginning was counted", streamed("anthropic", m{output: 1}), []truth{cut}, interrupted(semconv.CauseCleanEOF, low), eof},
		{"counted at its end, by a server without finish reasons", streamed("openai", m{output: 6}), []truth{success}, unknown, classify.Request{}},
		{"the provider reports its failure as the finish reason", streamed("openai", m{finish: []any{"error"}}), []truth{inBand, stopped}, unclassified, failedWith(classify.Request{Finish: classify.FinishMissing})},
		{"cancelled, or no longer read", pydanticChat("openai", statusUnset, nil), []truth{stopped}, unknown, classify.Request{}},
		{
			"cancelled by the application, or by the agent, under an API before 1.32", raised("asyncio.exceptions.CancelledError", ""),
			[]truth{stopped, cut},
			unclassified, failedWith(classify.Request{}),
		},
	})
}

func TestPydanticAIOthers(t *testing.T) {
	type m = map[string]any
	tool := func(status ptrace.StatusCode, more m, events ...event) classify.Tool {
		attrs := m{
			"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "write", "gen_ai.tool.call.id": "call_1",
			"gen_ai.tool.call.arguments": canary, "gen_ai.tool.call.result": canary, "logfire.msg": "running tool: write",
		}
		maps.Copy(attrs, more)
		head, d, facts := shape{scope: "pydantic-ai", name: "execute_tool write", status: status, attrs: attrs, events: events}.read(t)
		require.Equal(t, Tool, head.Kind)
		require.Equal(t, "gen_ai", d.Name())
		assert.Equal(t, "call_1", facts.Tool.CallID)
		assert.Equal(t, "write", facts.Tool.Name)
		return *facts.Tool
	}
	assert.Equal(t, semconv.ToolOutcomeUnset, tool(statusUnset, nil).Outcome, "its result says more")
	for class, want := range map[string]semconv.ToolOutcome{
		"ValueError":                             semconv.ToolOutcomeFailed,
		"pydantic_ai.exceptions.ToolRetryError":  semconv.ToolOutcomeFailed,
		"pydantic_ai.exceptions.ToolFailedError": semconv.ToolOutcomeFailed,
		"TimeoutError":                           semconv.ToolOutcomeTimedOut,
		"asyncio.exceptions.CancelledError":      semconv.ToolOutcomeInterrupted,
	} {
		got := tool(statusError, nil, event{class: class, message: canary})
		assert.Equal(t, want, got.Outcome, class)
		assert.Equal(t, class, got.ErrorType)
	}
	got := tool(statusError, m{keyPydanticStage: "validation"}, event{class: "pydantic_core._pydantic_core.ValidationError"})
	assert.Equal(t, semconv.ToolOutcomeInvalidInput, got.Outcome, "it never ran")
	for _, status := range []ptrace.StatusCode{statusUnset, statusError} {
		got = tool(status, m{keyPydanticDeferral: "ApprovalRequired"}, event{class: "pydantic_ai.exceptions.ApprovalRequired"})
		assert.Equal(t, semconv.ToolOutcomeUnset, got.Outcome, "it waits")
		assert.Empty(t, got.ErrorType)
		assert.True(t, got.Waits)
	}

	run := shape{scope: "pydantic-ai", name: "invoke_agent agent", status: statusError, attrs: m{
		"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "agent", "gen_ai.conversation.id": "conv-1", "pydantic_ai.all_messages": canary, "final_result": canary,
	}, events: []event{{class: "pydantic_ai.exceptions.ModelHTTPError", message: "status_code: 429, model_name: m, body: " + canary}}}
	head, _, facts := run.read(t)
	assert.Equal(t, Run, head.Kind)
	assert.NotZero(t, head.Session)
	assert.Equal(t, &classify.Run{Start: start, End: end, Ended: classify.Yes, Failed: classify.Yes, ReturnsCalls: true, ErrorType: "pydantic_ai.exceptions.ModelHTTPError", Error: facts.Run.Error}, facts.Run)
	run.status, run.events = statusUnset, nil
	_, _, facts = run.read(t)
	assert.Equal(t, &classify.Run{Start: start, End: end, Ended: classify.Yes, Failed: classify.No, ReturnsCalls: true}, facts.Run, "it returned")
	delete(run.attrs, "final_result")
	_, _, facts = run.read(t)
	assert.Equal(t, &classify.Run{Start: start, End: end, Ended: classify.Yes, ReturnsCalls: true}, facts.Run, "cancelled, or content is not recorded")
}
