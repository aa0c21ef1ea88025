package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// elsewhere is an HTTP proxy in the program's environment. It notes which hosts the program
// would have connected to, and refuses.
type elsewhere struct {
	*httptest.Server
	mu    sync.Mutex
	hosts []string // guarded by mu
}

func newElsewhere(t *testing.T) *elsewhere {
	t.Helper()
	e := &elsewhere{}
	e.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.hosts = append(e.hosts, r.Host)
		w.WriteHeader(http.StatusForbidden)
	}))
	t.Cleanup(e.Close)
	return e
}

func (e *elsewhere) asked() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.hosts
}

// listens starts the program, and returns the URL on which it listens.
func (p *program) listens(t *testing.T) string {
	t.Helper()
	require.NoError(t, p.Start())
	t.Cleanup(func() { _ = p.Process.Kill() })
	await(t, &p.stderr, "listening on http")
	_, rest, _ := strings.Cut(p.stderr.String(), "listening on ")
	base, _, _ := strings.Cut(rest, "\n")
	return base
}

// A request goes to the upstream that its key is for, and to no provider beside it.
func TestProxySendsKeysToTheirUpstream(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		upstream []string // GATEWAY is the URL of the one that answers
		host     string
		path     string
		want     string // the path there; "": it goes to the host below
		asks     string
	}{
		{name: "one for all", upstream: []string{"GATEWAY"}, path: "/openai/v1/responses", want: "/openai/v1/responses"},
		{name: "one for all, Azure", upstream: []string{"GATEWAY"}, path: "/openai/deployments/a/chat/completions", want: "/openai/deployments/a/chat/completions"},
		{name: "one for all, by its path", upstream: []string{"GATEWAY"}, path: "/v1/messages", want: "/v1/messages"},
		{name: "by host", upstream: []string{"azure.internal=GATEWAY"}, host: "azure.internal:8787", path: "/openai/v1/responses", want: "/openai/v1/responses"},
		{name: "by host, the default of another", upstream: []string{"azure.internal=GATEWAY"}, path: "/openai/v1/responses", asks: "api.openai.com:443"},
		{name: "by path", upstream: []string{"/team=GATEWAY"}, path: "/team/openai/v1/responses", want: "/openai/v1/responses"},
		{name: "a provider", upstream: []string{"openai=GATEWAY"}, path: "/openai/v1/responses", want: "/v1/responses"},
		{name: "a provider, without its name", upstream: []string{"openai=GATEWAY"}, path: "/v1/responses", want: "/v1/responses"},
		{name: "one for all beside a provider", upstream: []string{"openai=http://127.0.0.1:9", "GATEWAY"}, path: "/v1/responses", want: "/v1/responses"},
		{name: "a provider beside one for all", upstream: []string{"openai=GATEWAY", "http://127.0.0.1:9"}, path: "/openai/v1/responses", want: "/v1/responses"},
		{name: "another provider", upstream: []string{"openai=GATEWAY"}, path: "/anthropic/v1/messages", asks: "api.anthropic.com:443"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			paths := make(chan string, 1)
			gateway := model(t, func(w http.ResponseWriter, r *http.Request) { paths <- r.URL.Path; whole(w, r) })
			others := newElsewhere(t)
			args := []string{"proxy", "--listen", "127.0.0.1:0"}
			for _, u := range tt.upstream {
				args = append(args, "--upstream", strings.Replace(u, "GATEWAY", gateway.URL, 1))
			}
			base := otelllm(t, []string{"HTTPS_PROXY=" + others.URL}, args...).listens(t)
			req, err := http.NewRequest(http.MethodPost, base+tt.path, strings.NewReader("{}"))
			require.NoError(t, err)
			if tt.host != "" {
				req.Host = tt.host
			}
			req.Header.Set("Authorization", "Bearer "+canaryKey)
			resp, err := http.DefaultClient.Do(req)
			if tt.asks != "" {
				require.Error(t, err)
				assert.Equal(t, []string{tt.asks}, others.asked())
				return
			}
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			require.Equal(t, http.StatusOK, resp.StatusCode)
			assert.Equal(t, tt.want, <-paths)
			assert.Empty(t, others.asked())
		})
	}
}

// A program that keeps only the host of its base URL has the key for where that led.
func TestRunSendsKeysToTheirUpstream(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		flags []string // GATEWAY is the URL of the one that answers
		env   string
	}{
		{"an upstream for all", []string{"--upstream", "GATEWAY/v1"}, ""},
		{"a provider's upstream", []string{"--upstream", "openai=GATEWAY/v1"}, ""},
		{"a provider's upstream beside one for all", []string{"--upstream", "openai=GATEWAY/v1", "--upstream", "http://127.0.0.1:9"}, ""},
		{"a variable", nil, "OPENAI_BASE_URL=GATEWAY/v1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			paths := make(chan string, 1)
			gateway := model(t, func(w http.ResponseWriter, r *http.Request) { paths <- r.URL.Path; whole(w, r) })
			others := newElsewhere(t)
			env := []string{"HTTPS_PROXY=" + others.URL}
			if tt.env != "" {
				env = append(env, strings.Replace(tt.env, "GATEWAY", gateway.URL, 1))
			}
			args := []string{"run"}
			for _, f := range tt.flags {
				args = append(args, strings.Replace(f, "GATEWAY", gateway.URL, 1))
			}
			p := otelllm(t, env, append(append(args, "--"), asking(t, "origin")...)...)
			assert.Zero(t, p.run(t), "%s", &p.stderr)
			assert.Empty(t, others.asked())
			require.Len(t, paths, 1)
			assert.Equal(t, "/v1/chat/completions", <-paths)
		})
	}
}
