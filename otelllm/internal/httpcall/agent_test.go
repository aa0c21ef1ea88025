package httpcall

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/otelllm/internal/wire"
)

// A header that names an agent or tools of the server hides what is offered.
func TestHeadersOfAgents(t *testing.T) {
	const body = `{"model":"m","messages":[]}`
	for header, hides := range map[string]bool{
		"X-Openclaw-Agent-Id": true, "X-Mcp-Servers": true, "X-Litellm-Mcp-Servers": true, "x-openclaw-session-key": true,
		"X-Hermes-Session-Id": true, "x-hermes-session-key": true, "X-Session-API-Key": true, "X-Claude-Allowed-Tools": true,
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

// So does the protocol that the body turns out to have instead, and a host that serves agents.
func TestOtherSignsOfAgents(t *testing.T) {
	responses, ok := wire.ByName("openai_responses")
	require.True(t, ok)
	recogniser := &Recogniser{Protocol: responses}
	for target, hides := range map[string]bool{
		"https://abc.agents.do-ai.run/v1/messages": true, "https://ABC.agents.do-ai.run./v1/messages": true,
		"https://inference.do-ai.run/v1/messages": false, "https://agents.do-ai.run.example/v1/messages": false,
	} {
		const body = `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}`
		req, err := http.NewRequest(http.MethodPost, target, struct{ io.Reader }{strings.NewReader(body)})
		require.NoError(t, err)
		p, _, ok := recogniser.Recognise(NewPreview(req))
		require.True(t, ok)
		other := recogniser.Alternative(req, p)
		require.NotNil(t, other)
		for _, p := range []wire.Protocol{p, other} {
			if p.Name() == "anthropic_messages" {
				assert.Equal(t, hides, Parse(p, []byte(body)).ProviderTools == nil, target)
			}
		}
	}
}
