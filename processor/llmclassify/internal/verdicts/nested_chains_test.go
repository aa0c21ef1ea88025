package verdicts

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/harness"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/trace"
	"github.com/otelllm/otelllm-go/semconv"
)

// Run 3 goes on in the background when the run around it has ended: its span comes last. Its tool
// started many runs of another service.
func TestRunBetweenManyRunsAndTheirOuterOne(t *testing.T) {
	for _, n := range []int{10, trace.MaxPastRuns - 1, trace.MaxPastRuns} {
		h := harness.New(t, harness.DefaultConfig(), nil)
		f := harness.NewForest(t)
		tool := harness.GenAISpan(30, 3, otelsemconv.GenAIOperationNameExecuteTool, 0, 0)
		f.Add(tool, harness.SpanID(30), harness.SpanID(3), 1, 5)
		require.NoError(t, h.ConsumeTraces(t.Context(), f.Traces))
		for i := range n {
			f := harness.NewForest(t)
			from := 1.1 + float64(i)*0.01
			f.Add(harness.RunSpan(4, 0, 0, 1, 0).In("b").Failed("x"), harness.NthSpanID(2*i), harness.SpanID(30), from, from+0.1)
			r := harness.ShownText(5, 4).In("b").Without(semconv.RunIDKey).With(semconv.RunID(harness.NthSpanID(2 * i).String()))
			f.Add(r, harness.NthSpanID(2*i+1), harness.NthSpanID(2*i), from+0.01, from+0.05)
			require.NoError(t, h.ConsumeTraces(t.Context(), f.Traces))
		}
		h.Pass(t, 100*time.Millisecond)
		f = harness.NewForest(t)
		f.Add(uncounted(1), harness.SpanID(1), harness.SpanID(99), 0, 6)
		f.Add(harness.RateLimited(2, 1), harness.SpanID(2), harness.SpanID(1), 0.1, 0.2)
		f.Add(harness.OtherSpan(99, 0, 0, 7), harness.SpanID(99), pcommon.SpanID{}, 0, 7)
		require.NoError(t, h.ConsumeTraces(t.Context(), f.Traces))
		h.Pass(t, 3*time.Second)
		require.Contains(t, harness.SpansOf(h.Out()), harness.SpanID(1))
		f = harness.NewForest(t)
		f.Add(harness.RunSpan(3, 0, 0, 1, 0).Failed("x"), harness.SpanID(3), harness.SpanID(1), 0.5, 9)
		f.Add(harness.RateLimited(7, 3), harness.SpanID(7), harness.SpanID(3), 8, 8.5)
		require.NoError(t, h.ConsumeTraces(t.Context(), f.Traces))
		h.Pass(t, time.Minute)
		got := harness.Verdicts(h.Out())
		assert.Equal(t, harness.Confirm, got[1].Safety, "%d runs: the run around all", n)
		assert.Equal(t, harness.Confirm, got[3].Safety, "%d runs: the run between: %v", n, got[3])
	}
}

