package otelllm

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// discardSpans is a span processor that drops all spans.
type discardSpans struct{}

func (discardSpans) OnStart(context.Context, sdktrace.ReadWriteSpan) {}
func (discardSpans) OnEnd(sdktrace.ReadOnlySpan)                     {}
func (discardSpans) Shutdown(context.Context) error                  { return nil }
func (discardSpans) ForceFlush(context.Context) error                { return nil }

// longStream returns an answer of n text deltas.
func longStream(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(`data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1790000000,"model":"gpt-5-x","choices":[{"index":0,"delta":{"content":" word` + strconv.Itoa(i%10) + `"},"logprobs":null,"finish_reason":null}],"usage":null}` + "\n\n")
	}
	b.WriteString(`data: {"id":"chatcmpl-1","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n")
	return b.String()
}

// longRequest returns a request with about n bytes of history.
func longRequest(n int) []byte {
	message := `{"role":"user","content":"` + strings.Repeat("the quick brown fox ", 50) + `"},`
	return []byte(`{"messages":[` + strings.Repeat(message, max(1, n/len(message))) + `{"role":"user","content":"hi"}],"model":"gpt-5","stream":true}`)
}

// BenchmarkTransport compares one client with and without the transport. The
// variants take turns call by call in one loop, in random order, so that a disturbance
// of the machine affects all of them. The metric x-… is the median of a variant divided
// by the median of the bare client.
func BenchmarkTransport(b *testing.B) {
	sdk := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(discardSpans{}))
	unsampled := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(discardSpans{}), sdktrace.WithSampler(sdktrace.NeverSample()))
	for _, size := range []struct {
		name            string
		events, request int
	}{
		{"short stream", 3, 1 << 10},
		{"stream of 300 events", 300, 1 << 10},
		{"stream of 3000 events", 3000, 1 << 10},
		{"request of 1 MB", 3, 1 << 20},
	} {
		b.Run(size.name, func(b *testing.B) {
			answer := longStream(size.events)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				w.Header().Set("Content-Type", "text/event-stream")
				_, _ = io.WriteString(w, answer)
			}))
			defer server.Close()
			bare := server.Client().Transport
			variants := []struct {
				name  string
				rt    http.RoundTripper
				spent []time.Duration
			}{
				{name: "bare", rt: bare},
				{name: "noop", rt: NewTransport(bare, WithTracerProvider(noop.NewTracerProvider()))},
				{name: "unsampled", rt: NewTransport(bare, WithTracerProvider(unsampled))},
				{name: "spans", rt: NewTransport(bare, WithTracerProvider(sdk))},
				{name: "no-events", rt: NewTransport(bare, WithTracerProvider(sdk), WithoutEvents())},
			}
			body := longRequest(size.request)
			buf := make([]byte, 32<<10)
			b.ReportAllocs()
			for b.Loop() {
				for _, i := range rand.Perm(len(variants)) {
					v := &variants[i]
					start := time.Now()
					require.NoError(b, exchangeOnce(b.Context(), v.rt, server.URL+chatPath, body, buf))
					v.spent = append(v.spent, time.Since(start))
				}
			}
			base := median(variants[0].spent)
			b.ReportMetric(float64(base.Microseconds()), "µs-bare")
			for i := range variants[1:] {
				v := &variants[i+1]
				b.ReportMetric(float64(median(v.spent))/float64(base), "x-"+v.name)
			}
		})
	}
}

func exchangeOnce(ctx context.Context, rt http.RoundTripper, url string, body, buf []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := rt.RoundTrip(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.CopyBuffer(struct{ io.Writer }{io.Discard}, resp.Body, buf)
	return err
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

// BenchmarkOverhead measures the transport's own work, above a transport that answers immediately.
func BenchmarkOverhead(b *testing.B) {
	for _, v := range []struct {
		name     string
		provider trace.TracerProvider
		opts     []TransportOption
	}{
		{"noop", noop.NewTracerProvider(), nil},
		{"spans", sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(discardSpans{})), nil},
		{"spans without events", sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(discardSpans{})), []TransportOption{WithoutEvents()}},
	} {
		b.Run(v.name, func(b *testing.B) {
			answer := longStream(3)
			header := http.Header{"Content-Type": {"text/event-stream"}}
			rt := NewTransport(roundTripper(func(*http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: http.StatusOK, Header: header, Body: io.NopCloser(strings.NewReader(answer))}, nil
			}), append(v.opts, WithTracerProvider(v.provider))...)
			body, buf := longRequest(1), make([]byte, 32<<10)
			b.ReportAllocs()
			for b.Loop() {
				require.NoError(b, exchangeOnce(b.Context(), rt, "http://x"+chatPath, body, buf))
			}
		})
	}
}
