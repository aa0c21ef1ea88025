package verdicts

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/harness"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/trace"
	"github.com/otelllm/otelllm-go/semconv"
)

// payment is a tool that names no run.
func payment() harness.Span {
	return harness.ToolSpan(1, 0, 0, "pay", semconv.ToolEffectNonIdempotent, semconv.ToolOutcomeSucceeded).Without(semconv.RunIDKey)
}

// A tool whose parent never comes is a part of the run of its own service, also where another
// service's run began later.
func TestToolByTimeIsOfItsOwnService(t *testing.T) {
	f := harness.NewForest(t)
	f.AddRefused(harness.SpanID(99), 1, 5)
	f.Add(uncounted(3).In("other"), harness.SpanID(3), harness.SpanID(98), 2, 6)
	f.Add(payment(), harness.SpanID(4), harness.SpanID(97), 3, 4)
	got := judgeCalls(t, 0, f)
	assert.Equal(t, harness.Confirm, got[1].Safety)
	assert.Equal(t, semconv.RetryReasonToolSideEffect, got[1].Reason)
}

// A tool is a part of a run by its time, which is judged. What shows that it is beneath another
// run comes with that one.
func TestToolByTimeOfTheWrongRun(t *testing.T) {
	for _, above := range []pcommon.SpanID{{}, harness.SpanID(96)} { // the wrong run's parent
		first, later := harness.NewForest(t), harness.NewForest(t)
		first.Add(uncounted(7).In("other"), harness.SpanID(7), above, 2, 6)
		first.Add(harness.RateLimited(8, 7).In("other"), harness.SpanID(8), harness.SpanID(7), 2.1, 2.2)
		first.Add(payment(), harness.SpanID(4), harness.SpanID(98), 3, 4)
		later.Add(harness.OtherSpan(98, 1, 0, 1), harness.SpanID(98), harness.SpanID(1), 3, 4)
		later.AddRefused(harness.SpanID(95), 1, 5)
		got := judgeCalls(t, 2*harness.Settle, first, later)
		assert.Equal(t, harness.Confirm, got[7].Safety, "parent %v", above)
		assert.Equal(t, harness.Confirm, got[1].Safety, "parent %v", above)
	}
}

// Of two runs that a tool may be of by its time, one goes before the other, which has it.
func TestToolByTimeOfARunThatGoesLater(t *testing.T) {
	for name, later := range map[string]func(harness.Forest){
		"at once": func(f harness.Forest) { f.Add(uncounted(3).In("a"), harness.SpanID(3), harness.SpanID(98), 2, 9) },
		"it waits for a request": func(f harness.Forest) {
			f.Add(harness.RunSpan(3, 0, 0, 1, 0).Failed("x").In("a"), harness.SpanID(3), harness.SpanID(98), 2, 9)
		},
	} {
		f := harness.NewForest(t)
		f.Add(uncounted(7).In("b"), harness.SpanID(7), harness.SpanID(96), 1, 5)
		f.Add(harness.RateLimited(8, 7).In("b"), harness.SpanID(8), harness.SpanID(7), 1.1, 1.2)
		f.Add(payment().In("c"), harness.SpanID(4), harness.SpanID(97), 3, 4)
		later(f)
		assert.Equal(t, harness.Confirm, judgeCalls(t, 0, f)[7].Safety, name)
	}
}

// Of very many parts that a run has by their time alone some are kept: a run that began before the
// others may lack them.
func TestManyToolsByTime(t *testing.T) {
	for _, n := range []int{1, 31, 32, 33, 100, 2 * trace.MaxPastRuns} {
		first, later := harness.NewForest(t), harness.NewForest(t)
		first.Add(uncounted(7).In("other"), harness.SpanID(7), pcommon.SpanID{}, 2, 6)
		first.Add(harness.RateLimited(8, 7).In("other"), harness.SpanID(8), harness.SpanID(7), 2.1, 2.2)
		for i := range n - 1 {
			first.Add(payment().In("other"), harness.NthSpanID(1000+i), harness.NthSpanID(0), 3, 4)
		}
		first.Add(payment(), harness.SpanID(4), harness.SpanID(98), 3, 4)
		later.Add(harness.OtherSpan(98, 1, 0, 1), harness.SpanID(98), harness.SpanID(1), 3, 4)
		later.AddRefused(harness.SpanID(95), 1, 5)
		assert.Equal(t, harness.Confirm, judgeCalls(t, 2*harness.Settle, first, later)[1].Safety, n)
	}
}

