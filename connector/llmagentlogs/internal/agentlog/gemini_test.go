package agentlog

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/semconv"
)

// The codes in the message of a refused request are more precise than its HTTP status. Nothing of
// the message is copied.
func TestGeminiRefusal(t *testing.T) {
	message := func(reason, more string) string {
		return `{"error":{"code":400,"message":"secret` + more + `","status":"INVALID_ARGUMENT","details":[{"reason":1},` +
			`{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"` + reason + `","domain":"googleapis.com"}]}}`
	}
	for _, tt := range []struct {
		name    string
		status  int
		message string
		want    semconv.ProviderErrorKind
	}{
		{"an invalid key", http.StatusBadRequest, message("API_KEY_INVALID", ""), semconv.ProviderErrorKindAuthentication},
		{"a reason that is not known", http.StatusBadRequest, message("secret", ""), semconv.ProviderErrorKindInvalidRequest},
		{"a reason in the text", http.StatusBadRequest, message("secret", ` \"reason\":\"API_KEY_INVALID\"`), semconv.ProviderErrorKindInvalidRequest},
		{"a message that is too long", http.StatusBadRequest, message("API_KEY_INVALID", strings.Repeat(" ", maxGeminiError)), semconv.ProviderErrorKindInvalidRequest},
		{"details of another form", http.StatusBadRequest, `{"error":{"status":"UNAUTHENTICATED","details":"API_KEY_INVALID"}}`, semconv.ProviderErrorKindAuthentication},
		{"no JSON", http.StatusServiceUnavailable, "API_KEY_INVALID", semconv.ProviderErrorKindOverloaded},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e, _, ok := Reader{}.Read("", recordOf(t, map[string]any{
				"event.name": "gemini_cli.api_error", "session.id": "c1", "error.type": "ApiError",
				"status_code": tt.status, "error.message": tt.message,
			}))
			require.True(t, ok)
			assert.Equal(t, Failure{Failed: true, End: semconv.StreamEndHTTPError, Provider: tt.want, Type: "ApiError"}, e.Failure)
		})
	}
}
