package main

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/semconv"
)

// otlpBackend is an OTLP endpoint that keeps what it gets.
type otlpBackend struct {
	*httptest.Server

	mu    sync.Mutex
	raw   []byte
	spans []ptrace.Span
}

func newBackend(t *testing.T) *otlpBackend {
	t.Helper()
	b := &otlpBackend{}
	b.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		td, err := (&ptrace.ProtoUnmarshaler{}).UnmarshalTraces(body)
		if err != nil {
			http.Error(w, "not OTLP", http.StatusBadRequest)
			return
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		b.raw = append(b.raw, body...)
		for _, rs := range td.ResourceSpans().All() {
			for _, ss := range rs.ScopeSpans().All() {
				for _, span := range ss.Spans().All() {
					b.spans = append(b.spans, span)
				}
			}
		}
	}))
	t.Cleanup(b.Close)
	return b
}

// outcomes returns the outcomes of the runs that have come.
func (b *otlpBackend) outcomes() (list []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, span := range b.spans {
		if v, ok := span.Attributes().Get(string(semconv.RunOutcomeKey)); ok {
			list = append(list, v.Str())
		}
	}
	return list
}

func TestRunExportsWhereTheEnvironmentSays(t *testing.T) {
	t.Parallel()
	srv, sink := model(t, broken), newBackend(t)
	env := append(asks(srv), "OTEL_EXPORTER_OTLP_ENDPOINT="+sink.URL,
		// These are for the command.
		"OTEL_TRACES_SAMPLER=always_off", "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT=1", "OTEL_BSP_MAX_QUEUE_SIZE=1")
	p := otelllm(t, env, append([]string{"run", "--"}, asking(t, "ask")...)...)
	assert.Equal(t, 0, p.run(t), "%s", &p.stderr)
	assert.Equal(t, []string{"failed"}, sink.outcomes())
	for _, span := range sink.spans {
		assert.Equal(t, sink.spans[0].TraceID(), span.TraceID(), "a run and its requests are one trace")
	}
	assert.Len(t, sink.spans, 2)
	for _, canary := range []string{canaryPrompt, canaryAnswer, canaryKey} {
		assert.NotContains(t, string(sink.raw), canary)
	}
}

func TestRunDoesNotWaitForADeadEndpoint(t *testing.T) {
	t.Parallel()
	srv := model(t, whole)
	ln, err := net.Listen("tcp", "127.0.0.1:0") // accepts, and never answers
	require.NoError(t, err)
	defer ln.Close()
	for name, env := range map[string][]string{
		"silent":      {"OTEL_EXPORTER_OTLP_ENDPOINT=http://" + ln.Addr().String()},
		"silent grpc": {"OTEL_EXPORTER_OTLP_ENDPOINT=http://" + ln.Addr().String(), "OTEL_EXPORTER_OTLP_PROTOCOL=grpc"},
		"refused":     {"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := otelllm(t, append(asks(srv), env...), append([]string{"run", "--"}, asking(t, "ask")...)...)
			start := time.Now()
			assert.Equal(t, 0, p.run(t))
			assert.Less(t, time.Since(start), 15*time.Second)
			assert.Contains(t, p.stderr.String(), "1 run, 1 model call; ok")
			assert.Contains(t, p.stderr.String(), "2 spans did not reach the OTLP endpoint")
		})
	}
	t.Run("unknown protocol", func(t *testing.T) {
		p := otelllm(t, []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_PROTOCOL=http/json"}, "run", "--", "true")
		assert.Equal(t, statusError, p.run(t))
	})
}

// startProxy starts the proxy and returns its address.
func startProxy(t *testing.T, env []string, args ...string) (*program, string) {
	t.Helper()
	p := otelllm(t, env, append([]string{"proxy", "--listen", "127.0.0.1:0"}, args...)...)
	return p, p.listens(t)
}

// ask sends a request of an agent, and returns what came of it.
func ask(base, path string) (body string, err error) {
	resp, err := http.Post(base+path, "application/json", strings.NewReader(`{"model":"gpt-5","stream":true,"messages":[{"role":"user","content":"`+canaryPrompt+`"}]}`))
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	return string(raw), err
}

