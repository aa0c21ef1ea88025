package otelllm

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/otelllm/otelllm-go/otelllm/internal/nettest"
)

// TestPropagators checks the headers that a server gets. Trace context is sent if
// WithPropagators asks for it, and only then, whatever the global propagator is.
func TestPropagators(t *testing.T) {
	before := otel.GetTextMapPropagator()
	otel.SetTextMapPropagator(propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{}))
	t.Cleanup(func() { otel.SetTextMapPropagator(before) })
	headers := make(chan http.Header, 1)
	answer := func(w http.ResponseWriter, r *http.Request) {
		headers <- r.Header.Clone()
		_ = sendEvents(w, firstText+chatStop+chatDone)
	}
	member, err := baggage.NewMember("user", "canary")
	require.NoError(t, err)
	bag, err := baggage.New(member)
	require.NoError(t, err)

	traced := propagation.TraceContext{}
	for _, tt := range []struct {
		name    string
		opts    []TransportOption
		sampler sdktrace.Sampler // nil: a provider that does nothing
		sent    bool
		sampled bool
	}{
		{"by default", nil, sdktrace.AlwaysSample(), false, false},
		{"nil", []TransportOption{WithPropagators(nil)}, sdktrace.AlwaysSample(), false, false},
		{"given", []TransportOption{WithPropagators(traced)}, sdktrace.AlwaysSample(), true, true},
		{"given, not sampled", []TransportOption{WithPropagators(traced)}, sdktrace.NeverSample(), true, false},
		{"given, not traced", []TransportOption{WithPropagators(traced)}, nil, false, false},
		{"given, with stream errors", []TransportOption{WithPropagators(traced), WithStreamErrors()}, sdktrace.AlwaysSample(), true, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			overHTTP(t, answer, func(t *testing.T, b *http.Transport, url string) {
				var provider trace.TracerProvider = noop.NewTracerProvider()
				r := newRecorder(t)
				if tt.sampler != nil {
					r = newRecorder(t, sdktrace.WithSampler(tt.sampler))
					provider = r
				}
				ctx := baggage.ContextWithBaggage(t.Context(), bag)
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+chatPath, strings.NewReader(chatBody))
				require.NoError(t, err)
				req.Header.Set("X-Own", "1")
				own := req.Header.Clone()
				resp, err := requestTransport(b, append(tt.opts, WithTracerProvider(provider))...).RoundTrip(req)
				require.NoError(t, err)
				_, err = io.Copy(io.Discard, resp.Body)
				require.NoError(t, err)
				require.NoError(t, resp.Body.Close())
				assert.Equal(t, own, req.Header, "the caller's request is not changed")

				got := <-headers
				assert.Equal(t, "1", got.Get("X-Own"))
				assert.Empty(t, got.Get("Baggage"), "the given propagator does not inject baggage")
				if !tt.sent {
					assert.Empty(t, got.Get("Traceparent"))
					return
				}
				sc := trace.SpanContextFromContext(traced.Extract(t.Context(), propagation.HeaderCarrier(got)))
				require.True(t, sc.IsValid(), got)
				assert.Equal(t, tt.sampled, sc.IsSampled())
				if tt.sampled {
					assert.Equal(t, r.only(t).SpanContext().SpanID(), sc.SpanID(), "a span of the server would be a child of the request's span")
				}
			})
		})
	}
}

// A request with nil headers, which code other than net/http's may create.
func TestPropagatorsWithoutHeaders(t *testing.T) {
	rt := roundTripper(func(req *http.Request) (*http.Response, error) {
		assert.NotEmpty(t, req.Header.Get("Traceparent"))
		return nil, io.EOF
	})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://x"+chatPath, strings.NewReader(chatBody))
	require.NoError(t, err)
	req.Header = nil
	_, err = NewTransport(rt, WithPropagators(propagation.TraceContext{}), WithTracerProvider(newRecorder(t))).RoundTrip(req)
	require.ErrorIs(t, err, io.EOF)
	assert.Nil(t, req.Header)
}

// TestTransportAboveTransport wraps one transport in another, which happens if an SDK and
// an application both do it: a call is recorded once, by the outer one, however it ends.
func TestTransportAboveTransport(t *testing.T) {
	for _, tt := range []struct{ name, text, end string }{
		{"complete", sseHead + firstText + chatStop + chatDone, "terminal_event"},
		{"cut", sseHead + firstText, "eof"},
		{"no answer", "", "no_response"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			upper, lower, m := newRecorder(t), newRecorder(t), newMetricsSDK(t)
			inner := NewTransport(base(t), WithTracerProvider(lower), WithMeterProvider(m))
			outer := NewTransport(inner, WithTracerProvider(upper), WithMeterProvider(m))
			ctx, run := StartRun(t.Context(), "coder", WithTracerProvider(upper))
			url := scriptedServer(t, tt.text, nil)
			if tt.text == "" {
				url = "http://" + nettest.Refused(t)
			}
			for range 2 { // the mark is on the request's context, not on the caller's
				_, _ = call(ctx, outer, url+chatPath, chatBody)
			}
			run.End(nil)
			assert.Empty(t, lower.spans.Started())
			require.Len(t, upper.named("chat gpt-5"), 2)
			assert.Equal(t, tt.end, upper.named("chat gpt-5")[0].get("llm.stream.end"))
			assert.Equal(t, int64(2), upper.named("invoke_agent coder")[0].get("llm.run.requests"))
			points := m.points(t)[durationMetric]
			require.Len(t, points, 1)
			assert.Equal(t, uint64(2), points[0].count)
		})
	}
}
