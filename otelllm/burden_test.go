package otelllm

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

type panickingSampler struct{}

func (panickingSampler) ShouldSample(sdktrace.SamplingParameters) sdktrace.SamplingResult {
	panic("secret")
}
func (panickingSampler) Description() string { return "" }

type panickingOnStart struct{ discardSpans }

func (panickingOnStart) OnStart(context.Context, sdktrace.ReadWriteSpan) { panic("secret") }

type panickingPropagator struct{ propagation.TraceContext }

func (panickingPropagator) Inject(context.Context, propagation.TextMapCarrier) { panic("secret") }
func (panickingPropagator) Extract(context.Context, propagation.TextMapCarrier) context.Context {
	panic("secret")
}

// panickingMeters is a meter provider whose instruments panic when they are used or, if asked is
// set, when Enabled is called.
type panickingMeters struct {
	metricnoop.MeterProvider

	asked bool
}

func (b panickingMeters) Meter(string, ...metric.MeterOption) metric.Meter {
	return panickingMeter{asked: b.asked}
}

type panickingMeter struct {
	metricnoop.Meter

	asked bool
}

func (b panickingMeter) Float64Histogram(string, ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	return panickingHistogram{asked: b.asked}, nil
}

type panickingHistogram struct {
	metricnoop.Float64Histogram

	asked bool
}

func (b panickingHistogram) Enabled(context.Context) bool {
	if b.asked {
		panic("secret")
	}
	return true
}

func (panickingHistogram) Record(context.Context, float64, ...metric.RecordOption) { panic("secret") }

// TestPanicsDoNotReachTheCaller checks that the call goes on if anything panics that the application
// has registered, on both sides of a gateway and over both HTTP versions. If the span's
// provider is not what panics, the span is recorded all the same.
func TestPanicsDoNotReachTheCaller(t *testing.T) {
	before := otel.GetErrorHandler()
	t.Cleanup(func() { otel.SetErrorHandler(before) })
	var handled atomic.Int32
	for name, tt := range map[string]struct {
		provider []sdktrace.TracerProviderOption
		opts     []TransportOption
		spans    int // of the client's side
	}{
		"sampler":               {[]sdktrace.TracerProviderOption{sdktrace.WithSampler(panickingSampler{})}, nil, 0},
		"span processor, start": {[]sdktrace.TracerProviderOption{sdktrace.WithSpanProcessor(panickingOnStart{})}, nil, 0},
		"span processor, end":   {[]sdktrace.TracerProviderOption{sdktrace.WithSpanProcessor(panickingOnEnd{})}, nil, 0},
		"propagator":            {nil, []TransportOption{WithPropagators(panickingPropagator{})}, 1},
		"meter, in Enabled":     {nil, []TransportOption{WithMeterProvider(panickingMeters{asked: true})}, 0},
		"meter, in Record":      {nil, []TransportOption{WithMeterProvider(panickingMeters{})}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			overHTTP(t, func(w http.ResponseWriter, _ *http.Request) { _ = sendEvents(w, chatText+chatStop+chatDone) }, func(t *testing.T, b *http.Transport, url string) {
				for _, handler := range []otel.ErrorHandler{
					otel.ErrorHandlerFunc(func(error) { handled.Add(1) }),
					otel.ErrorHandlerFunc(func(error) { panic("secret") }),
				} {
					otel.SetErrorHandler(handler)
					handled.Store(0)
					r := newRecorder(t, tt.provider...)
					opts := append(tt.opts, WithTracerProvider(r), WithWatchdog(Watchdog{Total: time.Hour}))
					got, err := call(t.Context(), NewTransport(b, opts...), url+chatPath, chatBody)
					require.NoError(t, err)
					assert.Equal(t, chatText+chatStop+chatDone, got)
					assert.Len(t, r.named("chat gpt-5"), tt.spans)

					w := httptest.NewRecorder()
					handlerOpts := make([]HandlerOption, 0, len(opts))
					for _, o := range opts {
						handlerOpts = append(handlerOpts, o.(HandlerOption)) // every option of this test applies to handlers, too
					}
					served := NewHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						body, err := io.ReadAll(r.Body)
						assert.NoError(t, err)
						assert.JSONEq(t, chatBody, string(body))
						_ = sendEvents(w, chatText+chatStop+chatDone)
					}), handlerOpts...)
					served.ServeHTTP(w, httptest.NewRequest(http.MethodPost, chatPath, strings.NewReader(chatBody)))
					assert.Equal(t, chatText+chatStop+chatDone, w.Body.String())
				}
				requests, _, _ := openParts()
				assert.Zero(t, requests)
			})
		})
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(error) { handled.Add(1) }))
	handled.Store(0)
	_, run := StartRun(t.Context(), "coder", WithTracerProvider(newRecorder(t, sdktrace.WithSampler(panickingSampler{}))))
	run.End(nil)
	assert.Equal(t, int32(1), handled.Load(), "the panic is reported once")
}

