package dialect

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
)

// Microsoft's Agent Framework: the finish reason is JSON in a string, error.type the name of
// a class beside an exception event, and UNSET is not success. Shapes of its observability.py
// (1.0), and of Microsoft.Extensions.AI, which .NET's agents use.
func TestMicrosoft(t *testing.T) {
	type m = map[string]any
	const finish = "gen_ai.response.finish_reasons"
	chat := func(scope string, status ptrace.StatusCode, more m, events ...event) shape {
		attrs := m{
			"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "model-test", "server.address": "https://api.openai.com/v1/",
		}
		maps.Copy(attrs, more)
		return shape{scope: scope, name: "chat model-test", kind: ptrace.SpanKindInternal, status: status, message: canary, attrs: attrs, events: events}
	}
	python := func(status ptrace.StatusCode, more m, events ...event) shape {
		return chat("agent_framework", status, more, events...)
	}
	raised := func(class, qualified string) shape {
		return python(statusError, m{"error.type": class}, event{class: qualified, message: canary})
	}
	response := func(more m) m {
		all := m{"gen_ai.response.id": "resp_1", "gen_ai.response.model": "model-test", "gen_ai.usage.input_tokens": 12, "gen_ai.usage.output_tokens": 6}
		maps.Copy(all, more)
		return all
	}
	checkRequests(t, GenAI{}, []requestCase{
		{"an answer", python(statusUnset, response(m{finish: `["stop"]`})), []truth{success}, well, answered(classify.FinishStop)},
		{"calls", python(statusUnset, response(m{finish: `["tool_calls"]`})), []truth{success}, well, answered(classify.FinishToolCalls)},
		{"an answer, .NET", chat("Experimental.Microsoft.Extensions.AI", statusUnset, response(m{finish: `["stop"]`})), []truth{success}, well, answered(classify.FinishStop)},
		{
			"a limit", python(statusUnset, response(m{finish: `["length"]`})),
			[]truth{limited},
			verdict{semconv.ClassOutputLimited, semconv.CauseMaxOutputTokens, medium, never},
			answered(classify.FinishMaxTokens),
		},
		{
			"any failure of the client", raised("ChatClientException", "agent_framework.exceptions.ChatClientException"),
			[]truth{passing, cut, unsent, refusal},
			unclassified, failedWith(classify.Request{}),
		},
		{"rate limited", raised("RateLimitError", "openai.RateLimitError"), []truth{passing}, ofProvider(semconv.CauseRateLimited, confirm), said(semconv.ProviderErrorKindRateLimited, "RateLimitError")},
		{
			"the content filter", raised("OpenAIContentFilterException", "agent_framework_openai.OpenAIContentFilterException"),
			[]truth{refusal},
			ofProvider(semconv.CauseContentPolicy, never), said(semconv.ProviderErrorKindContentPolicy, "OpenAIContentFilterException"),
		},
		{
			"cut", raised("RemoteProtocolError", "httpx.RemoteProtocolError"),
			[]truth{cut},
			interrupted(semconv.CauseBodyTruncated, medium), transport(semconv.TransportCauseBodyTruncated, "RemoteProtocolError"),
		},
		{"no longer read, or cancelled", python(statusUnset, nil), []truth{stopped}, unknown, classify.Request{}},
	})
	tool := shape{scope: "agent_framework", name: "execute_tool write", status: statusError, attrs: m{
		"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "write", "gen_ai.tool.call.id": "call_1", "gen_ai.tool.type": "function", "error.type": "ValueError",
	}}
	_, _, facts := tool.read(t)
	assert.Equal(t, &classify.Tool{Start: start, End: end, CallID: "call_1", Name: "write", Outcome: semconv.ToolOutcomeFailed, ErrorType: "ValueError"}, facts.Tool)
}

