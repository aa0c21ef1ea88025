package llmclassify

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/trace"
	"github.com/otelllm/otelllm-go/semconv"
)

// Run 3 goes on in the background when the run around it has ended: its span comes last. Its tool
// started many runs of another service.
func TestRunBetweenManyRunsAndTheirOuterOne(t *testing.T) {
	for _, n := range []int{10, trace.MaxPastRuns - 1, trace.MaxPastRuns} {
		h := newHarness(t, defaultConfig(), nil)
		f := newForest(t)
		tool := genAISpan(30, 3, otelsemconv.GenAIOperationNameExecuteTool, 0, 0)
		f.add(tool, spanID(30), spanID(3), 1, 5)
		require.NoError(t, h.ConsumeTraces(t.Context(), f.Traces))
		for i := range n {
			f := newForest(t)
			from := 1.1 + float64(i)*0.01
			f.add(runSpan(4, 0, 0, 1, 0).in("b").failed("x"), many(2*i), spanID(30), from, from+0.1)
			r := shownText(5, 4).in("b").without(semconv.RunIDKey).with(semconv.RunID(many(2 * i).String()))
			f.add(r, many(2*i+1), many(2*i), from+0.01, from+0.05)
			require.NoError(t, h.ConsumeTraces(t.Context(), f.Traces))
		}
		h.pass(t, 100*time.Millisecond)
		f = newForest(t)
		f.add(uncounted(1), spanID(1), spanID(99), 0, 6)
		f.add(limitedOf(2, 1), spanID(2), spanID(1), 0.1, 0.2)
		f.add(otherSpan(99, 0, 0, 7), spanID(99), pcommon.SpanID{}, 0, 7)
		require.NoError(t, h.ConsumeTraces(t.Context(), f.Traces))
		h.pass(t, 3*time.Second)
		require.Contains(t, spansOf(h.out()), spanID(1))
		f = newForest(t)
		f.add(runSpan(3, 0, 0, 1, 0).failed("x"), spanID(3), spanID(1), 0.5, 9)
		f.add(limitedOf(7, 3), spanID(7), spanID(3), 8, 8.5)
		require.NoError(t, h.ConsumeTraces(t.Context(), f.Traces))
		h.pass(t, time.Minute)
		got := verdicts(h.out())
		assert.Equal(t, confirm, got[1].safety, "%d runs: the run around all", n)
		assert.Equal(t, confirm, got[3].safety, "%d runs: the run between: %v", n, got[3])
	}
}

// Run 10, which announces its numbers, is judged at once. A run that it started, and that outlasts
// all others, comes next: its parents lead to run 10. Then comes the run around run 10. All spans
// were here before that one was judged.
func TestRunWithinARunThatWasJudged(t *testing.T) {
	for name, beneath := range map[string]struct {
		parent byte
		via    []spanSpec
	}{
		"the run":                        {10, nil},
		"its tool":                       {12, nil},
		"spans that passed with its own": {14, []spanSpec{otherSpan(14, 10, 1.3, 1.4).in("b")}},
		"spans that passed":              {15, []spanSpec{otherSpan(14, 10, 1.3, 1.4).in("b"), otherSpan(15, 14, 1.3, 1.4).in("c")}},
	} {
		for late, to := range map[string]float64{"ends before": 1.5, "outlasts": 20} {
			h := newHarness(t, defaultConfig(), nil)
			// the outer run's own request is here all the time: the trace is
			h.consume(t, uncountedRun(1, 9)[1])
			mid := []spanSpec{
				requestSpan(11, 10, 1.1, 1.2).answered("tool_calls", counts{inputs: 1, completed: 1, calls: 1, callIDs: []string{"c"}}).in("b"),
				toolSpan(12, 1.3, 1.4, "c", semconv.ToolEffectReadOnly, semconv.ToolOutcomeSucceeded).under(10).without(semconv.RunIDKey).
					with(semconv.RunID(spanID(10).String())).in("b"),
				runSpan(10, 1.05, 2, 1, 1).under(1).failed("x").in("b"),
			}
			if beneath.via != nil {
				mid = append(mid, beneath.via[0])
			}
			h.consume(t, mid...)
			require.Contains(t, spansOf(h.out()), spanID(10))
			inner := []spanSpec{
				requestSpan(21, 20, 1.36, 1.37).cut(semconv.PhaseText, semconv.TransportCauseConnectionReset, "ECONNRESET", counts{text: 2}).in("c"),
				runSpan(20, 1.35, to, 1, 0).under(beneath.parent).failed("x").in("c"),
			}
			if len(beneath.via) > 1 {
				inner = append(inner, beneath.via[1])
			}
			h.consume(t, inner...)
			require.Contains(t, spansOf(h.out()), spanID(20))
			h.consume(t, uncountedRun(1, 9)[0])
			h.pass(t, xMaxHold)
			v := verdicts(h.out())[1]
			require.Equal(t, semconv.RunOutcomeFailed, v.outcome)
			assert.Equal(t, confirm, v.safety, "beneath %s, %s", name, late)
		}
	}
}

