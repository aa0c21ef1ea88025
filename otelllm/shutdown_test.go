package otelllm

import (
	"context"
	"errors"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/otelllm/otelllm-go/otelllm/internal/live"
	"github.com/otelllm/otelllm-go/semconv"
)

// openParts counts the open requests, tools and runs of this process.
func openParts() (requests, tools, runs int) {
	return global.open.Len()
}

// endLeftovers ends what other tests have left open, so that a test sees only its own parts.
func endLeftovers(t *testing.T) {
	t.Helper()
	require.NoError(t, Shutdown(t.Context()))
	requests, tools, runs := openParts()
	require.Equal(t, [3]int{}, [3]int{requests, tools, runs})
}

// TestShutdownMidStream shuts down while a stream is read, over both HTTP versions:
// its span ends, as aborted by shutdown, and the stream continues unchanged.
func TestShutdownMidStream(t *testing.T) {
	endLeftovers(t)
	next := make(chan struct{})
	overHTTP(t, func(w http.ResponseWriter, r *http.Request) {
		_ = sendEvents(w, firstText)
		select {
		case <-next:
		case <-r.Context().Done():
		}
		_ = sendEvents(w, chatText+chatStop+chatDone)
	}, func(t *testing.T, b *http.Transport, url string) {
		r := newRecorder(t)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+chatPath, strings.NewReader(chatBody))
		require.NoError(t, err)
		resp, err := requestTransport(b, WithTracerProvider(r), WithStreamErrors(), WithWatchdog(Watchdog{Total: time.Hour})).RoundTrip(req)
		require.NoError(t, err)
		defer resp.Body.Close()
		_, err = io.ReadFull(resp.Body, make([]byte, len(firstText)))
		require.NoError(t, err)
		assert.Empty(t, r.spans.Ended())

		require.NoError(t, Shutdown(t.Context()))
		s := r.only(t)
		assert.Equal(t, "cancelled", s.get("llm.stream.end"))
		assert.Equal(t, "shutdown", s.get("llm.abort.source"))
		assert.Equal(t, "text", s.get("llm.stream.phase"))
		assert.Nil(t, s.get("error.type"))
		assert.False(t, s.failed())
		assert.Contains(t, s.events(), semconv.EventAbort)
		require.NoError(t, Shutdown(t.Context()), "nothing is left to end")

		next <- struct{}{}
		rest, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		assert.Equal(t, chatText+chatStop+chatDone, string(rest))
		require.NoError(t, resp.Body.Close())
		assert.Len(t, r.spans.Ended(), 1)

		// What begins later is recorded as before.
		go func() { next <- struct{}{} }()
		_, err = call(t.Context(), requestTransport(b, WithTracerProvider(r)), url+chatPath, chatBody)
		require.NoError(t, err)
		require.Len(t, r.spans.Ended(), 2)
		assert.Equal(t, "terminal_event", span{r.spans.Ended()[1]}.get("llm.stream.end"))
	})
}

// A complete answer whose body is still open has come to its end.
func TestShutdownAfterTheLastWord(t *testing.T) {
	endLeftovers(t)
	r := newRecorder(t)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, scriptedServer(t, sseHead+firstText+chatStop+chatDone, keepOpen(t))+chatPath, strings.NewReader(chatBody))
	require.NoError(t, err)
	resp, err := requestTransport(base(t), WithTracerProvider(r)).RoundTrip(req)
	require.NoError(t, err)
	_, err = io.ReadFull(resp.Body, make([]byte, len(firstText+chatStop+chatDone)))
	require.NoError(t, err)
	require.NoError(t, Shutdown(t.Context()))
	require.NoError(t, resp.Body.Close())
	assert.Equal(t, "terminal_event", r.only(t).get("llm.stream.end"))
	assert.Nil(t, r.only(t).get("llm.abort.source"))
}

