package dialect

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
)

func openAIJS(status ptrace.StatusCode, more map[string]any) shape {
	attrs := map[string]any{
		"gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-test", "server.address": "api.openai.com", "server.port": 443,
	}
	maps.Copy(attrs, more)
	return shape{scope: "@opentelemetry/instrumentation-openai", name: "chat gpt-test", kind: ptrace.SpanKindClient, status: status, attrs: attrs}
}

func TestOpenAIJS(t *testing.T) {
	type m = map[string]any
	list := func(s ...any) []any { return append([]any{}, s...) }
	const finish = "gen_ai.response.finish_reasons"
	checkRequests(t, OpenAIJS{}, []requestCase{
		{"finished", openAIJS(statusUnset, m{"gen_ai.system": "openai", finish: list("stop")}), []truth{success}, well, answered(classify.FinishStop)},
		{
			"finished, the API named", openAIJS(statusUnset, m{"gen_ai.provider.name": "openai", "openai.api.type": "chat_completions", finish: list("stop")}),
			[]truth{success},
			well, answered(classify.FinishStop),
		},
		{
			"Responses: stop stands for a limit, too", openAIJS(statusUnset, m{"gen_ai.provider.name": "openai", finish: list("stop")}),
			[]truth{success, limited, cut},
			unknown,
			classify.Request{},
		},
		{
			"Responses: stop stands for a limit beside the usage, too",
			openAIJS(statusUnset, m{"gen_ai.provider.name": "openai", finish: list("stop"), "gen_ai.usage.output_tokens": 3}),
			[]truth{success, limited},
			unknown,
			classify.Request{},
		},
		{
			"Responses: a call", openAIJS(statusUnset, m{"gen_ai.provider.name": "openai", finish: list("tool_call"), "gen_ai.usage.output_tokens": 3}),
			[]truth{success},
			well, answered(classify.FinishToolCalls),
		},
		{
			"Responses: a call that was done, and then the stream broke off", openAIJS(statusUnset, m{"gen_ai.provider.name": "openai", finish: list("tool_call")}),
			[]truth{cut, stopped},
			unknown,
			classify.Request{},
		},
		{
			"the stream just ended, or was aborted", openAIJS(statusUnset, m{"gen_ai.system": "openai", finish: list()}),
			[]truth{cut, stopped},
			unknown,
			classify.Request{Finish: classify.FinishMissing},
		},
		{
			"finished without a token", openAIJS(statusUnset, m{"gen_ai.system": "openai", finish: list("stop"), "gen_ai.usage.input_tokens": 12, "gen_ai.usage.output_tokens": 0}),
			[]truth{vacant},
			empty(medium), emptied(classify.FinishStop, classify.Corroborated),
		},
		{
			"no finish reason, and a usage without a token", openAIJS(statusUnset, m{"gen_ai.system": "openai", finish: list(), "gen_ai.usage.input_tokens": 12, "gen_ai.usage.output_tokens": 0}),
			[]truth{vacant},
			empty(low), emptied(classify.FinishMissing, classify.Inferred),
		},
		{
			"no finish reason, and a usage", openAIJS(statusUnset, m{"gen_ai.system": "openai", finish: list(), "gen_ai.usage.input_tokens": 12, "gen_ai.usage.output_tokens": 1}),
			[]truth{vacant, cut},
			unknown,
			classify.Request{Finish: classify.FinishMissing},
		},
		{
			"rate limited", openAIJS(statusError, m{"gen_ai.system": "openai", "error.type": "RateLimitError"}),
			[]truth{passing},
			ofProvider(semconv.CauseRateLimited, confirm), said(semconv.ProviderErrorKindRateLimited, "RateLimitError"),
		},
		{
			"bad request", openAIJS(statusError, m{"gen_ai.system": "openai", "error.type": "BadRequestError"}),
			[]truth{refusal},
			ofProvider(semconv.CauseInvalidRequest, never), said(semconv.ProviderErrorKindInvalidRequest, "BadRequestError"),
		},
		{
			"no connection", openAIJS(statusError, m{"gen_ai.system": "openai", "error.type": "APIConnectionError"}),
			[]truth{unsent, badHost, early},
			unclassified, failedWith(classify.Request{}),
		},
		{
			"a timeout: of connecting, of the headers, the SDK's own", openAIJS(statusError, m{"gen_ai.system": "openai", "error.type": "APIConnectionTimeoutError"}),
			[]truth{timer, unsent, early},
			unclassified, failedWith(classify.Request{}),
		},
		{
			"aborted before a response", openAIJS(statusError, m{"gen_ai.system": "openai", "error.type": "APIUserAbortError"}),
			[]truth{stopped},
			aborted(semconv.CauseUnknown, low),
			failedWith(classify.Request{Ended: semconv.StreamEndCancelled, Basis: classify.Typed, Abort: classify.Abort{Source: semconv.AbortSourceUnknown}}),
		},
		{"ended without a word", openAIJS(statusUnset, m{"gen_ai.system": "openai"}), []truth{success, cut}, unknown, classify.Request{}},
	})

	s := openAIJS(statusError, m{"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "write", "gen_ai.tool.call.id": "call_1", "error.type": "ValueError"})
	_, d, facts := s.read(t)
	assert.Equal(t, OpenAIJS{}, d)
	assert.Equal(t, &classify.Tool{Start: start, End: end, CallID: "call_1", Name: "write", Outcome: semconv.ToolOutcomeFailed, ErrorType: "ValueError"}, facts.Tool)
	_, _, facts = openAIJS(statusUnset, m{"gen_ai.operation.name": "invoke_agent"}).read(t)
	assert.Equal(t, &classify.Run{Start: start, End: end, Ended: classify.Yes}, facts.Run)
}
