package dialect

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
)

// unstated is an answer that came to its end, of a producer that records no reason for it.
func unstated() classify.Request {
	r := answered(classify.FinishUnstated)
	r.Basis = classify.Inferred
	return r
}

// Semantic Kernel 1.4 to 1.44 for Python and 1.14 to 1.80 for .NET, by their source.
func TestSemanticKernel(t *testing.T) {
	type m = map[string]any
	const (
		python = "semantic_kernel.utils.telemetry.model_diagnostics.decorators"
		older  = "semantic_kernel.utils.telemetry.decorators"
		dotnet = "Microsoft.SemanticKernel.Diagnostics"
		finish = "gen_ai.response.finish_reason"
	)
	call := func(scope, operation string, status ptrace.StatusCode, more m, events ...event) shape {
		attrs := m{"gen_ai.operation.name": operation, "gen_ai.system": "openai", "gen_ai.request.model": "model-test"}
		maps.Copy(attrs, more)
		return shape{scope: scope, name: operation + " model-test", kind: ptrace.SpanKindClient, status: status, message: canary, attrs: attrs, events: events}
	}
	ended := func(reason string, output int) m {
		attrs := m{finish: reason, "gen_ai.response.id": "chatcmpl-1"}
		if output > 0 {
			attrs["gen_ai.usage.input_tokens"], attrs["gen_ai.usage.output_tokens"] = 12, output
		}
		return attrs
	}
	at := verdict{semconv.ClassOutputLimited, semconv.CauseMaxOutputTokens, medium, never}
	filtered := verdict{semconv.ClassOutputLimited, semconv.CauseContentFilter, medium, never}
	const broke = "semantic_kernel.exceptions.service_exceptions.ServiceResponseException"
	raised := func(class string) shape {
		return call(python, "chat", statusError, m{"error.type": "<class '" + class + "'>"}, event{class: class, message: canary})
	}
	checkRequests(t, GenAI{}, []requestCase{
		{"an answer", call(python, "chat", statusUnset, ended("FinishReason.STOP", 6)), []truth{success}, well, answered(classify.FinishStop)},
		{"an answer, 1.9", call(python, "chat.completions", statusUnset, ended("FinishReason.STOP", 6)), []truth{success}, well, answered(classify.FinishStop)},
		{"an answer, 1.4", call(older, "chat.completions", statusUnset, ended("FinishReason.STOP", 6)), []truth{success}, well, answered(classify.FinishStop)},
		{"a stream, 1.10", call(python, "chat.streaming_completions", statusUnset, ended("FinishReason.STOP", 0)), []truth{success}, well, answered(classify.FinishStop)},
		{"the word alone", call(python, "chat", statusUnset, ended("stop", 6)), []truth{success}, well, answered(classify.FinishStop)},
		{"calls", call(python, "chat", statusUnset, ended("FinishReason.TOOL_CALLS", 6)), []truth{success}, well, answered(classify.FinishToolCalls)},
		{"a limit", call(python, "chat", statusUnset, ended("FinishReason.LENGTH", 6)), []truth{limited}, at, answered(classify.FinishMaxTokens)},
		{"a limit, by the text of the member's value", call(python, "chat", statusUnset, ended("length", 6)), []truth{limited}, at, answered(classify.FinishMaxTokens)},
		{"two choices, one cut", call(python, "chat", statusUnset, ended("FinishReason.STOP,FinishReason.LENGTH", 6)), []truth{limited}, at, answered(classify.FinishMaxTokens)},
		{"the content filter", call(python, "chat", statusUnset, ended("FinishReason.CONTENT_FILTER", 0)), []truth{limited}, filtered, answered(classify.FinishContentFilter)},
		{"the end of a stream of Ollama", call(python, "chat", statusUnset, ended("None", 6)), []truth{success}, well, unstated()},
		{"an end without a reason and without tokens", call(python, "chat", statusUnset, ended("None", 0)), []truth{success, cut}, unknown, classify.Request{}},
		{"a stream that is no longer read", call(python, "chat", statusUnset, nil), []truth{stopped}, unknown, classify.Request{}},
		{"text", call(python, "text_completions", statusUnset, nil), []truth{success, stopped}, unknown, classify.Request{}},
		{"any failure", raised(broke), []truth{passing, cut, unsent, refusal}, unclassified, failedWith(classify.Request{})},
		{
			"refused by the content filter", raised("semantic_kernel.connectors.ai.open_ai.exceptions.content_filter_ai_exception.ContentFilterAIException"),
			[]truth{refusal},
			ofProvider(semconv.CauseContentPolicy, never),
			said(semconv.ProviderErrorKindContentPolicy, ""), // the name is too long for a code
		},

		{"an answer, .NET", call(dotnet, "chat", statusUnset, ended(`["Stop"]`, 6)), []truth{success}, well, answered(classify.FinishStop)},
		{"an answer, .NET 1.50", call(dotnet, "chat.completions", statusUnset, ended(`["Stop"]`, 6)), []truth{success}, well, answered(classify.FinishStop)},
		{"calls, .NET", call(dotnet, "chat", statusUnset, ended(`["ToolCalls"]`, 6)), []truth{success}, well, answered(classify.FinishToolCalls)},
		{"a limit, .NET", call(dotnet, "chat", statusUnset, ended(`["Length"]`, 6)), []truth{limited}, at, answered(classify.FinishMaxTokens)},
		{"the content filter, .NET", call(dotnet, "chat", statusUnset, ended(`["ContentFilter"]`, 6)), []truth{limited}, filtered, answered(classify.FinishContentFilter)},
		{"Gemini, .NET", call(dotnet, "chat", statusUnset, ended(`["N/A"]`, 6)), []truth{success}, well, unstated()},
		{"no reason and no tokens, .NET", call(dotnet, "chat", statusUnset, ended(`["N/A"]`, 0)), []truth{success, cut}, unknown, classify.Request{}},
	})

	tool := shape{scope: "semantic_kernel.functions.kernel_function", name: "execute_tool pay", status: statusError, attrs: m{
		"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "bank-pay", "gen_ai.tool.call.id": "call_1", "error.type": "<class 'ValueError'>",
	}}
	_, _, facts := tool.read(t)
	assert.Equal(t, &classify.Tool{Start: start, End: end, CallID: "call_1", Name: "bank-pay", Outcome: semconv.ToolOutcomeFailed, ErrorType: "ValueError"}, facts.Tool)
}

