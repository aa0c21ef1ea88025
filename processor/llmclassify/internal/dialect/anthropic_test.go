package dialect

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
)

const (
	sdkGo = "com.anthropic.sdk.go"
	sdkTS = "com.anthropic.sdk.typescript"
)

// native is a span of anthropic-sdk-go v1.84 or its TypeScript sibling.
func native(scope string, status ptrace.StatusCode, more map[string]any) shape {
	attrs := map[string]any{
		"gen_ai.operation.name": "chat", "gen_ai.provider.name": "anthropic", "gen_ai.request.model": "claude-test",
		"gen_ai.request.max_tokens": 1024, "gen_ai.request.stream": true, "server.address": "api.anthropic.com", "server.port": 443,
		"http.request.method": "POST", "http.route": "/v1/messages", "url.full": "https://api.anthropic.com/v1/messages",
	}
	maps.Copy(attrs, more)
	return shape{scope: scope, name: "anthropic.messages.create", kind: ptrace.SpanKindClient, status: status, attrs: attrs}
}

func TestAnthropicRequest(t *testing.T) {
	end := func(errorType string, status int) map[string]any {
		m := map[string]any{"anthropic.request.id": "req_test"}
		if errorType != "" {
			m["error.type"] = errorType
		}
		if status > 0 {
			m["http.response.status_code"] = status
		}
		return m
	}
	with := func(m map[string]any, key string, v any) map[string]any { m[key] = v; return m }
	withStatus := func(r classify.Request, status int) classify.Request { r.Status = status; return r }
	inBandOf := func(kind semconv.ProviderErrorKind, code string) classify.Request {
		r := withStatus(said(kind, code), 200)
		r.Provider.InBand = true
		return r
	}
	again := withStatus(answered(classify.FinishStop), 200)
	again.Failed, again.Attempt, again.FailedBefore = classify.No, 3, 2
	closedEarly := withStatus(answered(classify.FinishToolCalls), 200)

	var cases []requestCase
	for _, scope := range []string{sdkGo, sdkTS} {
		cases = append(cases, []requestCase{
			{
				scope + " message_stop, at the third try", native(scope, statusOK, with(with(end("", 200), "anthropic.message.stop_reason", "end_turn"), "http.request.resend_count", 2)),
				[]truth{success},
				well, again,
			},
			{
				scope + " closed after the stop reason", native(scope, statusUnset, with(end("", 200), "anthropic.message.stop_reason", "tool_use")),
				[]truth{success},
				well, closedEarly,
			},
			{
				scope + " cancel, early close or a malformed line", native(scope, statusUnset, end("", 200)),
				[]truth{stopped, garbled},
				unknown, withStatus(classify.Request{}, 200),
			},
			{
				scope + " the stream just ended, or api_error in it", native(scope, statusError, end("api_error", 200)),
				[]truth{cut, inBand},
				unclassified, failedWith(withStatus(classify.Request{}, 200)),
			},
			{
				scope + " HTTP 503 as api_error", native(scope, statusError, end("api_error", 503)),
				[]truth{passing},
				ofProvider(semconv.CauseOverloaded, confirm), refusedBy(503, semconv.ProviderErrorKindOverloaded, "api_error"),
			},
			{
				scope + " api_error without a status", native(scope, statusError, end("api_error", 0)),
				[]truth{passing, cut, inBand},
				unclassified, failedWith(classify.Request{}),
			},
			{
				scope + " no response", native(scope, statusError, end("connection_error", 0)),
				[]truth{unsent, badHost, early},
				unclassified, failedWith(classify.Request{}),
			},
			{
				scope + " overloaded in the stream", native(scope, statusError, end("overloaded_error", 200)),
				[]truth{inBand},
				ofProvider(semconv.CauseOverloaded, confirm), inBandOf(semconv.ProviderErrorKindOverloaded, "overloaded_error"),
			},
			{
				scope + " overloaded", native(scope, statusError, end("overloaded_error", 529)),
				[]truth{passing},
				ofProvider(semconv.CauseOverloaded, confirm), refusedBy(529, semconv.ProviderErrorKindOverloaded, "overloaded_error"),
			},
			{
				scope + " rate limited", native(scope, statusError, end("rate_limit_error", 429)),
				[]truth{passing},
				ofProvider(semconv.CauseRateLimited, confirm), refusedBy(429, semconv.ProviderErrorKindRateLimited, "rate_limit_error"),
			},
			{
				scope + " not authenticated", native(scope, statusError, end("authentication_error", 401)),
				[]truth{refusal},
				ofProvider(semconv.CauseAuthentication, never), refusedBy(401, semconv.ProviderErrorKindAuthentication, "authentication_error"),
			},
			{
				scope + " a gateway's page", native(scope, statusError, end("502", 0)),
				[]truth{passing},
				ofProvider(semconv.CauseServerError, confirm), refusedBy(502, semconv.ProviderErrorKindServerError, "502"),
			},
			{
				scope + " max_tokens", native(scope, statusOK, with(end("", 200), "anthropic.message.stop_reason", "max_tokens")),
				[]truth{limited},
				verdict{semconv.ClassOutputLimited, semconv.CauseMaxOutputTokens, medium, never},
				func() classify.Request {
					r := withStatus(answered(classify.FinishMaxTokens), 200)
					r.Failed = classify.No
					return r
				}(),
			},
		}...)
	}
	readError := failedWith(classify.Request{Ended: semconv.StreamEndReadError, Basis: classify.Typed, Status: 200})
	bodyBroke := failedWith(classify.Request{Ended: semconv.StreamEndReadError, Status: 200})
	cases = append(cases, []requestCase{
		{
			"one of the SDK's own words under UNSET is a failure, too", native(sdkGo, statusUnset, end("api_error", 200)),
			[]truth{cut, inBand},
			unclassified, failedWith(withStatus(classify.Request{}, 200)),
		},
		{"Go: the body broke", native(sdkGo, statusError, end("connection_error", 200)), []truth{cut}, interrupted(semconv.CauseUnknown, medium), readError},
		{"TypeScript: the body broke", native(sdkTS, statusError, end("client_error", 200)), []truth{cut}, interrupted(semconv.CauseUnknown, low), bodyBroke},
		{
			"Go: anything else", native(sdkGo, statusError, end("client_error", 200)),
			[]truth{cut, garbled},
			unclassified, failedWith(withStatus(classify.Request{}, 200)),
		},
		{
			"Go: a timer of this side", native(sdkGo, statusError, end("client_timeout_error", 0)),
			[]truth{deadline, timer, unsent},
			unclassified, failedWith(classify.Request{}),
		},
		{
			"TypeScript: a timeout, of connecting, of the headers, the SDK's own", native(sdkTS, statusError, end("client_timeout_error", 0)),
			[]truth{timer, unsent, early},
			unclassified, failedWith(classify.Request{}),
		},
		{
			"unknown scope: the body broke, or not", native("", statusError, end("client_error", 200)),
			[]truth{cut, garbled},
			unclassified, failedWith(withStatus(classify.Request{}, 200)),
		},
	}...)
	checkRequests(t, Anthropic{}, cases)
}