// panickingContext is a context whose Err panics while set is true.
type panickingContext struct {
	context.Context

	set atomic.Bool
}

func (c *panickingContext) Err() error {
	if c.set.Load() {
		panic("secret")
	}
	return c.Context.Err()
}

// A panic in the watchdog's timer ends the watching, not the process.
func TestPanicInATimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := &panickingContext{Context: t.Context()}
		r := newRecorder(t)
		rt := roundTripper(func(*http.Request) (*http.Response, error) {
			ctx.set.Store(true)
			time.Sleep(2 * time.Second)
			ctx.set.Store(false)
			return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: io.NopCloser(strings.NewReader(chatStop + chatDone))}, nil
		})
		got, err := call(ctx, NewTransport(rt, WithTracerProvider(r), WithWatchdog(Watchdog{Total: time.Second})), "http://x"+chatPath, chatBody)
		require.NoError(t, err)
		assert.Equal(t, chatStop+chatDone, got)
		assert.Equal(t, "terminal_event", r.only(t).get("llm.stream.end"))
	})
}

// TestTwoReadsAtOnce reads one body in two goroutines: each byte reaches one of them, the
// end reaches both, and the race detector finds nothing.
func TestTwoReadsAtOnce(t *testing.T) {
	stream := strings.Repeat(firstText, 500)
	overHTTP(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Trailer", "X-End")
		_ = sendEvents(w, stream)
		w.Header().Set("X-End", "1")
	}, func(t *testing.T, b *http.Transport, url string) {
		for _, opts := range [][]TransportOption{nil, {WithStreamErrors(), WithWatchdog(Watchdog{Idle: time.Hour})}} {
			r := newRecorder(t)
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+chatPath, strings.NewReader(chatBody))
			require.NoError(t, err)
			resp, err := NewTransport(b, append(opts, WithTracerProvider(r))...).RoundTrip(req)
			require.NoError(t, err)
			var readers sync.WaitGroup
			var n atomic.Int64
			for range 2 {
				readers.Go(func() {
					for buf := make([]byte, 100); ; {
						k, err := resp.Body.Read(buf)
						n.Add(int64(k))
						if err != nil {
							return
						}
					}
				})
			}
			readers.Wait()
			assert.Equal(t, int64(len(stream)), n.Load())
			assert.Equal(t, "1", resp.Trailer.Get("X-End"))
			resp.Body.Close()
			r.only(t)
		}
	})
}

