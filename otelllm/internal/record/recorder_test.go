package record

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/otelllm/internal/agentrun"
	"github.com/otelllm/otelllm-go/otelllm/internal/live"
	"github.com/otelllm/otelllm-go/otelllm/internal/spanfacts"
	"github.com/otelllm/otelllm-go/otelllm/internal/wire"
	"github.com/otelllm/otelllm-go/semconv"
)

// testSource is a Source whose methods call its functions, if they are not nil.
type testSource struct {
	complete func(*Ending)
	settled  func(*spanfacts.Request)
}

func (s testSource) Complete(e Ending, _ *spanfacts.Request) Ending {
	if s.complete != nil {
		s.complete(&e)
	}
	return e
}

func (s testSource) Settled(f *spanfacts.Request) {
	if s.settled != nil {
		s.settled(f)
	}
}

// testRecorder is an open recorder within a run, and where it is registered and recorded.
type testRecorder struct {
	Recorder

	run   *agentrun.Run
	live  live.Registry
	spans *tracetest.SpanRecorder
}

func newTestRecorder(t *testing.T, s Source, processors ...sdktrace.SpanProcessor) *testRecorder {
	t.Helper()
	r := &testRecorder{spans: tracetest.NewSpanRecorder()}
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(r.spans))
	for _, p := range processors {
		provider.RegisterSpanProcessor(p)
	}
	start := time.Now()
	ctx, run := agentrun.Start(t.Context(), agentrun.Config{Live: &r.live})
	r.run = run
	id := spanfacts.Identity{Operation: "chat", Provider: "test", Model: "m"}
	ctx, span := StartSpan(ctx, provider, ClientKind, &id, start)
	r.Init(ctx, &Config{Events: true, Live: &r.live}, span, &id, start)
	r.Facts().HistoryOutputs = []string{"call_1"}
	r.Begin(s)
	return r
}

// request returns the attributes of the only span that has ended.
func (r *testRecorder) request(t *testing.T) map[attribute.Key]string {
	t.Helper()
	ended := r.spans.Ended()
	require.Len(t, ended, 1)
	m := map[attribute.Key]string{}
	for _, kv := range ended[0].Attributes() {
		m[kv.Key] = kv.Value.String()
	}
	return m
}

// openRequests returns how many requests are registered as open.
func (r *testRecorder) openRequests() int {
	requests, _, _ := r.live.Len()
	return requests
}

func (r *testRecorder) text() { r.Step(r.Now(), func(m *wire.Manual) { m.Text() }) }

func closed() Ending { return Ending{Reason: Closed} }

func eof() Ending { return Ending{Reason: EOF} }

func TestEndTwice(t *testing.T) {
	r := newTestRecorder(t, testSource{})
	assert.False(t, r.Over())
	assert.Equal(t, 1, r.openRequests())
	r.text()
	assert.True(t, r.End(r.Now(), closed))
	assert.True(t, r.Over())
	assert.Zero(t, r.openRequests())
	assert.False(t, r.End(r.Now(), func() Ending {
		t.Error("the ending of a request that is over was asked for")
		return Ending{}
	}))
	assert.Equal(t, "consumer_closed", r.request(t)[semconv.StreamEndKey])
	facts, _ := r.run.Facts()
	require.Len(t, facts.Requests, 1)
	assert.Equal(t, semconv.StreamEndConsumerClosed, facts.Requests[0].Ended)
}

// Between Settle and its function the facts are final, the span is open, and Shutdown still
// waits for it.
func TestSettle(t *testing.T) {
	r := newTestRecorder(t, testSource{})
	r.text()
	finish := r.Settle(r.Now(), closed)
	require.NotNil(t, finish)
	assert.True(t, r.Over())
	assert.Nil(t, r.Settle(r.Now(), eof))
	assert.False(t, r.End(r.Now(), eof))
	r.Recorder.Shutdown()
	assert.Empty(t, r.spans.Ended())
	assert.Equal(t, 1, r.openRequests())
	assert.Equal(t, semconv.StreamEndConsumerClosed, r.SoFar().Ended)

	finish()
	assert.Zero(t, r.openRequests())
	assert.Equal(t, "consumer_closed", r.request(t)[semconv.StreamEndKey])
}

// Snapshot is for open requests whose answer has come to its end. It changes nothing.
func TestSnapshot(t *testing.T) {
	r := newTestRecorder(t, testSource{})
	r.text()
	_, complete := r.Snapshot(r.Now())
	assert.False(t, complete)
	r.Step(r.Now(), func(m *wire.Manual) { m.Finish("stop") })
	facts, complete := r.Snapshot(r.Now())
	assert.True(t, complete)
	assert.Equal(t, semconv.StreamEndTerminalEvent, facts.Ended)
	assert.False(t, r.Over())
	assert.True(t, r.SoFar().Open)

	finish := r.Settle(r.Now(), eof)
	_, complete = r.Snapshot(r.Now())
	assert.False(t, complete, "the facts are final, and SoFar has them")
	finish()
}

