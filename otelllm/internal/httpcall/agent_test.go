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

// filled reports whether a call that a clean end leaves open counts as complete.
func filled(t *testing.T, req *http.Request) bool {
	t.Helper()
	p, _, ok := (&Recogniser{}).Recognise(NewPreview(req))
	require.True(t, ok)
	d := p.NewDecoder("text/event-stream")
	d.Write([]byte("data: " + `{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{\"pa"}}]}}]}` + "\n\n"))
	d.Close()
	return d.State().ToolInputsCompleted == 1
}

// A client that may fill the inputs of calls is one whose User-Agent names none that is known to
// check them, or the providers of the AI SDK that do.
func TestFillsInputs(t *testing.T) {
	const here, there = "http://127.0.0.1/v1/chat/completions", "https://openrouter.ai/api/v1/chat/completions"
	const library = "ai-sdk/provider-utils/5.0.42 runtime/node.js/24"
	for _, tt := range []struct {
		agent, target string
		fills         bool
	}{
		{"ai-sdk/openrouter/3.1.0 " + library, here, true},
		{"ai-sdk/openrouter/2.5.0 " + library, here, true},
		{"ai-sdk/openrouter/10.0.0", here, true},
		{"mine/1 ai-sdk/openrouter/3.1.0 " + library, there, true},
		{"ai-sdk/openrouter/2.3.3 " + library, here, false},
		{"ai-sdk/openrouter/2.3.3 " + library, there, false},
		{"ai-sdk/openrouter/1.5.4", there, false},
		{"opencode/1.2.3 " + library, there, true},
		{"opencode/1.2.3 " + library, here, false},
		{"ai-sdk/openai-compatible/3.0.37 " + library, here, true},
		{"ai-sdk/openai-compatible/2.0.0 " + library, there, true},
		{library, here, true},
		{"opencode/1.2.3 ai-sdk/openai-compatible/2.0.0 " + library, here, false},
		{"Kilo-Code/7.7.9 " + library, here, false},
		{library + " ai-sdk/openai/3.0.0", there, false},
		{"ai-sdk-openai/4.0.118 ai-sdk-provider-utils/5.0.81 node.js/v24.0.0", here, false},
		{"ai-sdk-openrouter/4.0.0 ai-sdk-provider-utils/5.0.81", here, true},
		{"mine/1 ai-sdk-provider-utils/5.0.81", there, true},
		{"OpenAI/Go 3.1.0", here, false},
		{"Go-http-client/1.1", here, false},
		{"google-genai-sdk/1.62.0 gl-go/go1.26", here, false},
		{"codex_cli_rs/0.169.0 (Linux)", here, false},
		{"claude-cli/2.1.330 (external, cli)", here, false},
		{"OpenAI/Python 2.1.0", there, true},
		{"langchainjs-openai/1.0.0 OpenAI/JS 6.1.0", here, true},
		{"Anthropic/JS 0.122.0", here, true},
		{"Mozilla/5.0 (X11; Linux x86_64)", there, true},
		{"Mozilla/5.0 (X11; Linux x86_64)", here, true},
		{"", there, true},
		{"", here, true},
	} {
		req, err := http.NewRequest(http.MethodPost, tt.target, strings.NewReader(`{"model":"m","messages":[]}`))
		require.NoError(t, err)
		req.Header.Set("User-Agent", tt.agent)
		assert.Equal(t, tt.fills, filled(t, req), "%s at %s", tt.agent, tt.target)
	}
	// Without a User-Agent Go's client adds its own to what it sends. What it has received or passes
	// on is of a client that has none.
	req, err := http.NewRequest(http.MethodPost, here, strings.NewReader(`{"model":"m","messages":[]}`))
	require.NoError(t, err)
	assert.False(t, filled(t, req))
	req.RequestURI = "/v1/chat/completions"
	assert.True(t, filled(t, req))
}
