package acceptance

import (
	"slices"
	"time"

	"github.com/otelllm/otelllm-go/otelllm"
	"github.com/otelllm/otelllm-go/semconv"
	"github.com/otelllm/otelllm-go/test/faultyllm"
)

// watchdogs returns case 12: nothing breaks, and nothing arrives.
func watchdogs() []Case {
	// Enough for a busy machine to reach the stall.
	const limit = 400 * time.Millisecond
	watched := func(wire faultyllm.Wire, variant string, w otelllm.Watchdog, v Verdict, script ...faultyllm.Exchange) Case {
		v.Class, v.Origin = semconv.ClassWatchdogTimeout, semconv.OriginWatchdog
		return Case{
			Number: 12, Title: "watchdog", Variant: variant, Wire: wire, Script: script, Want: failed(v),
			Prepare: func(_ *World, s *Setup) { s.Options = []otelllm.TransportOption{otelllm.WithWatchdog(w)} },
		}
	}
	idle := otelllm.Watchdog{Idle: limit}
	inText := Verdict{Cause: semconv.CauseIdle, Phase: semconv.PhaseText, Safety: confirmed, Reason: semconv.RetryReasonVisibleOutput}
	inReasoning := Verdict{Cause: semconv.CauseIdle, Phase: semconv.PhaseReasoning, Safety: safe, Reason: semconv.RetryReasonReasoningOnly}

	// Keepalives, for longer than the limit. The output after them would end the stream
	// normally if keepalives counted as progress.
	alive := []faultyllm.Step{thinking}
	for range 30 {
		alive = append(alive, faultyllm.Ping(), faultyllm.Pause(limit/10))
	}
	alive = append(alive, faultyllm.Finish(faultyllm.Stop))

	cases := everywhere(func(w faultyllm.Wire) Case {
		return watched(w, "silent stream", idle, inText, faultyllm.Answer(saying, faultyllm.Stall()))
	})
	cases = append(cases, everywhere(func(w faultyllm.Wire) Case {
		return watched(w, "keepalives only", idle, inReasoning, faultyllm.Answer(alive...))
	})...)
	cases = append(cases,
		watched(faultyllm.Anthropic, "no headers", otelllm.Watchdog{FirstProgress: limit},
			Verdict{Cause: semconv.CauseFirstProgress, Phase: semconv.PhaseAwaitingResponse, Safety: safe, Reason: semconv.RetryReasonNoOutput},
			faultyllm.BeforeHeaders(faultyllm.Stall())),
		watched(faultyllm.Responses, "takes too long", otelllm.Watchdog{Total: limit},
			Verdict{Cause: semconv.CauseTotal, Phase: semconv.PhaseReasoning, Safety: safe, Reason: semconv.RetryReasonReasoningOnly},
			faultyllm.Answer(thinking, faultyllm.Stall())),
	)

	slow := func(wire faultyllm.Wire, variant string, prepare func(*World, *Setup)) Case {
		c := watched(wire, variant, otelllm.Watchdog{Connect: limit},
			Verdict{Cause: semconv.CauseConnect, Phase: semconv.PhaseBeforeConnection, Safety: safe, Reason: semconv.RetryReasonNothingLeftClient})
		watch := c.Prepare
		c.Prepare = func(w *World, s *Setup) {
			watch(w, s)
			prepare(w, s)
		}
		return c
	}
	return slices.Concat(cases, []Case{
		slow(faultyllm.Chat, "slow connect in TLS", func(w *World, s *Setup) {
			s.BaseURL = w.Silent.BaseURL("https", faultyllm.Chat)
		}),
		slow(faultyllm.Responses, "slow connect in DNS", resolving(faultyllm.SilentHost, faultyllm.Responses)),
	})
}