func TestShutdown(t *testing.T) {
	t.Run("open", func(t *testing.T) {
		r := newTestRecorder(t, testSource{})
		r.text()
		r.Recorder.Shutdown()
		assert.Equal(t, "cancelled", r.request(t)[semconv.StreamEndKey])
		assert.Equal(t, "shutdown", r.request(t)[semconv.AbortSourceKey])
		assert.Zero(t, r.openRequests())
	})
	t.Run("ended", func(t *testing.T) {
		r := newTestRecorder(t, testSource{})
		r.text()
		r.End(r.Now(), closed)
		r.Recorder.Shutdown()
		assert.Equal(t, "consumer_closed", r.request(t)[semconv.StreamEndKey])
		assert.Equal(t, "consumer", r.request(t)[semconv.AbortSourceKey])
	})
}

// What happens in a later state than open changes nothing.
func TestEventsAfterTheEnd(t *testing.T) {
	for name, event := range map[string]func(*testRecorder){
		"RequestWritten":  func(r *testRecorder) { r.RequestWritten(r.Now()) },
		"ResponseStarted": func(r *testRecorder) { r.ResponseStarted(500, r.Now()) },
		"Respond": func(r *testRecorder) {
			assert.False(t, r.Respond(Headers{Status: 500}, r.Now()))
		},
		"Read": func(r *testRecorder) {
			progress, silent := r.Read([]byte("data: {}\n\n"), r.Now())
			assert.False(t, progress || silent)
		},
		"Step": func(r *testRecorder) {
			r.Step(r.Now(), func(*wire.Manual) { t.Error("the step was called") })
		},
		"ProviderError":       func(r *testRecorder) { r.ProviderError(wire.Error{Status: 500}, r.Now()) },
		"Follow":              func(r *testRecorder) { r.Follow(&wire.State{Events: 7, Complete: true}, "other", r.Now()) },
		"RemoveHistoryOutput": func(r *testRecorder) { r.RemoveHistoryOutput("call_1") },
		"End":                 func(r *testRecorder) { r.End(r.Now(), eof) },
		"Shutdown":            func(r *testRecorder) { r.Recorder.Shutdown() },
	} {
		for _, state := range []string{"settling", "ended"} {
			t.Run(name+"/"+state, func(t *testing.T) {
				r := newTestRecorder(t, testSource{})
				r.text()
				finish := r.Settle(r.Now(), closed)
				if state == "ended" {
					finish()
				}
				before := r.Outcome()
				event(r)
				after := r.Outcome()
				assert.Equal(t, before, after)
				if state == "settling" {
					assert.Empty(t, r.spans.Ended())
					finish()
				}
				span := r.request(t)
				assert.Equal(t, "consumer_closed", span[semconv.StreamEndKey])
				assert.Equal(t, "1", span[semconv.StreamTextChunksKey])
				assert.Equal(t, `["call_1"]`, span[semconv.HistoryToolOutputsKey])
			})
		}
	}
}

// within fails the test if f does not return: a panic must not leave a lock behind.
func within(t *testing.T, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Fatal("it does not return")
	}
}

// A panic while a request ends ends its recording. The caller does not notice, and whatever
// it does afterwards returns.
func TestPanicAtTheEnd(t *testing.T) {
	before := otel.GetErrorHandler()
	t.Cleanup(func() { otel.SetErrorHandler(before) })
	for _, tt := range []struct {
		name      string
		source    testSource
		processor sdktrace.SpanProcessor
		known     int // requests whose final facts the run can see
	}{
		{"Complete", testSource{complete: func(*Ending) { panic("secret") }}, nil, 0},
		{"Settled", testSource{settled: func(*spanfacts.Request) { panic("secret") }}, nil, 1}, // the facts were final
		{"span processor", testSource{}, panicOnEnd{}, 1},
	} {
		for how, end := range map[string]func(*testRecorder){
			"End": func(r *testRecorder) { r.End(r.Now(), closed) },
			"Settle": func(r *testRecorder) {
				if finish := r.Settle(r.Now(), closed); finish != nil {
					finish()
				}
			},
			"Shutdown": func(r *testRecorder) { r.Recorder.Shutdown() },
		} {
			t.Run(tt.name+"/"+how, func(t *testing.T) {
				var handled atomic.Int32
				otel.SetErrorHandler(otel.ErrorHandlerFunc(func(error) { handled.Add(1) }))
				var processors []sdktrace.SpanProcessor
				if tt.processor != nil {
					processors = append(processors, tt.processor)
				}
				r := newTestRecorder(t, tt.source, processors...)
				r.text()
				within(t, func() {
					end(r)
					assert.True(t, r.Over())
					assert.Zero(t, r.openRequests(), "Shutdown must not wait for it")
					_, _ = r.Read([]byte("x"), r.Now())
					r.text()
					outcome := r.Outcome()
					_ = r.Judge(&outcome)
					assert.False(t, r.End(r.Now(), eof))
					facts, _ := r.run.Facts()
					known := 0
					for i := range facts.Requests {
						if !facts.Requests[i].Open {
							known++
						}
					}
					assert.Equal(t, tt.known, known)
					r.run.End(nil)
				})
				assert.Equal(t, int32(1), handled.Load(), "the panic is reported once")
			})
		}
	}
}