// Run 10, which announces its numbers, is judged at once. A run that it started, and that outlasts
// all others, comes next: its parents lead to run 10. Then comes the run around run 10. All spans
// were here before that one was judged.
func TestRunWithinARunThatWasJudged(t *testing.T) {
	for name, beneath := range map[string]struct {
		parent byte
		via    []harness.Span
	}{
		"the run":                        {10, nil},
		"its tool":                       {12, nil},
		"spans that passed with its own": {14, []harness.Span{harness.OtherSpan(14, 10, 1.3, 1.4).In("b")}},
		"spans that passed":              {15, []harness.Span{harness.OtherSpan(14, 10, 1.3, 1.4).In("b"), harness.OtherSpan(15, 14, 1.3, 1.4).In("c")}},
	} {
		for late, to := range map[string]float64{"ends before": 1.5, "outlasts": 20} {
			h := harness.New(t, harness.DefaultConfig(), nil)
			// the outer run's own request is here all the time: the trace is
			h.Consume(t, harness.UncountedRun(1, 9)[1])
			mid := []harness.Span{
				harness.RequestSpan(11, 10, 1.1, 1.2).Answered("tool_calls", harness.Counts{Inputs: 1, Completed: 1, Calls: 1, CallIDs: []string{"c"}}).In("b"),
				harness.ToolSpan(12, 1.3, 1.4, "c", semconv.ToolEffectReadOnly, semconv.ToolOutcomeSucceeded).Under(10).Without(semconv.RunIDKey).
					With(semconv.RunID(harness.SpanID(10).String())).In("b"),
				harness.RunSpan(10, 1.05, 2, 1, 1).Under(1).Failed("x").In("b"),
			}
			if beneath.via != nil {
				mid = append(mid, beneath.via[0])
			}
			h.Consume(t, mid...)
			require.Contains(t, harness.SpansOf(h.Out()), harness.SpanID(10))
			inner := []harness.Span{
				harness.RequestSpan(21, 20, 1.36, 1.37).Cut(semconv.PhaseText, semconv.TransportCauseConnectionReset, "ECONNRESET", harness.Counts{Text: 2}).In("c"),
				harness.RunSpan(20, 1.35, to, 1, 0).Under(beneath.parent).Failed("x").In("c"),
			}
			if len(beneath.via) > 1 {
				inner = append(inner, beneath.via[1])
			}
			h.Consume(t, inner...)
			require.Contains(t, harness.SpansOf(h.Out()), harness.SpanID(20))
			h.Consume(t, harness.UncountedRun(1, 9)[0])
			h.Pass(t, harness.MaxHold)
			v := harness.Verdicts(h.Out())[1]
			require.Equal(t, semconv.RunOutcomeFailed, v.Outcome)
			assert.Equal(t, harness.Confirm, v.Safety, "beneath %s, %s", name, late)
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
		"0.3 s later":              {false, 0.3, harness.SpanID(99)},
		"1.5 s later":              {false, 1.5, harness.SpanID(99)},
		"0.3 s later, counted":     {true, 0.3, harness.SpanID(99)},
		"0.3 s later, with a root": {false, 0.3, pcommon.SpanID{}},
	} {
		f := harness.NewForest(t)
		outer := uncounted(1)
		if tt.counted {
			outer = harness.RunSpan(1, 0, 0, 1, 0).Failed("x")
		}
		f.Add(outer, harness.SpanID(1), tt.parent, 0, 10) // its parent is not here
		f.Add(harness.RateLimited(2, 1), harness.SpanID(2), harness.SpanID(1), 0.1, 0.2)
		// a tool of an agent whose own span is not here
		f.Add(harness.GenAISpan(7, 5, otelsemconv.GenAIOperationNameExecuteTool, 0, 0, otelsemconv.GenAIToolName("ask")).In("a"), harness.SpanID(7), harness.SpanID(5), 3, 6)
		f.Add(uncounted(9).In("b"), harness.SpanID(9), harness.SpanID(7), 3, 6)
		f.Add(harness.RateLimited(10, 9).In("b"), harness.SpanID(10), harness.SpanID(9), 3.1, 3.2)
		tool := harness.ToolSpan(11, 0, 0, "c", semconv.ToolEffectReadOnly, semconv.ToolOutcomeSucceeded).Without(semconv.RunIDKey).With(semconv.RunID(harness.SpanID(9).String()))
		f.Add(tool.In("b"), harness.SpanID(11), harness.SpanID(9), 3+tt.later, 5.5)
		f.Add(uncounted(13).In("c"), harness.SpanID(13), harness.SpanID(11), 3+tt.later, 5)
		f.Add(harness.ShownText(14, 13).In("c"), harness.SpanID(14), harness.SpanID(13), 3.1+tt.later, 4.9)
		got := judgeCalls(t, 0, f)
		assert.Equal(t, harness.Confirm, got[1].Safety, "%s: %v", name, got[1])
		assert.Equal(t, harness.Confirm, got[13].Safety, "%s: %v", name, got[13])
		assert.Equal(t, harness.Confirm, got[9].Safety, "%s: %v", name, got[9])
	}
}

// C (20) is judged, then B (10), around it; then D (30), beneath C; then A (1), around B. C outlasts A.
func TestRunBeneathTwoRunsThatWereJudged(t *testing.T) {
	for name, cto := range map[string]float64{"ends before": 1.9, "outlasts": 20} {
		h := harness.New(t, harness.DefaultConfig(), nil)
		h.Consume(t, harness.UncountedRun(1, 9)[1])
		h.Consume(t,
			harness.RequestSpan(21, 20, 1.15, 1.2).Refused(429, semconv.ProviderErrorKindRateLimited, "rate_limit_exceeded").In("c"),
			harness.RunSpan(20, 1.1, cto, 1, 0).Under(10).Failed("x").In("c"),
		)
		require.Contains(t, harness.SpansOf(h.Out()), harness.SpanID(20))
		h.Consume(t,
			harness.RequestSpan(11, 10, 1.06, 1.08).Refused(429, semconv.ProviderErrorKindRateLimited, "rate_limit_exceeded").In("b"),
			harness.RunSpan(10, 1.05, 2, 1, 0).Under(1).Failed("x").In("b"),
		)
		require.Contains(t, harness.SpansOf(h.Out()), harness.SpanID(10))
		h.Consume(t,
			harness.RequestSpan(31, 30, 1.36, 1.37).Cut(semconv.PhaseText, semconv.TransportCauseConnectionReset, "ECONNRESET", harness.Counts{Text: 2}).In("d"),
			harness.RunSpan(30, 1.35, 1.5, 1, 0).Under(20).Failed("x").In("d"),
		)
		require.Contains(t, harness.SpansOf(h.Out()), harness.SpanID(30))
		h.Consume(t, harness.UncountedRun(1, 9)[0])
		h.Pass(t, harness.MaxHold)
		v := harness.Verdicts(h.Out())
		require.Equal(t, semconv.RunOutcomeFailed, v[1].Outcome)
		assert.Equal(t, harness.Confirm, v[1].Safety, "C %s: %v", name, v)
	}
}

// Runs 2 and 4, which are both within run 1, go together with it. Run 3, which is within run 4 and
// shows text, is judged first: its parents lead over run 4, which has gone and is not judged yet.
func TestRunBesideAnotherThatIsNotJudgedYet(t *testing.T) {
	f := harness.NewForest(t)
	for _, run := range []struct {
		id, parent byte
		from, to   float64
	}{{1, 0, 0, 10}, {2, 1, 1, 3}, {4, 1, 1.2, 8}, {3, 4, 1.5, 2}} {
		service := string(rune('a' + run.id))
		f.Add(uncounted(run.id).In(service), harness.SpanID(run.id), harness.SpanID(run.parent), run.from, run.to)
		request := harness.RateLimited(10+run.id, run.id)
		if run.id == 3 {
			request = harness.ShownText(10+run.id, run.id)
		}
		f.Add(request.In(service), harness.SpanID(10+run.id), harness.SpanID(run.id), run.from+0.1, run.from+0.2)
	}
	got := judgeCalls(t, time.Minute, f)
	for run, want := range map[byte]semconv.RetrySafety{1: harness.Confirm, 2: harness.Safe, 3: harness.Confirm, 4: harness.Confirm} {
		assert.Equal(t, want, got[run].Safety, "run %d", run)
	}
}