// A request of a run that was judged comes late, and the run around that one is judged after it.
func TestLatePartOfAnInnerRun(t *testing.T) {
	outer := func(f harness.Forest, counted bool) {
		run := uncounted(1)
		if counted {
			run = harness.RunSpan(1, 0, 0, 1, 0).Failed("429")
		}
		f.Add(run, harness.SpanID(1), pcommon.SpanID{}, 1, 11)
		f.Add(harness.RateLimited(2, 1), harness.SpanID(2), harness.SpanID(1), 2, 3)
	}
	for _, counted := range []bool{false, true} {
		inner, late, last := harness.NewForest(t), harness.NewForest(t), harness.NewForest(t)
		inner.Add(uncounted(3).In("inner"), harness.SpanID(3), harness.SpanID(1), 4, 9)
		inner.Add(harness.RateLimited(4, 3).In("inner"), harness.SpanID(4), harness.SpanID(3), 5, 6)
		late.Add(harness.ShownText(5, 3).In("inner"), harness.SpanID(5), harness.SpanID(3), 7, 8)
		outer(last, counted)
		got := judgeCalls(t, 2*harness.Settle, inner.Clone(), late.Clone(), last.Clone())
		assert.Equal(t, semconv.RetryReasonVisibleOutput, got[1].Reason, "counted %v", counted)
		outer(late, counted)
		got = judgeCalls(t, 2*harness.Settle, inner, late)
		assert.Equal(t, semconv.RetryReasonVisibleOutput, got[1].Reason, "in one call, counted %v", counted)
	}
}

// A process is killed that knew what a run of another service is beneath. That run began within
// one which announces its parts, and outlasts it.
func TestRestartCutsTheParentsOfAnInnerRun(t *testing.T) {
	for name, beside := range map[string]bool{"within": false, "beside": true} {
		before, after := harness.NewForest(t), harness.NewForest(t)
		parent := harness.SpanID(99)
		if !beside {
			before.Add(harness.OtherSpan(98, 1, 0, 1), harness.SpanID(98), harness.SpanID(1), 3, 4)
			parent = harness.SpanID(98)
		}
		before.Add(harness.RateLimited(2, 1), harness.SpanID(2), harness.SpanID(1), 1, 2)
		before.Add(uncounted(3).In("inner"), harness.SpanID(3), parent, 3, 9)
		before.Add(harness.ShownText(4, 3).In("inner"), harness.SpanID(4), harness.SpanID(3), 5, 6)
		after.Add(harness.RunSpan(1, 0, 0, 1, 0).Failed("429"), harness.SpanID(1), harness.SpanID(99), 1, 7)
		d := harness.NewDisk()
		h := harness.NewOn(t, d, harness.DefaultConfig(), nil, harness.T0)
		require.NoError(t, h.ConsumeTraces(t.Context(), before.Traces))
		h = harness.NewOn(t, d, harness.DefaultConfig(), nil, h.Clock.Now())
		require.NoError(t, h.ConsumeTraces(t.Context(), after.Traces))
		h.Pass(t, time.Minute)
		want := harness.Confirm
		if beside {
			want = harness.Safe
		}
		assert.Equal(t, want, harness.Verdicts(h.Out())[1].Safety, name)
	}
}

// The process of an agent of another service died when that had paid: its run never comes. The run
// that called it failed, and announces its own parts alone.
func TestToolOfAnInnerRunThatNeverComes(t *testing.T) {
	for name, tt := range map[string]struct {
		tool harness.Span
		from float64
		want semconv.RetrySafety
	}{
		"within it":    {payment().In("inner"), 3, harness.Confirm},
		"before it":    {payment().In("inner"), 0.5, harness.Safe},
		"a request":    {harness.RateLimited(4, 3).In("inner"), 3, harness.Safe}, // as a gateway's
		"its own tool": {payment().In(harness.AgentService), 3, harness.Safe},    // which is in its numbers
	} {
		inner, outer := harness.NewForest(t), harness.NewForest(t)
		inner.Add(tt.tool.With(semconv.RunID(harness.SpanID(3).String())), harness.SpanID(4), harness.SpanID(3), tt.from, 4)
		outer.Add(harness.RateLimited(2, 1).In(harness.AgentService), harness.SpanID(2), harness.SpanID(1), 1.1, 1.2)
		outer.Add(harness.RunSpan(1, 0, 0, 1, 0).Failed("x").In(harness.AgentService), harness.SpanID(1), harness.SpanID(99), 1, 5)
		assert.Equal(t, tt.want, judgeCalls(t, 0, inner, outer)[1].Safety, name)
	}
}
