package property

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

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/harness"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/metadata"
	"github.com/otelllm/otelllm-go/semconv"
)

// slowDisk is a disk on which reading a key takes until it is let go.
type slowDisk struct {
	*harness.Disk
	key   string
	letGo chan struct{}
	reads chan struct{} // is closed when the key is read
}

type slowClient struct {
	harness.DiskClient
	*slowDisk
}

func (d *slowDisk) GetClient(context.Context, component.Kind, component.ID, string) (storage.Client, error) {
	return slowClient{harness.DiskClient{Disk: d.Disk}, d}, nil
}

func (c slowClient) Get(ctx context.Context, key string) ([]byte, error) {
	return c.DiskClient.Get(ctx, key)
}

func (c slowClient) Set(ctx context.Context, key string, value []byte) error {
	return c.DiskClient.Set(ctx, key, value)
}

func (c slowClient) Delete(ctx context.Context, key string) error {
	return c.DiskClient.Delete(ctx, key)
}

func (c slowClient) Batch(ctx context.Context, ops ...*storage.Operation) error {
	if ops[0].Type == storage.Get && ops[0].Key == c.key {
		close(c.reads)
		<-c.letGo
	}
	return c.DiskClient.Batch(ctx, ops...)
}

func (slowClient) Close(context.Context) error { return nil }

// No run is judged while the journal of an earlier process is read: more of it may follow.
func TestNoVerdictDuringReplay(t *testing.T) {
	d := harness.NewDisk()
	h := harness.NewOn(t, d, harness.DefaultConfig(), nil, harness.T0)
	h.Consume(t, harness.UncountedRun(0, 1)...)
	const others = 12
	for n := range others {
		h.Consume(t, harness.RequestSpan(2, 1, 0.1, 1).Answered("stop", harness.Answer).Of(byte(n+2)))
	}
	h.Consume(t, harness.ShownBefore(0))
	require.Empty(t, h.Sink.AllTraces())

	id := component.MustNewID("disk")
	cfg := harness.DefaultConfig()
	cfg.Storage = &id
	slow := &slowDisk{Disk: d, key: "13", letGo: make(chan struct{}), reads: make(chan struct{})}
	require.Contains(t, d.Entries(), slow.key)
	clock, sink := harness.NewClock(), new(consumertest.TracesSink)
	clock.Advance(10 * time.Second)
	set := processortest.NewNopSettings(metadata.Type)
	p := harness.Make(t, set, cfg, sink, clock)
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
	for sink.SpanCount() == 0 && (!l.Inbox.Empty() || !clock.WaitsUntil(clock.Now().Add(harness.Settle))) {
		runtime.Gosched()
	}
	assert.Empty(t, sink.AllTraces(), "it has not settled here")
	clock.Advance(harness.Settle)
	for sink.SpanCount() < 3 {
		runtime.Gosched()
	}
	require.NoError(t, p.Shutdown(t.Context()))
	got := harness.Verdicts(harness.OutOf(sink))
	assert.Equal(t, semconv.TriggerRunEnded, got[1].Trigger)
	assert.Equal(t, semconv.RunOutcomeFailed, got[1].Outcome)
	assert.Greater(t, got[1].Safety, harness.Safe)
	assert.Equal(t, semconv.RetryReasonVisibleOutput, got[1].Reason)
}