// TestShutdownBeforeHeaders shuts down while requests wait for their headers.
func TestShutdownBeforeHeaders(t *testing.T) {
	endLeftovers(t)
	arrived, answer := make(chan struct{}), make(chan struct{})
	overHTTP(t, func(w http.ResponseWriter, _ *http.Request) {
		arrived <- struct{}{}
		<-answer
		_ = sendEvents(w, firstText+chatStop+chatDone)
	}, func(t *testing.T, b *http.Transport, url string) {
		r := newRecorder(t)
		ctx, run := StartRun(t.Context(), "coder", WithTracerProvider(r))
		type result struct {
			got string
			err error
		}
		done := make(chan result)
		go func() {
			got, err := call(ctx, NewTransport(b), url+chatPath, chatBody)
			done <- result{got, err}
		}()
		<-arrived
		require.NoError(t, Shutdown(t.Context()))
		s := r.named("chat gpt-5")
		require.Len(t, s, 1)
		assert.Equal(t, "cancelled", s[0].get("llm.stream.end"))
		assert.Equal(t, "shutdown", s[0].get("llm.abort.source"))
		assert.Equal(t, "awaiting_response", s[0].get("llm.stream.phase"))
		runs := r.named("invoke_agent coder")
		require.Len(t, runs, 1)
		assert.Equal(t, "shutdown", runs[0].get("llm.abort.source"))
		assert.Equal(t, int64(1), runs[0].get("llm.run.requests"))
		assert.Equal(t, semconv.RunOutcomeAborted, run.Diagnosis().Outcome)
		answer <- struct{}{}
		got := <-done
		require.NoError(t, got.err)
		assert.Equal(t, firstText+chatStop+chatDone, got.got)
		assert.Len(t, r.spans.Ended(), 2)
		run.End(nil)
		assert.Len(t, r.spans.Ended(), 2)
	})
}

// Parts end before their runs, each once, and the run's verdict takes them into account.
func TestShutdownTools(t *testing.T) {
	endLeftovers(t)
	r := newRecorder(t)
	ctx, run := StartRun(t.Context(), "coder", WithTracerProvider(r), WithVerdicts())
	inner, nested := StartRun(ctx, "helper")
	_, running := StartTool(inner, ToolCall{ID: "call_1", Name: "patch", Effect: EffectNonIdempotent})
	_, ended := StartTool(ctx, ToolCall{ID: "call_2", Name: "look"})
	ended.End(nil) // its span waits for the delivery of the output
	require.NoError(t, Shutdown(t.Context()))

	tool := r.named("execute_tool patch")
	require.Len(t, tool, 1)
	assert.Equal(t, "interrupted", tool[0].get("llm.tool.outcome"))
	assert.Equal(t, "shutdown", tool[0].get("llm.abort.source"))
	assert.False(t, tool[0].failed())
	assert.Len(t, r.named("execute_tool look"), 1)
	for _, name := range []string{"invoke_agent coder", "invoke_agent helper"} {
		require.Len(t, r.named(name), 1)
		assert.Equal(t, "shutdown", r.named(name)[0].get("llm.abort.source"))
	}
	assert.Equal(t, "aborted", r.named("invoke_agent coder")[0].get("llm.run.outcome"))
	assert.Equal(t, int64(2), r.named("invoke_agent coder")[0].get("llm.run.tools"), "a tool of the inner run counts for the outer one")

	running.End(nil)
	nested.End(nil)
	run.End(io.EOF)
	require.NoError(t, Shutdown(t.Context()))
	assert.Len(t, r.spans.Ended(), 4)
}

// Shutdown stops when its context is done, and can be called again.
func TestShutdownInTime(t *testing.T) {
	endLeftovers(t)
	r := newRecorder(t)
	_, run := StartRun(t.Context(), "coder", WithTracerProvider(r))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, Shutdown(ctx), context.Canceled)
	assert.Empty(t, r.spans.Ended())
	require.NoError(t, Shutdown(t.Context()))
	assert.Len(t, r.spans.Ended(), 1)
	run.End(nil)
	require.NoError(t, Shutdown(ctx), "with nothing open, Shutdown does not need the context")
}

// Tools and runs that the application forgets are not kept alive for Shutdown.
func TestShutdownForgets(t *testing.T) {
	endLeftovers(t)
	collected := make(chan string, 2)
	func() {
		// No recorder here: it would keep the spans that began, and their contexts.
		ctx, run := StartRun(t.Context(), "coder")
		_, tool := StartTool(ctx, ToolCall{ID: "call_1", Name: "look"})
		_, alone := StartTool(t.Context(), ToolCall{ID: "call_2", Name: "look"})
		runtime.AddCleanup(run, func(what string) { collected <- what }, "run")
		runtime.AddCleanup(alone, func(what string) { collected <- what }, "tool")
		_, tools, runs := openParts()
		assert.Equal(t, [2]int{2, 1}, [2]int{tools, runs})
		runtime.KeepAlive(tool)
	}()
	require.Eventually(t, func() bool {
		runtime.GC()
		requests, tools, runs := openParts()
		return requests+tools+runs == 0
	}, testTimeout, time.Millisecond)
	assert.ElementsMatch(t, []string{"run", "tool"}, []string{<-collected, <-collected})
}

