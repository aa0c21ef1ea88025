package acceptance

import (
	"github.com/otelllm/otelllm-go/semconv"
	"github.com/otelllm/otelllm-go/test/faultyllm"
)

// limits returns case 21: the answer arrived, but it is incomplete.
func limits() []Case {
	var cases []Case
	for _, t := range []struct {
		variant string
		steps   []faultyllm.Step
		cause   semconv.Cause
		wires   []faultyllm.Wire
	}{
		{"length", []faultyllm.Step{saying, faultyllm.Finish(faultyllm.Length)}, semconv.CauseMaxOutputTokens, faultyllm.Wires()},
		{
			"refusal",
			[]faultyllm.Step{faultyllm.Refusal("I can't ", "help with that."), faultyllm.Finish(faultyllm.Refused)},
			semconv.CauseRefusal, faultyllm.Wires(),
		},
		{
			"content filter",
			[]faultyllm.Step{saying, faultyllm.Finish(faultyllm.ContentFilter)},
			semconv.CauseContentFilter,
			[]faultyllm.Wire{faultyllm.Chat, faultyllm.Responses}, // Anthropic uses refusal instead
		},
	} {
		cases = append(cases, over(t.wires, func(faultyllm.Wire) Case {
			want := failed(Verdict{
				Class: semconv.ClassOutputLimited, Cause: t.cause, Phase: semconv.PhaseStreamEnd, Origin: semconv.OriginProvider,
				Safety: never, Reason: semconv.RetryReasonNotTransient,
			})
			want.Outcome = semconv.RunOutcomeLimited
			return Case{
				Number: 21, Title: "answer cut by a limit", Variant: t.variant,
				Script: []faultyllm.Exchange{faultyllm.Answer(t.steps...)}, Want: want,
			}
		})...)
	}
	return cases
}