// The time for which a process is down does not count for settle: the senders could not send
// what is missing. For max_hold after the start, a run that began before may lack parts, unless
// it announced how many it has.
func TestDowntime(t *testing.T) {
	const down = 10 * time.Second
	restart := func(t *testing.T, specs ...harness.Span) *harness.Harness {
		d := harness.NewDisk()
		h := harness.NewOn(t, d, harness.DefaultConfig(), nil, harness.T0)
		h.Pass(t, time.Second)
		h.Consume(t, specs...)
		h.Pass(t, 50*time.Millisecond)
		require.Empty(t, h.Sink.AllTraces())
		h = harness.NewOn(t, d, harness.DefaultConfig(), nil, h.Clock.Now().Add(down))
		h.Pass(t, 0)
		require.Empty(t, h.Sink.AllTraces(), "its senders wait, too")
		return h
	}
	t.Run("its parts come", func(t *testing.T) {
		h := restart(t, harness.UncountedRun(0, 1)...)
		h.Pass(t, time.Second)
		h.Consume(t, harness.ShownBefore(0))
		h.Pass(t, harness.Settle)
		got := harness.Verdicts(h.Out())
		assert.Equal(t, semconv.RetryReasonVisibleOutput, got[1].Reason)
		assert.Greater(t, got[1].Safety, harness.Safe)
	})
	t.Run("its parts come later", func(t *testing.T) {
		h := restart(t, harness.UncountedRun(0, 1)...)
		h.Pass(t, harness.Settle)
		got := harness.Verdicts(h.Out())
		assert.Equal(t, semconv.TriggerRunEnded, got[1].Trigger)
		assert.Equal(t, semconv.RetryReasonEvidenceIncomplete, got[1].Reason)
		assert.Greater(t, got[1].Safety, harness.Safe)
	})
	t.Run("all are announced", func(t *testing.T) {
		h := restart(t, harness.UncountedRun(0, 1)[1])
		h.Consume(t, harness.RunSpan(1, 0, 1, 1, 0).Failed("429"))
		assert.Equal(t, harness.Confirm, harness.Verdicts(h.Out())[1].Safety, "a run within it may have been judged before")
	})
	t.Run("what was above them is not known any more", func(t *testing.T) {
		h := restart(t, harness.UncountedRun(0, 60)[1])
		h.Pass(t, 2*harness.MaxHold)
		h.Consume(t, harness.UncountedRun(0, 60)[0])
		h.Pass(t, harness.Settle)
		assert.Equal(t, semconv.RetryReasonEvidenceIncomplete, harness.Verdicts(h.Out())[1].Reason)
	})
	t.Run("its request goes early", func(t *testing.T) {
		h := restart(t, harness.UncountedRun(0, 60)[1])
		h.Pass(t, harness.MaxHold)
		got := harness.Verdicts(h.Out())[2]
		assert.Equal(t, semconv.TriggerHoldExpired, got.Trigger)
		assert.Equal(t, semconv.RetryReasonEvidenceIncomplete, got.Reason)
	})
	// Of the others nothing was here before.
	judged := func(t *testing.T, after time.Duration, from, to float64) harness.Verdict {
		h := harness.NewOn(t, harness.NewDisk(), harness.DefaultConfig(), nil, harness.T0.Add(down))
		h.Pass(t, after)
		h.Consume(t, harness.UncountedRun(from, to)...)
		h.Pass(t, harness.Settle)
		return harness.Verdicts(h.Out())[1]
	}
	t.Run("began before", func(t *testing.T) {
		assert.Equal(t, semconv.RetryReasonEvidenceIncomplete, judged(t, 3*time.Second, 0, 12).Reason)
	})
	t.Run("began before, long ago", func(t *testing.T) {
		assert.Equal(t, semconv.RetryReasonEvidenceIncomplete, judged(t, 5*time.Minute, 0, 12).Reason)
	})
	t.Run("began after", func(t *testing.T) {
		assert.Equal(t, harness.Safe, judged(t, 3*time.Second, 12, 13).Safety)
	})
	t.Run("kept by its sender for hours", func(t *testing.T) {
		assert.Equal(t, harness.Confirm, judged(t, 3*time.Second, -7200, -7000).Safety)
	})
}

// Without storage, what an earlier process held is lost.
func TestRestartWithoutStorage(t *testing.T) {
	h := harness.New(t, harness.DefaultConfig(), nil)
	h.Clock.Advance(10 * time.Second)
	require.NoError(t, h.Begin(t.Context(), h.Reader, h.Callers))
	for trace := range byte(3) {
		h.Pass(t, harness.MaxHold)
		h.Sink.Reset()
		for _, s := range harness.UncountedRun(0, 12) {
			h.Consume(t, s.Of(trace+1))
		}
		h.Pass(t, harness.Settle)
		assert.Equal(t, semconv.RetryReasonEvidenceIncomplete, harness.Verdicts(h.Out())[1].Reason)
	}
}

