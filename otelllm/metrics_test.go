package otelllm

import (
	"context"
	"encoding/hex"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/exemplar"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/otelllm/otelllm-go/semconv"
)

// The instruments of the GenAI conventions.
const (
	durationMetric = "gen_ai.client.operation.duration"
	firstMetric    = "gen_ai.client.operation.time_to_first_chunk"
	perChunkMetric = "gen_ai.client.operation.time_per_output_chunk"
	tokensMetric   = "gen_ai.client.token.usage"
)

// metricsSDK is an SDK whose metrics the test collects.
type metricsSDK struct {
	*sdkmetric.MeterProvider

	reader *sdkmetric.ManualReader
}

func newMetricsSDK(t *testing.T) *metricsSDK {
	t.Helper()
	m := &metricsSDK{reader: sdkmetric.NewManualReader()}
	m.MeterProvider = sdkmetric.NewMeterProvider(sdkmetric.WithReader(m.reader), sdkmetric.WithExemplarFilter(exemplar.AlwaysOnFilter))
	t.Cleanup(func() { _ = m.Shutdown(context.Background()) })
	return m
}

// point is one data point of a histogram.
type point struct {
	attrs attribute.Set
	count uint64
	sum   float64
	spans []string // of the exemplars
}

func (p point) get(key attribute.Key) any {
	v, ok := p.attrs.Value(key)
	if !ok {
		return nil
	}
	return v.AsInterface()
}

// points collects all data points, by instrument.
func (m *metricsSDK) points(t *testing.T) map[string][]point {
	t.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(t, m.reader.Collect(t.Context(), &all))
	points := map[string][]point{}
	for _, scope := range all.ScopeMetrics {
		assert.Equal(t, ScopeName, scope.Scope.Name)
		assert.Equal(t, Version(), scope.Scope.Version)
		assert.Equal(t, "https://opentelemetry.io/schemas/1.41.0", scope.Scope.SchemaURL)
		for _, metric := range scope.Metrics {
			switch h := metric.Data.(type) {
			case metricdata.Histogram[float64]:
				assert.Equal(t, "s", metric.Unit, metric.Name)
				assert.Equal(t, []float64{0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92}, h.DataPoints[0].Bounds, metric.Name)
				points[metric.Name] = histogram(h)
			case metricdata.Histogram[int64]:
				assert.Equal(t, "{token}", metric.Unit, metric.Name)
				assert.Equal(t, []float64{1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864}, h.DataPoints[0].Bounds, metric.Name)
				points[metric.Name] = histogram(h)
			case metricdata.Sum[int64]:
				assert.Equal(t, "{token}", metric.Unit, metric.Name)
				assert.True(t, h.IsMonotonic, metric.Name)
				for _, p := range h.DataPoints {
					points[metric.Name] = append(points[metric.Name], point{attrs: p.Attributes, sum: float64(p.Value)})
				}
			default:
				t.Errorf("%s is a %T", metric.Name, metric.Data)
			}
		}
	}
	return points
}

func histogram[N int64 | float64](h metricdata.Histogram[N]) (points []point) {
	for _, p := range h.DataPoints {
		out := point{attrs: p.Attributes, count: p.Count, sum: float64(p.Sum)}
		for _, e := range p.Exemplars {
			out.spans = append(out.spans, hex.EncodeToString(e.SpanID))
		}
		points = append(points, out)
	}
	return points
}

