package llmclassify

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/judge"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/trace"
	"github.com/otelllm/otelllm-go/semconv"
)

func limitedOf(id, run byte) spanSpec {
	return requestSpan(id, run, 0, 0).refused(429, semconv.ProviderErrorKindRateLimited, "rate_limit_exceeded")
}

func uncounted(run byte) spanSpec { return unannounced(runSpan(run, 0, 0, 1, 0)).failed("x") }

// judgeSlowly is judgeCalls, but time passes in small steps.
func judgeSlowly(t *testing.T, calls ...forest) map[byte]verdict {
	t.Helper()
	h := newHarness(t, defaultConfig(), nil)
	for _, c := range calls {
		require.NoError(t, h.ConsumeTraces(t.Context(), c.Traces))
		h.pass(t, 50*time.Millisecond)
	}
	for range 1000 {
		h.pass(t, 50*time.Millisecond)
	}
	return verdicts(h.out())
}

// Run 4 is a direct child of run 1, and showed text. Another run took it by its time before.
func TestChildTakenByAnotherRun(t *testing.T) {
	for name, parent := range map[string]pcommon.SpanID{"other run without a parent": {}, "other run with a parent": spanID(98)} {
		f := newForest(t)
		f.add(uncounted(1), spanID(1), spanID(99), 3, 7) // its parent is not here
		f.add(limitedOf(2, 1), spanID(2), spanID(1), 3.1, 3.2)
		f.addShown(spanID(1), 3.5, 4)
		f.add(uncounted(7), spanID(7), parent, 2.9, 6.6)
		f.add(limitedOf(8, 7), spanID(8), spanID(7), 3, 3.1)
		assert.Equal(t, confirm, judgeCalls(t, 0, f)[1].safety, "at once, %s", name)
	}
	// The same in two calls: the run around it comes 50 ms later.
	first, later := newForest(t), newForest(t)
	first.addShown(spanID(1), 2.1, 3.5)
	first.add(uncounted(7), spanID(7), spanID(98), 2, 7)
	first.add(limitedOf(8, 7), spanID(8), spanID(7), 3, 3.1)
	later.add(uncounted(1), spanID(1), spanID(99), 1, 4)
	later.add(limitedOf(2, 1), spanID(2), spanID(1), 1.1, 1.2)
	one := first.clone()
	later.clone().ResourceSpans().MoveAndAppendTo(one.ResourceSpans())
	assert.Equal(t, confirm, judgeCalls(t, 0, one)[1].safety, "at once")
	assert.Equal(t, confirm, judgeSlowly(t, first, later)[1].safety, "50 ms later")
	// What shows that the run is beneath run 1 comes with run 1.
	first, later = newForest(t), newForest(t)
	first.addShown(spanID(98), 1.3, 2)
	first.add(uncounted(7), spanID(7), spanID(97), 1, 6)
	first.add(limitedOf(8, 7), spanID(8), spanID(7), 1.1, 1.2)
	later.add(otherSpan(98, 1, 0, 1), spanID(98), spanID(1), 1.2, 2.1)
	later.addRefused(pcommon.SpanID{}, 0.5, 4)
	assert.Equal(t, confirm, judgeCalls(t, 2*xSettle, first, later)[1].safety, "its parent comes later")
}

// Run 4 is within run 1 by its time, as run 6 is within run 4 and lasts long.
func TestOrderOfOpenRunsWithLongInner(t *testing.T) {
	outer, inner, long := newForest(t), newForest(t), newForest(t)
	outer.addRefused(spanID(99), 1, 5)
	inner.addShown(spanID(98), 2, 3)
	long.add(unannounced(runSpan(6, 0, 0, 1, 0)), spanID(6), spanID(4), 2.5, 12)
	long.add(requestSpan(7, 6, 0, 0).answered("stop", counts{}), spanID(7), spanID(6), 2.6, 2.7)
	assert.Equal(t, confirm, judgeSlowly(t, inner.clone(), long.clone(), outer.clone())[1].safety, "in three calls")
	inner.ResourceSpans().MoveAndAppendTo(outer.ResourceSpans())
	assert.Equal(t, confirm, judgeCalls(t, 0, outer.clone())[1].safety, "without the long one")
	long.ResourceSpans().MoveAndAppendTo(outer.ResourceSpans())
	assert.Equal(t, confirm, judgeCalls(t, 0, outer)[1].safety, "at once")
}

// The run around a far run is open itself, and both go at once.
func TestFarInnerRunOfOpenRun(t *testing.T) {
	for _, depth := range []int{10, 130} {
		for _, counted := range []bool{false, true} {
			for _, above := range []string{"root", "not here", "circle"} {
				f := newForest(t)
				parent := spanID(99)
				switch above {
				case "root":
					parent = pcommon.SpanID{}
				case "circle":
					f.add(otherSpan(99, 98, 0, 10), spanID(99), spanID(98), 0, 10)
					f.add(otherSpan(98, 99, 0, 10), spanID(98), spanID(99), 0, 10)
				}
				outer := uncounted(1)
				inner := uncounted(4).in("inner")
				if counted { // its own process' request; the inner run is another service's
					outer, inner = runSpan(1, 0, 0, 1, 0).failed("429"), runSpan(4, 0, 0, 1, 0).failed("x").in("inner")
				}
				f.add(outer, spanID(1), parent, 0, 2)
				f.add(limitedOf(2, 1), spanID(2), spanID(1), 0.1, 0.2)
				f.add(inner, spanID(4), f.addChain(otherSpan(9, 1, 0, 1), depth, spanID(1), 0.3, 6), 1, 5)
				f.add(shownText(5, 4).in("inner"), spanID(5), spanID(4), 1.1, 4)
				assert.Equal(t, confirm, judgeCalls(t, 0, f)[1].safety, "%d, %s, counted %v", depth, above, counted)
			}
		}
	}
}

