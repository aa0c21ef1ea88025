package llmclassify

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/semconv"
)

// refuse sends spans in a call that the next consumer refuses: one of them is passed on.
func (h *harness) refuse(t *testing.T, next *flakyNext, specs ...spanSpec) {
	t.Helper()
	next.fail = down
	require.ErrorIs(t, h.ConsumeTraces(t.Context(), tracesOf(t, append(specs, otherSpan(90, 0, 0, 1).of(9))...)), errDown)
	next.fail = nil
}

// A run that announces no numbers waits for spans that came in a call that was refused.
func TestRunAwaitsRefusedSpans(t *testing.T) {
	start := func(t *testing.T, cfg *Config) (*harness, *flakyNext) {
		next := new(flakyNext)
		h := newHarness(t, cfg, next)
		h.sink = &next.TracesSink
		return h, next
	}
	for name, refuse := range map[string]func(*testing.T, *harness, *flakyNext){
		"by the next consumer": func(t *testing.T, h *harness, next *flakyNext) { h.refuse(t, next, shownBefore(1)) },
		"twice": func(t *testing.T, h *harness, next *flakyNext) {
			h.refuse(t, next, shownBefore(1))
			h.refuse(t, next, shownBefore(1))
		},
		"for lack of memory": func(t *testing.T, h *harness, _ *flakyNext) {
			h.budget.add(h.tenants.others, int(h.budget.limit))
			h.budget.addWaiting(1)
			require.ErrorIs(t, h.ConsumeTraces(t.Context(), tracesOf(t, shownBefore(1))), errFull)
			h.budget.add(h.tenants.others, -int(h.budget.limit))
			h.budget.addWaiting(-1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			h, next := start(t, defaultConfig())
			h.consume(t, uncountedRun(1, 2)...)
			refuse(t, h, next)
			h.pass(t, defaultMaxHold/2)
			require.Zero(t, next.SpanCount(), "its sender still has a span of it")
			h.consume(t, shownBefore(1))
			require.Zero(t, h.refused.Load())
			h.pass(t, defaultSettle)
			v := verdictOf(spansOf(h.out())[spanID(1)])
			assert.Equal(t, semconv.TriggerRunEnded, v.trigger)
			assert.Equal(t, confirm, v.safety)
			assert.Equal(t, load{}, h.load())

			h, next = start(t, defaultConfig())
			refuse(t, h, next)
			h.consume(t, uncountedRun(1, 2)...)
			h.pass(t, defaultMaxHold)
			v = verdictOf(spansOf(h.out())[spanID(1)])
			assert.Equal(t, semconv.TriggerHoldExpired, v.trigger, "its sender has lost it")
			assert.Equal(t, confirm, v.safety)
			for range 2 {
				h.clock.advance(defaultRunTimeout)
				h.shards[0].rotate()
			}
			assert.Zero(t, h.refused.Load(), "it does not come any more")
			assert.Zero(t, h.tables()[refusedTable])
		})
	}

	t.Run("other traces do not wait", func(t *testing.T) {
		h, next := start(t, defaultConfig())
		h.refuse(t, next, shownBefore(1).of(2))
		h.consume(t, uncountedRun(1, 2)...)
		h.pass(t, defaultSettle)
		assert.Equal(t, semconv.RetrySafetySafeAutoRetry, verdictOf(spansOf(h.out())[spanID(1)]).safety)
	})
	t.Run("a call of whole runs", func(t *testing.T) {
		h, next := start(t, defaultConfig())
		h.refuse(t, next, finishedRun(1)...)
		require.Equal(t, int64(len(finishedRun(1))), h.refused.Load())
		h.consume(t, finishedRun(1)...)
		assert.Zero(t, h.refused.Load())
		assert.Equal(t, semconv.TriggerComplete, triggersOf(h.out())[spanID(1)])
	})
	t.Run("more than there is memory for", func(t *testing.T) {
		cfg := defaultConfig()
		cfg.MaxFactBytes = 64 << 10
		h, next := start(t, cfg)
		h.refuse(t, next, shownBefore(1))
		for trace := byte(10); trace < 200; trace++ {
			h.refuse(t, next, shownBefore(1).of(trace))
		}
		assert.LessOrEqual(t, h.tables()[refusedTable], cfg.MaxFactBytes/16)
		h.consume(t, uncountedRun(0, 2)...)
		h.pass(t, defaultSettle)
		v := verdictOf(spansOf(h.out())[spanID(1)])
		assert.Equal(t, semconv.TriggerRunEnded, v.trigger)
		assert.Equal(t, confirm, v.safety, "it may be one of those that were forgotten")
	})
}

// Spans are kept for a time and in a memory that are bounded, and counted exactly.
func TestRefusals(t *testing.T) {
	var total atomic.Int64
	r := newRefusals(time.Minute, 8*refusedSize, &total)
	a, b := spanKey{traceID(1), spanID(1)}, spanKey{traceID(1), spanID(2)}
	r.add(t0, a)
	r.add(t0, a)
	r.add(t0, b)
	assert.Equal(t, int64(2), total.Load())
	r.remove(a)
	r.remove(a)
	assert.True(t, r.awaits(traceID(1)))
	assert.False(t, r.awaits(traceID(2)))
	r.remove(b)
	assert.False(t, r.awaits(traceID(1)))
	assert.Empty(t, r.byTrace)

	r.add(t0, a)
	r.rotate(t0.Add(time.Minute))
	assert.True(t, r.awaits(traceID(1)))
	r.rotate(t0.Add(2 * time.Minute))
	assert.False(t, r.awaits(traceID(1)))
	assert.False(t, r.mayLack(t0, at(0)), "it was not forgotten to make room")

	now := t0.Add(time.Hour)
	for i := range byte(9) {
		r.add(now, spanKey{traceID(i), spanID(1)})
		assert.LessOrEqual(t, r.size(), 8*refusedSize)
	}
	assert.False(t, r.awaits(traceID(0)))
	assert.True(t, r.awaits(traceID(8)))
	began := at(now.Sub(t0).Seconds())
	assert.True(t, r.mayLack(now, began))
	assert.False(t, r.mayLack(now, began+at(10)-at(0)), "it began later")
	assert.False(t, r.mayLack(now.Add(2*time.Minute), began), "it is too long ago")
}
