package dialect

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
)

const springBoot = "org.springframework.boot"

// springChat is a model call of Spring AI 2.0 under Micrometer, whose values are strings.
func springChat(status ptrace.StatusCode, more map[string]any, events ...event) shape {
	attrs := map[string]any{
		"gen_ai.operation.name": "chat", "gen_ai.system": "openai", "gen_ai.request.model": "model-test", "gen_ai.response.model": "none",
		"gen_ai.request.temperature": "0.7", "spring.ai.model.request.tool.names": `["write"]`,
	}
	maps.Copy(attrs, more)
	return shape{scope: springBoot, name: "chat model-test", kind: ptrace.SpanKindInternal, status: status, attrs: attrs, events: events}
}

func TestSpringAIRequest(t *testing.T) {
	type m = map[string]any
	response := func(more m) m {
		all := m{"gen_ai.response.id": "chatcmpl-1", "gen_ai.response.model": "model-test", "gen_ai.usage.input_tokens": "12", "gen_ai.usage.output_tokens": "6", "gen_ai.usage.total_tokens": "18"}
		maps.Copy(all, more)
		return all
	}
	streaming := func(more m) m {
		all := m{"gen_ai.request.stream": "true"}
		maps.Copy(all, more)
		return all
	}
	const finish = "gen_ai.response.finish_reasons"
	refused := func(class string, kind semconv.ProviderErrorKind, c semconv.Cause, really truth, safety semconv.RetrySafety) requestCase {
		return requestCase{class, springChat(statusError, nil, event{class: class, message: canary}), []truth{really}, ofProvider(c, safety), said(kind, codeOf(class))}
	}
	before := transport(semconv.TransportCauseClosedBeforeHeaders, "reactor.netty.http.client.PrematureCloseException")
	before.Transport.Code, before.Basis = "", classify.Corroborated
	during := before
	during.Transport.Cause = semconv.TransportCauseBodyTruncated
	vague := transport(semconv.TransportCauseConnectRefused, "java.net.ConnectException")
	vague.Basis = classify.Inferred
	checkRequests(t, GenAI{}, []requestCase{
		{"an answer", springChat(statusUnset, response(m{finish: `["STOP"]`})), []truth{success}, well, answered(classify.FinishStop)},
		{"a streamed answer", springChat(statusUnset, streaming(response(m{finish: `["STOP"]`}))), []truth{success}, well, answered(classify.FinishStop)},
		{"calls", springChat(statusUnset, streaming(response(m{finish: `["tool_use"]`}))), []truth{success}, well, answered(classify.FinishToolCalls)},
		{
			"a limit", springChat(statusUnset, response(m{finish: `["LENGTH"]`})),
			[]truth{limited},
			verdict{semconv.ClassOutputLimited, semconv.CauseMaxOutputTokens, medium, never},
			answered(classify.FinishMaxTokens),
		},
		refused("org.springframework.web.reactive.function.client.WebClientResponseException$TooManyRequests", semconv.ProviderErrorKindRateLimited, semconv.CauseRateLimited, passing, confirm),
		refused("org.springframework.web.client.HttpServerErrorException$ServiceUnavailable", semconv.ProviderErrorKindOverloaded, semconv.CauseOverloaded, passing, confirm),
		refused("com.openai.errors.RateLimitException", semconv.ProviderErrorKindRateLimited, semconv.CauseRateLimited, passing, confirm),
		refused("com.anthropic.errors.UnauthorizedException", semconv.ProviderErrorKindAuthentication, semconv.CauseAuthentication, refusal, never),
		{
			"any failure that may pass", springChat(statusError, nil, event{class: "org.springframework.ai.retry.TransientAiException", message: canary}),
			[]truth{passing, cut, unsent},
			unclassified, failedWith(classify.Request{}),
		},
		{"an I/O error at any stage", springChat(statusError, nil, event{class: "com.openai.errors.OpenAIIoException", message: canary}), []truth{unsent, cut}, unclassified, failedWith(classify.Request{})},
		{
			"no connection", springChat(statusError, nil, event{class: "java.net.ConnectException", message: canary}),
			[]truth{unsent},
			verdict{semconv.ClassConnectionFailed, semconv.CauseConnectRefused, low, confirm},
			vague,
		},
		{
			"closed before the headers", springChat(statusError, streaming(nil), event{class: "reactor.netty.http.client.PrematureCloseException", message: "Connection prematurely closed BEFORE response"}),
			[]truth{early},
			interrupted(semconv.CauseClosedBeforeHeaders, medium), before,
		},
		{
			"cut", springChat(statusError, streaming(nil), event{class: "reactor.netty.http.client.PrematureCloseException", message: "Connection prematurely closed DURING response"}),
			[]truth{cut},
			interrupted(semconv.CauseBodyTruncated, medium), during,
		},
		{
			"the stream just ended", springChat(statusUnset, streaming(response(m{"gen_ai.usage.input_tokens": "0", "gen_ai.usage.output_tokens": "0", "gen_ai.usage.total_tokens": "0"}))),
			[]truth{cut},
			interrupted(semconv.CauseCleanEOF, low),
			classify.Request{Ended: semconv.StreamEndEOF},
		},
		{"ended and counted, by a server without finish reasons", springChat(statusUnset, streaming(response(nil))), []truth{success}, unknown, classify.Request{}},
		{
			"no longer read", springChat(statusUnset, streaming(nil)),
			[]truth{stopped},
			aborted(semconv.CauseUnknown, low),
			classify.Request{Ended: semconv.StreamEndCancelled, Abort: classify.Abort{Source: semconv.AbortSourceUnknown}},
		},
		{"nothing of a call that was not streamed", springChat(statusUnset, nil), []truth{stopped, success}, unknown, classify.Request{}},
	})
}

func TestSpringAITool(t *testing.T) {
	for status, want := range map[ptrace.StatusCode]semconv.ToolOutcome{statusUnset: semconv.ToolOutcomeUnset, statusError: semconv.ToolOutcomeFailed} {
		tool := shape{scope: springBoot, name: "execute_tool write", status: status, attrs: map[string]any{
			"gen_ai.operation.name": "execute_tool", "gen_ai.system": "spring_ai", "spring.ai.kind": "tool_call", "spring.ai.tool.type": "function",
			"spring.ai.tool.definition.name": "write", "spring.ai.tool.call.id": "call_1", "spring.ai.tool.call.arguments": canary,
		}}
		_, _, facts := tool.read(t)
		assert.Equal(t, &classify.Tool{Start: start, End: end, CallID: "call_1", Name: "write", Outcome: want}, facts.Tool)
	}
	client := shape{scope: springBoot, name: "spring_ai chat_client", attrs: map[string]any{"gen_ai.operation.name": "framework", "spring.ai.kind": "chat_client"}}
	head, _, _ := client.read(t)
	assert.Equal(t, Head{}, head)
}

func TestNumeral(t *testing.T) {
	assert.Equal(t, classify.Counted(12), numeral("12"))
	assert.Equal(t, classify.Counted(0), numeral("0"))
	for _, s := range []string{"", "-1", "1.5", "99999999999", "none"} {
		assert.Equal(t, classify.Count(0), numeral(s), s)
	}
}
