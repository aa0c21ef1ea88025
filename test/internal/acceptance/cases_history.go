package acceptance

import (
	"github.com/otelllm/otelllm-go/semconv"
	"github.com/otelllm/otelllm-go/test/faultyllm"
	"github.com/otelllm/otelllm-go/test/internal/agent"
)

// history returns cases 8 and 9: a tool with effects ran, and then a stream broke.
func history() []Case {
	asks := faultyllm.Answer(saying, patch, faultyllm.Finish(faultyllm.ToolCalls))
	breaks := faultyllm.Answer(faultyllm.Begin(), faultyllm.Reset())
	cut := interruption(semconv.CauseConnectionReset, semconv.PhaseResponseStarted, safe, semconv.RetryReasonNoOutput)

	cases := everywhere(func(faultyllm.Wire) Case {
		run := cut
		run.Safety, run.Reason = confirmed, semconv.RetryReasonToolSideEffect
		return Case{
			Number: 8, Title: "tool ran, next request RST",
			Script: []faultyllm.Exchange{asks, breaks},
			Want: Want{
				Outcome: semconv.RunOutcomeFailed, Run: run,
				Requests: []Verdict{{}, cut}, Tools: []Verdict{{}},
			},
		}
	})

	lost := Verdict{
		Class: semconv.ClassToolOutputLost, Cause: semconv.CauseOmittedFromRetry, Phase: semconv.PhaseToolOutputDelivery,
		Origin: semconv.OriginApplication, Safety: confirmed, Reason: semconv.RetryReasonToolSideEffect,
	}
	again := func(wire faultyllm.Wire, variant string, answer faultyllm.Exchange, last Verdict, forget func(agent.History)) Case {
		return Case{
			Number: 9, Title: "retry lacks the tool's output", Variant: variant, Wire: wire,
			Script: []faultyllm.Exchange{asks, breaks, answer},
			Want: Want{
				Outcome: semconv.RunOutcomeFailed, Run: lost, MissingOutputs: []string{patchCall},
				Requests: []Verdict{{}, cut, last}, Tools: []Verdict{{}},
			},
			Prepare: func(_ *World, s *Setup) { s.Agent.Retries, s.Agent.BeforeRetry = 1, forget },
		}
	}
	// Sent again unchanged, without the output of a tool that had its effect.
	unsafe := cut
	unsafe.Safety, unsafe.Reason = confirmed, semconv.RetryReasonToolSideEffect
	return append(cases,
		again(faultyllm.Chat, "output dropped", faultyllm.Answer(done...), Verdict{}, agent.History.ForgetOutputs),
		again(faultyllm.Responses, "cut again", breaks, unsafe, agent.History.ForgetOutputs),
		again(faultyllm.Anthropic, "from a checkpoint", faultyllm.Answer(done...), Verdict{}, agent.History.ForgetCalls),
	)
}
