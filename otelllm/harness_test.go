package otelllm

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/otelllm/otelllm-go/otelllm/internal/nettest"
	"github.com/otelllm/otelllm-go/otelllm/internal/spantest"
)

// recorder is a [spantest.Recorder] with short names.
type recorder struct {
	*spantest.Recorder

	spans *tracetest.SpanRecorder
}

func newRecorder(tb testing.TB, opts ...sdktrace.TracerProviderOption) *recorder {
	tb.Helper()
	r := spantest.New(tb, opts...)
	return &recorder{r, r.Spans}
}

// only returns the one span that has ended.
func (r *recorder) only(tb testing.TB) span {
	tb.Helper()
	return span{r.Only(tb)}
}

// named returns the ended spans of this name.
func (r *recorder) named(name string) (spans []span) {
	for _, s := range r.Named(name) {
		spans = append(spans, span{s})
	}
	return spans
}

type span struct{ sdktrace.ReadOnlySpan }

// get returns the value of an attribute, or nil.
func (s span) get(key attribute.Key) any { return spantest.Get(s, key) }

// events returns the names of the span's events.
func (s span) events() []string { return spantest.Events(s) }

func (s span) failed() bool { return spantest.Failed(s) }

// scriptedServer starts a server that answers every request with text and then calls then.
// A nil then closes the connection.
func scriptedServer(tb testing.TB, text string, then func(net.Conn)) (baseURL string) {
	tb.Helper()
	return "http://" + nettest.Listen(tb, func(c net.Conn) {
		if nettest.ReadRequest(c) == nil {
			return
		}
		_, _ = io.WriteString(c, text)
		if then == nil {
			nettest.HangUp(c)
			return
		}
		then(c)
	})
}

// requestTransport is [NewTransport] for tests of requests alone: no runs are inferred.
func requestTransport(base http.RoundTripper, opts ...TransportOption) *Transport {
	return NewTransport(base, append(opts, WithoutInferredRuns())...)
}

const (
	sseHead  = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
	jsonHead = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n"

	chatPath      = "/v1/chat/completions"
	responsesPath = "/v1/responses"
	messagesPath  = "/v1/messages"

	chatBody = `{"model":"gpt-5","stream":true,"messages":[{"role":"user","content":"hi"}]}`
)

// bodyFor returns a small request body for a path.
func bodyFor(path string) string {
	switch path {
	case responsesPath:
		return `{"model":"gpt-5","stream":true,"input":[]}`
	case messagesPath:
		return `{"model":"claude-x","stream":true,"messages":[]}`
	default:
		return chatBody
	}
}

// call makes one model call and reads the answer until it ends or fails.
func call(ctx context.Context, rt http.RoundTripper, url, body string) (read string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := rt.RoundTrip(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return string(b), err
}

// base returns a new transport, so that no two tests share connections.
func base(tb testing.TB) *http.Transport {
	tb.Helper()
	t := &http.Transport{DisableCompression: true}
	tb.Cleanup(t.CloseIdleConnections)
	return t
}

const (
	testTimeout  = 10 * time.Second
	pollInterval = time.Millisecond // between two checks of a condition
)

func gzipped(s string) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = io.WriteString(w, s)
	_ = w.Close()
	return b.Bytes()
}

// assertSame compares texts of several megabytes without printing them.
func assertSame(tb testing.TB, want, got string) {
	tb.Helper()
	if want != got {
		tb.Errorf("%d bytes, want %d; they differ at %d", len(got), len(want), differAt(want, got))
	}
}

func differAt(a, b string) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}
