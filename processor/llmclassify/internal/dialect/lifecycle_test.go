package dialect

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
)

// The state of a response, by any producer, outweighs what the span leaves open, and nothing
// that it says is lost. A span that failed has no state.
func TestResponseStatus(t *testing.T) {
	const finish = "gen_ai.response.finish_reasons"
	for _, scope := range []string{"", "opentelemetry.instrumentation.openai.v1", "@traceloop/instrumentation-openai", "opentelemetry.instrumentation.google_genai", "go.opentelemetry.io/obi"} {
		for state, means := range lifecycles {
			for _, status := range []ptrace.StatusCode{statusUnset, statusOK} {
				head, _, facts := shape{scope: scope, status: status, attrs: map[string]any{
					"gen_ai.operation.name": "fetch_response", keyResponseStatus: state, "gen_ai.response.id": "resp_1",
				}}.read(t)
				assert.Equal(t, Head{Kind: Request}, head, "it is not the request that made the response")
				r := facts.Request
				if means.provider != semconv.ProviderErrorKindUnset {
					assert.Equal(t, means.provider, r.Provider.Kind, "%s %s", scope, state)
					assert.True(t, r.Provider.InBand)
					assert.Equal(t, classify.Yes, r.Failed)
					continue
				}
				assert.Equal(t, means.finish, r.Finish, "%s %s", scope, state)
				assert.Equal(t, semconv.StreamEndTerminalEvent, r.Ended)
			}
			_, _, facts := shape{scope: scope, status: statusError, attrs: map[string]any{
				"gen_ai.operation.name": "fetch_response", keyResponseStatus: state, "error.type": "RateLimitError",
			}}.read(t)
			assert.Equal(t, semconv.ProviderErrorKindRateLimited, facts.Request.Provider.Kind, "%s %s", scope, state)
		}
	}
	for _, c := range []struct {
		state, reason string
		want          classify.Finish
	}{
		{"incomplete", "length", classify.FinishMaxTokens},
		{"incomplete", "content_filter", classify.FinishContentFilter},
		{"incomplete", "stop", classify.FinishLimited},
		{"completed", "tool_calls", classify.FinishToolCalls},
		{"in_progress", "stop", classify.FinishWaiting},
		{"completed", "error", classify.FinishMissing},
		{"of a later version", "stop", classify.FinishStop},
	} {
		_, _, facts := shape{attrs: map[string]any{"gen_ai.operation.name": "chat", keyResponseStatus: c.state, finish: []any{c.reason}}}.read(t)
		assert.Equal(t, c.want, facts.Request.Finish, "%s, %s", c.state, c.reason)
	}
}

// A resource names the producer of spans without a scope, and of no others.
func TestScopeName(t *testing.T) {
	for _, c := range []struct {
		scope    string
		resource map[string]any
		want     string
	}{
		{"own", map[string]any{"otel.scope.name": "go.opentelemetry.io/obi"}, "own"},
		{"", map[string]any{"otel.scope.name": "go.opentelemetry.io/obi"}, "go.opentelemetry.io/obi"},
		{"", map[string]any{"otel.library.name": "github.com/grafana/beyla"}, "github.com/grafana/beyla"},
		{"", map[string]any{"otel.scope.name": "", "otel.library.name": "github.com/grafana/beyla"}, "github.com/grafana/beyla"},
		{"", map[string]any{"otel.scope.name": 3}, ""},
		{"", nil, ""},
	} {
		resource, scope := pcommon.NewResource(), pcommon.NewInstrumentationScope()
		scope.SetName(c.scope)
		require.NoError(t, resource.Attributes().FromRaw(c.resource))
		assert.Equal(t, c.want, ScopeName(resource, scope))
	}
}

// The error of a span is identified by its type and its message, as far as those say something.
func TestErrorOf(t *testing.T) {
	const message = "Error code: 429 - too many requests"
	id := func(status ptrace.StatusCode, errorType, message string) classify.ErrorID {
		span := ptrace.NewSpan()
		span.Status().SetCode(status)
		span.Status().SetMessage(message)
		return errorOf(span, errorType)
	}
	assert.Equal(t, id(statusError, "RateLimitError", message), id(statusError, "openai.RateLimitError", message))
	assert.NotEqual(t, id(statusError, "RateLimitError", message), id(statusError, "APIError", message))
	assert.NotEqual(t, id(statusError, "", message), id(statusError, "", message+"!"))
	assert.Zero(t, id(statusUnset, "RateLimitError", message), "it has not failed")
	assert.Zero(t, id(statusError, "", "AI SDK operation failed"), "every error of the SDK has this message")
	assert.Zero(t, id(statusError, "", "failed"))
}

// Codex records no more of an answer than its usage: one without a token of output was empty.
func TestCodexEmptyAnswer(t *testing.T) {
	for tokens, empty := range map[[2]string]bool{
		{"0", "0"}: true, {"0", ""}: true, {"5", "5"}: true, {"5", "0"}: false, {"5", "4"}: false, {"5", ""}: false, {"", "5"}: false, {"none", "0"}: false,
	} {
		span := codexSpan("handle_responses", map[string]any{
			"gen_ai.usage.output_tokens": tokens[0], "codex.usage.reasoning_output_tokens": tokens[1], "gen_ai.usage.input_tokens": "11",
		})
		_, _, facts := span.read(t)
		v := classify.Judge(&classify.Run{Requests: []classify.Request{*facts.Request}})
		assert.Equal(t, empty, v.Requests[0].Class == semconv.ClassEmptyCompletion, "%q", tokens)
		assert.NotEqual(t, semconv.RetrySafetySafeAutoRetry, v.Requests[0].Retry.Safety)
	}
}