// OpenTelemetry's instrumentation of google-genai 0.1b0, which never records a finish reason, and
// of later versions, where one that is missing never came. Only of a call that does not stream is it
// known that it returned.
func TestGoogleGenAI(t *testing.T) {
	type m = map[string]any
	const (
		method = "google.genai.Models.generate_content"
		finish = "gen_ai.response.finish_reasons"
	)
	call := func(function string, status ptrace.StatusCode, output int, more m, events ...event) shape {
		attrs := m{
			"gen_ai.operation.name": "generate_content", "gen_ai.system": "gemini", "gen_ai.request.model": "model-test",
			"code.function.name": function, "gen_ai.usage.input_tokens": 12, "gen_ai.usage.output_tokens": output,
		}
		maps.Copy(attrs, more)
		return shape{
			scope: "opentelemetry.instrumentation.google_genai", name: "generate_content model-test", kind: ptrace.SpanKindClient,
			status: status, message: canary, attrs: attrs, events: events,
		}
	}
	none := m{finish: []any{}}
	missing := classify.Request{Finish: classify.FinishMissing}
	checkRequests(t, GenAI{}, []requestCase{
		{"a reason", call(method, statusUnset, 6, m{finish: []any{"stop"}}), []truth{success}, well, answered(classify.FinishStop)},
		{"no reason", call(method, statusUnset, 6, none), []truth{success}, well, unstated()},
		{"no reason, asynchronously", call("google.genai.AsyncModels.generate_content", statusUnset, 6, none), []truth{success}, well, unstated()},
		{"no reason and no tokens", call(method, statusUnset, 0, none), []truth{success, inBand}, unknown, missing},
		{"no reason of a stream", call(method+"_stream", statusUnset, 6, none), []truth{success, cut}, unknown, missing},
		{"nothing is recorded", call(method, statusUnset, 6, nil), []truth{success, cut}, unknown, classify.Request{}},
		{
			"it raised", call(method, statusError, 6, m{finish: []any{}, "error.type": "ServerError"}, event{class: "google.genai.errors.ServerError", message: "503 UNAVAILABLE. " + canary}),
			[]truth{passing},
			ofProvider(semconv.CauseOverloaded, confirm), failedOverloaded(),
		},
	})
}

