package llmclassify

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/assemble"
	"github.com/otelllm/otelllm-go/semconv"
)

// newFlakyHarness is newHarness with a next consumer that may refuse calls.
func newFlakyHarness(t *testing.T, cfg *Config) (*harness, *flakyNext) {
	t.Helper()
	next := new(flakyNext)
	h := newHarness(t, cfg, next)
	h.sink = &next.TracesSink
	return h, next
}

// refuse sends spans in a call that the next consumer refuses: one of them is passed on.
func (h *harness) refuse(t *testing.T, next *flakyNext, specs ...spanSpec) {
	t.Helper()
	next.fail = down
	require.ErrorIs(t, h.ConsumeTraces(t.Context(), tracesOf(t, append(specs, otherSpan(90, 0, 0, 1).of(9))...)), errDown)
	next.fail = nil
}

// A run that announces no numbers waits for spans that came in a call that was refused.
func TestRunAwaitsRefusedSpans(t *testing.T) {
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
			h, next := newFlakyHarness(t, defaultConfig())
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

			h, next = newFlakyHarness(t, defaultConfig())
			refuse(t, h, next)
			h.consume(t, uncountedRun(1, 2)...)
			h.pass(t, defaultMaxHold)
			v = verdictOf(spansOf(h.out())[spanID(1)])
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
		h, next := newFlakyHarness(t, defaultConfig())
		h.refuse(t, next, shownBefore(1).of(2))
		h.consume(t, uncountedRun(1, 2)...)
		h.pass(t, defaultSettle)
		assert.Equal(t, semconv.RetrySafetySafeAutoRetry, verdictOf(spansOf(h.out())[spanID(1)]).safety)
	})
	t.Run("a call of whole runs", func(t *testing.T) {
		h, next := newFlakyHarness(t, defaultConfig())
		h.refuse(t, next, finishedRun(1)...)
		require.Equal(t, int64(len(finishedRun(1))), h.refused.Load())
		h.consume(t, finishedRun(1)...)
		assert.Zero(t, h.refused.Load())
		assert.Equal(t, semconv.TriggerComplete, triggersOf(h.out())[spanID(1)])
	})
	t.Run("more than there is memory for", func(t *testing.T) {
		cfg := defaultConfig()
		cfg.MaxFactBytes = 64 << 10
		h, next := newFlakyHarness(t, cfg)
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
func TestAwaited(t *testing.T) {
	var total atomic.Int64
	r := newAwaited(time.Minute, 8*refusedSize, &total)
	awaits := func(trace byte) bool {
		_, awaits := r.of(traceID(trace))
		return awaits
	}
	again := func(span spanKey) {
		r.call(t0, span.trace, 1)
		r.arrived([]assemble.Arrival{{Trace: span.trace, Items: []*assemble.Item{{ID: span.id}}}})
	}
	a, b := spanKey{traceID(1), spanID(1)}, spanKey{traceID(1), spanID(2)}
	r.refuse(t0, a)
	r.refuse(t0, a)
	r.refuse(t0, b)
	assert.Equal(t, int64(2), total.Load())
	again(a)
	again(a)
	assert.True(t, awaits(1))
	assert.False(t, awaits(2))
	again(b)
	assert.False(t, awaits(1))
	assert.Empty(t, r.byTrace)

	r.refuse(t0, a)
	r.rotate(t0.Add(time.Minute))
	assert.True(t, awaits(1))
	r.rotate(t0.Add(2 * time.Minute))
	assert.False(t, awaits(1))
	assert.False(t, r.mayLack(t0, at(0)), "it was not forgotten to make room")

	began := t0.Add(10 * time.Minute)
	r.rotate(began)
	for i := range byte(5) { // the last one makes room
		r.refuse(began.Add(50*time.Second), spanKey{traceID(i), spanID(1)})
	}
	r.rotate(began.Add(time.Minute))
	assert.True(t, awaits(0), "it came 10 s ago")

	now := t0.Add(time.Hour)
	for range 2 {
		r.rotate(now.Add(-time.Minute))
		r.rotate(now)
	}
	for i := range byte(9) {
		r.refuse(now, spanKey{traceID(i), spanID(1)})
		assert.LessOrEqual(t, r.size(), 8*refusedSize)
	}
	assert.False(t, awaits(0))
	assert.True(t, awaits(8))
	from := at(now.Sub(t0).Seconds())
	assert.True(t, r.mayLack(now, from))
	assert.False(t, r.mayLack(now, from+at(10)-at(0)), "it began later")
	assert.False(t, r.mayLack(now.Add(2*time.Minute), from), "it is too long ago")
	r.refuse(now.Add(-time.Second), a)
	assert.Equal(t, now, r.lost, "a call that came before was refused later")
}

// A run that announces no numbers is never safe to repeat because of when a span of it, which
// a call brought before, reaches the lane.
func TestAwaitedAtEachMoment(t *testing.T) {
	shown := func(t *testing.T, h *harness) {
		t.Helper()
		require.NoError(t, h.classifier.ConsumeTraces(t.Context(), tracesOf(t, shownBefore(1))))
	}
	slowly := func(t *testing.T, h *harness, next *flakyNext, result error) error { // the run settles meanwhile
		t.Helper()
		next.fail = func(ptrace.Traces) error {
			next.fail = nil
			h.pass(t, defaultSettle)
			return result
		}
		return h.ConsumeTraces(t.Context(), tracesOf(t, shownBefore(1), otherSpan(90, 0, 0, 1).of(9)))
	}
	safety := func(h *harness) semconv.RetrySafety { return verdictOf(spansOf(h.out())[spanID(1)]).safety }
	for name, happens := range map[string]func(*testing.T, *harness, *flakyNext){
		"in the inbox when the run has settled": func(t *testing.T, h *harness, next *flakyNext) {
			h.refuse(t, next, shownBefore(1))
			now := h.clock.advance(defaultSettle)
			shown(t, h)
			h.lane().tick(t.Context(), now)
			h.lane().judgeAll(t.Context())
			h.settle(t.Context())
		},
		"received when the run is to be judged": func(t *testing.T, h *harness, next *flakyNext) {
			h.refuse(t, next, shownBefore(1))
			h.lane().tick(t.Context(), h.clock.advance(defaultMaxHold))
			shown(t, h)
			h.settle(t.Context())
		},
		"on its way, and refused": func(t *testing.T, h *harness, next *flakyNext) {
			require.ErrorIs(t, slowly(t, h, next, errDown), errDown)
			shown(t, h)
			h.settle(t.Context())
		},
		"on its way, and taken": func(t *testing.T, h *harness, next *flakyNext) {
			require.NoError(t, slowly(t, h, next, nil))
		},
	} {
		t.Run(name, func(t *testing.T) {
			h, next := newFlakyHarness(t, defaultConfig())
			h.consume(t, uncountedRun(1, 2)...)
			happens(t, h, next)
			h.pass(t, defaultSettle)
			assert.Equal(t, confirm, safety(h))
			assert.Empty(t, h.lane().awaited.byTrace)
		})
	}
}

// A request without a run waits as well: what is beneath it would make it less safe.
func TestRootAwaitsRefusedSpans(t *testing.T) {
	beneath := requestSpan(2, 0, 0.1, 1).cut(semconv.PhaseText, semconv.TransportCauseConnectionReset, "ECONNRESET", counts{text: 2})
	beneath.parent = 1
	h, next := newFlakyHarness(t, defaultConfig())
	h.refuse(t, next, beneath)
	h.consume(t, requestSpan(1, 0, 0, 3).refused(429, semconv.ProviderErrorKindRateLimited, "rate_limit_exceeded"))
	h.pass(t, defaultMaxHold)
	assert.Equal(t, confirm, verdictOf(spansOf(h.out())[spanID(1)]).safety)
}

// What was refused concerns no run that began after it came, and no complete one.
func TestWhatIsNotAwaited(t *testing.T) {
	h, next := newFlakyHarness(t, defaultConfig())
	h.refuse(t, next, shownBefore(1))
	h.pass(t, 5*time.Minute)
	h.consume(t, uncountedRun(300, 301)...)
	h.pass(t, defaultSettle)
	v := verdictOf(spansOf(h.out())[spanID(1)])
	assert.Equal(t, semconv.TriggerRunEnded, v.trigger)
	assert.Equal(t, semconv.RetrySafetySafeAutoRetry, v.safety)

	h, next = newFlakyHarness(t, defaultConfig())
	h.refuse(t, next, requestSpan(9, 8, 1, 2))
	h.consume(t, runSpan(1, 0, 2, 1, 0), requestSpan(2, 1, 0.1, 1).answered("stop", counts{}))
	h.pass(t, defaultSettle)
	assert.Equal(t, semconv.TriggerComplete, verdictOf(spansOf(h.out())[spanID(1)]).trigger)
}
