package proxy

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestUpstreamFor(t *testing.T) {
	for _, tt := range []struct{ path, header, want string }{
		{"/v1/chat/completions", "", "api.openai.com"},
		{"/v1/responses", "", "api.openai.com"},
		{"/v1/responses/resp_1?stream=true", "", "api.openai.com"},
		{"/v1/responses/compact", "", "api.openai.com"},
		{"/v1/completions", "", "api.openai.com"},
		{"/v1/embeddings", "", "api.openai.com"},
		{"/v1/models", "", "api.openai.com"},
		{"/v1/models/ft:gpt-4o:a:b", "", "api.openai.com"},
		{"/v1/realtime?model=m", "", "api.openai.com"},
		{"/v1/messages", "", "api.anthropic.com"},
		{"/v1/messages/count_tokens?beta=true", "", "api.anthropic.com"},
		{"/v1/models", "Anthropic-Version", "api.anthropic.com"},
		{"/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse", "", "generativelanguage.googleapis.com"},
		{"/v1beta/interactions", "", "generativelanguage.googleapis.com"},
		{"/v1/models/gemini-2.5-pro:generateContent", "", "generativelanguage.googleapis.com"},
		{"/v1/models", "X-Goog-Api-Key", "generativelanguage.googleapis.com"},
		{"/v1/agents/completions", "", "api.mistral.ai"},
		{"/v1/fim/completions", "", "api.mistral.ai"},
		{"/v2/chat", "", "api.cohere.com"},
		{"/backend-api/codex/responses", "", "chatgpt.com"},
		{"/v1/conversations", "", ""}, // OpenAI and Mistral both have it
		{"/v1/chat/completionsx", "", ""},
		{"/v1/message", "", ""},
		{"/api/chat", "", ""},
		{"/", "", ""},
	} {
		r := httptest.NewRequest(http.MethodPost, tt.path, nil)
		if tt.header != "" {
			r.Header.Set(tt.header, "x")
		}
		u, ok := UpstreamFor(r)
		assert.Equal(t, tt.want != "", ok, tt.path)
		if ok {
			assert.Equal(t, "https://"+tt.want, u.String(), tt.path)
		}
	}
}

func TestRoutes(t *testing.T) {
	named := func(name string) *url.URL {
		up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, name+" "+r.RequestURI)
		}))
		t.Cleanup(up.Close)
		u, err := url.Parse(up.URL)
		require.NoError(t, err)
		return u
	}
	a, b, c, rest := named("a"), named("b"), named("c"), named("rest")
	a.Path = "/base/"
	proxy := start(t, nil, func(config *Config) {
		config.Upstreams = []Upstream{{URL: rest}, {Prefix: "/a", URL: a}, {Prefix: "/b c/", URL: b}, {Host: "c.local", URL: c}, {Provider: "api.openai.com", URL: b}, {Provider: "api.anthropic.com"}}
	})
	for _, tt := range []struct{ host, path, want string }{
		{"", "/a/v1/models?x=/a", "a /base/v1/models?x=/a"},
		{"", "/a", "a /base"},
		{"", "/ab/v1", "rest /ab/v1"},
		{"", "/%61/v1", "a /base/v1"},
		{"", "/a%2Fv1/x", "rest /a%2Fv1/x"}, // of one segment
		{"c.local", "/a/v1", "c /a/v1"},
		{"", "/v1/responses", "b /v1/responses"},
		{"", "/b%20c/v1%2Fx", "b /v1%2Fx"},
		{"C.local", "/v1/models", "c /v1/models"},
		{"c.local:1234", "/b/v1", "c /b/v1"},
		{"localhost", "/v1/other", "rest /v1/other"},
		{"", "/v1/messages", `{"error":{"type":"otelllm_no_upstream","message":"otelllm knows no upstream for this path: name one with --upstream"}}` + "\n"},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+proxy.addr+tt.path, nil)
		require.NoError(t, err)
		if tt.host != "" {
			req.Host = tt.host
		}
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		got, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		assert.Equal(t, tt.want, string(got), tt.path)
	}
}

func TestNoUpstream(t *testing.T) {
	proxy := start(t, nil)
	resp, err := http.Get("http://" + proxy.addr + "/unknown")
	require.NoError(t, err)
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	assert.Equal(t, http.StatusNotFound, resp.StatusCode)
	assert.Contains(t, string(got), "--upstream")
}

func TestConfigErrors(t *testing.T) {
	for _, text := range []string{"", "/path", "ftp://h", "https://user:secret@h", "https://h?key=secret", "https://h#secret"} {
		u, err := url.Parse(text)
		require.NoError(t, err)
		_, err = New(Config{Upstreams: []Upstream{{URL: u}}})
		require.Error(t, err, text)
		assert.NotContains(t, err.Error(), "secret")
	}
	_, err := New(Config{Upstreams: []Upstream{{}}})
	require.Error(t, err)
}

// A redirect within the upstream leads through the proxy, and any other to where the upstream says.
func TestLocations(t *testing.T) {
	for _, tt := range []struct{ base, prefix, path, to, want string }{
		{"https://up.example", "", "/v1/x", "/v2/x?a=b%20c#d", "/v2/x?a=b%20c#d"},
		{"https://up.example", "", "/v1/x", "https://up.example/v2/x?", "/v2/x?"},
		{"https://up.example", "/openai", "/openai/v1/x", "/v2/x", "/openai/v2/x"},
		{"https://up.example", "/openai", "/openai/v1/x", "../login", "/openai/login"},
		{"https://up.example/base", "/openai", "/openai/v1/x", "/base/v2/a%2Fb", "/openai/v2/a%2Fb"},
		{"https://up.example/base", "/openai", "/openai/v1/x", "/basement", "https://up.example/basement"},
		{"https://up.example/base", "", "/v1/x", "/login", "https://up.example/login"},
		{"https://up.example", "/openai", "/openai/v1/x", "https://other.example/v1/x", "https://other.example/v1/x"},
		{"https://up.example", "/openai", "/openai/v1/x", "http://up.example/v1/x", "http://up.example/v1/x"},
		{"https://up.example", "/openai", "/openai/v1/x", ":", ":"},
	} {
		base, err := url.Parse(tt.base)
		require.NoError(t, err)
		x := &exchange{base: base, prefix: tt.prefix, target: target(base, httptest.NewRequest(http.MethodPost, tt.path, nil), tt.prefix)}
		assert.Equal(t, tt.want, x.location(tt.to), "%+v", tt)
	}
}

// A client follows a redirect of an upstream below a prefix, as it would without the proxy.
func TestRedirect(t *testing.T) {
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/models" {
			http.Redirect(w, r, "/v2/models", http.StatusTemporaryRedirect)
			return
		}
		_, _ = io.WriteString(w, r.URL.Path+" "+r.Header.Get("Authorization"))
	}))
	defer up.Close()
	to, err := url.Parse(up.URL)
	require.NoError(t, err)
	proxy := start(t, nil, func(config *Config) { config.Upstreams = []Upstream{{Prefix: "/openai", URL: to}} })
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+proxy.addr+"/openai/v1/models", nil)
	require.NoError(t, err)
	req.Header.Set("Authorization", "key")
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	assert.Equal(t, "/v2/models key", string(body))
}
