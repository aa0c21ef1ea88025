package verdicts

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/harness"
	"github.com/otelllm/otelllm-go/semconv"
)

// unsafeRun is the spans of a run of service b, which did what must not be done twice, by a
// clock that is this many seconds off. It lasts longer by some more.
func unsafeRun(parent byte, from, off, longer float64) []harness.Span {
	from += off
	return []harness.Span{
		harness.RequestSpan(11, 10, from+0.1, from+0.2).Answered("tool_calls", harness.Counts{Inputs: 1, Completed: 1, Calls: 1, CallIDs: []string{"call_5"}}).In("b"),
		harness.ToolSpan(12, from+0.2, from+0.25, "call_5", semconv.ToolEffectNonIdempotent, semconv.ToolOutcomeSucceeded).
			Under(10).Without(semconv.RunIDKey).With(semconv.RunID(harness.SpanID(10).String())).In("b"),
		harness.RunSpan(10, from, from+0.3+longer, 1, 1).Under(parent).In("b").Failed("x"),
	}
}

// What a run of another service did is a part of what the run around it did, in whatever
// calls the spans come that are between them.
func TestInnerRunOfAnotherService(t *testing.T) {
	step := harness.OtherSpan(8, 1, 0.05, 0.6)
	request := harness.RequestSpan(2, 1, 1, 1.5).Cut(semconv.PhaseResponseStarted, semconv.TransportCauseConnectionReset, "ECONNRESET", harness.Counts{})
	run := harness.RunSpan(1, 0, 2, 1, 0).Failed("*net.OpError")
	open := harness.RequestSpan(50, 51, 0, 1).Answered("stop", harness.Answer).In("c")
	for name, off := range map[string]float64{"no skew": 0, "its clock is behind": -0.3} {
		inner := unsafeRun(8, 0.1, off, 0)
		for how, calls := range map[string][][]harness.Span{
			"then all in one call":     {inner, {request, run, step}},
			"then the request is held": {inner, {request}, {run, step}},
			"after the request":        {{request}, inner, {run, step}},
			"in pieces":                {inner[:1], inner[1:], {request, run, step}},
			"beside the step":          {append([]harness.Span{step}, inner...), {request, run}},
			"with the request":         {append([]harness.Span{request}, inner...), {step, run}},
			"while others are open":    {{open}, inner, {request, run, step}},
			"all in one call":          {append(slices.Clone(inner), request, run, step)},
		} {
			t.Run(name+", "+how, func(t *testing.T) { assertUnsafe(t, calls...) })
		}
	}
}

// assertUnsafe checks that run 1 is not to be repeated, where its spans come in these calls.
func assertUnsafe(t *testing.T, calls ...[]harness.Span) {
	t.Helper()
	h := harness.New(t, harness.DefaultConfig(), nil)
	for _, c := range calls {
		h.Consume(t, c...)
	}
	h.Pass(t, harness.MaxHold)
	v := harness.Verdicts(h.Out())[1]
	assert.Greater(t, v.Safety, semconv.RetrySafetySafeAutoRetry, v.Words())
}

// An idempotent tool calls another service over HTTP, of which a run does what must not be
// done twice.
func TestInnerRunBehindHTTP(t *testing.T) {
	for name, tt := range map[string]struct{ off, longer float64 }{
		"no skew": {}, "its clock is a second behind": {-1, 0}, "its clock is behind": {-0.45, 0}, "it outlasts the outer run": {0, 2},
	} {
		b := append(unsafeRun(7, 0.6, tt.off, tt.longer), harness.OtherSpan(7, 8, 0.6+tt.off, 0.9+tt.off).In("b"))
		a := []harness.Span{
			harness.RequestSpan(2, 1, 0.2, 0.4).Answered("tool_calls", harness.Counts{Inputs: 1, Completed: 1, Calls: 1, CallIDs: []string{"call_1"}}),
			harness.ToolSpan(4, 0.5, 0.96, "call_1", semconv.ToolEffectIdempotent, semconv.ToolOutcomeSucceeded),
			harness.RequestSpan(3, 1, 1, 1.2).History([]string{"call_1"}, []string{"call_1"}).
				Cut(semconv.PhaseResponseStarted, semconv.TransportCauseConnectionReset, "ECONNRESET", harness.Counts{}),
			harness.RunSpan(1, 0.19, 2, 2, 1).Failed("*net.OpError"),
			harness.OtherSpan(8, 4, 0.55, 0.95),
		}
		for how, calls := range map[string][][]harness.Span{
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
		h := harness.New(t, harness.DefaultConfig(), nil)
		h.Consume(t, harness.ChatSpan(11, 10, 1.1, 1.9).Finished("stop"), harness.AgentSpan(10, 1, 1, 2),
			harness.ChatSpan(21, 20, 0.3+off, 0.5+off).Failed("InternalServerError").In("b"), harness.AgentSpan(20, 8, 0.2+off, 0.6+off).Failed("InternalServerError").In("b"),
			harness.OtherSpan(8, 1, 0.1, 0.7), harness.AgentSpan(1, 0, 0, 4))
		h.Pass(t, harness.MaxHold)
		v := harness.Verdicts(h.Out())[1]
		assert.NotEqual(t, semconv.RunOutcomeSucceeded, v.Outcome, v.Words())
	}
}
