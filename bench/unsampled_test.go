package bench

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/otelllm/otelllm-go/bench/internal/stats"
	"github.com/otelllm/otelllm-go/otelllm"
)

// unsampledParent returns a context with a remote parent span that is not sampled.
func unsampledParent() context.Context {
	return trace.ContextWithRemoteSpanContext(context.Background(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1}, Remote: true,
	}))
}

// BenchmarkNotSampled measures what the transport adds to a request that is not
// recorded: ns-added per request over the RoundTripper below, in processor time.
func BenchmarkNotSampled(b *testing.B) {
	oneCore(b)
	never := sdk(sdktrace.WithSampler(sdktrace.NeverSample()))
	parentBased := sdk(sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.AlwaysSample())))
	for _, v := range []struct {
		name     string
		provider trace.TracerProvider
		ctx      context.Context
		options  []otelllm.TransportOption
	}{
		{"no provider", noop.NewTracerProvider(), context.Background(), alone},
		{"NeverSample", never, context.Background(), alone},
		{"NeverSample, with inferred runs", never, context.Background(), nil},
		{"parent not sampled", parentBased, unsampledParent(), nil},
	} {
		for _, size := range []int{0, 1 << 20} {
			for _, r := range []struct {
				name      string
				wire      *wire
				versioned bool
			}{
				{chat.name, chat, false},
				{anthropicMessages.name, anthropicMessages, true},
				{"anthropic_messages at a gateway", gateway, false},
				{"anthropic_messages at a gateway, with its version", gateway, true},
			} {
				b.Run(fmt.Sprintf("%s/%s/request of %d KiB", v.name, r.name, size>>10), func(b *testing.B) {
					req := r.wire.post(v.ctx, b, r.wire.body(size))
					if r.versioned {
						req.Header.Set("Anthropic-Version", "2023-06-01")
					}
					benchNotSampled(b, append(v.options, otelllm.WithTracerProvider(v.provider)), r.wire, req)
				})
			}
		}
	}
}

// gateway is a wire protocol under a path that other services also use, on a host that
// is not a provider's. Anthropic's version header marks the request as a model call;
// without that header only the body does.
var gateway = &wire{"anthropic_messages at a gateway", "http://gateway.internal/v1/messages", sseType, anthropicMessages.request}

func benchNotSampled(b *testing.B, options []otelllm.TransportOption, w *wire, req *http.Request) {
	b.Helper()
	const calls = 200
	answer := deltas(w, 0, nil, "", "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n")
	own := &sameBody{body: io.NopCloser(&eventwise{events: answer.events})} // compared by identity
	with := otelllm.NewTransport(own, options...)
	require.Equal(b, own.body, send(b, with, req).Body, "the transport replaced the response's body")

	requests := func(rt http.RoundTripper) func() time.Duration {
		return timed(func() {
			for range calls {
				resp, err := rt.RoundTrip(req)
				if err != nil || resp.Body != own.body {
					b.Fatal("the transport replaced the response's body", err)
				}
			}
		})
	}
	variants := []func() time.Duration{requests(own), requests(with)}
	var spent []time.Duration
	var added []float64
	for b.Loop() {
		spent = round(spent, variants...)
		added = append(added, float64(spent[1]-spent[0])/calls)
	}
	require.Equal(b, req.Body, own.sent, "the transport replaced the request's body")
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(stats.Median(added), "ns-added")
	b.ReportMetric(testing.AllocsPerRun(100, func() { _, _ = with.RoundTrip(req) })-
		testing.AllocsPerRun(100, func() { _, _ = own.RoundTrip(req) }), "allocs-added")
}

// sameBody responds to every request with the same body and keeps the last request's
// body.
type sameBody struct{ body, sent io.ReadCloser }

func (s *sameBody) RoundTrip(req *http.Request) (*http.Response, error) {
	s.sent = req.Body
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {sseType}}, Body: s.body}, nil
}
