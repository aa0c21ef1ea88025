package llmclassify

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/telemetry"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/tenant"
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

// refuse sends spans in a call that is refused for lack of memory.
func (h *harness) refuse(t *testing.T, specs ...spanSpec) {
	t.Helper()
	require.ErrorIs(t, h.withoutMemory(t, tracesOf(t, specs...)), tenant.ErrFull)
}

// withoutMemory consumes a call while there is no memory for LLM spans.
func (h *harness) withoutMemory(t *testing.T, td ptrace.Traces) error {
	t.Helper()
	h.Budget.Add(h.Tenants.Others, int(h.Budget.Limit))
	h.Budget.AddWaiting(1)
	err := h.inside.ConsumeTraces(t.Context(), td)
	h.Budget.Add(h.Tenants.Others, -int(h.Budget.Limit))
	h.Budget.AddWaiting(-1)
	h.settle(t.Context())
	return err
}

// firstVerdict is the verdict on the first span, which is out.
func firstVerdict(t *testing.T, h *harness) verdict {
	t.Helper()
	s, out := spansOf(h.out())[spanID(1)]
	require.True(t, out, "it still waits")
	return verdictOf(s)
}

// A run that announces no numbers waits for the spans of a refused call, for max_hold at most, and
// is never safe to repeat after that.
func TestUncountedRunWaitsForARefusedCall(t *testing.T) {
	for name, calls := range map[string][]func(*harness){
		"refused while it waits": {
			func(h *harness) { h.consume(t, uncountedRun(1, 2)...) },
			func(h *harness) { h.refuse(t, shownBefore(1)) },
		},
		"refused before it came": {
			func(h *harness) { h.refuse(t, shownBefore(1)) },
			func(h *harness) { h.consume(t, uncountedRun(1, 2)...) },
		},
	} {
		for again, trigger := range map[bool]semconv.Trigger{true: semconv.TriggerRunEnded, false: semconv.TriggerHoldExpired} {
			h, next := newFlakyHarness(t, defaultConfig())
			for _, call := range calls {
				call(h)
			}
			h.pass(t, xMaxHold/2)
			require.Zero(t, next.SpanCount(), "%s: its sender still has a span of it", name)
			if again {
				h.consume(t, shownBefore(1))
			}
			h.passStepwise(t, 2*xMaxHold)
			assert.Equal(t, confirm, firstVerdict(t, h).safety, name)
			if v := firstVerdict(t, h); again {
				assert.Contains(t, []semconv.Trigger{trigger, semconv.TriggerHoldExpired}, v.trigger, name)
			}
			assert.Equal(t, telemetry.Load{}, h.Load())
		}
	}
}

// Neither a run that has all parts that it announced, nor one of another trace waits for a refused call.
func TestRefusedCallConcernsUncountedRunsOfItsTraceAlone(t *testing.T) {
	h, _ := newFlakyHarness(t, defaultConfig())
	h.refuse(t, shownBefore(1).of(2))
	h.consume(t, uncountedRun(1, 2)...)
	h.pass(t, xSettle)
	assert.Equal(t, safe, firstVerdict(t, h).safety)

	h, _ = newFlakyHarness(t, defaultConfig())
	h.refuse(t, limitedOf(2, 1))
	h.consume(t, limitedOf(2, 1), runSpan(1, 0, 5, 1, 0).failed("429"))
	assert.Equal(t, semconv.TriggerComplete, firstVerdict(t, h).trigger)
	assert.Equal(t, safe, firstVerdict(t, h).safety)
}

// Of more refused calls than there is memory for, any may have had a part of a run.
func TestForgottenRefusedCallsConcernEveryRun(t *testing.T) {
	cfg := defaultConfig()
	cfg.MaxFactBytes = 64 << 10
	h, _ := newFlakyHarness(t, cfg)
	h.refuse(t, shownBefore(1))
	for n := range uint64(5000) {
		h.lane().Buffer.Refuse(h.clock.Now(), numbered(n))
	}
	require.LessOrEqual(t, h.Tables()[telemetry.JudgedTable], 32<<10)
	h.consume(t, uncountedRun(0, 2)...)
	h.passStepwise(t, 2*xMaxHold)
	assert.Equal(t, confirm, firstVerdict(t, h).safety)
}

// If the next consumer mutates spans, those that it refuses are not kept, and the sender repeats the call: held spans
// go out twice, and count once.
func TestLLMSpansOfARepeatedCallCountOnce(t *testing.T) {
	for name, tt := range map[string]struct {
		specs []spanSpec
		held  int
	}{
		"a whole run":         {finishedRun(1), 0},
		"a run that waits":    {uncountedRun(1, 2), 2},
		"a part of a run":     {[]spanSpec{shownBefore(1)}, 1},
		"a request and a run": {append(finishedRun(1), requestSpan(2, 1, 0.1, 1).answered("stop", answer).of(2)), 1},
	} {
		specs := tt.specs
		h, next := newFlakyHarness(t, defaultConfig())
		td := func() []spanSpec { return append(slices.Clip(specs), otherSpan(90, 0, 0, 1).of(9)) }
		next.fail, next.mutates = down, true
		require.ErrorIs(t, h.inside.ConsumeTraces(t.Context(), tracesOf(t, td()...)), errDown, name)
		next.fail = nil
		h.settle(t.Context())
		h.consume(t, td()...)
		h.passStepwise(t, 2*xMaxHold+2*xRunTimeout)
		once := newHarness(t, defaultConfig(), nil)
		once.consume(t, td()...)
		once.passStepwise(t, 2*xMaxHold+2*xRunTimeout)
		added := once.out().SpanCount() - len(specs) - 1 // for a run whose span never came
		assert.Equal(t, len(specs)+tt.held+1+added, h.out().SpanCount(), name)
		want, got := outcomeOf(once.out()), outcomeOf(h.out())
		for key := range want {
			assert.Equal(t, one(want[key])[string(semconv.RunOutcomeKey)], one(got[key])[string(semconv.RunOutcomeKey)], name)
			assert.Equal(t, one(want[key])[string(semconv.RetrySafetyKey)], one(got[key])[string(semconv.RetrySafetyKey)], name)
		}
		assert.Equal(t, telemetry.Load{}, h.Load(), name)
		h.clock.advance(time.Minute)
	}
}