// At a shutdown a run goes before its parts had time to come. Without storage nothing of it is
// known after that.
func TestShutdownBeforeSettle(t *testing.T) {
	stop := func(t *testing.T, specs ...harness.Span) map[byte]harness.Verdict {
		h := harness.New(t, harness.DefaultConfig(), nil)
		for _, s := range specs {
			h.Consume(t, s)
		}
		h.Pass(t, 50*time.Millisecond)
		require.NoError(t, h.Shutdown(t.Context()))
		return harness.Verdicts(h.Out())
	}
	t.Run("that announces nothing", func(t *testing.T) {
		got := stop(t, harness.UncountedRun(0, 1)...)
		assert.Equal(t, semconv.TriggerShutdown, got[1].Trigger)
		assert.Equal(t, semconv.RunOutcomeFailed, got[1].Outcome)
		assert.Equal(t, semconv.RetryReasonEvidenceIncomplete, got[1].Reason)
	})
	t.Run("and nothing comes later", func(t *testing.T) {
		cfg := harness.DefaultConfig()
		cfg.Embedded = true
		h := harness.New(t, cfg, nil)
		h.Consume(t, harness.UncountedRun(0, 1)...)
		require.NoError(t, h.Shutdown(t.Context()))
		assert.Equal(t, harness.Safe, harness.Verdicts(h.Out())[1].Safety)
	})
	t.Run("of no run span", func(t *testing.T) {
		refused := harness.UncountedRun(0, 1)[1].Without(semconv.RunIDKey).Under(9)
		again := refused
		again.ID, again.From, again.To = 3, 0.3, 0.4
		got := stop(t, refused, harness.OtherSpan(9, 0, 0, 1), again)
		assert.Equal(t, semconv.RunOutcomeFailed, got[3].Outcome)
		assert.Greater(t, got[3].Safety, harness.Safe)
	})
	t.Run("that is not here", func(t *testing.T) {
		assert.Greater(t, stop(t, harness.UncountedRun(0, 1)[1])[2].Safety, harness.Safe, "a tool of it may have run")
	})
	t.Run("whose parts are here", func(t *testing.T) {
		empty := harness.RequestSpan(3, 1, 0.3, 0.9).Answered("stop", harness.Counts{})
		run := harness.RunSpan(1, 0, 1, 2, 0)
		h := harness.New(t, harness.DefaultConfig(), nil)
		h.Consume(t, empty, harness.UncountedRun(0, 1)[1], run)
		h.Pass(t, harness.Settle)
		want := harness.Verdicts(h.Out())[1]
		require.Equal(t, harness.Safe, want.Safety)
		got := stop(t, empty, harness.UncountedRun(0, 1)[1], run)[1]
		assert.Equal(t, semconv.TriggerShutdown, got.Trigger, "it waited for what explains the empty response")
		got.Trigger = want.Trigger
		assert.Equal(t, want, got)
	})
}

// Where it is forgotten, for want of room, of which traces something was forgotten, runs that
// began before may lack parts.
func TestForgottenTracesAreForgotten(t *testing.T) {
	cfg := harness.DefaultConfig()
	cfg.MaxFactBytes = 1 << 10 // room for the least that is remembered
	cfg.Shards = 2
	d := harness.NewDisk()
	h := harness.NewOn(t, d, cfg, nil, harness.T0)
	h.Pass(t, time.Minute)
	at := h.Pool.Lane(h.Tenants.Others, harness.TraceID(1))
	at.Buffer.Judged().Forgot(harness.TraceID(1))
	for n := range byte(250) { // of the same shard
		for m := range byte(20) {
			trace := pcommon.TraceID{n + 1, m}
			if h.Pool.Lane(h.Tenants.Others, trace) != at {
				continue
			}
			td := harness.TracesOf(t, harness.FinishedRun(1)...)
			harness.EachSpan(td, func(span ptrace.Span) { span.SetTraceID(trace) })
			require.NoError(t, h.ConsumeTraces(t.Context(), td))
		}
	}
	require.False(t, at.Buffer.Judged().Forgotten(harness.TraceID(1)), "as there is no room")
	judged := func(h *harness.Harness, trace byte, from, to float64) harness.Verdict {
		h.Sink.Reset()
		for _, s := range harness.UncountedRun(from, to) {
			h.Consume(t, s.Of(trace))
		}
		h.Pass(t, harness.Settle)
		return harness.Verdicts(h.Out())[1]
	}
	assert.Equal(t, semconv.RetryReasonEvidenceIncomplete, judged(h, 1, 0, 61).Reason)
	assert.Equal(t, harness.Safe, judged(h, 2, 62, 63).Safety, "it began later")
}