func TestProxyRoutes(t *testing.T) {
	t.Parallel()
	name := func(name string) *httptest.Server {
		return model(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, name+" "+r.URL.Path)
		})
	}
	a, b, c := name("a"), name("b"), name("c")
	for _, tt := range []struct {
		upstreams []string
		want      map[string]string // what is answered, by path
	}{
		{[]string{"openai=" + a.URL, "/team/x=" + b.URL + "/gw", c.URL}, map[string]string{
			"/openai/v1/chat/completions": "a /v1/chat/completions",
			"/team/x/v1/chat/completions": "b /gw/v1/chat/completions",
			"/v1/chat/completions":        "c /v1/chat/completions",
			"/team/y":                     "c /team/y",
		}},
		{[]string{"openai=" + a.URL + "/eu", "anthropic=" + b.URL}, map[string]string{
			"/v1/chat/completions":   "a /eu/v1/chat/completions",
			"/anthropic/v1/messages": "b /v1/messages",
			"/anthropic/messages":    "b /v1/messages",
			"/v1/messages":           "b /v1/messages",
		}},
	} {
		var args []string
		for _, u := range tt.upstreams {
			args = append(args, "--upstream", u)
		}
		p, base := startProxy(t, nil, args...)
		for path, want := range tt.want {
			body, err := ask(base, path)
			require.NoError(t, err)
			assert.Equal(t, want, body)
		}
		require.NoError(t, p.Process.Signal(syscall.SIGTERM))
		assert.Equal(t, 0, p.exit(t), "%s", &p.stderr)
	}
}

// A signal lets open streams end, and loses no span.
func TestProxyFlushesAtItsEnd(t *testing.T) {
	t.Parallel()
	for name, sig := range map[string]syscall.Signal{"TERM": syscall.SIGTERM, "INT": syscall.SIGINT} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			began, goOn := make(chan struct{}), make(chan struct{})
			srv := model(t, func(w http.ResponseWriter, _ *http.Request) {
				begin(w)
				close(began)
				<-goOn
				_, _ = io.WriteString(w, sseEnd+sseDone)
			})
			sink := newBackend(t)
			p, base := startProxy(t, []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + sink.URL}, "--upstream", srv.URL, "--log-level", "debug")
			got := make(chan string)
			go func() {
				body, _ := ask(base, "/v1/chat/completions")
				got <- body
			}()
			<-began
			require.NoError(t, p.Process.Signal(sig))
			await(t, &p.stderr, "shutting down")
			close(goOn)
			assert.Equal(t, sseWhole, <-got)
			assert.Equal(t, 0, p.exit(t), "%s", &p.stderr)
			assert.Equal(t, []string{"succeeded"}, sink.outcomes())
			assert.Contains(t, p.stderr.String(), "outcome=succeeded")
			for _, canary := range []string{canaryPrompt, canaryAnswer} {
				assert.NotContains(t, p.stderr.String(), canary)
			}
		})
	}
}

// What is still open when the grace is over is ended, and recorded as ended by the shutdown.
func TestProxyCutsAfterItsGrace(t *testing.T) {
	t.Parallel()
	began := make(chan struct{})
	srv := model(t, func(w http.ResponseWriter, r *http.Request) { begin(w); close(began); silent(w, r) })
	sink := newBackend(t)
	p, base := startProxy(t, []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + sink.URL}, "--upstream", srv.URL, "--grace", "50ms")
	failed := make(chan error)
	go func() {
		_, err := ask(base, "/v1/chat/completions")
		failed <- err
	}()
	<-began
	require.NoError(t, p.Process.Signal(syscall.SIGTERM))
	require.Error(t, <-failed)
	assert.Equal(t, 0, p.exit(t), "%s", &p.stderr)
	assert.Equal(t, []string{"aborted"}, sink.outcomes())
	assert.Contains(t, p.stderr.String(), "cause=shutdown")
}