// The tool above run 9 is taken, by its time, for one of run 13, which began 0.3 s later within run
// 9: the two seem to be around one another. Run 1 is around both by its time.
func TestRunsAroundOneAnotherByTime(t *testing.T) {
	for name, tt := range map[string]struct {
		counted bool
		later   float64
		parent  pcommon.SpanID
	}{
		"0.3 s later":              {false, 0.3, spanID(99)},
		"1.5 s later":              {false, 1.5, spanID(99)},
		"0.3 s later, counted":     {true, 0.3, spanID(99)},
		"0.3 s later, with a root": {false, 0.3, pcommon.SpanID{}},
	} {
		f := newForest(t)
		outer := uncounted(1)
		if tt.counted {
			outer = runSpan(1, 0, 0, 1, 0).failed("x")
		}
		f.add(outer, spanID(1), tt.parent, 0, 10) // its parent is not here
		f.add(limitedOf(2, 1), spanID(2), spanID(1), 0.1, 0.2)
		// a tool of an agent whose own span is not here
		f.add(genAISpan(7, 5, otelsemconv.GenAIOperationNameExecuteTool, 0, 0, otelsemconv.GenAIToolName("ask")).in("a"), spanID(7), spanID(5), 3, 6)
		f.add(uncounted(9).in("b"), spanID(9), spanID(7), 3, 6)
		f.add(limitedOf(10, 9).in("b"), spanID(10), spanID(9), 3.1, 3.2)
		tool := toolSpan(11, 0, 0, "c", semconv.ToolEffectReadOnly, semconv.ToolOutcomeSucceeded).without(semconv.RunIDKey).with(semconv.RunID(spanID(9).String()))
		f.add(tool.in("b"), spanID(11), spanID(9), 3+tt.later, 5.5)
		f.add(uncounted(13).in("c"), spanID(13), spanID(11), 3+tt.later, 5)
		f.add(shownText(14, 13).in("c"), spanID(14), spanID(13), 3.1+tt.later, 4.9)
		got := judgeCalls(t, 0, f)
		assert.Equal(t, confirm, got[1].safety, "%s: %v", name, got[1])
		assert.Equal(t, confirm, got[13].safety, "%s: %v", name, got[13])
		assert.Equal(t, confirm, got[9].safety, "%s: %v", name, got[9])
	}
}

// C (20) is judged, then B (10), around it; then D (30), beneath C; then A (1), around B. C outlasts A.
func TestRunBeneathTwoRunsThatWereJudged(t *testing.T) {
	for name, cto := range map[string]float64{"ends before": 1.9, "outlasts": 20} {
		h := newHarness(t, defaultConfig(), nil)
		h.consume(t, uncountedRun(1, 9)[1])
		h.consume(t,
			requestSpan(21, 20, 1.15, 1.2).refused(429, semconv.ProviderErrorKindRateLimited, "rate_limit_exceeded").in("c"),
			runSpan(20, 1.1, cto, 1, 0).under(10).failed("x").in("c"),
		)
		require.Contains(t, spansOf(h.out()), spanID(20))
		h.consume(t,
			requestSpan(11, 10, 1.06, 1.08).refused(429, semconv.ProviderErrorKindRateLimited, "rate_limit_exceeded").in("b"),
			runSpan(10, 1.05, 2, 1, 0).under(1).failed("x").in("b"),
		)
		require.Contains(t, spansOf(h.out()), spanID(10))
		h.consume(t,
			requestSpan(31, 30, 1.36, 1.37).cut(semconv.PhaseText, semconv.TransportCauseConnectionReset, "ECONNRESET", counts{text: 2}).in("d"),
			runSpan(30, 1.35, 1.5, 1, 0).under(20).failed("x").in("d"),
		)
		require.Contains(t, spansOf(h.out()), spanID(30))
		h.consume(t, uncountedRun(1, 9)[0])
		h.pass(t, xMaxHold)
		v := verdicts(h.out())
		require.Equal(t, semconv.RunOutcomeFailed, v[1].outcome)
		assert.Equal(t, confirm, v[1].safety, "C %s: %v", name, v)
	}
}

// Runs 2 and 4, which are both within run 1, go together with it. Run 3, which is within run 4 and
// shows text, is judged first: its parents lead over run 4, which has gone and is not judged yet.
func TestRunBesideAnotherThatIsNotJudgedYet(t *testing.T) {
	f := newForest(t)
	for _, run := range []struct {
		id, parent byte
		from, to   float64
	}{{1, 0, 0, 10}, {2, 1, 1, 3}, {4, 1, 1.2, 8}, {3, 4, 1.5, 2}} {
		service := string(rune('a' + run.id))
		f.add(uncounted(run.id).in(service), spanID(run.id), spanID(run.parent), run.from, run.to)
		request := limitedOf(10+run.id, run.id)
		if run.id == 3 {
			request = shownText(10+run.id, run.id)
		}
		f.add(request.in(service), spanID(10+run.id), spanID(run.id), run.from+0.1, run.from+0.2)
	}
	got := judgeCalls(t, time.Minute, f)
	for run, want := range map[byte]semconv.RetrySafety{1: confirm, 2: safe, 3: confirm, 4: confirm} {
		assert.Equal(t, want, got[run].safety, "run %d", run)
	}
}