// The SDKs of Anthropic for other languages, and its API, by the platform's span reference:
// UNSET is a step that the application cancelled.
func TestAnthropicPlatform(t *testing.T) {
	type m = map[string]any
	const (
		python = "com.anthropic.sdk.python"
		api    = "com.anthropic.claude-platform"
	)
	served := func(scope string, status ptrace.StatusCode, more m) shape {
		s := native(scope, status, more)
		if scope == api {
			s.kind = ptrace.SpanKindServer
		}
		return s
	}
	ended := func(more m) m {
		all := m{"anthropic.request.id": "req_1", "http.response.status_code": 200}
		maps.Copy(all, more)
		return all
	}
	at := func(r classify.Request, status int) classify.Request { r.Status = status; return r }
	done := at(answered(classify.FinishStop), 200)
	done.Failed = classify.No
	inStream := at(said(semconv.ProviderErrorKindOverloaded, "overloaded_error"), 200)
	inStream.Provider.InBand = true
	stop := at(classify.Request{Ended: semconv.StreamEndCancelled, Abort: classify.Abort{Source: semconv.AbortSourceUnknown}}, 200)
	var cases []requestCase
	for _, scope := range []string{python, python + ".bedrock", "com.anthropic.sdk.java", api} {
		cases = append(cases, []requestCase{
			{scope + " an answer", served(scope, statusOK, ended(m{"anthropic.message.stop_reason": "end_turn"})), []truth{success}, well, done},
			{scope + " closed after the stop reason", served(scope, statusUnset, ended(m{"anthropic.message.stop_reason": "end_turn"})), []truth{success}, well, at(answered(classify.FinishStop), 200)},
			{scope + " cancelled", served(scope, statusUnset, ended(nil)), []truth{stopped}, aborted(semconv.CauseUnknown, low), stop},
			{scope + " HTTP 529", served(scope, statusError, ended(m{"error.type": "overloaded_error", "http.response.status_code": 529})), []truth{passing}, ofProvider(semconv.CauseOverloaded, confirm), refusedBy(529, semconv.ProviderErrorKindOverloaded, "overloaded_error")},
			{scope + " overloaded in the stream", served(scope, statusError, ended(m{"error.type": "overloaded_error"})), []truth{inBand}, ofProvider(semconv.CauseOverloaded, confirm), inStream},
		}...)
	}
	own := at(said(semconv.ProviderErrorKindServerError, "api_error"), 200)
	own.Provider.InBand = true
	cases = append(cases, []requestCase{
		{"cut, or an error in the stream", served(python, statusError, ended(m{"error.type": "api_error"})), []truth{cut, inBand}, unclassified, failedWith(at(classify.Request{}, 200))},
		{"the API's own error", served(api, statusError, ended(m{"error.type": "api_error"})), []truth{inBand}, ofProvider(semconv.CauseServerError, confirm), own},
	}...)
	checkRequests(t, Anthropic{}, cases)

	for status, want := range map[ptrace.StatusCode]semconv.ToolOutcome{
		statusOK: semconv.ToolOutcomeSucceeded, statusError: semconv.ToolOutcomeFailed, statusUnset: semconv.ToolOutcomeInterrupted,
	} {
		for _, scope := range []string{python, api, sdkTS} {
			s := shape{scope: scope, name: "anthropic.tool_use bash", status: status, attrs: m{"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "bash", "gen_ai.tool.call.id": "toolu_1"}}
			_, d, facts := s.read(t)
			assert.Equal(t, "anthropic", d.Name())
			assert.Equal(t, want, facts.Tool.Outcome, scope)
		}
	}
}

// Names that the conventions' own repository adds after 1.41, beside those of 1.41.
func TestComingConventions(t *testing.T) {
	for operation, kind := range map[string]Kind{
		"invoke_agent": Run, "invoke_workflow": Run, "handle_conversation_turn": Run, "execute_tool": Tool, "chat": Request,
		"plan": Other, "speech_to_text": Other, "fetch_response": Request, "embeddings": Other, "retrieval": Other, "create_agent": Other,
		"search_memory": Other, "create_memory": Other, "update_memory": Other, "upsert_memory": Other, "delete_memory": Other,
		"create_memory_store": Other, "delete_memory_store": Other,
	} {
		head, _, _ := shape{attrs: map[string]any{"gen_ai.operation.name": operation}}.read(t)
		assert.Equal(t, kind, head.Kind, operation)
	}
	for errorType, want := range map[string]semconv.ToolOutcome{
		"1": semconv.ToolOutcomeFailed, "127": semconv.ToolOutcomeFailed, "255": semconv.ToolOutcomeFailed, "0": semconv.ToolOutcomeUnset,
		"256": semconv.ToolOutcomeUnset, "429": semconv.ToolOutcomeUnset, "-1": semconv.ToolOutcomeUnset, "": semconv.ToolOutcomeUnset,
	} {
		for _, status := range []ptrace.StatusCode{statusUnset, statusError} {
			_, _, facts := shape{status: status, attrs: map[string]any{"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "bash", "error.type": errorType}}.read(t)
			if status == statusError {
				want = semconv.ToolOutcomeFailed
			}
			assert.Equal(t, want, facts.Tool.Outcome, errorType)
			assert.Equal(t, errorType, facts.Tool.ErrorType)
		}
	}
}

// The time to the first part of an answer has the name of a metric, which the GenAI
// conventions rename: both forms are read.
func TestRenamedFirstChunk(t *testing.T) {
	for _, key := range []string{"gen_ai.client.operation.time_to_first_chunk", "gen_ai.client.inference.time_to_first_chunk"} {
		_, _, facts := pydanticChat("openai", statusUnset, map[string]any{key: 0.4, "gen_ai.response.model": "model-test"}).read(t)
		assert.Equal(t, semconv.StreamEndEOF, facts.Request.Ended, "%s: it was streamed, and a finish reason was due", key)
		_, _, facts = vercel7("chat", statusUnset, map[string]any{key: 0.4, "gen_ai.response.finish_reasons": []any{"interrupted"}}).read(t)
		_, _, without := vercel7("chat", statusUnset, map[string]any{"gen_ai.response.finish_reasons": []any{"interrupted"}}).read(t)
		assert.NotEqual(t, without.Request, facts.Request, "%s: a part of an answer had come", key)
	}
}