func failedOverloaded() classify.Request {
	r := failedWith(classify.Request{Finish: classify.FinishMissing, Basis: classify.Corroborated})
	r.Provider.Kind, r.Provider.Code = semconv.ProviderErrorKindOverloaded, "ServerError"
	return r
}

// Finish reasons under other names than that of the conventions, by any producer.
func TestFinishUnderOtherNames(t *testing.T) {
	type m = map[string]any
	for name, tt := range map[string]struct {
		attrs m
		want  classify.Finish
	}{
		"one reason":                      {m{"gen_ai.response.finish_reason": "stop"}, classify.FinishStop},
		"Anthropic's":                     {m{"gen_ai.response.stop_reason": "max_tokens"}, classify.FinishMaxTokens},
		"OpenRouter's":                    {m{"gen_ai.finish_reason": "length"}, classify.FinishMaxTokens},
		"a list":                          {m{"gen_ai.response.finish_reason": []any{"tool_calls"}}, classify.FinishToolCalls},
		"LangChain4j's":                   {m{"gen_ai.response.finish_reason": "TOOL_EXECUTION"}, classify.FinishToolCalls},
		"an enum's own name":              {m{"gen_ai.response.finish_reasons": []any{"FinishReason.MAX_TOKENS"}}, classify.FinishMaxTokens},
		"two names":                       {m{"gen_ai.response.finish_reason": "stop", "gen_ai.response.stop_reason": "max_tokens"}, classify.FinishMaxTokens},
		"the conventions' beside another": {m{"gen_ai.response.finish_reasons": []any{"stop"}, "gen_ai.response.finish_reason": "length"}, classify.FinishStop},
		"the conventions' without one":    {m{"gen_ai.response.finish_reasons": []any{}, "gen_ai.response.finish_reason": "length"}, classify.FinishMaxTokens},
		"VeADK's":                         {m{"gen_ai.response.finish_reason": "<no_finish_reason_provided>", "gen_ai.response.stop_reason": "<no_stop_reason_provided>"}, classify.FinishNotObserved},
		"VeADK's on a span of ADK":        {m{"gen_ai.response.finish_reasons": []any{"stop"}, "gen_ai.response.finish_reason": "<no_finish_reason_provided>"}, classify.FinishStop},
		"not known to be good":            {m{"gen_ai.response.finish_reason": "whatever"}, classify.FinishOther},
		"something with a dot":            {m{"gen_ai.response.finish_reason": "v1.stop"}, classify.FinishOther},
	} {
		attrs := m{"gen_ai.operation.name": "chat"}
		maps.Copy(attrs, tt.attrs)
		for _, scope := range []string{"", "opentelemetry.instrumentation.openai_v2", "semantic_kernel.x"} {
			_, _, facts := shape{scope: scope, attrs: attrs}.read(t)
			assert.Equal(t, tt.want, facts.Request.Finish, name)
		}
	}
}