// panicOnEnd is a span processor that panics when a span ends.
type panicOnEnd struct{}

func (panicOnEnd) OnStart(context.Context, sdktrace.ReadWriteSpan) {}
func (panicOnEnd) OnEnd(sdktrace.ReadOnlySpan)                     { panic("secret") }
func (panicOnEnd) Shutdown(context.Context) error                  { return nil }
func (panicOnEnd) ForceFlush(context.Context) error                { return nil }

// Of many goroutines that end one recorder while others feed and read it, one ends it.
func TestConcurrentEnds(t *testing.T) {
	for range 20 {
		completed := 0 // guarded by the recorder
		r := newTestRecorder(t, testSource{complete: func(*Ending) { completed++ }})
		var ended atomic.Int32
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				r.text()
				if r.End(r.Now(), closed) {
					ended.Add(1)
				}
			})
			all.Go(func() {
				if finish := r.Settle(r.Now(), closed); finish != nil {
					ended.Add(1)
					finish()
				}
			})
			all.Go(func() {
				r.text()
				r.RemoveHistoryOutput("call_1")
				_ = r.SoFar()
				_, _ = r.Snapshot(r.Now())
				_ = r.run.Diagnosis()
			})
		}
		all.Wait()
		assert.Equal(t, int32(1), ended.Load())
		assert.Equal(t, 1, completed)
		assert.Zero(t, r.openRequests())
		assert.Equal(t, "consumer_closed", r.request(t)[semconv.StreamEndKey])
		facts, settled := r.run.Facts()
		assert.True(t, settled)
		assert.Len(t, facts.Requests, 1)
		assert.Equal(t, classify.Counted(1), facts.AnnouncedRequests)
	}
}

// An answer that a proxy could not pass on whole is cancelled by its client, where its content was. All that the
// client may have got counts. An answer that was whole before stays so.
func TestUndelivered(t *testing.T) {
	const (
		text  = `data: {"choices":[{"index":0,"delta":{"content":"hi"}}]}` + "\n\n"
		think = `data: {"choices":[{"index":0,"delta":{"reasoning_content":"hm"}}]}` + "\n\n"
		call  = `data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_1","function":{"name":"pay","arguments":"{}"}}]}}]}` + "\n\n"
		stop  = `data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n"
		done  = "data: [DONE]\n\n"
	)
	protocol, ok := wire.ByName("openai_chat")
	require.True(t, ok)
	for name, tt := range map[string]struct {
		reads      []string
		end, phase string
	}{
		"text":               {[]string{text + stop + done}, "cancelled", "text"},
		"text, and its end":  {[]string{text, stop + done}, "cancelled", "text"},
		"a call":             {[]string{text + call + stop + done}, "cancelled", "tool_call_ready"},
		"reasoning":          {[]string{think + stop + done}, "cancelled", "reasoning"},
		"nothing":            {[]string{stop + done}, "cancelled", "response_started"},
		"not whole":          {[]string{text}, "cancelled", "text"},
		"whole before":       {[]string{text + stop, done}, "terminal_event", "stream_end"},
		"an error":           {[]string{text + `data: {"error":{"message":"m","type":"server_error"}}` + "\n\n"}, "terminal_event", "text"},
		"more after the end": {[]string{text + stop + done, ": bye\n\n"}, "terminal_event", "stream_end"},
	} {
		r := newTestRecorder(t, testSource{})
		r.SetProtocol(protocol, false)
		r.Respond(Headers{Status: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}}}, r.Now())
		for _, read := range tt.reads {
			r.Read([]byte(read), r.Now())
		}
		r.End(r.Now(), func() Ending {
			return Ending{Reason: Closed, Abort: classify.Abort{Source: semconv.AbortSourceConsumer}, Undelivered: true}
		})
		got := r.request(t)
		assert.Equal(t, tt.end, got[semconv.StreamEndKey], name)
		assert.Equal(t, tt.phase, got[semconv.StreamPhaseKey], name)
	}
}
