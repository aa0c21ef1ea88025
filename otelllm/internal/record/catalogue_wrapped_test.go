package record

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/otelllm/internal/catalogue/source"
	"github.com/otelllm/otelllm-go/otelllm/internal/spanfacts"
)

// wrappers are what gateways make of a provider's error: they put it as text into their own.
var wrappers = map[string]func(status int, body string) string{
	"OpenRouter's raw": func(status int, body string) string {
		return fmt.Sprintf(`{"error":{"message":"Provider returned error","code":%d,"metadata":{"raw":%s,"provider_name":"P"}},"user_id":"u"}`, status, quote(body))
	},
	"LiteLLM's message": func(status int, body string) string {
		return fmt.Sprintf(`{"error":{"message":%s,"type":null,"param":null,"code":"%d"}}`, quote("litellm.APIError: APIError: PException - "+body+". Received Model Group=m"), status)
	},
	"quoted twice": func(status int, body string) string {
		return fmt.Sprintf(`{"error":{"message":%s,"type":"upstream_error","code":"%d"}}`, quote(`upstream said {"error":`+quote(body)+`}`), status)
	},
	"a detail": func(_ int, body string) string { return `{"detail":` + quote(body) + `}` },
	"a list":   func(_ int, body string) string { return "[" + body + "]" },
	"plain":    func(status int, body string) string { return fmt.Sprintf("%d error from upstream: %s", status, body) },
}

func quote(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}

// TestWrappedByGateways: an error means the same however a gateway quotes it. What a status
// alone says is not in the text, so it is left out here.
func TestWrappedByGateways(t *testing.T) {
	entries, _, err := source.Load(filepath.Join("..", "catalogue"))
	require.NoError(t, err)
	chat := protocolNamed(t, "openai_chat")
	checked := 0
	for i := range entries {
		e := &entries[i]
		if e.Status == 0 || len(e.Headers) > 0 || strings.HasPrefix(e.Key(), "status ") || !json.Valid([]byte(e.Body())) {
			continue
		}
		for name, wrap := range wrappers {
			f := spanfacts.Request{}
			f.Status = e.Status
			resp := response{protocol: chat, errorResponse: &errorResponse{header: http.Header{}, body: []byte(wrap(e.Status, e.Body()))}}
			resp.readError(&f, askedOf(e))
			assert.Equal(t, e.ProviderErrorKind().String(), f.Provider.Kind.String(), "%s: %s: %s", e.ID, name, resp.errorResponse.body)
			assert.Equal(t, e.History, strings.TrimSuffix(f.Provider.History.String(), "unset"), "%s: %s", e.ID, name)
			checked++
		}
	}
	require.Greater(t, checked, 1000)
}