// The span of a run comes when the run within it has been forgotten for its age.
func TestRunComesWhenInnerIsForgotten(t *testing.T) {
	const hours = 3
	for name, end := range map[string]pcommon.Timestamp{
		"run of three hours":        at(hours * 3600),
		"of three hours, end 0":     0,
		"of three hours, end wrong": at(-1),
		"of 50 minutes, sent later": at(3000),
		"of a minute, sent later":   at(60),
	} {
		h := newHarness(t, defaultConfig(), nil)
		h.Lifetime.Begin(t0.Add(-time.Hour))
		h.consume(t, shownText(11, 10).in("inner"), runSpan(10, 0, 1, 1, 0).under(1).in("inner"))
		for range hours {
			h.pass(t, time.Hour)
			h.lane().Rotate(h.clock.Now())
		}
		f := newForest(t)
		f.add(uncounted(1), spanID(1), pcommon.SpanID{}, 0, 1).SetEndTimestamp(end)
		f.add(limitedOf(2, 1), spanID(2), spanID(1), 2, 2.5)
		require.NoError(t, h.ConsumeTraces(t.Context(), f.Traces))
		h.pass(t, xMaxHold)
		assert.Equal(t, confirm, verdicts(h.out())[1].safety, name)
	}
}

// A run within another one, whose parent is not here, and that ended before it began by its
// clock, or began and ended when the other one did.
func TestTimesOfInnerRun(t *testing.T) {
	for name, tt := range map[string][2]pcommon.Timestamp{
		"plain": {at(1.5), at(1.9)}, "ended before it began": {at(1.5), at(1.4)}, "has no end": {at(1.5), 0}, "as long as the other": {at(1), at(5)},
	} {
		for _, end := range []pcommon.Timestamp{at(5), at(0.5), 0} {
			f := newForest(t)
			f.add(uncounted(1), spanID(1), pcommon.SpanID{}, 1, 5).SetEndTimestamp(end)
			f.add(limitedOf(2, 1), spanID(2), spanID(1), 1.1, 1.2)
			run := f.add(uncounted(4), spanID(4), spanID(98), 0, 0)
			run.SetStartTimestamp(tt[0])
			run.SetEndTimestamp(tt[1])
			f.add(shownText(5, 4), spanID(5), spanID(4), 1.5, 1.9)
			assert.Equal(t, confirm, judgeCalls(t, 0, f)[1].safety, "%s, the other one ended at %d", name, end)
		}
	}
}

// A run that goes for a shutdown has not succeeded by a request of its time alone.
func TestShutdownByTime(t *testing.T) {
	h := newHarness(t, defaultConfig(), nil)
	h.consume(t, chatSpan(3, 97, 0.4, 1).finished("stop"), agentSpan(1, 98, 0, 3))
	l := h.lane()
	l.Push(l.Buffer.Drain(t0, 100))
	judgeAll(t.Context(), l)
	v := verdictOf(spansOf(h.out())[spanID(1)])
	require.Equal(t, semconv.TriggerShutdown, v.trigger)
	assert.Equal(t, semconv.RunOutcomeIncomplete, v.outcome)
}

// A run that goes after the run around it, which went early, has what ran within both.
func TestRunBetweenGoesLast(t *testing.T) {
	release := func(id, parent byte, from, to float64, members ...byte) *trace.Release {
		run := &trace.Item{ID: spanID(id), Parent: spanID(parent), Start: at(from), End: at(to), Role: trace.Run}
		r := &trace.Release{Trace: traceID(1), RunID: run.ID, Run: run, Final: true}
		for _, m := range members {
			r.Members = append(r.Members, trace.Member{Item: &trace.Item{ID: spanID(m), Role: trace.Request}})
		}
		return r
	}
	e := newHarness(t, defaultConfig(), nil).lane().Buffer.History()
	judge := func(r *trace.Release, outcome semconv.RunOutcome) trace.Inner {
		within := e.Within(r)
		d := judge.Diagnoses{Run: &classify.Diagnosis{Outcome: outcome}}
		e.Keep(t0, r, d.Ended(within))
		return within
	}
	judge(release(9, 3, 2, 3), semconv.RunOutcomeFailed)
	assert.Equal(t, classify.No, judge(release(1, 20, 0, 5, 2, 3), semconv.RunOutcomeRecovered).Succeeded, "the run around both")
	assert.Equal(t, classify.No, judge(release(5, 2, 1, 4, 3), semconv.RunOutcomeRecovered).Succeeded, "the run between")
}
