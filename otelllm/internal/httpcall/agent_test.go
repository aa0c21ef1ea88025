package httpcall

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A header that names an agent or tools of the server hides what is offered.
func TestHeadersOfAgents(t *testing.T) {
	const body = `{"model":"m","messages":[]}`
	for header, hides := range map[string]bool{
		"X-Openclaw-Agent-Id": true, "X-Mcp-Servers": true, "X-Litellm-Mcp-Servers": true,
		"X-Claude-Code-Agent-Id": false, "Openai-Beta": false, "X-Session-Id": false,
	} {
		req, err := http.NewRequest(http.MethodPost, "http://localhost/v1/chat/completions", strings.NewReader(body))
		require.NoError(t, err)
		req.Header.Set(header, "x")
		preview := NewPreview(req)
		p, _, ok := (&Recogniser{}).Recognise(preview)
		require.True(t, ok)
		assert.Equal(t, hides, Parse(p, []byte(body)).ProviderTools == nil, header)
		preview.Close()
	}
}