// TestShutdownAtAnyMoment shuts down while requests begin, are answered, are read
// and end: every span ends once, and no reader is affected.
func TestShutdownAtAnyMoment(t *testing.T) {
	endLeftovers(t)
	stream := firstText + chatText + chatStop + chatDone
	rt := roundTripper(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: io.NopCloser(strings.NewReader(stream))}, nil
	})
	counted := &endCounter{TracerProvider: newRecorder(t)}
	stop := make(chan struct{})
	var shutting sync.WaitGroup
	shutting.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				_ = Shutdown(context.Background())
				runtime.Gosched()
			}
		}
	})
	turn := func(transport *Transport) error {
		ctx, run := StartRun(t.Context(), "coder", WithTracerProvider(counted))
		// A body that can be read only once is read as it is sent.
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://x"+chatPath, io.MultiReader(strings.NewReader(chatBody)))
		if err != nil {
			return err
		}
		resp, err := transport.RoundTrip(req)
		if err != nil {
			return err
		}
		got, err := io.ReadAll(resp.Body)
		assert.Equal(t, stream, string(got))
		_, tool := StartTool(ctx, ToolCall{ID: "call_1", Name: "look"})
		tool.End(nil)
		_ = run.Diagnosis()
		run.End(nil)
		return errors.Join(err, resp.Body.Close())
	}
	var calling sync.WaitGroup
	results := make(chan error, 4*200)
	for range 4 {
		calling.Go(func() {
			transport := NewTransport(rt, WithVerdicts(), WithStreamErrors())
			for range 200 {
				results <- turn(transport)
			}
		})
	}
	calling.Wait()
	close(stop)
	shutting.Wait()
	close(results)
	for err := range results {
		require.NoError(t, err)
	}
	counted.checkEndedOnce(t, 4*200*3)
	requests, tools, runs := openParts()
	assert.Equal(t, [3]int{}, [3]int{requests, tools, runs})
}

// endCounter is a provider that counts how often End of each of its spans is called. The SDK
// ignores all calls but the first.
type endCounter struct {
	trace.TracerProvider

	mu    sync.Mutex
	spans []*endingSpan
}

type endingTracer struct {
	trace.Tracer

	of *endCounter
}

type endingSpan struct {
	trace.Span

	of *endCounter
	n  atomic.Int32
}

func (e *endCounter) Tracer(name string, opts ...trace.TracerOption) trace.Tracer {
	return endingTracer{e.TracerProvider.Tracer(name, opts...), e}
}

func (e endingTracer) Start(ctx context.Context, name string, opts ...trace.SpanStartOption) (context.Context, trace.Span) {
	ctx, s := e.Tracer.Start(ctx, name, opts...)
	ending := &endingSpan{Span: s, of: e.of}
	e.of.mu.Lock()
	e.of.spans = append(e.of.spans, ending)
	e.of.mu.Unlock()
	return trace.ContextWithSpan(ctx, ending), ending
}

func (s *endingSpan) TracerProvider() trace.TracerProvider { return s.of }

func (s *endingSpan) End(opts ...trace.SpanEndOption) {
	s.n.Add(1)
	s.Span.End(opts...)
}

// checkEndedOnce checks that every span that began has been ended exactly once.
func (e *endCounter) checkEndedOnce(t *testing.T, want int) {
	t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	assert.Len(t, e.spans, want)
	for _, s := range e.spans {
		if n := s.n.Load(); n != 1 {
			t.Fatalf("a span was ended %d times: %+v", n, s.Span)
		}
	}
}

// Shutdown waits for a span that another goroutine is ending, until its own context is
// done.
func TestShutdownWaitsForASpanThatEnds(t *testing.T) {
	endLeftovers(t)
	synctest.Test(t, func(t *testing.T) {
		r := newRecorder(t)
		ending, proceed := make(chan struct{}), make(chan struct{})
		r.RegisterSpanProcessor(&slowEnd{ending: ending, proceed: proceed})
		answer := roundTripper(func(*http.Request) (*http.Response, error) {
			body := io.NopCloser(strings.NewReader("data: [DONE]\n\n"))
			return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: body}, nil
		})
		read := make(chan error)
		go func() {
			_, err := call(t.Context(), NewTransport(answer, WithTracerProvider(r)), "http://x"+chatPath, chatBody)
			read <- err
		}()
		<-ending
		soon, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, Shutdown(soon), context.DeadlineExceeded)

		done := make(chan error)
		go func() { done <- Shutdown(t.Context()) }()
		synctest.Wait()
		select {
		case err := <-done:
			require.NoError(t, err)
			t.Fatal("Shutdown returned while a span was ending")
		default:
		}
		close(proceed)
		require.NoError(t, <-done)
		require.NoError(t, <-read)
	})
}

