package llmclassify

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/assemble"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/hold"
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
			require.Zero(t, h.tables()[refusedTable])
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
			assert.Zero(t, h.tables()[refusedTable], "it does not come any more")
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
		require.NotZero(t, h.tables()[refusedTable])
		h.consume(t, finishedRun(1)...)
		assert.Zero(t, h.tables()[refusedTable])
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

// Refused spans are kept for a time and in a memory that are bounded.
func TestAwaited(t *testing.T) {
	const alone = refusedTraceSize + refusedSize
	r := newAwaited(time.Minute, 8*alone)
	awaits := func(trace byte) bool { return len(r.of(traceID(trace)).Spans) > 0 }
	span := func(id byte, start float64) *assemble.Item { return &assemble.Item{ID: spanID(id), Start: at(start)} }
	refuse := func(now time.Time, trace byte, it *assemble.Item) {
		r.call(now, traceID(trace), it.Start, it.Start)
		r.refuse(now, traceID(trace), []*assemble.Item{it}, true)
	}
	again := func(trace byte, it *assemble.Item) {
		r.call(t0, traceID(trace), it.Start, it.Start)
		r.arrived(traceID(trace), []*assemble.Item{it})
	}
	for _, it := range []*assemble.Item{span(1, 0), span(1, 0), span(2, 0), span(2, 1)} {
		refuse(t0, 1, it)
	}
	assert.Len(t, r.of(traceID(1)).Spans, 3, "of those with one id, one was sent twice")
	assert.False(t, awaits(2))
	for _, it := range []*assemble.Item{span(1, 0), span(1, 0), span(2, 0)} {
		again(1, it)
	}
	assert.True(t, awaits(1))
	again(1, span(2, 1))
	assert.False(t, awaits(1))
	assert.Zero(t, r.size())
	assert.Empty(t, r.calls)

	refuse(t0, 1, span(1, 0))
	r.rotate(t0.Add(time.Minute))
	assert.True(t, awaits(1))
	r.rotate(t0.Add(2 * time.Minute))
	assert.False(t, awaits(1))
	assert.False(t, r.mayLack(t0, at(0)), "it was not forgotten to make room")

	began := t0.Add(10 * time.Minute)
	r.rotate(began)
	for i := range byte(5) { // the last one makes room
		refuse(began.Add(50*time.Second), i, span(1, 0))
	}
	r.rotate(began.Add(time.Minute))
	assert.True(t, awaits(0), "it came 10 s ago")

	now := t0.Add(time.Hour)
	for range 2 {
		r.rotate(now.Add(-time.Minute))
		r.rotate(now)
	}
	for i := range byte(9) {
		refuse(now, i, span(1, 0))
		assert.LessOrEqual(t, r.size(), 8*alone)
	}
	assert.False(t, awaits(0))
	assert.True(t, awaits(8))
	from := at(now.Sub(t0).Seconds())
	assert.True(t, r.mayLack(now, from))
	assert.False(t, r.mayLack(now, from+at(10)-at(0)), "it began later")
	assert.False(t, r.mayLack(now.Add(2*time.Minute), from), "it is too long ago")
	refuse(now.Add(-time.Second), 1, span(1, 0))
	assert.Equal(t, now, r.lost, "a call that came before was refused later")

	for i := range byte(250) { // more than there is room for, of one trace
		refuse(now, 1, span(i, 0))
	}
	assert.False(t, awaits(1))
	assert.LessOrEqual(t, r.size(), 8*alone)
	assert.Equal(t, now, r.lost)
}

// Of many refused spans of a trace, any may be of any run.
func TestAwaitedMany(t *testing.T) {
	r := newAwaited(time.Minute, 1<<20)
	r.call(t0, traceID(1), at(1), at(2))
	r.call(t0.Add(time.Second), traceID(1), at(0), at(1))
	w := r.of(traceID(1))
	assert.Equal(t, hold.Awaited{Last: t0.Add(time.Second), Spans: []hold.AwaitedSpan{{From: at(0), To: at(2)}}}, w)
	for i := range byte(maxAwaited) {
		assert.False(t, r.of(traceID(1)).More)
		r.call(t0, traceID(1), at(0), at(0))
		r.refuse(t0, traceID(1), []*assemble.Item{{ID: spanID(i), Parent: spanID(7)}}, true)
	}
	assert.True(t, r.of(traceID(1)).More)
	assert.Len(t, r.of(traceID(1)).Spans, maxAwaited)
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
			assert.Empty(t, h.lane().awaited.calls)
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
	h.refuse(t, next, requestSpan(9, 8, 1, 2))
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

// Spans that have been held for max_hold wait at most a second longer for a call that is on its way.
func TestPatienceIsBounded(t *testing.T) {
	h, next := newFlakyHarness(t, defaultConfig())
	h.consume(t, uncountedRun(1, 2)[1])
	start := h.clock.Now()
	var went time.Time
	next.fail = func(ptrace.Traces) error {
		next.fail = nil
		for range 4000 {
			h.pass(t, 10*time.Millisecond)
			if h.out().SpanCount() > 0 {
				went = h.clock.Now()
				break
			}
		}
		return nil
	}
	require.NoError(t, h.ConsumeTraces(t.Context(), tracesOf(t, shownBefore(1), otherSpan(90, 0, 0, 1).of(9))))
	require.False(t, went.IsZero())
	assert.LessOrEqual(t, went.Sub(start), defaultMaxHold+time.Second+20*time.Millisecond)
}
