package llmclassify

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/extension/xextension/storage"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/processor/processortest"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/metadata"
	"github.com/otelllm/otelllm-go/semconv"
)

// uncountedRun is a run that announces no numbers, and failed with a request that the provider
// refused: if that was all, it is safe to repeat.
func uncountedRun(from, to float64) []spanSpec {
	return []spanSpec{
		unannounced(runSpan(1, from, to, 1, 0)).failed("429"),
		requestSpan(2, 1, from+0.1, from+0.2).refused(429, semconv.ProviderErrorKindRateLimited, "rate_limit_exceeded"),
	}
}

// shownBefore is a request of the run that showed text.
func shownBefore(from float64) spanSpec {
	return requestSpan(3, 1, from+0.01, from+0.05).cut(semconv.PhaseText, semconv.TransportCauseConnectionReset, "ECONNRESET", counts{text: 2})
}

// slowDisk is a disk on which reading a key takes until it is let go.
type slowDisk struct {
	*disk
	key   string
	letGo chan struct{}
	reads chan struct{} // is closed when the key is read
}

type slowClient struct {
	diskClient
	*slowDisk
}

func (d *slowDisk) GetClient(context.Context, component.Kind, component.ID, string) (storage.Client, error) {
	return slowClient{diskClient{d.disk}, d}, nil
}

func (c slowClient) Get(ctx context.Context, key string) ([]byte, error) {
	return c.diskClient.Get(ctx, key)
}

func (c slowClient) Set(ctx context.Context, key string, value []byte) error {
	return c.diskClient.Set(ctx, key, value)
}

func (c slowClient) Delete(ctx context.Context, key string) error {
	return c.diskClient.Delete(ctx, key)
}

func (c slowClient) Batch(ctx context.Context, ops ...*storage.Operation) error {
	if ops[0].Type == storage.Get && ops[0].Key == c.key {
		close(c.reads)
		<-c.letGo
	}
	return c.diskClient.Batch(ctx, ops...)
}

func (slowClient) Close(context.Context) error { return nil }

// No run is judged while the journal of an earlier process is read: more of it may follow.
func TestNoVerdictDuringReplay(t *testing.T) {
	d := newDisk()
	h := newHarnessOn(t, d, defaultConfig(), nil, t0)
	h.consume(t, uncountedRun(0, 1)...)
	const others = 12
	for n := range others {
		h.consume(t, requestSpan(2, 1, 0.1, 1).answered("stop", answer).of(byte(n+2)))
	}
	h.consume(t, shownBefore(0))
	require.Empty(t, h.sink.AllTraces())

	id := component.MustNewID("disk")
	cfg := defaultConfig()
	cfg.Storage = &id
	slow := &slowDisk{disk: d, key: "13", letGo: make(chan struct{}), reads: make(chan struct{})}
	require.Contains(t, d.entries(), slow.key)
	clock, sink := newManualClock(), new(consumertest.TracesSink)
	clock.advance(10 * time.Second)
	set := processortest.NewNopSettings(metadata.Type)
	p := newInside(t, set, cfg, sink, clock)
	done := make(chan error)
	go func() { done <- p.Start(t.Context(), hostWith{id: slow}) }()
	<-slow.reads
	for p.Load().Traces < others+1 && sink.SpanCount() == 0 {
		runtime.Gosched()
	}
	assert.Empty(t, sink.AllTraces(), "there is more of the run")
	close(slow.letGo)
	require.NoError(t, <-done)
	l := p.Shards[0].Lane(p.Tenants.Others)
	for sink.SpanCount() == 0 && (!l.Inbox.Empty() || !clock.waitsUntil(clock.Now().Add(xSettle))) {
		runtime.Gosched()
	}
	assert.Empty(t, sink.AllTraces(), "it has not settled here")
	clock.advance(xSettle)
	for sink.SpanCount() < 3 {
		runtime.Gosched()
	}
	require.NoError(t, p.Shutdown(t.Context()))
	got := verdicts(outOf(sink))
	assert.Equal(t, semconv.TriggerRunEnded, got[1].trigger)
	assert.Equal(t, semconv.RunOutcomeFailed, got[1].outcome)
	assert.Greater(t, got[1].safety, safe)
	assert.Equal(t, semconv.RetryReasonVisibleOutput, got[1].reason)
}

func outOf(sink *consumertest.TracesSink) ptrace.Traces {
	return (&harness{sink: sink}).out()
}

