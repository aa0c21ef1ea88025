package inferred

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/otelllm/internal/agentrun"
	"github.com/otelllm/otelllm-go/otelllm/internal/kinship"
	"github.com/otelllm/otelllm-go/otelllm/internal/live"
	"github.com/otelllm/otelllm-go/otelllm/internal/spanfacts"
	"github.com/otelllm/otelllm-go/otelllm/internal/spantest"
	"github.com/otelllm/otelllm-go/semconv"
)

// hookSampler samples everything, and calls the hook first.
type hookSampler struct{ hook func(name string) }

func (s *hookSampler) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	s.hook(p.Name)
	return sdktrace.AlwaysSample().ShouldSample(p)
}

func (*hookSampler) Description() string { return "" }

// fixture is a Source with the spans that it has ended.
type fixture struct {
	Source

	live  live.Registry
	spans *tracetest.SpanRecorder
	begin time.Time
	sent  http.Header // with each request
}

func newFixture(t *testing.T, hook func(name string)) *fixture {
	t.Helper()
	if hook == nil {
		hook = func(string) {}
	}
	f := &fixture{spans: tracetest.NewSpanRecorder(), begin: time.Now()}
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(f.spans), sdktrace.WithSampler(&hookSampler{hook}))
	t.Cleanup(func() { assert.NoError(t, provider.Shutdown(context.WithoutCancel(t.Context()))) })
	f.Source = Source{
		Runs: &Runs{}, Limits: kinship.DefaultConfig(),
		Run: agentrun.Config{TracerProvider: provider, Live: &f.live},
	}
	t.Cleanup(f.Runs.Shutdown)
	return f
}

const (
	question = `{"model":"m","messages":[{"role":"user","content":"fix it"}]}`
	other    = `{"model":"m","messages":[{"role":"user","content":"explain it"}]}`
)

func (f *fixture) at(seconds int) time.Time {
	return f.begin.Add(time.Duration(seconds) * time.Second)
}

func (f *fixture) send(seconds int, body string) *Request {
	return f.Begin(context.Background(), f.at(seconds), f.sent, func(read func([]byte)) { read([]byte(body)) })
}

// end ends a request that was answered with this status; 0: this side closed it.
func (f *fixture) end(q *Request, seconds, status int) {
	r := spanfacts.Request{}
	r.End, r.Status = f.at(seconds), status
	switch status {
	case 0:
		r.Status, r.Ended = http.StatusOK, semconv.StreamEndConsumerClosed
		r.Abort.Source = semconv.AbortSourceConsumer
	case http.StatusOK:
		r.Ended, r.Finish = semconv.StreamEndTerminalEvent, classify.FinishStop
		r.ToolCalls, r.ToolInputsCompleted = classify.Counted(0), classify.Counted(0)
	default:
		r.Ended, r.ErrorType = semconv.StreamEndHTTPError, http.StatusText(status)
	}
	r.DeriveOutcome()
	q.Ended(&r, nil)
}

// expire lets the time pass in which a further attempt could come.
func (f *fixture) expire(seconds int) {
	f.Runs.mu.Lock()
	over := f.Runs.endings(f.Runs.tracker.Expire(f.at(seconds)))
	f.Runs.mu.Unlock()
	end(over)
}

func (f *fixture) only(t *testing.T) sdktrace.ReadOnlySpan {
	t.Helper()
	spans := f.spans.Ended()
	require.Len(t, spans, 1)
	return spans[0]
}

// A stalled request that ends after its further attempt does not say how the run ended.
func TestNewestRequestCounts(t *testing.T) {
	f := newFixture(t, nil)
	f.sent = http.Header{"Session-Id": {"01a203c0-9208-7863-86fa-f6e890e736b3"}}
	stalled := f.send(0, question)
	again := f.send(10, question)
	require.Same(t, stalled.Run(), again.Run())
	f.end(again, 11, http.StatusServiceUnavailable)
	f.end(stalled, 12, 0)
	f.expire(1000)
	run := f.only(t)
	assert.Equal(t, "failure", spantest.Get(run, semconv.RunEndKey))
	assert.Equal(t, "Service Unavailable", spantest.Get(run, "error.type"))
	assert.Nil(t, spantest.Get(run, semconv.AbortSourceKey))
	assert.WithinDuration(t, f.at(12), run.EndTime(), 0, "no request of the run ends after it")
}

