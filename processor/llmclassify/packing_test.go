package llmclassify_test

import (
	"testing"
	"time"

	"github.com/open-telemetry/opentelemetry-collector-contrib/pkg/pdatatest/ptracetest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/harness"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/worker"
)

// manyHeld are n spans of as many traces, which wait for their run.
func manyHeld(t *testing.T, n int) ptrace.Traces {
	t.Helper()
	template := harness.TracesOf(t, harness.RequestSpan(2, 1, 0.1, 1).Answered("stop", harness.Counts{Text: 1}))
	td := ptrace.NewTraces()
	template.CopyTo(td)
	spans := td.ResourceSpans().At(0).ScopeSpans().At(0).Spans()
	for spans.Len() < n {
		spans.At(0).CopyTo(spans.AppendEmpty())
	}
	for i, span := range spans.All() {
		span.SetTraceID(harness.NthTraceID(uint64(i)))
	}
	return td
}

// TestPackAfter: what stays for long is packed, once, and comes out as it came.
func TestPackAfter(t *testing.T) {
	cfg := harness.DefaultConfig()
	h, never := harness.New(t, cfg, nil), harness.New(t, cfg, nil)
	td, same := manyHeld(t, 10), manyHeld(t, 10)
	require.NoError(t, h.ConsumeTraces(t.Context(), td))
	require.NoError(t, never.ConsumeTraces(t.Context(), same))
	loose := h.Load().Bytes

	h.Pass(t, worker.PackAfter-1)
	assert.Equal(t, loose, h.Load().Bytes)
	h.Pass(t, 1)
	small := h.Load().Bytes
	assert.Less(t, small, loose*2/3)
	next, ok := h.NextDue()
	require.True(t, ok)
	assert.Equal(t, harness.T0.Add(cfg.MaxHold), next, "nothing is loose any more")

	h.Pass(t, cfg.MaxHold-worker.PackAfter)
	for _, s := range never.Shards { // nothing is packed before it is due
		never.Clock.Advance(cfg.MaxHold)
		l := s.Lane(never.Tenants.Others)
		l.Push(l.Buffer.Due(never.Clock.Now(), worker.MaxDue))
		harness.JudgeAll(t.Context(), l)
	}
	require.Equal(t, 10, h.Out().SpanCount())
	require.NoError(t, ptracetest.CompareTraces(never.Out(), h.Out()))
}

// TestPackGone: a trace that has gone is not packed, and one that comes again later
// has its own time.
func TestPackGone(t *testing.T) {
	h := harness.New(t, harness.DefaultConfig(), nil)
	run := []harness.Span{harness.RequestSpan(2, 1, 0.1, 1).Answered("stop", harness.Counts{Text: 1}), harness.RunSpan(1, 0, 3, 1, 0)}
	h.Consume(t, run[0])
	h.Pass(t, time.Second)
	h.Consume(t, run[1])
	require.Equal(t, 2, h.Out().SpanCount())
	h.Pass(t, time.Second)
	h.Consume(t, harness.RequestSpan(3, 9, 0.1, 1).Of(2))
	loose := h.Load().Bytes
	h.Pass(t, worker.PackAfter-time.Second)
	assert.Equal(t, loose, h.Load().Bytes)
	h.Pass(t, time.Second)
	assert.Less(t, h.Load().Bytes, loose)
}

// TestPackWhenTight: once a quarter of max_held_bytes is used, what came first is
// packed, but no more than needed.
func TestPackWhenTight(t *testing.T) {
	roomy := harness.New(t, harness.DefaultConfig(), nil)
	require.NoError(t, roomy.ConsumeTraces(t.Context(), manyHeld(t, 1000)))
	loose := roomy.Load().Bytes

	cfg := harness.DefaultConfig()
	cfg.MaxHeldBytes = loose * 4 * 3 / 4
	h := harness.New(t, cfg, nil)
	require.NoError(t, h.ConsumeTraces(t.Context(), manyHeld(t, 1000)))
	assert.LessOrEqual(t, h.Load().Bytes, loose*3/4)
	assert.Greater(t, h.Load().Bytes, loose*2/3)
	assert.Zero(t, h.Sink.SpanCount(), "nothing had to go")

	cfg.MaxHeldBytes = loose / 2
	h = harness.New(t, cfg, nil)
	require.NoError(t, h.ConsumeTraces(t.Context(), manyHeld(t, 1000)))
	assert.Zero(t, h.Sink.SpanCount(), "packed, there is room for all")
}

// TestPackInTurns: a burst is packed a part at a time.
func TestPackInTurns(t *testing.T) {
	h := harness.New(t, harness.DefaultConfig(), nil)
	require.NoError(t, h.ConsumeTraces(t.Context(), manyHeld(t, 10*worker.MaxDue)))
	now := h.Clock.Advance(worker.PackAfter)
	last, turns := h.Load().Bytes, 0
	for {
		if at, ok := h.Lane().Next(); !ok || at.After(now) {
			break
		}
		h.Lane().Tick(t.Context(), now)
		require.Less(t, h.Load().Bytes, last)
		last = h.Load().Bytes
		turns++
	}
	assert.Equal(t, 20, turns, "a trace is work beside its spans'")
}