// TestMetrics records one stream by a fake clock, and checks the values and attributes of all
// metrics.
func TestMetrics(t *testing.T) {
	for name, sampler := range map[string]sdktrace.Sampler{"sampled": sdktrace.AlwaysSample(), "not sampled": sdktrace.NeverSample()} {
		for bodyName, body := range map[string]io.Reader{"body in memory": strings.NewReader(chatBody), "body that can be read only once": io.MultiReader(strings.NewReader(chatBody))} {
			t.Run(name+"/"+bodyName, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					m, r := newMetricsSDK(t), newRecorder(t, sdktrace.WithSampler(sampler))
					tt := watchedCall{header: 1 * sec, parts: []part{
						{2 * sec, `data: {"id":"chatcmpl-1","model":"gpt-5-2026-01-01","choices":[{"index":0,"delta":{"content":"a"}}]}` + "\n\n"},
						{3 * sec, chatText + chatText},
						{4 * sec, keepalive},
						{6 * sec, chatStop},
						{7 * sec, `data: {"id":"chatcmpl-1","choices":[],"usage":{"prompt_tokens":11,"completion_tokens":7}}` + "\n\n"},
						{8 * sec, chatDone},
					}, then: io.EOF}
					var (
						sent *http.Request
						span string
					)
					below := tt.below(time.Now(), false, &sent)
					rt := NewTransport(roundTripper(func(req *http.Request) (*http.Response, error) {
						_, _ = io.Copy(io.Discard, req.Body)
						span = trace.SpanContextFromContext(req.Context()).SpanID().String()
						return below(req)
					}), WithMeterProvider(m), WithTracerProvider(r))
					req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://model.example.com:8443"+chatPath, body)
					require.NoError(t, err)
					resp, err := rt.RoundTrip(req)
					require.NoError(t, err)
					_, err = io.ReadAll(resp.Body)
					require.NoError(t, err)
					require.NoError(t, resp.Body.Close())

					common := []attribute.KeyValue{
						attribute.String("gen_ai.operation.name", "chat"), attribute.String("gen_ai.provider.name", "openai"),
						attribute.String("gen_ai.request.model", "gpt-5"), attribute.String("gen_ai.response.model", "gpt-5-2026-01-01"),
						attribute.String("server.address", "model.example.com"), attribute.Int("server.port", 8443),
					}
					set := attribute.NewSet(common...)
					points := m.points(t)
					assert.Len(t, points, 4)
					for name, want := range map[string]point{
						durationMetric: {count: 1, sum: 8},
						firstMetric:    {count: 1, sum: 2},
						// The chunks of one Read count as one; a keepalive does not count.
						perChunkMetric: {count: 4, sum: 6},
					} {
						require.Len(t, points[name], 1, name)
						got := points[name][0]
						assert.True(t, set.Equals(&got.attrs), "%s: %v", name, got.attrs)
						assert.Equal(t, want.count, got.count, name)
						assert.InDelta(t, want.sum, got.sum, 1e-9, name)
						require.NotEmpty(t, got.spans, name)
						assert.Equal(t, span, got.spans[0], "the exemplar names the span of the request")
					}
					require.Len(t, points[tokensMetric], 2)
					for _, p := range points[tokensMetric] {
						want := map[any]float64{"input": 11, "output": 7}[p.get("gen_ai.token.type")]
						assert.InDelta(t, want, p.sum, 0, p.get("gen_ai.token.type"))
						assert.Equal(t, 7, p.attrs.Len())
					}
				})
			})
		}
	}
}

// TestLatestConventions checks the metrics and the attribute that the GenAI conventions 0.1.0
// name otherwise than 1.41.0. OTEL_SEMCONV_STABILITY_OPT_IN asks for them.
func TestLatestConventions(t *testing.T) {
	const stream = "event: message_start\ndata: " + `{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"claude-x","content":[],"usage":{"input_tokens":10,"cache_creation_input_tokens":200,"cache_read_input_tokens":3000,"output_tokens":1}}}` + "\n\n" +
		"event: content_block_start\ndata: " + `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"a"}}` + "\n\n" +
		"event: content_block_stop\ndata: " + `{"type":"content_block_stop","index":0}` + "\n\n" +
		"event: message_delta\ndata: " + `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":7}}` + "\n\n" +
		"event: message_stop\ndata: " + `{"type":"message_stop"}` + "\n\n"
	const prefix = "gen_ai.client.inference."
	tokens := map[string]float64{"input_tokens": 3210, "output_tokens": 7, "cache_read.input_tokens": 3000, "cache_write.input_tokens": 200, "reasoning.output_tokens": 0}
	for _, tt := range []struct {
		optIn, text string
		latest      bool
		used        bool
	}{
		{"", stream, false, true},
		{"http,database/dup", stream, false, true},
		{"http, gen_ai_latest_experimental", stream, true, true},
		{"gen_ai_latest_experimental", "event: ping\ndata: {}\n\n", true, false},
	} {
		t.Run(tt.optIn, func(t *testing.T) {
			t.Setenv("OTEL_SEMCONV_STABILITY_OPT_IN", tt.optIn)
			m, r := newMetricsSDK(t), newRecorder(t)
			rt := NewTransport(roundTripper(func(req *http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: io.NopCloser(strings.NewReader(tt.text)), Request: req}, nil
			}), WithMeterProvider(m), WithTracerProvider(r))
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://api.anthropic.com/v1/messages", strings.NewReader(`{"model":"claude-x","stream":true,"max_tokens":9,"messages":[]}`))
			require.NoError(t, err)
			resp, err := rt.RoundTrip(req)
			require.NoError(t, err)
			_, err = io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())

			points := m.points(t)
			names := slices.Collect(maps.Keys(points))
			assert.Equal(t, tt.latest, slices.Contains(names, prefix+"duration"), names)
			assert.Equal(t, !tt.latest, slices.Contains(names, durationMetric), names)
			span := r.named("chat claude-x")[0]
			written := map[bool]string{false: "gen_ai.usage.cache_creation.input_tokens", true: "gen_ai.usage.cache_write.input_tokens"}
			for latest, name := range written {
				want := any(nil)
				if tt.used && latest == tt.latest {
					want = int64(200)
				}
				assert.Equal(t, want, span.get(attribute.Key(name)), name)
			}
			if !tt.latest {
				return
			}
			for name, want := range tokens {
				if !tt.used {
					want = 0
				}
				require.Len(t, points[prefix+"usage."+name], 1, name)
				got := points[prefix+"usage."+name][0]
				assert.InDelta(t, want, got.sum, 0, name)
				assert.Equal(t, "unknown", got.get("gen_ai.token.modality"), name)
			}
		})
	}
}

