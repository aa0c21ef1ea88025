package llmclassify

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/otelllm/otelllm-go/semconv"
)

// unsafeRun is the spans of a run of service b, which did what must not be done twice, by a
// clock that is this many seconds off. It lasts longer by some more.
func unsafeRun(parent byte, from, off, longer float64) []spanSpec {
	from += off
	return []spanSpec{
		requestSpan(11, 10, from+0.1, from+0.2).answered("tool_calls", counts{inputs: 1, completed: 1, calls: 1, callIDs: []string{"call_5"}}).in("b"),
		toolSpan(12, from+0.2, from+0.25, "call_5", semconv.ToolEffectNonIdempotent, semconv.ToolOutcomeSucceeded).
			under(10).without(semconv.RunIDKey).with(semconv.RunID(spanID(10).String())).in("b"),
		runSpan(10, from, from+0.3+longer, 1, 1).under(parent).in("b").failed("x"),
	}
}

// What a run of another service did is a part of what the run around it did, in whatever
// calls the spans come that are between them.
func TestInnerRunOfAnotherService(t *testing.T) {
	step := otherSpan(8, 1, 0.05, 0.6)
	request := requestSpan(2, 1, 1, 1.5).cut(semconv.PhaseResponseStarted, semconv.TransportCauseConnectionReset, "ECONNRESET", counts{})
	run := runSpan(1, 0, 2, 1, 0).failed("*net.OpError")
	open := requestSpan(50, 51, 0, 1).answered("stop", answer).in("c")
	for name, off := range map[string]float64{"no skew": 0, "its clock is behind": -0.3} {
		inner := unsafeRun(8, 0.1, off, 0)
		for how, calls := range map[string][][]spanSpec{
			"then all in one call":     {inner, {request, run, step}},
			"then the request is held": {inner, {request}, {run, step}},
			"after the request":        {{request}, inner, {run, step}},
			"in pieces":                {inner[:1], inner[1:], {request, run, step}},
			"beside the step":          {append([]spanSpec{step}, inner...), {request, run}},
			"with the request":         {append([]spanSpec{request}, inner...), {step, run}},
			"while others are open":    {{open}, inner, {request, run, step}},
			"all in one call":          {append(slices.Clone(inner), request, run, step)},
		} {
			t.Run(name+", "+how, func(t *testing.T) { assertUnsafe(t, calls...) })
		}
	}
}

// assertUnsafe checks that run 1 is not to be repeated, where its spans come in these calls.
func assertUnsafe(t *testing.T, calls ...[]spanSpec) {
	t.Helper()
	h := newHarness(t, defaultConfig(), nil)
	for _, c := range calls {
		h.consume(t, c...)
	}
	h.pass(t, xMaxHold)
	v := verdicts(h.out())[1]
	assert.Greater(t, v.safety, semconv.RetrySafetySafeAutoRetry, v.words())
}

// An idempotent tool calls another service over HTTP, of which a run does what must not be
// done twice.
func TestInnerRunBehindHTTP(t *testing.T) {
	for name, tt := range map[string]struct{ off, longer float64 }{
		"no skew": {}, "its clock is a second behind": {-1, 0}, "its clock is behind": {-0.45, 0}, "it outlasts the outer run": {0, 2},
	} {
		b := append(unsafeRun(7, 0.6, tt.off, tt.longer), otherSpan(7, 8, 0.6+tt.off, 0.9+tt.off).in("b"))
		a := []spanSpec{
			requestSpan(2, 1, 0.2, 0.4).answered("tool_calls", counts{inputs: 1, completed: 1, calls: 1, callIDs: []string{"call_1"}}),
			toolSpan(4, 0.5, 0.96, "call_1", semconv.ToolEffectIdempotent, semconv.ToolOutcomeSucceeded),
			requestSpan(3, 1, 1, 1.2).history([]string{"call_1"}, []string{"call_1"}).
				cut(semconv.PhaseResponseStarted, semconv.TransportCauseConnectionReset, "ECONNRESET", counts{}),
			runSpan(1, 0.19, 2, 2, 1).failed("*net.OpError"),
			otherSpan(8, 4, 0.55, 0.95),
		}
		for how, calls := range map[string][][]spanSpec{
			"in one call":        {append(slices.Clone(b), a...)},
			"before the outer":   {b, a},
			"the runs come last": {{b[0], b[1], b[3], a[0], a[1], a[2], a[4]}, b[2:3], a[3:4]},
		} {
			t.Run(name+", "+how, func(t *testing.T) { assertUnsafe(t, calls...) })
		}
		if tt.longer == 0 {
			t.Run(name+", as they end", func(t *testing.T) {
				assertUnsafe(t, b[:1], b[1:2], b[2:3], b[3:], a[4:], a[:1], a[1:2], a[2:3], a[3:4])
			})
		}
	}
}

// A workflow over two agents did not succeed if the one of another service failed.
func TestWorkflowOverAnAgentOfAnotherService(t *testing.T) {
	for _, off := range []float64{0, -0.6} {
		h := newHarness(t, defaultConfig(), nil)
		h.consume(t, chatSpan(11, 10, 1.1, 1.9).finished("stop"), agentSpan(10, 1, 1, 2),
			chatSpan(21, 20, 0.3+off, 0.5+off).failed("InternalServerError").in("b"), agentSpan(20, 8, 0.2+off, 0.6+off).failed("InternalServerError").in("b"),
			otherSpan(8, 1, 0.1, 0.7), agentSpan(1, 0, 0, 4))
		h.pass(t, xMaxHold)
		v := verdicts(h.out())[1]
		assert.NotEqual(t, semconv.RunOutcomeSucceeded, v.outcome, v.words())
	}
}
