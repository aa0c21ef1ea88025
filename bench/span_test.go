package bench

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	noopmetric "go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/otelllm/otelllm-go/bench/internal/stats"
	"github.com/otelllm/otelllm-go/otelllm"
)

// answeredCall is a short response that calls a tool, as most requests in an agent's
// loop get. It has all facts of a request.
var answeredCall = &stream{name: "tool call", wire: chat, events: [][]byte{
	[]byte("data: " + chatChunk + `"choices":[{"index":0,"delta":{"role":"assistant","content":"Let me look."},"logprobs":null,"finish_reason":null}],"usage":null}` + "\n\n"),
	[]byte("data: " + chatChunk + `"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"read_file","arguments":""}}]},"logprobs":null,"finish_reason":null}],"usage":null}` + "\n\n"),
	[]byte("data: " + chatChunk + `"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"path\":\"a\"}"}}]},"logprobs":null,"finish_reason":null}],"usage":null}` + "\n\n"),
	[]byte("data: " + chatChunk + `"choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"tool_calls"}],"usage":null}` + "\n\n"),
	[]byte("data: " + chatChunk + `"choices":[],"usage":{"prompt_tokens":90,"completion_tokens":20,"total_tokens":110,"prompt_tokens_details":{"cached_tokens":64},"completion_tokens_details":{"reasoning_tokens":8}}}` + "\n\n"),
	[]byte("data: [DONE]\n\n"),
}}

// alone are the options of a request that belongs to no run.
var alone = []otelllm.TransportOption{otelllm.WithoutInferredRuns()}

// BenchmarkSpan measures the cost of one request's span with all of its facts, and that
// of otelhttp's span: both over the same RoundTripper, minus the cost of the request
// without either, in processor time. x-otelhttp is the ratio within a round. ns-sdk is
// the cost of the same span in the OpenTelemetry SDK alone: its attributes at the start
// and at the end, its events, and nothing else.
func BenchmarkSpan(b *testing.B) {
	for _, s := range []*stream{&synthetic(3)[0], answeredCall} {
		for _, v := range []struct {
			name    string
			options []otelllm.TransportOption
			run     bool
			meter   metric.MeterProvider
		}{
			{name: "default"}, // each in an inferred run of its own
			{name: "alone", options: alone},
			{name: "no events", options: append(alone, otelllm.WithoutEvents())},
			{name: "in a run", run: true},
			{name: "watchdog", options: append(alone, otelllm.WithWatchdog(otelllm.DefaultWatchdog()))},
			{name: "metrics", options: alone, meter: sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))},
		} {
			if v.meter == nil {
				v.meter = noopmetric.NewMeterProvider()
			}
			b.Run(s.name+"/"+v.name, func(b *testing.B) { benchSpan(b, s, v.run, v.meter, v.options) })
		}
	}
}

func benchSpan(b *testing.B, s *stream, inRun bool, meter metric.MeterProvider, options []otelllm.TransportOption) {
	const calls = 50
	oneCore(b)
	base := answers(s.wire.contentType, bytes.Join(s.events, nil))
	provider := sdk()
	plain := otelhttp.NewTransport(base, otelhttp.WithTracerProvider(provider), otelhttp.WithMeterProvider(meter))
	ours := otelllm.NewTransport(base, append(options, otelllm.WithTracerProvider(provider), otelllm.WithMeterProvider(meter))...)
	body, buf := s.wire.body(0), make([]byte, 32<<10)
	exchange := func(ctx context.Context, rt http.RoundTripper) {
		resp := send(b, rt, s.wire.post(ctx, b, body))
		for {
			if _, err := resp.Body.Read(buf); err == io.EOF {
				break
			}
		}
		require.NoError(b, resp.Body.Close())
	}
	exchanges := func(rt http.RoundTripper) func() time.Duration {
		return func() time.Duration {
			ctx := b.Context()
			if inRun { // each variant has its own run of many requests
				c, run := otelllm.StartRun(ctx, "agent", otelllm.WithTracerProvider(provider))
				defer run.End(nil)
				ctx = c
			}
			return timed(func() {
				for range calls {
					exchange(ctx, rt)
				}
			})()
		}
	}
	again := replay(b, provider, func(recording trace.TracerProvider) {
		ctx := b.Context()
		if inRun {
			c, run := otelllm.StartRun(ctx, "agent", otelllm.WithTracerProvider(recording))
			defer run.End(nil)
			ctx = c
		}
		exchange(ctx, otelllm.NewTransport(base, append(options, otelllm.WithTracerProvider(recording))...))
	})
	variants := []func() time.Duration{exchanges(base), exchanges(plain), exchanges(ours), timed(func() {
		for range calls {
			again()
		}
	})}
	var spent []time.Duration
	var theirs, own, ratios, theirSDK []float64
	for b.Loop() {
		spent = round(spent, variants...)
		theirs = append(theirs, float64(spent[1]-spent[0])/calls)
		own = append(own, float64(spent[2]-spent[0])/calls)
		theirSDK = append(theirSDK, float64(spent[3])/calls)
		ratios = append(ratios, float64(spent[2]-spent[0])/float64(spent[1]-spent[0]))
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(stats.Median(ratios), "x-otelhttp")
	b.ReportMetric(stats.Median(theirs), "ns-otelhttp")
	b.ReportMetric(stats.Median(own), "ns-otelllm")
	b.ReportMetric(stats.Median(theirSDK), "ns-sdk")
	allocs := func(rt http.RoundTripper) float64 {
		return testing.AllocsPerRun(100, func() { exchange(b.Context(), rt) })
	}
	b.ReportMetric(allocs(plain)-allocs(base), "allocs-otelhttp")
	b.ReportMetric(allocs(ours)-allocs(base), "allocs-otelllm")
}

// replay runs record and returns a function that creates the resulting request span
// again with the SDK's API alone.
func replay(tb testing.TB, provider trace.TracerProvider, record func(trace.TracerProvider)) (again func()) {
	tb.Helper()
	began, ended := &starts{}, tracetest.NewSpanRecorder()
	record(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(began), sdktrace.WithSpanProcessor(ended)))
	span := ended.Ended()[0] // the request's span; a run's span ends later
	first := began.attributes[span.SpanContext().SpanID()]
	var later []attribute.KeyValue
	for _, kv := range span.Attributes() {
		if !slices.ContainsFunc(first, func(f attribute.KeyValue) bool { return f.Key == kv.Key }) {
			later = append(later, kv)
		}
	}
	tracer := provider.Tracer(otelllm.ScopeName)
	return func() {
		_, s := tracer.Start(context.Background(), span.Name(), trace.WithSpanKind(span.SpanKind()),
			trace.WithTimestamp(span.StartTime()), trace.WithAttributes(first...))
		s.SetAttributes(later...)
		for _, e := range span.Events() {
			s.AddEvent(e.Name, trace.WithTimestamp(e.Time), trace.WithAttributes(e.Attributes...))
		}
		s.End(trace.WithTimestamp(span.EndTime()))
	}
}

// starts keeps the attributes that spans have when they start.
type starts struct {
	nowhere

	attributes map[trace.SpanID][]attribute.KeyValue
}

func (s *starts) OnStart(_ context.Context, span sdktrace.ReadWriteSpan) {
	if s.attributes == nil {
		s.attributes = map[trace.SpanID][]attribute.KeyValue{}
	}
	s.attributes[span.SpanContext().SpanID()] = span.Attributes()
}