// A request that is not recorded has not failed.
func TestDroppedRequestIsNoFailure(t *testing.T) {
	f := newFixture(t, nil)
	f.end(f.send(0, question), 1, http.StatusServiceUnavailable)
	f.send(2, question).Drop(f.at(2))
	f.expire(1000)
	run := f.only(t)
	assert.Equal(t, "unclear", spantest.Get(run, semconv.RunEndKey))
	assert.False(t, spantest.Failed(run))
}

// The end that counts is the first: a panic after it drops the request once more.
func TestRequestEndsOnce(t *testing.T) {
	f := newFixture(t, nil)
	q := f.send(0, question)
	f.end(q, 1, http.StatusServiceUnavailable)
	q.Drop(f.at(2))
	f.expire(1000)
	run := f.only(t)
	assert.Equal(t, "failure", spantest.Get(run, semconv.RunEndKey))
	assert.Equal(t, "Service Unavailable", spantest.Get(run, "error.type"))
	assert.WithinDuration(t, f.at(1), run.EndTime(), 0)
}

// A run that is evicted while a request is open ends no earlier than that began.
func TestEvictedWithAnOpenRequest(t *testing.T) {
	f := newFixture(t, nil)
	f.Limits.MaxConversations = 1
	f.end(f.send(-20, question), -19, http.StatusServiceUnavailable)
	open := f.send(-10, question)
	f.send(-5, other)
	run := f.only(t)
	assert.Equal(t, "evicted", spantest.Get(run, semconv.RunEndKey))
	assert.False(t, run.EndTime().Before(f.at(-10)))
	assert.True(t, open.run.Over())
	f.end(open, -1, http.StatusOK)
	f.only(t)
}

// Two requests begin at once when no run is known. Each opens one. If they turn out to
// belong to one run, the other does not stay open.
func TestFirstRequestsAtOnce(t *testing.T) {
	var f *fixture
	nested := false
	f = newFixture(t, func(string) {
		if !nested {
			nested = true
			f.end(f.send(0, question), 1, http.StatusServiceUnavailable)
		}
	})
	q := f.send(2, question)
	require.Equal(t, 2, q.Attempt)
	f.end(q, 3, http.StatusOK)
	_, _, open := f.live.Len()
	assert.Zero(t, open)
	spans := f.spans.Ended()
	require.Len(t, spans, 2)
	assert.Equal(t, "unclear", spantest.Get(spans[0], semconv.RunEndKey))
	assert.Equal(t, "answer", spantest.Get(spans[1], semconv.RunEndKey))
}

// Nothing is a child of a run that has ended.
func TestContextOfAnEndedRun(t *testing.T) {
	f := newFixture(t, nil)
	q := f.send(0, question)
	assert.NotEqual(t, t.Context(), q.Context(t.Context()))
	q.Run().Shutdown()
	assert.Equal(t, t.Context(), q.Context(t.Context()))
	assert.False(t, q.Recorded())
}

// After Shutdown nothing waits, and the same conversation begins a new run.
func TestShutdown(t *testing.T) {
	f := newFixture(t, nil)
	f.end(f.send(0, question), 1, http.StatusServiceUnavailable)
	f.Runs.Shutdown()
	assert.Equal(t, "shutdown", spantest.Get(f.only(t), semconv.RunEndKey))
	_, waits := f.Runs.tracker.Deadline()
	assert.False(t, waits)
	q := f.send(2, question)
	assert.True(t, q.Recorded())
	assert.Equal(t, 1, q.Attempt)
}

// panickingContext panics at one of its calls.
type panickingContext struct {
	context.Context

	calls, at int
}

func (c *panickingContext) Value(key any) any {
	if c.calls++; c.calls == c.at {
		panic("secret")
	}
	return c.Context.Value(key)
}

// A panic while a run starts does not leave its request open.
func TestPanicWhileARunStarts(t *testing.T) {
	f := newFixture(t, nil)
	f.end(f.send(0, other), 1, http.StatusOK) // a run is known
	assert.Panics(t, func() {
		ctx := &panickingContext{Context: t.Context(), at: 2} // the first call is before the run is known
		f.Begin(ctx, f.at(2), http.Header{}, func(read func([]byte)) { read([]byte(question)) })
	})
	_, waits := f.Runs.tracker.Deadline()
	assert.True(t, waits, "the request has ended")
	assert.True(t, f.Runs.mu.TryLock())
	f.Runs.mu.Unlock()
}

