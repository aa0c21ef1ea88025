package acceptance

import (
	"time"

	"github.com/otelllm/otelllm-go/otelllm"
	"github.com/otelllm/otelllm-go/semconv"
	"github.com/otelllm/otelllm-go/test/faultyllm"
)

// aborts returns cases 10 and 11: this side ends the run on purpose.
func aborts() []Case {
	stopped := func(cause semconv.Cause, phase semconv.Phase, safety semconv.RetrySafety, reason semconv.RetryReason) Want {
		w := failed(Verdict{
			Class: semconv.ClassLocalAbort, Cause: cause, Phase: phase, Origin: semconv.OriginLocal,
			Safety: safety, Reason: reason,
		})
		w.Outcome = semconv.RunOutcomeAborted
		return w
	}
	// stopAt aborts when the first text has been shown.
	stopAt := func(source otelllm.AbortSource, reason string) func(*World, *Setup) {
		return func(_ *World, s *Setup) {
			s.Agent.OnText = func(string) { s.Abort(source, reason) }
		}
	}
	midText := []faultyllm.Exchange{faultyllm.Answer(saying, faultyllm.Stall())}

	cases := over(withSessions(), func(faultyllm.Wire) Case {
		return Case{
			Number: 10, Title: "user presses stop in the text",
			Script:  midText,
			Want:    stopped(semconv.CauseUser, semconv.PhaseText, never, semconv.RetryReasonUserAbort),
			Prepare: stopAt(otelllm.AbortUser, "stop_button"),
		}
	})
	const deadline = time.Second // enough for a busy machine to reach the stall
	late := func(_ *World, s *Setup) { s.Deadline = deadline }
	return append(cases,
		Case{
			Number: 11, Title: "ended by this side", Variant: "shutdown", Wire: faultyllm.Responses,
			Script:  midText,
			Want:    stopped(semconv.CauseShutdown, semconv.PhaseText, never, semconv.RetryReasonLocalShutdown),
			Prepare: stopAt(otelllm.AbortShutdown, "sigterm"),
		},
		Case{
			Number: 11, Title: "ended by this side", Variant: "deadline", Wire: faultyllm.Chat,
			Script:  []faultyllm.Exchange{faultyllm.Answer(faultyllm.Begin(), faultyllm.Stall())},
			Want:    stopped(semconv.CauseDeadline, semconv.PhaseResponseStarted, confirmed, semconv.RetryReasonDeadline),
			Prepare: late,
		},
		Case{
			Number: 11, Title: "ended by this side", Variant: "deadline before headers", Wire: faultyllm.Anthropic,
			Script:  []faultyllm.Exchange{faultyllm.BeforeHeaders(faultyllm.Stall())},
			Want:    stopped(semconv.CauseDeadline, semconv.PhaseAwaitingResponse, confirmed, semconv.RetryReasonDeadline),
			Prepare: late,
		},
		Case{
			Number: 11, Title: "ended by this side", Variant: "deadline in the text", Wire: faultyllm.Anthropic,
			Script:  midText,
			Want:    stopped(semconv.CauseDeadline, semconv.PhaseText, confirmed, semconv.RetryReasonVisibleOutput),
			Prepare: late,
		},
	)
}
