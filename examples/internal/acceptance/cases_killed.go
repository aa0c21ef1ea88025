package acceptance

import (
	"github.com/otelllm/otelllm-go/examples/faultyllm"
	"github.com/otelllm/otelllm-go/semconv"
)

// Killed is case 22: the process dies, and with it the end of the run. After
// run_timeout a span of the Collector's own stands for it. It is not among [Cases]:
// it needs a Collector whose run_timeout is short. [WithKilled] has it too.
func Killed() []Case {
	return everywhere(func(faultyllm.Wire) Case {
		return Case{
			Number: 22, Title: "process killed after an answer",
			Script: []faultyllm.Exchange{faultyllm.Answer(saying, patch, faultyllm.Finish(faultyllm.ToolCalls))},
			Want: Want{
				Outcome: semconv.RunOutcomeIncomplete,
				Run: Verdict{
					Class: semconv.ClassRunAbandoned, Cause: semconv.CauseMissingEnd, Phase: semconv.PhaseUnknown,
					Origin: semconv.OriginUnknown, Safety: confirmed, Reason: semconv.RetryReasonToolStateUnknown,
				},
				Requests: make([]Verdict, 1),
			},
			Prepare: func(_ *World, s *Setup) { s.Killed = true },
		}
	})
}
