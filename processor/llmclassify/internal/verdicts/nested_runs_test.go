package verdicts

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/harness"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/judge"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/trace"
	"github.com/otelllm/otelllm-go/semconv"
)

func uncounted(run byte) harness.Span {
	return harness.Unannounced(harness.RunSpan(run, 0, 0, 1, 0)).Failed("x")
}

// judgeSlowly is judgeCalls, but time passes in small steps.
func judgeSlowly(t *testing.T, calls ...harness.Forest) map[byte]harness.Verdict {
	t.Helper()
	h := harness.New(t, harness.DefaultConfig(), nil)
	for _, c := range calls {
		require.NoError(t, h.ConsumeTraces(t.Context(), c.Traces))
		h.Pass(t, 50*time.Millisecond)
	}
	for range 1000 {
		h.Pass(t, 50*time.Millisecond)
	}
	return harness.Verdicts(h.Out())
}

// Run 4 is a direct child of run 1, and showed text. Another run took it by its time before.
func TestChildPlacedInAnotherRunByTime(t *testing.T) {
	for name, parent := range map[string]pcommon.SpanID{"other run without a parent": {}, "other run with a parent": harness.SpanID(98)} {
		f := harness.NewForest(t)
		f.Add(uncounted(1), harness.SpanID(1), harness.SpanID(99), 3, 7) // its parent is not here
		f.Add(harness.RateLimited(2, 1), harness.SpanID(2), harness.SpanID(1), 3.1, 3.2)
		f.AddShown(harness.SpanID(1), 3.5, 4)
		f.Add(uncounted(7), harness.SpanID(7), parent, 2.9, 6.6)
		f.Add(harness.RateLimited(8, 7), harness.SpanID(8), harness.SpanID(7), 3, 3.1)
		assert.Equal(t, harness.Confirm, judgeCalls(t, 0, f)[1].Safety, "at once, %s", name)
	}
	// The same in two calls: the run around it comes 50 ms later.
	first, later := harness.NewForest(t), harness.NewForest(t)
	first.AddShown(harness.SpanID(1), 2.1, 3.5)
	first.Add(uncounted(7), harness.SpanID(7), harness.SpanID(98), 2, 7)
	first.Add(harness.RateLimited(8, 7), harness.SpanID(8), harness.SpanID(7), 3, 3.1)
	later.Add(uncounted(1), harness.SpanID(1), harness.SpanID(99), 1, 4)
	later.Add(harness.RateLimited(2, 1), harness.SpanID(2), harness.SpanID(1), 1.1, 1.2)
	one := first.Clone()
	later.Clone().ResourceSpans().MoveAndAppendTo(one.ResourceSpans())
	assert.Equal(t, harness.Confirm, judgeCalls(t, 0, one)[1].Safety, "at once")
	assert.Equal(t, harness.Confirm, judgeSlowly(t, first, later)[1].Safety, "50 ms later")
	// What shows that the run is beneath run 1 comes with run 1.
	first, later = harness.NewForest(t), harness.NewForest(t)
	first.AddShown(harness.SpanID(98), 1.3, 2)
	first.Add(uncounted(7), harness.SpanID(7), harness.SpanID(97), 1, 6)
	first.Add(harness.RateLimited(8, 7), harness.SpanID(8), harness.SpanID(7), 1.1, 1.2)
	later.Add(harness.OtherSpan(98, 1, 0, 1), harness.SpanID(98), harness.SpanID(1), 1.2, 2.1)
	later.AddRefused(pcommon.SpanID{}, 0.5, 4)
	assert.Equal(t, harness.Confirm, judgeCalls(t, 2*harness.Settle, first, later)[1].Safety, "its parent comes later")
}

