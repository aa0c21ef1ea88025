package proxy

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What a website in a browser on this machine can send gets no further than the proxy. What
// agents send does.
func TestGuard(t *testing.T) {
	for _, tt := range []struct {
		name, host, origin, site string
		refused                  bool
	}{
		{name: "an SDK"},
		{name: "a name for this machine", host: "localhost:8787"},
		{name: "a name below it", host: "otelllm.localhost"},
		{name: "another address", host: "192.0.2.1:8787"},
		{name: "an address of IPv6", host: "[::1]:8787"},
		{name: "from a container", host: "host.docker.internal:8787"},
		{name: "a host of --upstream", host: "llm.example:8787"},
		{name: "a host of --upstream, absolute", host: "LLM.example."},
		{name: "a provider", host: "api.openai.com"},
		{name: "rebinding", host: "rebind.example:8787", refused: true},
		{name: "rebinding, without a port", host: "rebind.example", refused: true},
		{name: "rebinding, of its own origin", host: "rebind.example:8787", origin: "http://rebind.example:8787", site: "same-origin", refused: true},
		{name: "a name that begins as an address", host: "127.0.0.1.rebind.example", refused: true},
		{name: "a name that begins as this machine's", host: "localhost.rebind.example", refused: true},
		{name: "a website", origin: "https://site.example", refused: true},
		{name: "a website, as browsers say", origin: "https://site.example", site: "cross-site", refused: true},
		{name: "a website at an address", origin: "http://192.0.2.1", refused: true},
		{name: "an image of a website", site: "cross-site", refused: true},
		{name: "a frame of a website", origin: "null", site: "cross-site", refused: true},
		{name: "a website that has a provider's name", origin: "https://chatgpt.com", site: "cross-site", refused: true},
		{name: "no valid origin", origin: "http://%zz", refused: true},
		{name: "the address bar", site: "none"},
		{name: "a page of this machine", origin: "http://localhost:3000", site: "cross-site"},
		{name: "a client that says where it connects to", host: "127.0.0.1:8787", origin: "http://127.0.0.1:8787"},
		{name: "a client that says the provider", origin: "https://api.openai.com"},
		{name: "VS Code", origin: "vscode-webview://0a1b", site: "cross-site"},
		{name: "Electron", origin: "file://", site: "cross-site"},
		{name: "an application without an origin", origin: "null"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			up := serveRaw(t, func(u *upstream, p *peer) {
				for p.request() != "" {
					u.requests.Add(1)
					p.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
				}
			})
			proxy := start(t, up.url(), func(c *Config) {
				c.Upstreams = append(c.Upstreams, Upstream{Host: "llm.example", URL: up.url()})
			})
			client := &http.Client{Transport: &http.Transport{}}
			defer client.CloseIdleConnections()
			for _, upgrade := range []bool{false, true} {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, proxy.url().String()+"/v1/responses", strings.NewReader("{}"))
				require.NoError(t, err)
				if upgrade {
					req.Header.Set("Connection", "Upgrade")
					req.Header.Set("Upgrade", "websocket")
				}
				if tt.host != "" {
					req.Host = tt.host
				}
				if tt.origin != "" {
					req.Header.Set("Origin", tt.origin)
				}
				if tt.site != "" {
					req.Header.Set("Sec-Fetch-Site", tt.site)
				}
				resp, err := client.Do(req)
				require.NoError(t, err)
				require.NoError(t, resp.Body.Close())
				want, sent := http.StatusOK, int32(1)
				if tt.refused {
					want, sent = http.StatusForbidden, 0
				}
				assert.Equal(t, want, resp.StatusCode)
				assert.Equal(t, sent, up.requests.Swap(0))
			}
			assert.Equal(t, tt.refused, strings.Contains(proxy.logs.String(), "request refused"))
			assert.NotContains(t, proxy.logs.String(), ".example")
		})
	}
}

// Who listens beyond loopback has said that others may use the proxy, by whichever name.
func TestGuardIsForLoopback(t *testing.T) {
	s, err := New(Config{Upstreams: []Upstream{{URL: &url.URL{Scheme: "http", Host: "192.0.2.1"}}}})
	require.NoError(t, err)
	for addr, refused := range map[string]bool{"192.0.2.7": false, "127.0.0.1": true, "::1": true} {
		r := httptest.NewRequest(http.MethodGet, "http://proxy.example/v1/models", nil)
		r = r.WithContext(context.WithValue(t.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.ParseIP(addr), Port: 8787}))
		assert.Equal(t, refused, s.foreign(r) != "", addr)
	}
}
