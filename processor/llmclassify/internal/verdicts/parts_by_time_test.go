package llmclassify

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/trace"
	"github.com/otelllm/otelllm-go/semconv"
)

// payment is a tool that names no run.
func payment() spanSpec {
	return toolSpan(1, 0, 0, "pay", semconv.ToolEffectNonIdempotent, semconv.ToolOutcomeSucceeded).without(semconv.RunIDKey)
}

// A tool whose parent never comes is a part of the run of its own service, also where another
// service's run began later.
func TestToolByTimeIsOfItsOwnService(t *testing.T) {
	f := newForest(t)
	f.addRefused(spanID(99), 1, 5)
	f.add(uncounted(3).in("other"), spanID(3), spanID(98), 2, 6)
	f.add(payment(), spanID(4), spanID(97), 3, 4)
	got := judgeCalls(t, 0, f)
	assert.Equal(t, confirm, got[1].safety)
	assert.Equal(t, semconv.RetryReasonToolSideEffect, got[1].reason)
}

// A tool is a part of a run by its time, which is judged. What shows that it is beneath another
// run comes with that one.
func TestToolByTimeOfTheWrongRun(t *testing.T) {
	for _, above := range []pcommon.SpanID{{}, spanID(96)} { // the wrong run's parent
		first, later := newForest(t), newForest(t)
		first.add(uncounted(7).in("other"), spanID(7), above, 2, 6)
		first.add(limitedOf(8, 7).in("other"), spanID(8), spanID(7), 2.1, 2.2)
		first.add(payment(), spanID(4), spanID(98), 3, 4)
		later.add(otherSpan(98, 1, 0, 1), spanID(98), spanID(1), 3, 4)
		later.addRefused(spanID(95), 1, 5)
		got := judgeCalls(t, 2*xSettle, first, later)
		assert.Equal(t, confirm, got[7].safety, "parent %v", above)
		assert.Equal(t, confirm, got[1].safety, "parent %v", above)
	}
}

// Of two runs that a tool may be of by its time, one goes before the other, which has it.
func TestToolByTimeOfARunThatGoesLater(t *testing.T) {
	for name, later := range map[string]func(forest){
		"at once": func(f forest) { f.add(uncounted(3).in("a"), spanID(3), spanID(98), 2, 9) },
		"it waits for a request": func(f forest) {
			f.add(runSpan(3, 0, 0, 1, 0).failed("x").in("a"), spanID(3), spanID(98), 2, 9)
		},
	} {
		f := newForest(t)
		f.add(uncounted(7).in("b"), spanID(7), spanID(96), 1, 5)
		f.add(limitedOf(8, 7).in("b"), spanID(8), spanID(7), 1.1, 1.2)
		f.add(payment().in("c"), spanID(4), spanID(97), 3, 4)
		later(f)
		assert.Equal(t, confirm, judgeCalls(t, 0, f)[7].safety, name)
	}
}

// Of very many parts that a run has by their time alone some are kept: a run that began before the
// others may lack them.
func TestManyToolsByTime(t *testing.T) {
	for _, n := range []int{1, 31, 32, 33, 100, 2 * trace.MaxPastRuns} {
		first, later := newForest(t), newForest(t)
		first.add(uncounted(7).in("other"), spanID(7), pcommon.SpanID{}, 2, 6)
		first.add(limitedOf(8, 7).in("other"), spanID(8), spanID(7), 2.1, 2.2)
		for i := range n - 1 {
			first.add(payment().in("other"), many(1000+i), many(0), 3, 4)
		}
		first.add(payment(), spanID(4), spanID(98), 3, 4)
		later.add(otherSpan(98, 1, 0, 1), spanID(98), spanID(1), 3, 4)
		later.addRefused(spanID(95), 1, 5)
		assert.Equal(t, confirm, judgeCalls(t, 2*xSettle, first, later)[1].safety, n)
	}
}

