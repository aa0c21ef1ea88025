package acceptance

import (
	"github.com/otelllm/otelllm-go/semconv"
	"github.com/otelllm/otelllm-go/test/faultyllm"
)

// Killed returns case 22: the process dies, so the run never ends. After run_timeout a
// span of the Collector's own represents it. The case is not among [Cases], because it
// needs a Collector with a short run_timeout. [WithKilled] includes it.
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
