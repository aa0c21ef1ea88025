package llmclassify

import (
	"testing"
	"time"

	"github.com/open-telemetry/opentelemetry-collector-contrib/pkg/pdatatest/ptracetest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/worker"
)

// manyHeld are n spans of as many traces, which wait for their run.
func manyHeld(t *testing.T, n int) ptrace.Traces {
	t.Helper()
	template := tracesOf(t, requestSpan(2, 1, 0.1, 1).answered("stop", counts{text: 1}))
	td := ptrace.NewTraces()
	template.CopyTo(td)
	spans := td.ResourceSpans().At(0).ScopeSpans().At(0).Spans()
	for spans.Len() < n {
		spans.At(0).CopyTo(spans.AppendEmpty())
	}
	for i, span := range spans.All() {
		span.SetTraceID(numbered(uint64(i)))
	}
	return td
}

// TestPackAfter: what stays for long is packed, once, and comes out as it came.
func TestPackAfter(t *testing.T) {
	cfg := defaultConfig()
	h, never := newHarness(t, cfg, nil), newHarness(t, cfg, nil)
	td, same := manyHeld(t, 10), manyHeld(t, 10)
	require.NoError(t, h.ConsumeTraces(t.Context(), td))
	require.NoError(t, never.ConsumeTraces(t.Context(), same))
	loose := h.Load().Bytes

	h.pass(t, worker.PackAfter-1)
	assert.Equal(t, loose, h.Load().Bytes)
	h.pass(t, 1)
	small := h.Load().Bytes
	assert.Less(t, small, loose*2/3)
	next, ok := h.nextDue()
	require.True(t, ok)
	assert.Equal(t, t0.Add(cfg.MaxHold), next, "nothing is loose any more")

	h.pass(t, cfg.MaxHold-worker.PackAfter)
	for _, s := range never.Shards { // nothing is packed before it is due
		never.clock.advance(cfg.MaxHold)
		l := s.Lane(never.Tenants.Others)
		l.Push(l.Buffer.Due(never.clock.Now(), worker.MaxDue))
		judgeAll(t.Context(), l)
	}
	require.Equal(t, 10, h.out().SpanCount())
	require.NoError(t, ptracetest.CompareTraces(never.out(), h.out()))
}

// TestPackGone: a trace that has gone is not packed, and one that comes again later
// has its own time.
func TestPackGone(t *testing.T) {
	h := newHarness(t, defaultConfig(), nil)
	run := []spanSpec{requestSpan(2, 1, 0.1, 1).answered("stop", counts{text: 1}), runSpan(1, 0, 3, 1, 0)}
	h.consume(t, run[0])
	h.pass(t, time.Second)
	h.consume(t, run[1])
	require.Equal(t, 2, h.out().SpanCount())
	h.pass(t, time.Second)
	h.consume(t, requestSpan(3, 9, 0.1, 1).of(2))
	loose := h.Load().Bytes
	h.pass(t, worker.PackAfter-time.Second)
	assert.Equal(t, loose, h.Load().Bytes)
	h.pass(t, time.Second)
	assert.Less(t, h.Load().Bytes, loose)
}

// TestPackWhenTight: once a quarter of max_held_bytes is used, what came first is
// packed, but no more than needed.
func TestPackWhenTight(t *testing.T) {
	roomy := newHarness(t, defaultConfig(), nil)
	require.NoError(t, roomy.ConsumeTraces(t.Context(), manyHeld(t, 1000)))
	loose := roomy.Load().Bytes

	cfg := defaultConfig()
	cfg.MaxHeldBytes = loose * 4 * 3 / 4
	h := newHarness(t, cfg, nil)
	require.NoError(t, h.ConsumeTraces(t.Context(), manyHeld(t, 1000)))
	assert.LessOrEqual(t, h.Load().Bytes, loose*3/4)
	assert.Greater(t, h.Load().Bytes, loose*2/3)
	assert.Zero(t, h.sink.SpanCount(), "nothing had to go")

	cfg.MaxHeldBytes = loose / 2
	h = newHarness(t, cfg, nil)
	require.NoError(t, h.ConsumeTraces(t.Context(), manyHeld(t, 1000)))
	assert.Zero(t, h.sink.SpanCount(), "packed, there is room for all")
}

// TestPackInTurns: a burst is packed a part at a time.
func TestPackInTurns(t *testing.T) {
	h := newHarness(t, defaultConfig(), nil)
	require.NoError(t, h.ConsumeTraces(t.Context(), manyHeld(t, 10*worker.MaxDue)))
	now := h.clock.advance(worker.PackAfter)
	last, turns := h.Load().Bytes, 0
	for {
		if at, ok := h.lane().Next(); !ok || at.After(now) {
			break
		}
		h.lane().Tick(t.Context(), now)
		require.Less(t, h.Load().Bytes, last)
		last = h.Load().Bytes
		turns++
	}
	assert.Equal(t, 20, turns, "a trace is work beside its spans'")
}