// The time for which a process is down does not count for settle: the senders could not send
// what is missing. For max_hold after the start, a run that began before may lack parts, unless
// it announced how many it has.
func TestDowntime(t *testing.T) {
	const down = 10 * time.Second
	restart := func(t *testing.T, specs ...spanSpec) *harness {
		d := newDisk()
		h := newHarnessOn(t, d, defaultConfig(), nil, t0)
		h.pass(t, time.Second)
		h.consume(t, specs...)
		h.pass(t, 50*time.Millisecond)
		require.Empty(t, h.sink.AllTraces())
		h = newHarnessOn(t, d, defaultConfig(), nil, h.clock.Now().Add(down))
		h.pass(t, 0)
		require.Empty(t, h.sink.AllTraces(), "its senders wait, too")
		return h
	}
	t.Run("its parts come", func(t *testing.T) {
		h := restart(t, uncountedRun(0, 1)...)
		h.pass(t, time.Second)
		h.consume(t, shownBefore(0))
		h.pass(t, xSettle)
		got := verdicts(h.out())
		assert.Equal(t, semconv.RetryReasonVisibleOutput, got[1].reason)
		assert.Greater(t, got[1].safety, safe)
	})
	t.Run("its parts come later", func(t *testing.T) {
		h := restart(t, uncountedRun(0, 1)...)
		h.pass(t, xSettle)
		got := verdicts(h.out())
		assert.Equal(t, semconv.TriggerRunEnded, got[1].trigger)
		assert.Equal(t, semconv.RetryReasonEvidenceIncomplete, got[1].reason)
		assert.Greater(t, got[1].safety, safe)
	})
	t.Run("all are announced", func(t *testing.T) {
		h := restart(t, uncountedRun(0, 1)[1])
		h.consume(t, runSpan(1, 0, 1, 1, 0).failed("429"))
		assert.Equal(t, confirm, verdicts(h.out())[1].safety, "a run within it may have been judged before")
	})
	t.Run("what was above them is not known any more", func(t *testing.T) {
		h := restart(t, uncountedRun(0, 60)[1])
		h.pass(t, 2*xMaxHold)
		h.consume(t, uncountedRun(0, 60)[0])
		h.pass(t, xSettle)
		assert.Equal(t, semconv.RetryReasonEvidenceIncomplete, verdicts(h.out())[1].reason)
	})
	t.Run("its request goes early", func(t *testing.T) {
		h := restart(t, uncountedRun(0, 60)[1])
		h.pass(t, xMaxHold)
		got := verdicts(h.out())[2]
		assert.Equal(t, semconv.TriggerHoldExpired, got.trigger)
		assert.Equal(t, semconv.RetryReasonEvidenceIncomplete, got.reason)
	})
	// Of the others nothing was here before.
	judged := func(t *testing.T, after time.Duration, from, to float64) verdict {
		h := newHarnessOn(t, newDisk(), defaultConfig(), nil, t0.Add(down))
		h.pass(t, after)
		h.consume(t, uncountedRun(from, to)...)
		h.pass(t, xSettle)
		return verdicts(h.out())[1]
	}
	t.Run("began before", func(t *testing.T) {
		assert.Equal(t, semconv.RetryReasonEvidenceIncomplete, judged(t, 3*time.Second, 0, 12).reason)
	})
	t.Run("began before, long ago", func(t *testing.T) {
		assert.Equal(t, semconv.RetryReasonEvidenceIncomplete, judged(t, 5*time.Minute, 0, 12).reason)
	})
	t.Run("began after", func(t *testing.T) {
		assert.Equal(t, safe, judged(t, 3*time.Second, 12, 13).safety)
	})
	t.Run("kept by its sender for hours", func(t *testing.T) {
		assert.Equal(t, confirm, judged(t, 3*time.Second, -7200, -7000).safety)
	})
}

// Without storage, what an earlier process held is lost.
func TestRestartWithoutStorage(t *testing.T) {
	h := newHarness(t, defaultConfig(), nil)
	h.clock.advance(10 * time.Second)
	require.NoError(t, h.Begin(t.Context(), h.Reader, h.Callers))
	for trace := range byte(3) {
		h.pass(t, xMaxHold)
		h.sink.Reset()
		for _, s := range uncountedRun(0, 12) {
			h.consume(t, s.of(trace+1))
		}
		h.pass(t, xSettle)
		assert.Equal(t, semconv.RetryReasonEvidenceIncomplete, verdicts(h.out())[1].reason)
	}
}

