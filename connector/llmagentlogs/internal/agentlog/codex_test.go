package agentlog

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/semconv"
)

// The event response.failed, whose JSON Codex records over HTTP, has the code of the error. Nothing
// of it is copied.
func TestCodexResponseFailed(t *testing.T) {
	message := func(failure, more string) string {
		return `{"type":"response.failed","response":{"status":"failed","error":` + failure + `,"instructions":"secret` + more + `"}}`
	}
	for _, tt := range []struct {
		name, message string
		want          semconv.ProviderErrorKind
	}{
		{"a code", message(`{"code":"server_error","message":"secret"}`, ""), semconv.ProviderErrorKindServerError},
		{"another code", message(`{"code":"rate_limit_exceeded","message":"secret"}`, ""), semconv.ProviderErrorKindRateLimited},
		{"a code that is not known", message(`{"code":"secret","message":"server_error"}`, ""), semconv.ProviderErrorKindUnknown},
		{"no code", message(`{"code":null,"message":"server_error"}`, ""), semconv.ProviderErrorKindUnset},
		{"a code of another form", message(`{"code":["server_error"]}`, ""), semconv.ProviderErrorKindUnset},
		{"no error", message(`null`, ""), semconv.ProviderErrorKindUnset},
		{"a message that is too long", message(`{"code":"server_error"}`, strings.Repeat(" ", maxCodexError)), semconv.ProviderErrorKindUnset},
		{"cut short", message(`{"code":"server_error"}`, "")[:60], semconv.ProviderErrorKindUnset},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e, _, ok := Reader{}.Read("", recordOf(t, map[string]any{
				"event.name": "codex.sse_event", "conversation.id": "c1", "event.kind": "response.failed", "error.message": tt.message,
			}))
			require.True(t, ok)
			assert.Equal(t, Done, e.Kind)
			assert.Equal(t, Failure{Failed: true, Provider: tt.want, InBand: tt.want != semconv.ProviderErrorKindUnset}, e.Failure)
		})
	}
}