// TestMarkEndsWithRoundTrip checks that a call is recorded if it uses the context of an
// earlier call's request, but not if it is made within the RoundTrip of that call.
func TestMarkEndsWithRoundTrip(t *testing.T) {
	r := newRecorder(t)
	url := scriptedServer(t, sseHead+chatStop+chatDone, nil)
	var sent *http.Request
	below := roundTripper(func(req *http.Request) (*http.Response, error) {
		resp, err := NewTransport(base(t), WithTracerProvider(r)).RoundTrip(req) //nolint:contextcheck // the request has it
		if err == nil {
			sent = req.Clone(req.Context()) // as otelhttp does
			resp.Request = sent
		}
		return resp, err
	})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+chatPath, strings.NewReader(chatBody))
	require.NoError(t, err)
	resp, err := NewTransport(below, WithTracerProvider(r)).RoundTrip(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	assert.Same(t, sent, resp.Request)
	_, err = call(resp.Request.Context(), NewTransport(base(t), WithTracerProvider(r)), url+chatPath, chatBody)
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, resp.Body)
	require.NoError(t, err)
	assert.Len(t, r.named("chat gpt-5"), 2)
}

// TestMaxBytesReader checks that a connection is closed or reused as without the handler.
func TestMaxBytesReader(t *testing.T) {
	const size = 10_000
	answer := func(w http.ResponseWriter, err error) {
		if err != nil {
			http.Error(w, "too large", http.StatusRequestEntityTooLarge)
			return
		}
		_ = sendEvents(w, chatStop+chatDone)
	}
	all := func(w http.ResponseWriter, body io.Reader) {
		_, err := io.ReadAll(body)
		answer(w, err)
	}
	for name, next := range map[string]func(http.ResponseWriter, *http.Request){
		"over the limit":                   func(w http.ResponseWriter, r *http.Request) { all(w, http.MaxBytesReader(w, r.Body, size/2)) },
		"over the limit by the last bytes": func(w http.ResponseWriter, r *http.Request) { all(w, http.MaxBytesReader(w, r.Body, size-2)) },
		"at the limit":                     func(w http.ResponseWriter, r *http.Request) { all(w, http.MaxBytesReader(w, r.Body, size)) },
		"far below the limit":              func(w http.ResponseWriter, r *http.Request) { all(w, http.MaxBytesReader(w, r.Body, 10*size)) },
		"nothing is allowed":               func(w http.ResponseWriter, r *http.Request) { all(w, http.MaxBytesReader(w, r.Body, 0)) },
		"behind the handler's own reader": func(w http.ResponseWriter, r *http.Request) {
			r.Body = struct{ io.ReadCloser }{r.Body}
			all(w, http.MaxBytesReader(w, r.Body, size/2))
		},
		"a limit of another reader": func(w http.ResponseWriter, r *http.Request) { all(w, io.LimitReader(r.Body, size/2)) },
		"only a part is read": func(w http.ResponseWriter, r *http.Request) {
			_, err := io.ReadFull(http.MaxBytesReader(w, r.Body, size), make([]byte, 100))
			answer(w, err)
		},
		"read into pieces of a larger buffer": func(w http.ResponseWriter, r *http.Request) {
			body, buf := http.MaxBytesReader(w, r.Body, size), make([]byte, 1000)
			for {
				if _, err := body.Read(buf[:100]); err != nil {
					break
				}
			}
			answer(w, nil)
		},
		"over the limit, nothing is written": func(w http.ResponseWriter, r *http.Request) {
			_, err := io.ReadAll(http.MaxBytesReader(w, r.Body, size/2))
			assert.Error(t, err)
		},
		"over the limit after the headers": func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusOK)
			_, err := io.ReadAll(http.MaxBytesReader(w, r.Body, size/2))
			assert.Error(t, err)
		},
	} {
		for _, version := range []string{"HTTP/1.1", "HTTP/2.0"} {
			t.Run(name+"/"+version, func(t *testing.T) {
				outcome := func(h http.Handler) (status int, closes bool, header http.Header) {
					rt, url := serve(t, version, h, nil)
					req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+chatPath, strings.NewReader(strings.Repeat(" ", size)))
					require.NoError(t, err)
					resp, err := rt.RoundTrip(req)
					require.NoError(t, err)
					_, err = io.Copy(io.Discard, resp.Body)
					require.NoError(t, err)
					resp.Body.Close()
					resp.Header.Del("Date")
					return resp.StatusCode, resp.Close, resp.Header
				}
				status, closes, header := outcome(http.HandlerFunc(next))
				r := newRecorder(t)
				gotStatus, gotCloses, gotHeader := outcome(withHandler(http.HandlerFunc(next), r))
				assert.Equal(t, status, gotStatus)
				assert.Equal(t, closes, gotCloses)
				assert.Equal(t, header, gotHeader)
			})
		}
	}
}