// At a shutdown a run goes before its parts had time to come. Without storage nothing of it is
// known after that.
func TestShutdownBeforeSettle(t *testing.T) {
	stop := func(t *testing.T, specs ...spanSpec) map[byte]verdict {
		h := newHarness(t, defaultConfig(), nil)
		for _, s := range specs {
			h.consume(t, s)
		}
		h.pass(t, 50*time.Millisecond)
		require.NoError(t, h.Shutdown(t.Context()))
		return verdicts(h.out())
	}
	t.Run("that announces nothing", func(t *testing.T) {
		got := stop(t, uncountedRun(0, 1)...)
		assert.Equal(t, semconv.TriggerShutdown, got[1].trigger)
		assert.Equal(t, semconv.RunOutcomeFailed, got[1].outcome)
		assert.Equal(t, semconv.RetryReasonEvidenceIncomplete, got[1].reason)
	})
	t.Run("and nothing comes later", func(t *testing.T) {
		cfg := defaultConfig()
		cfg.Embedded = true
		h := newHarness(t, cfg, nil)
		h.consume(t, uncountedRun(0, 1)...)
		require.NoError(t, h.Shutdown(t.Context()))
		assert.Equal(t, safe, verdicts(h.out())[1].safety)
	})
	t.Run("of no run span", func(t *testing.T) {
		refused := uncountedRun(0, 1)[1].without(semconv.RunIDKey).under(9)
		again := refused
		again.id, again.from, again.to = 3, 0.3, 0.4
		got := stop(t, refused, otherSpan(9, 0, 0, 1), again)
		assert.Equal(t, semconv.RunOutcomeFailed, got[3].outcome)
		assert.Greater(t, got[3].safety, safe)
	})
	t.Run("that is not here", func(t *testing.T) {
		assert.Greater(t, stop(t, uncountedRun(0, 1)[1])[2].safety, safe, "a tool of it may have run")
	})
	t.Run("whose parts are here", func(t *testing.T) {
		empty := requestSpan(3, 1, 0.3, 0.9).answered("stop", counts{})
		run := runSpan(1, 0, 1, 2, 0)
		h := newHarness(t, defaultConfig(), nil)
		h.consume(t, empty, uncountedRun(0, 1)[1], run)
		h.pass(t, xSettle)
		want := verdicts(h.out())[1]
		require.Equal(t, safe, want.safety)
		got := stop(t, empty, uncountedRun(0, 1)[1], run)[1]
		assert.Equal(t, semconv.TriggerShutdown, got.trigger, "it waited for what explains the empty response")
		got.trigger = want.trigger
		assert.Equal(t, want, got)
	})
}

// Where it is forgotten, for want of room, of which traces something was forgotten, runs that
// began before may lack parts.
func TestMarksAreForgotten(t *testing.T) {
	cfg := defaultConfig()
	cfg.MaxFactBytes = 1 << 10 // room for the least that is remembered
	cfg.Shards = 2
	d := newDisk()
	h := newHarnessOn(t, d, cfg, nil, t0)
	h.pass(t, time.Minute)
	at := h.Pool.Lane(h.Tenants.Others, traceID(1))
	at.Buffer.Judged().Forgot(traceID(1))
	for n := range byte(250) { // of the same shard
		for m := range byte(20) {
			trace := pcommon.TraceID{n + 1, m}
			if h.Pool.Lane(h.Tenants.Others, trace) != at {
				continue
			}
			td := tracesOf(t, finishedRun(1)...)
			eachSpan(td, func(span ptrace.Span) { span.SetTraceID(trace) })
			require.NoError(t, h.ConsumeTraces(t.Context(), td))
		}
	}
	require.False(t, at.Buffer.Judged().Forgotten(traceID(1)), "as there is no room")
	judged := func(h *harness, trace byte, from, to float64) verdict {
		h.sink.Reset()
		for _, s := range uncountedRun(from, to) {
			h.consume(t, s.of(trace))
		}
		h.pass(t, xSettle)
		return verdicts(h.out())[1]
	}
	assert.Equal(t, semconv.RetryReasonEvidenceIncomplete, judged(h, 1, 0, 61).reason)
	assert.Equal(t, safe, judged(h, 2, 62, 63).safety, "it began later")
}