func TestAnthropicOthers(t *testing.T) {
	tool := native(sdkGo, statusError, map[string]any{
		"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "write", "gen_ai.tool.call.id": "toolu_1", "error.type": "tool_error",
		"gen_ai.tool.call.arguments": canary,
	})
	tool.name = "anthropic.custom_tool_use write"
	_, d, facts := tool.read(t)
	assert.Equal(t, "anthropic", d.Name())
	assert.Equal(t, &classify.Tool{
		Start: start, End: end, CallID: "toolu_1", Name: "write", Outcome: semconv.ToolOutcomeFailed, ErrorType: "tool_error",
	}, facts.Tool)
	tool.status = statusUnset
	delete(tool.attrs, "error.type")
	_, _, facts = tool.read(t)
	assert.Equal(t, semconv.ToolOutcomeInterrupted, facts.Tool.Outcome, "stopped by the application")

	run := native(sdkGo, statusError, map[string]any{"gen_ai.operation.name": "invoke_agent", "error.type": "invalid_request_error"})
	run.name = "anthropic.messages.tool_runner"
	_, _, facts = run.read(t)
	assert.Equal(t, &classify.Run{Start: start, End: end, Ended: classify.Yes, Failed: classify.Yes, ErrorType: "invalid_request_error", Error: facts.Run.Error}, facts.Run)

	head, _, _ := native(sdkGo, statusOK, map[string]any{"gen_ai.operation.name": "count_tokens"}).read(t)
	assert.Equal(t, Head{Exchange: true}, head, "not a request, but an HTTP exchange")
}
