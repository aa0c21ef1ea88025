package acceptance

import (
	"context"
	"errors"

	"github.com/otelllm/otelllm-go/semconv"
	"github.com/otelllm/otelllm-go/test/faultyllm"
)

// sessions returns cases 2, 16 and 18 over a WebSocket: the output of a tool is a
// message of its own, sent while nothing else happens or while the model is talking.
// Only the session's observer can record what happened to it.
func sessions(asks faultyllm.Exchange, tool Verdict, broken func(*Setup)) []Case {
	lost := Verdict{
		Class: semconv.ClassToolOutputLost, Cause: semconv.CauseDeliveryFailed, Phase: semconv.PhaseToolOutputDelivery,
		Origin: semconv.OriginApplication, Safety: confirmed, Reason: semconv.RetryReasonToolSideEffect,
	}
	outputLost := func(requests ...Verdict) Want {
		return Want{
			Outcome: semconv.RunOutcomeFailed, Run: lost, Requests: requests, Tools: []Verdict{tool}, MissingOutputs: []string{patchCall},
			Evidence: []string{"llm.tool.outcome=failed", "llm.tool.output_delivery=failed"},
		}
	}
	// until makes the tool fail only after the server has finished n exchanges, so that
	// the server's effect on the session comes first.
	until := func(w *World, s *Setup, key string, n int) {
		for i := range s.Agent.Tools {
			s.Agent.Tools[i].Do = func(ctx context.Context, _ string) (string, error) {
				if err := w.Server.Await(ctx, key, n); err != nil {
					return "", err
				}
				return "", errors.New("patch does not apply: hunk 1 failed")
			}
		}
	}
	talks := faultyllm.Text("I am at it. ", "This may take a while.")
	cut := interruption(semconv.CauseConnectionReset, semconv.PhaseText, confirmed, semconv.RetryReasonVisibleOutput)

	cutBesideTool := cut
	cutBesideTool.Reason = semconv.RetryReasonToolSideEffect

	inTool := Case{
		Number: 2, Title: "tool input begun, RST", Wire: faultyllm.Realtime,
		Script: []faultyllm.Exchange{faultyllm.Answer(patching, faultyllm.Reset())},
		Want:   toolNotRun(interruption(semconv.CauseConnectionReset, semconv.PhaseToolInput, safe, semconv.RetryReasonIncompleteToolInput)),
	}
	talkingOn := Case{
		Number: 16, Title: "tool fails, the model answers it", Variant: "after talking on", Wire: faultyllm.Realtime,
		Script: []faultyllm.Exchange{asks, faultyllm.Answer(talks, faultyllm.Finish(faultyllm.Stop)), faultyllm.Answer(done...)},
		Want: Want{
			Outcome: semconv.RunOutcomeRecovered, Recovered: 1,
			Requests: make([]Verdict, 3), Tools: []Verdict{tool},
		},
	}
	talkingOn.Prepare = func(w *World, s *Setup) {
		s.Agent.TalksOn = true
		until(w, s, talkingOn.Key(), 2)
	}
	between := Case{
		Number: 18, Title: "tool fails, sending its failure too", Wire: faultyllm.Realtime,
		Script: []faultyllm.Exchange{faultyllm.Answer(patch, faultyllm.Finish(faultyllm.ToolCalls), faultyllm.Reset())},
		Want:   outputLost(Verdict{}),
	}
	between.Prepare = func(w *World, s *Setup) { until(w, s, between.Key(), 1) }
	meanwhile := Case{
		Number: 18, Title: "tool fails, sending its failure too", Variant: "cut while the model talks on", Wire: faultyllm.Realtime,
		Script: []faultyllm.Exchange{asks, faultyllm.Answer(talks, faultyllm.Reset())},
		Want:   outputLost(Verdict{}, cutBesideTool),
	}
	meanwhile.Prepare = func(w *World, s *Setup) {
		s.Agent.TalksOn = true
		until(w, s, meanwhile.Key(), 2)
	}
	sent := Case{
		Number: 18, Title: "tool fails, its failure is sent", Variant: "cut in the answer", Wire: faultyllm.Realtime,
		Script: []faultyllm.Exchange{asks, faultyllm.Answer(talks, faultyllm.Reset())},
		Want: Want{
			// Nothing recovered: the model's answer to the failure was cut.
			Outcome: semconv.RunOutcomeFailed, Requests: []Verdict{{}, cut}, Tools: []Verdict{tool},
			Run: interruption(semconv.CauseConnectionReset, semconv.PhaseText, confirmed, semconv.RetryReasonToolSideEffect),
		},
		Prepare: func(_ *World, s *Setup) { broken(s) },
	}
	return []Case{inTool, talkingOn, between, meanwhile, sent}
}