// Run 4 is within run 1 by its time, as run 6 is within run 4 and lasts long.
func TestOrderOfOpenRunsWithLongInner(t *testing.T) {
	outer, inner, long := harness.NewForest(t), harness.NewForest(t), harness.NewForest(t)
	outer.AddRefused(harness.SpanID(99), 1, 5)
	inner.AddShown(harness.SpanID(98), 2, 3)
	long.Add(harness.Unannounced(harness.RunSpan(6, 0, 0, 1, 0)), harness.SpanID(6), harness.SpanID(4), 2.5, 12)
	long.Add(harness.RequestSpan(7, 6, 0, 0).Answered("stop", harness.Counts{}), harness.SpanID(7), harness.SpanID(6), 2.6, 2.7)
	assert.Equal(t, harness.Confirm, judgeSlowly(t, inner.Clone(), long.Clone(), outer.Clone())[1].Safety, "in three calls")
	inner.ResourceSpans().MoveAndAppendTo(outer.ResourceSpans())
	assert.Equal(t, harness.Confirm, judgeCalls(t, 0, outer.Clone())[1].Safety, "without the long one")
	long.ResourceSpans().MoveAndAppendTo(outer.ResourceSpans())
	assert.Equal(t, harness.Confirm, judgeCalls(t, 0, outer)[1].Safety, "at once")
}

// The run around a far run is open itself, and both go at once.
func TestFarInnerRunOfOpenRun(t *testing.T) {
	for _, depth := range []int{10, 130} {
		for _, counted := range []bool{false, true} {
			for _, above := range []string{"root", "not here", "circle"} {
				f := harness.NewForest(t)
				parent := harness.SpanID(99)
				switch above {
				case "root":
					parent = pcommon.SpanID{}
				case "circle":
					f.Add(harness.OtherSpan(99, 98, 0, 10), harness.SpanID(99), harness.SpanID(98), 0, 10)
					f.Add(harness.OtherSpan(98, 99, 0, 10), harness.SpanID(98), harness.SpanID(99), 0, 10)
				}
				outer := uncounted(1)
				inner := uncounted(4).In("inner")
				if counted { // its own process' request; the inner run is another service's
					outer, inner = harness.RunSpan(1, 0, 0, 1, 0).Failed("429"), harness.RunSpan(4, 0, 0, 1, 0).Failed("x").In("inner")
				}
				f.Add(outer, harness.SpanID(1), parent, 0, 2)
				f.Add(harness.RateLimited(2, 1), harness.SpanID(2), harness.SpanID(1), 0.1, 0.2)
				f.Add(inner, harness.SpanID(4), f.AddChain(harness.OtherSpan(9, 1, 0, 1), depth, harness.SpanID(1), 0.3, 6), 1, 5)
				f.Add(harness.ShownText(5, 4).In("inner"), harness.SpanID(5), harness.SpanID(4), 1.1, 4)
				assert.Equal(t, harness.Confirm, judgeCalls(t, 0, f)[1].Safety, "%d, %s, counted %v", depth, above, counted)
			}
		}
	}
}

// The span of a run comes when the run within it has been forgotten for its age.
func TestRunComesWhenInnerIsForgotten(t *testing.T) {
	const hours = 3
	for name, end := range map[string]pcommon.Timestamp{
		"run of three hours":        harness.At(hours * 3600),
		"of three hours, end 0":     0,
		"of three hours, end wrong": harness.At(-1),
		"of 50 minutes, sent later": harness.At(3000),
		"of a minute, sent later":   harness.At(60),
	} {
		h := harness.New(t, harness.DefaultConfig(), nil)
		h.Lifetime.Begin(harness.T0.Add(-time.Hour))
		h.Consume(t, harness.ShownText(11, 10).In("inner"), harness.RunSpan(10, 0, 1, 1, 0).Under(1).In("inner"))
		for range hours {
			h.Pass(t, time.Hour)
			h.Lane().Rotate(h.Clock.Now())
		}
		f := harness.NewForest(t)
		f.Add(uncounted(1), harness.SpanID(1), pcommon.SpanID{}, 0, 1).SetEndTimestamp(end)
		f.Add(harness.RateLimited(2, 1), harness.SpanID(2), harness.SpanID(1), 2, 2.5)
		require.NoError(t, h.ConsumeTraces(t.Context(), f.Traces))
		h.Pass(t, harness.MaxHold)
		assert.Equal(t, harness.Confirm, harness.Verdicts(h.Out())[1].Safety, name)
	}
}