// A request of a run that was judged comes late, and the run around that one is judged after it.
func TestLatePartOfAnInnerRun(t *testing.T) {
	outer := func(f forest, counted bool) {
		run := uncounted(1)
		if counted {
			run = runSpan(1, 0, 0, 1, 0).failed("429")
		}
		f.add(run, spanID(1), pcommon.SpanID{}, 1, 11)
		f.add(limitedOf(2, 1), spanID(2), spanID(1), 2, 3)
	}
	for _, counted := range []bool{false, true} {
		inner, late, last := newForest(t), newForest(t), newForest(t)
		inner.add(uncounted(3).in("inner"), spanID(3), spanID(1), 4, 9)
		inner.add(limitedOf(4, 3).in("inner"), spanID(4), spanID(3), 5, 6)
		late.add(shownText(5, 3).in("inner"), spanID(5), spanID(3), 7, 8)
		outer(last, counted)
		got := judgeCalls(t, 2*xSettle, inner.clone(), late.clone(), last.clone())
		assert.Equal(t, semconv.RetryReasonVisibleOutput, got[1].reason, "counted %v", counted)
		outer(late, counted)
		got = judgeCalls(t, 2*xSettle, inner, late)
		assert.Equal(t, semconv.RetryReasonVisibleOutput, got[1].reason, "in one call, counted %v", counted)
	}
}

// A process is killed that knew what a run of another service is beneath. That run began within
// one which announces its parts, and outlasts it.
func TestRestartCutsTheParentsOfAnInnerRun(t *testing.T) {
	for name, beside := range map[string]bool{"within": false, "beside": true} {
		before, after := newForest(t), newForest(t)
		parent := spanID(99)
		if !beside {
			before.add(otherSpan(98, 1, 0, 1), spanID(98), spanID(1), 3, 4)
			parent = spanID(98)
		}
		before.add(limitedOf(2, 1), spanID(2), spanID(1), 1, 2)
		before.add(uncounted(3).in("inner"), spanID(3), parent, 3, 9)
		before.add(shownText(4, 3).in("inner"), spanID(4), spanID(3), 5, 6)
		after.add(runSpan(1, 0, 0, 1, 0).failed("429"), spanID(1), spanID(99), 1, 7)
		d := newDisk()
		h := newHarnessOn(t, d, defaultConfig(), nil, t0)
		require.NoError(t, h.ConsumeTraces(t.Context(), before.Traces))
		h = newHarnessOn(t, d, defaultConfig(), nil, h.clock.Now())
		require.NoError(t, h.ConsumeTraces(t.Context(), after.Traces))
		h.pass(t, time.Minute)
		want := confirm
		if beside {
			want = safe
		}
		assert.Equal(t, want, verdicts(h.out())[1].safety, name)
	}
}

// The process of an agent of another service died when that had paid: its run never comes. The run
// that called it failed, and announces its own parts alone.
func TestToolOfAnInnerRunThatNeverComes(t *testing.T) {
	for name, tt := range map[string]struct {
		tool spanSpec
		from float64
		want semconv.RetrySafety
	}{
		"within it":    {payment().in("inner"), 3, confirm},
		"before it":    {payment().in("inner"), 0.5, safe},
		"a request":    {limitedOf(4, 3).in("inner"), 3, safe}, // as a gateway's
		"its own tool": {payment().in(agentService), 3, safe},  // which is in its numbers
	} {
		inner, outer := newForest(t), newForest(t)
		inner.add(tt.tool.with(semconv.RunID(spanID(3).String())), spanID(4), spanID(3), tt.from, 4)
		outer.add(limitedOf(2, 1).in(agentService), spanID(2), spanID(1), 1.1, 1.2)
		outer.add(runSpan(1, 0, 0, 1, 0).failed("x").in(agentService), spanID(1), spanID(99), 1, 5)
		assert.Equal(t, tt.want, judgeCalls(t, 0, inner, outer)[1].safety, name)
	}
}