// TestMetricsOfFailures checks that the attributes distinguish failures, watchdogs and aborts.
func TestMetricsOfFailures(t *testing.T) {
	const cut = sseHead + firstText
	for _, tt := range []struct {
		name  string
		text  string
		limit Watchdog
		abort bool
		want  [3]any // error.type, llm.watchdog.kind, llm.abort.source
	}{
		{"complete", cut + chatStop + chatDone, Watchdog{}, false, [3]any{}},
		{"cut", cut, Watchdog{}, false, [3]any{"clean_eof"}},
		{"HTTP error", "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n", Watchdog{}, false, [3]any{"503"}},
		{"in-band error", cut + "data: {\"error\":{\"code\":\"server_is_overloaded\"}}\n\n", Watchdog{}, false, [3]any{"server_is_overloaded"}},
		{"an unknown in-band error", cut + "data: {\"error\":{\"code\":\"req-4711\"}}\n\n", Watchdog{}, false, [3]any{"unknown"}},
		{"a quota's name", cut + "data: {\"error\":{\"code\":\"perday-4711\"}}\n\n", Watchdog{}, false, [3]any{"quota_exhausted"}},
		{"watchdog", "", Watchdog{Total: limit}, false, [3]any{"watchdog_timeout", "total"}},
		{"abort", "", Watchdog{}, true, [3]any{nil, nil, "user"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := newMetricsSDK(t)
			ctx, abort := WithAbort(t.Context())
			defer abort(AbortApplication, "")
			url := scriptedServer(t, tt.text, nil)
			if tt.text == "" {
				url = scriptedServer(t, "", func(c net.Conn) {
					if tt.abort {
						abort(AbortUser, "stop_button")
					}
					keepOpen(t)(c)
				})
			}
			_, _ = call(ctx, NewTransport(base(t), WithMeterProvider(m), WithWatchdog(tt.limit)), url+chatPath, chatBody)
			points := m.points(t)[durationMetric]
			require.Len(t, points, 1)
			assert.Equal(t, uint64(1), points[0].count)
			p := points[0]
			assert.Equal(t, tt.want, [3]any{p.get("error.type"), p.get(semconv.WatchdogKindKey), p.get(semconv.AbortSourceKey)})
		})
	}
}

// A response that does not stream has no chunk metrics.
func TestMetricsOfADocument(t *testing.T) {
	m := newMetricsSDK(t)
	_, err := call(t.Context(), NewTransport(base(t), WithMeterProvider(m)), scriptedServer(t, jsonHead+`{"model":"gpt-5-x","choices":[{"index":0,"message":{"content":"a"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":4}}`, nil)+chatPath, `{"model":"gpt-5","messages":[]}`)
	require.NoError(t, err)
	points := m.points(t)
	assert.Len(t, points[durationMetric], 1)
	assert.Len(t, points[tokensMetric], 2)
	assert.Empty(t, points[firstMetric])
	assert.Empty(t, points[perChunkMetric])
}

// If no metrics are kept and nothing is traced, the request passes unchanged.
func TestMetricsOff(t *testing.T) {
	for name, opts := range map[string][]TransportOption{
		"no provider": nil, "one that does nothing": {WithMeterProvider(noop.NewMeterProvider())},
		"one without readers": {WithMeterProvider(sdkmetric.NewMeterProvider())},
		"one that drops them": {WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()), sdkmetric.WithView(sdkmetric.NewView(sdkmetric.Instrument{Name: "*"}, sdkmetric.Stream{Aggregation: sdkmetric.AggregationDrop{}}))))},
	} {
		t.Run(name, func(t *testing.T) {
			var seen *http.Request
			body := io.NopCloser(strings.NewReader("x"))
			rt := roundTripper(func(req *http.Request) (*http.Response, error) {
				seen = req
				return &http.Response{StatusCode: http.StatusOK, Body: body}, nil
			})
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://x"+chatPath, strings.NewReader(chatBody))
			require.NoError(t, err)
			resp, err := NewTransport(rt, opts...).RoundTrip(req)
			require.NoError(t, err)
			assert.Same(t, req, seen)
			assert.Equal(t, body, resp.Body)
			require.NoError(t, resp.Body.Close())
		})
	}
}