// A run within another one, whose parent is not here, and that ended before it began by its
// clock, or began and ended when the other one did.
func TestTimesOfInnerRun(t *testing.T) {
	for name, tt := range map[string][2]pcommon.Timestamp{
		"plain": {harness.At(1.5), harness.At(1.9)}, "ended before it began": {harness.At(1.5), harness.At(1.4)}, "has no end": {harness.At(1.5), 0}, "as long as the other": {harness.At(1), harness.At(5)},
	} {
		for _, end := range []pcommon.Timestamp{harness.At(5), harness.At(0.5), 0} {
			f := harness.NewForest(t)
			f.Add(uncounted(1), harness.SpanID(1), pcommon.SpanID{}, 1, 5).SetEndTimestamp(end)
			f.Add(harness.RateLimited(2, 1), harness.SpanID(2), harness.SpanID(1), 1.1, 1.2)
			run := f.Add(uncounted(4), harness.SpanID(4), harness.SpanID(98), 0, 0)
			run.SetStartTimestamp(tt[0])
			run.SetEndTimestamp(tt[1])
			f.Add(harness.ShownText(5, 4), harness.SpanID(5), harness.SpanID(4), 1.5, 1.9)
			assert.Equal(t, harness.Confirm, judgeCalls(t, 0, f)[1].Safety, "%s, the other one ended at %d", name, end)
		}
	}
}

// A run that goes for a shutdown has not succeeded by a request of its time alone.
func TestShutdownOfARunByTime(t *testing.T) {
	h := harness.New(t, harness.DefaultConfig(), nil)
	h.Consume(t, harness.ChatSpan(3, 97, 0.4, 1).Finished("stop"), harness.AgentSpan(1, 98, 0, 3))
	l := h.Lane()
	l.Push(l.Buffer.Drain(harness.T0, 100))
	harness.JudgeAll(t.Context(), l)
	v := harness.VerdictOf(harness.SpansOf(h.Out())[harness.SpanID(1)])
	require.Equal(t, semconv.TriggerShutdown, v.Trigger)
	assert.Equal(t, semconv.RunOutcomeIncomplete, v.Outcome)
}

// A run that goes after the run around it, which went early, has what ran within both.
func TestRunBetweenTwoOthersIsJudgedLast(t *testing.T) {
	release := func(id, parent byte, from, to float64, members ...byte) *trace.Release {
		run := &trace.Item{ID: harness.SpanID(id), Parent: harness.SpanID(parent), Start: harness.At(from), End: harness.At(to), Role: trace.Run}
		r := &trace.Release{Trace: harness.TraceID(1), RunID: run.ID, Run: run, Final: true}
		for _, m := range members {
			r.Members = append(r.Members, trace.Member{Item: &trace.Item{ID: harness.SpanID(m), Role: trace.Request}})
		}
		return r
	}
	e := harness.New(t, harness.DefaultConfig(), nil).Lane().Buffer.History()
	judge := func(r *trace.Release, outcome semconv.RunOutcome) trace.Inner {
		within := e.Within(r)
		d := judge.Diagnoses{Run: &classify.Diagnosis{Outcome: outcome}}
		e.Keep(harness.T0, r, d.Ended(within))
		return within
	}
	judge(release(9, 3, 2, 3), semconv.RunOutcomeFailed)
	assert.Equal(t, classify.No, judge(release(1, 20, 0, 5, 2, 3), semconv.RunOutcomeRecovered).Succeeded, "the run around both")
	assert.Equal(t, classify.No, judge(release(5, 2, 1, 4, 3), semconv.RunOutcomeRecovered).Succeeded, "the run between")
}