func TestAgentOf(t *testing.T) {
	for userAgent, want := range map[string]string{
		"codex_exec/0.169.0 (Debian)":    "codex_exec",
		"claude-cli/2.1.0 (external)":    "claude-cli",
		"OpenAI/Python 1.2.3":            unknownAgent,
		"":                               unknownAgent,
		"Alice":                          unknownAgent,
		"find my password":               unknownAgent,
		"my secret agent/1.0":            unknownAgent,
		spantest.Credentials[0] + "/1.0": unknownAgent,
	} {
		assert.Equal(t, want, agentOf(userAgent), userAgent)
	}
}

// User agents are up to the client, and the names of spans have to be few.
func TestAgentNamesAreBounded(t *testing.T) {
	f := newFixture(t, nil)
	name := func(n int) string {
		f.sent = http.Header{"User-Agent": {fmt.Sprintf("agent%c%c/1.0", 'a'+n/26, 'a'+n%26)}}
		return f.send(0, question).Run().Agent
	}
	for n := range maxAgents {
		assert.NotEqual(t, unknownAgent, name(n))
	}
	assert.Equal(t, unknownAgent, name(maxAgents))
	assert.Equal(t, "agentaa", name(0), "the first ones keep theirs")
	f.end(f.send(1, question), 2, http.StatusOK)
	names := map[string]bool{}
	f.Runs.Shutdown()
	for _, s := range f.spans.Ended() {
		names[s.Name()] = true
	}
	assert.Len(t, names, maxAgents+1)
}

// Headers are read before the body is: later they belong to the caller.
func TestBeginLaterReadsHeadersAtOnce(t *testing.T) {
	f := newFixture(t, nil)
	h := http.Header{"User-Agent": {"codex_exec/0.169.0"}, "Session-Id": {"01a203c0-9208-7863-86fa-f6e890e736b3"}}
	begin := f.BeginLater(t.Context(), f.at(0), h)
	clear(h)
	q := begin([]byte(question))
	assert.Equal(t, "01a203c0-9208-7863-86fa-f6e890e736b3", q.Run().ConversationID)
	assert.Equal(t, "codex_exec", q.Run().Agent)
}

// Two agents behind a gateway begin with the same words, each in the trace of its own. The
// failure of one is not repeated by the other. Within one trace, or without one, it may be.
func TestTracesOfTheirOwn(t *testing.T) {
	f := newFixture(t, nil)
	remote := func(id byte) context.Context {
		sc := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{15: id}, SpanID: trace.SpanID{1}, TraceFlags: trace.FlagsSampled})
		return trace.ContextWithRemoteSpanContext(t.Context(), sc)
	}
	send := func(ctx context.Context, seconds int) *Request {
		q := f.Begin(ctx, f.at(seconds), f.sent, func(read func([]byte)) { read([]byte(question)) })
		f.end(q, seconds+1, http.StatusServiceUnavailable)
		return q
	}
	first := send(remote(1), 0)
	assert.NotSame(t, first.Run(), send(remote(2), 2).Run())
	assert.Same(t, first.Run(), send(remote(1), 4).Run())

	f = newFixture(t, nil)
	f.sent = http.Header{"Session-Id": {"01a203c0-9208-7863-86fa-f6e890e736b3"}}
	assert.Same(t, send(remote(1), 0).Run(), send(remote(2), 2).Run())
	f.sent = nil
	f = newFixture(t, nil)
	local := func(id byte) context.Context {
		return trace.ContextWithSpanContext(t.Context(), trace.SpanContextFromContext(remote(id)).WithRemote(false))
	}
	assert.Same(t, send(local(1), 0).Run(), send(local(2), 2).Run(), "attempts of one client may have a trace each")
}

// uncomparable is a provider that cannot be compared with others.
type uncomparable struct {
	*sdktrace.TracerProvider

	_ []int
}

// A run's spans are recorded by one provider: requests of others belong to runs of their own.
func TestProvidersOfTheirOwn(t *testing.T) {
	f, g := newFixture(t, nil), newFixture(t, nil)
	g.Runs = f.Runs
	first := f.send(0, question)
	f.end(first, 1, http.StatusServiceUnavailable)
	other := g.send(2, question)
	g.end(other, 3, http.StatusServiceUnavailable)
	assert.NotSame(t, first.Run(), other.Run())
	assert.Same(t, first.Run(), f.send(4, question).Run())
	assert.Same(t, other.Run(), g.send(4, question).Run())

	h := newFixture(t, nil)
	h.Run.TracerProvider = uncomparable{TracerProvider: h.Run.TracerProvider.(*sdktrace.TracerProvider)} //nolint:forcetypeassert // it is
	once := h.send(0, question)
	h.end(once, 1, http.StatusServiceUnavailable)
	assert.Same(t, once.Run(), h.send(2, question).Run())
}
