package verdicts

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/harness"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/telemetry"
	"github.com/otelllm/otelllm-go/semconv"
)

// firstVerdict is the verdict on the first span, which is out.
func firstVerdict(t *testing.T, h *harness.Harness) harness.Verdict {
	t.Helper()
	s, out := harness.SpansOf(h.Out())[harness.SpanID(1)]
	require.True(t, out, "it still waits")
	return harness.VerdictOf(s)
}

// A run that announces no numbers waits for the spans of a refused call, for max_hold at most, and
// is never safe to repeat after that.
func TestUncountedRunWaitsForARefusedCall(t *testing.T) {
	for name, calls := range map[string][]func(*harness.Harness){
		"refused while it waits": {
			func(h *harness.Harness) { h.Consume(t, harness.UncountedRun(1, 2)...) },
			func(h *harness.Harness) { h.Refuse(t, harness.ShownBefore(1)) },
		},
		"refused before it came": {
			func(h *harness.Harness) { h.Refuse(t, harness.ShownBefore(1)) },
			func(h *harness.Harness) { h.Consume(t, harness.UncountedRun(1, 2)...) },
		},
	} {
		for again, trigger := range map[bool]semconv.Trigger{true: semconv.TriggerRunEnded, false: semconv.TriggerHoldExpired} {
			h, next := harness.NewFlaky(t, harness.DefaultConfig())
			for _, call := range calls {
				call(h)
			}
			h.Pass(t, harness.MaxHold/2)
			require.Zero(t, next.SpanCount(), "%s: its sender still has a span of it", name)
			if again {
				h.Consume(t, harness.ShownBefore(1))
			}
			h.PassStepwise(t, 2*harness.MaxHold)
			assert.Equal(t, harness.Confirm, firstVerdict(t, h).Safety, name)
			if v := firstVerdict(t, h); again {
				assert.Contains(t, []semconv.Trigger{trigger, semconv.TriggerHoldExpired}, v.Trigger, name)
			}
			assert.Equal(t, telemetry.Load{}, h.Load())
		}
	}
}

// Neither a run that has all parts that it announced, nor one of another trace waits for a refused call.
func TestRefusedCallConcernsUncountedRunsOfItsTraceAlone(t *testing.T) {
	h, _ := harness.NewFlaky(t, harness.DefaultConfig())
	h.Refuse(t, harness.ShownBefore(1).Of(2))
	h.Consume(t, harness.UncountedRun(1, 2)...)
	h.Pass(t, harness.Settle)
	assert.Equal(t, harness.Safe, firstVerdict(t, h).Safety)

	h, _ = harness.NewFlaky(t, harness.DefaultConfig())
	h.Refuse(t, harness.RateLimited(2, 1))
	h.Consume(t, harness.RateLimited(2, 1), harness.RunSpan(1, 0, 5, 1, 0).Failed("429"))
	assert.Equal(t, semconv.TriggerComplete, firstVerdict(t, h).Trigger)
	assert.Equal(t, harness.Safe, firstVerdict(t, h).Safety)
}

// Of more refused calls than there is memory for, any may have had a part of a run.
func TestForgottenRefusedCallsConcernEveryRun(t *testing.T) {
	cfg := harness.DefaultConfig()
	cfg.MaxFactBytes = 64 << 10
	h, _ := harness.NewFlaky(t, cfg)
	h.Refuse(t, harness.ShownBefore(1))
	for n := range uint64(5000) {
		h.Lane().Buffer.Refuse(h.Clock.Now(), harness.NthTraceID(n))
	}
	require.LessOrEqual(t, h.Tables()[telemetry.JudgedTable], 32<<10)
	h.Consume(t, harness.UncountedRun(0, 2)...)
	h.PassStepwise(t, 2*harness.MaxHold)
	assert.Equal(t, harness.Confirm, firstVerdict(t, h).Safety)
}

// If the next consumer mutates spans, those that it refuses are not kept, and the sender repeats the call: held spans
// go out twice, and count once.
func TestLLMSpansOfARepeatedCallCountOnce(t *testing.T) {
	for name, tt := range map[string]struct {
		specs []harness.Span
		held  int
	}{
		"a whole run":         {harness.FinishedRun(1), 0},
		"a run that waits":    {harness.UncountedRun(1, 2), 2},
		"a part of a run":     {[]harness.Span{harness.ShownBefore(1)}, 1},
		"a request and a run": {append(harness.FinishedRun(1), harness.RequestSpan(2, 1, 0.1, 1).Answered("stop", harness.Answer).Of(2)), 1},
	} {
		specs := tt.specs
		h, next := harness.NewFlaky(t, harness.DefaultConfig())
		td := func() []harness.Span { return append(slices.Clip(specs), harness.OtherSpan(90, 0, 0, 1).Of(9)) }
		next.Fail, next.Mutates = harness.Down, true
		require.ErrorIs(t, h.Processor.ConsumeTraces(t.Context(), harness.TracesOf(t, td()...)), harness.ErrDown, name)
		next.Fail = nil
		h.Settle(t.Context())
		h.Consume(t, td()...)
		h.PassStepwise(t, 2*harness.MaxHold+2*harness.RunTimeout)
		once := harness.New(t, harness.DefaultConfig(), nil)
		once.Consume(t, td()...)
		once.PassStepwise(t, 2*harness.MaxHold+2*harness.RunTimeout)
		added := once.Out().SpanCount() - len(specs) - 1 // for a run whose span never came
		assert.Equal(t, len(specs)+tt.held+1+added, h.Out().SpanCount(), name)
		want, got := harness.OutcomeOf(once.Out()), harness.OutcomeOf(h.Out())
		for key := range want {
			assert.Equal(t, harness.Fullest(want[key])[string(semconv.RunOutcomeKey)], harness.Fullest(got[key])[string(semconv.RunOutcomeKey)], name)
			assert.Equal(t, harness.Fullest(want[key])[string(semconv.RetrySafetyKey)], harness.Fullest(got[key])[string(semconv.RetrySafetyKey)], name)
		}
		assert.Equal(t, telemetry.Load{}, h.Load(), name)
		h.Clock.Advance(time.Minute)
	}
}