// slowEnd blocks the end of a span until proceed is closed.
type slowEnd struct{ ending, proceed chan struct{} }

func (s *slowEnd) OnStart(context.Context, sdktrace.ReadWriteSpan) {}
func (s *slowEnd) OnEnd(sdktrace.ReadOnlySpan)                     { close(s.ending); <-s.proceed }
func (s *slowEnd) Shutdown(context.Context) error                  { return nil }
func (s *slowEnd) ForceFlush(context.Context) error                { return nil }

// TestShutdownLosesNothing ends more streams than fit into the queue of a
// BatchSpanProcessor, each with its own run: every span is exported.
func TestShutdownLosesNothing(t *testing.T) {
	endLeftovers(t)
	const streams = 9900
	exporter := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(slowExporter{exporter}))
	transport := NewTransport(roundTripper(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: io.NopCloser(strings.NewReader(firstText))}, nil
	}), WithTracerProvider(provider))
	bodies, runs := make([]io.ReadCloser, streams), make([]*Run, streams)
	for i := range streams {
		ctx, run := StartRun(t.Context(), "coder", WithTracerProvider(provider))
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://x"+chatPath, strings.NewReader(chatBody))
		require.NoError(t, err)
		resp, err := transport.RoundTrip(req)
		require.NoError(t, err)
		_, err = io.ReadFull(resp.Body, make([]byte, len(firstText)))
		require.NoError(t, err)
		bodies[i], runs[i] = resp.Body, run
	}
	require.NoError(t, Shutdown(t.Context()))
	require.NoError(t, provider.ForceFlush(t.Context()))
	assert.Len(t, exporter.GetSpans(), 2*streams)
	for _, b := range bodies {
		require.NoError(t, b.Close())
	}
	runtime.KeepAlive(runs)
	require.NoError(t, provider.Shutdown(t.Context()))
}

// slowExporter is an exporter that is as slow as a network, so that a queue can fill up.
type slowExporter struct{ *tracetest.InMemoryExporter }

func (s slowExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	time.Sleep(10 * time.Millisecond)
	return s.InMemoryExporter.ExportSpans(ctx, spans)
}

// TestShutdownBetweenPortions checks that a provider that fails to flush, or panics, is not
// flushed again, and that everything open ends. If the context is done meanwhile, Shutdown
// stops.
func TestShutdownBetweenPortions(t *testing.T) {
	for _, tt := range []struct {
		name  string
		flush func(context.CancelFunc) error
		want  error
		ended int
	}{
		{"fails", func(context.CancelFunc) error { return io.ErrClosedPipe }, nil, 2*live.PortionSize + 1},
		{"panics", func(context.CancelFunc) error { panic("secret") }, nil, 2*live.PortionSize + 1},
		{"takes too long", func(stop context.CancelFunc) error { stop(); return nil }, context.Canceled, live.PortionSize},
	} {
		t.Run(tt.name, func(t *testing.T) {
			endLeftovers(t)
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			r := newRecorder(t)
			asked := 0
			p := &flushing{TracerProvider: r, flush: func() error { asked++; return tt.flush(stop) }}
			var runs []*Run
			for range 2*live.PortionSize + 1 {
				_, run := StartRun(t.Context(), "coder", WithTracerProvider(p))
				runs = append(runs, run)
			}
			require.ErrorIs(t, Shutdown(ctx), tt.want)
			assert.Len(t, r.spans.Ended(), tt.ended)
			assert.Equal(t, 1, asked)
			runtime.KeepAlive(runs)
		})
	}
}

// flushing is a provider whose ForceFlush calls flush.
type flushing struct {
	trace.TracerProvider

	flush func() error
}

func (f *flushing) ForceFlush(context.Context) error { return f.flush() }

func (f *flushing) Tracer(name string, opts ...trace.TracerOption) trace.Tracer {
	return flushingTracer{f.TracerProvider.Tracer(name, opts...), f}
}

type flushingTracer struct {
	trace.Tracer

	of *flushing
}

func (f flushingTracer) Start(ctx context.Context, name string, opts ...trace.SpanStartOption) (context.Context, trace.Span) {
	ctx, s := f.Tracer.Start(ctx, name, opts...)
	return ctx, flushingSpan{s, f.of}
}

type flushingSpan struct {
	trace.Span

	of *flushing
}

func (s flushingSpan) TracerProvider() trace.TracerProvider { return s.of }
