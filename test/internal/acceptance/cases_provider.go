package acceptance

import (
	"time"

	"github.com/otelllm/otelllm-go/semconv"
	"github.com/otelllm/otelllm-go/test/faultyllm"
)

// reported returns the verdict on an error that the provider reported.
func reported(cause semconv.Cause, phase semconv.Phase, safety semconv.RetrySafety, reason semconv.RetryReason) Verdict {
	return Verdict{
		Class: semconv.ClassProviderError, Cause: cause, Phase: phase, Origin: semconv.OriginProvider,
		Safety: safety, Reason: reason,
	}
}

// providers returns cases 13 to 15: the provider reports that it failed.
func providers() []Case {
	var cases []Case
	add := func(more ...Case) { cases = append(cases, more...) }

	add(everywhere(func(w faultyllm.Wire) Case {
		wish := 200 * time.Millisecond
		if w == faultyllm.Anthropic { // has whole seconds only
			wish = time.Second
		}
		return Case{
			Number: 13, Title: "429, then the SDK's retry succeeds",
			Script: []faultyllm.Exchange{
				faultyllm.Refuse(faultyllm.Failure{Trouble: faultyllm.RateLimited, RetryAfter: wish}),
				faultyllm.Answer(done...),
			},
			Want: Want{
				Outcome: semconv.RunOutcomeRecovered, Recovered: 1, RetryAfter: wish,
				Requests: []Verdict{reported(semconv.CauseRateLimited, semconv.PhaseResponseStarted, safe, semconv.RetryReasonNoOutput), {}},
			},
			Prepare: func(_ *World, s *Setup) { s.Config.Retries = 2 },
		}
	})...)

	for _, t := range []struct {
		variant string
		trouble faultyllm.Trouble
		cause   semconv.Cause
	}{
		{"quota", faultyllm.QuotaExhausted, semconv.CauseQuotaExhausted},
		{"401", faultyllm.Unauthorized, semconv.CauseAuthentication},
		{"context length", faultyllm.ContextTooLong, semconv.CauseContextLengthExceeded},
	} {
		add(everywhere(func(faultyllm.Wire) Case {
			return Case{
				Number: 14, Title: "retry cannot mend it", Variant: t.variant,
				Script: []faultyllm.Exchange{faultyllm.Refuse(faultyllm.Failure{Trouble: t.trouble})},
				Want:   failed(reported(t.cause, semconv.PhaseResponseStarted, never, semconv.RetryReasonNotTransient)),
			}
		})...)
	}

	add(everywhere(func(faultyllm.Wire) Case {
		want := failed(reported(semconv.CauseOverloaded, semconv.PhaseText, confirmed, semconv.RetryReasonVisibleOutput))
		want.InBand = true
		return Case{
			Number: 15, Title: "overloaded, inside a 200",
			Script: []faultyllm.Exchange{faultyllm.Answer(saying, faultyllm.InBand(faultyllm.Failure{Trouble: faultyllm.Overloaded}))},
			Want:   want,
		}
	})...)
	thenDone := failed(reported(semconv.CauseServerError, semconv.PhaseText, confirmed, semconv.RetryReasonVisibleOutput))
	thenDone.InBand = true
	add(Case{
		Number: 15, Title: "error inside a 200", Wire: faultyllm.Chat, Variant: "then [DONE]",
		Script: []faultyllm.Exchange{faultyllm.Answer(saying, faultyllm.InBand(faultyllm.Failure{Trouble: faultyllm.EngineFailure}), faultyllm.End())},
		Want:   thenDone,
	})
	return cases
}