// TestRemoteParents checks that spans go to the global provider if their parent came over
// the network, or only carries a span context: such a parent has no provider.
func TestRemoteParents(t *testing.T) {
	before, propagator := otel.GetTracerProvider(), otel.GetTextMapPropagator()
	t.Cleanup(func() {
		otel.SetTracerProvider(before)
		otel.SetTextMapPropagator(propagator)
	})
	r := newRecorder(t)
	otel.SetTracerProvider(r)
	otel.SetTextMapPropagator(propagation.TraceContext{})
	remote := http.Header{"Traceparent": {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}}
	extracted := propagation.TraceContext{}.Extract(t.Context(), propagation.HeaderCarrier(remote))
	sc := trace.SpanContextFromContext(extracted)
	require.True(t, sc.IsRemote())
	carried := trace.ContextWithSpanContext(t.Context(), sc.WithRemote(false))
	url := scriptedServer(t, sseHead+chatStop+chatDone, nil)

	for name, ctx := range map[string]context.Context{"remote": extracted, "carried": carried} {
		r.spans.Reset()
		ctx, run := StartRun(ctx, "coder")
		_, err := call(ctx, NewTransport(base(t)), url+chatPath, chatBody)
		require.NoError(t, err)
		_, tool := StartTool(ctx, ToolCall{ID: "call_1", Name: "look"})
		tool.End(nil)
		run.End(nil)
		assert.Len(t, r.spans.Ended(), 3, name)
		for _, s := range r.spans.Ended() {
			assert.Equal(t, sc.TraceID(), s.SpanContext().TraceID())
		}
	}

	r.spans.Reset()
	_, err := call(extracted, requestTransport(base(t)), url+chatPath, chatBody)
	require.NoError(t, err)
	assert.Equal(t, sc.SpanID(), r.only(t).Parent().SpanID())

	// The run that is inferred stands between the two.
	r.spans.Reset()
	i := New()
	_, err = call(extracted, i.NewTransport(base(t)), url+chatPath, chatBody)
	require.NoError(t, err)
	require.NoError(t, i.Shutdown(t.Context()))
	run := r.runs(t, 1)[0]
	assert.Equal(t, sc.SpanID(), run.Parent().SpanID())
	assert.Equal(t, run.SpanContext().SpanID(), r.requests()[0].Parent().SpanID())

	// A gateway with nothing but the globals, whose client sends its trace context.
	r.spans.Reset()
	srv := httptest.NewServer(NewHandler(proxy(t, url)))
	t.Cleanup(srv.Close)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL+chatPath, strings.NewReader(chatBody))
	require.NoError(t, err)
	req.Header = remote.Clone()
	resp, err := base(t).RoundTrip(req)
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, resp.Body)
	require.NoError(t, err)
	resp.Body.Close()
	g := &testGateway{recorder: r}
	assert.Equal(t, sc.SpanID(), g.served(t).Parent().SpanID())
	assert.Equal(t, g.served(t).SpanContext().SpanID(), g.upstream(t).Parent().SpanID())

	// The children of a local span still go to the provider of that span.
	r.spans.Reset()
	own := newRecorder(t)
	ctx, parent := own.Tracer("app").Start(t.Context(), "app")
	i = New()
	_, err = call(ctx, i.NewTransport(base(t)), url+chatPath, chatBody)
	require.NoError(t, err)
	parent.End()
	require.NoError(t, i.Shutdown(t.Context()))
	assert.Empty(t, r.spans.Ended())
	assert.Len(t, own.spans.Ended(), 3, "with the run that is inferred")
}
