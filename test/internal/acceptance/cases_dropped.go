package acceptance

import (
	"strings"

	"github.com/otelllm/otelllm-go/semconv"
	"github.com/otelllm/otelllm-go/test/faultyllm"
)

// dropped returns case 23: the agent stops reading and forgets the stream.
func dropped() []Case {
	// Longer than what an SDK buffers beyond the text that it has shown: the terminal
	// event stays unread.
	long := []faultyllm.Step{saying}
	for range 64 {
		long = append(long, faultyllm.Text(strings.Repeat("And so on. ", 100)))
	}
	long = append(long, faultyllm.Finish(faultyllm.Stop))
	return everywhere(func(faultyllm.Wire) Case {
		w := failed(Verdict{
			Class: semconv.ClassLocalAbort, Cause: semconv.CauseConsumerClosed, Phase: semconv.PhaseText, Origin: semconv.OriginLocal,
			Safety: never, Reason: semconv.RetryReasonNotTransient,
		})
		w.Outcome = semconv.RunOutcomeAborted
		w.Ends = []semconv.StreamEnd{semconv.StreamEndAbandoned}
		return Case{
			Number: 23, Title: "stream is dropped in the text",
			Script:  []faultyllm.Exchange{faultyllm.Answer(long...)},
			Want:    w,
			Prepare: func(_ *World, s *Setup) { s.Config.Drops, s.Forgets = true, true },
		}
	})
}
