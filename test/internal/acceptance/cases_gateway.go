package acceptance

import (
	"go.opentelemetry.io/otel/propagation"

	"github.com/otelllm/otelllm-go/otelllm"
	"github.com/otelllm/otelllm-go/semconv"
	"github.com/otelllm/otelllm-go/test/faultyllm"
)

// gateways returns case 19: a gateway is between the agent and the provider.
func gateways() []Case {
	through := func(wire faultyllm.Wire, variant string, mode GatewayMode, script []faultyllm.Exchange, want Want) Case {
		c := Case{Number: 19, Title: "gateway", Variant: variant, Wire: wire, Script: script, Want: want}
		c.Prepare = func(w *World, s *Setup) {
			s.BaseURL = w.Gateway.BaseURL(mode, c.Key(), wire)
			s.Options = []otelllm.TransportOption{otelllm.WithPropagators(propagation.TraceContext{})}
		}
		return c
	}

	// The gateway hid the failure: the agent's request got an empty answer, and the
	// gateway's own span has the cause.
	swallowed := func(w faultyllm.Wire, served, upstream Verdict) Want {
		v := Verdict{
			Class: semconv.ClassEmptyCompletion, Cause: semconv.CauseSwallowedError, Phase: semconv.PhaseStreamEnd,
			Origin: semconv.OriginGateway, Safety: safe, Reason: semconv.RetryReasonNoOutput,
		}
		want := failed(v)
		want.Served = []Verdict{served, upstream}
		want.Live = v // the agent's process sees only an empty answer
		want.Live.Cause, want.Live.Origin = semconv.CauseNoContent, semconv.OriginProvider
		if w == faultyllm.Chat { // the answer has no finish reason either: only what is missing says that it is empty
			want.Live.Safety, want.Live.Reason = confirmed, semconv.RetryReasonEvidenceIncomplete
		}
		return want
	}
	overloaded := Verdict{Class: semconv.ClassProviderError, Cause: semconv.CauseOverloaded, Origin: semconv.OriginProvider}
	reset := Verdict{Class: semconv.ClassStreamInterrupted, Cause: semconv.CauseConnectionReset, Origin: semconv.OriginTransport}
	overload := []faultyllm.Exchange{faultyllm.Refuse(faultyllm.Failure{Trouble: faultyllm.Overloaded})}

	var cases []Case
	for _, wire := range faultyllm.Wires() {
		cases = append(cases, through(wire, "swallows an overload", Swallows, overload, swallowed(wire, overloaded, overloaded)))
	}

	// The gateway forwarded the failure: to the agent it looks as if the gateway had
	// failed. The gateway's spans have the cause.
	cut := failed(interruption(semconv.CauseBodyTruncated, semconv.PhaseText, confirmed, semconv.RetryReasonVisibleOutput))
	cut.Served = []Verdict{reset, reset}

	aborted := func(cause semconv.Cause, reason semconv.RetryReason) Verdict {
		return Verdict{
			Class: semconv.ClassLocalAbort, Cause: cause, Phase: semconv.PhaseText, Origin: semconv.OriginLocal,
			Safety: never, Reason: reason,
		}
	}
	stopped := failed(aborted(semconv.CauseUser, semconv.RetryReasonUserAbort))
	stopped.Outcome = semconv.RunOutcomeAborted
	gone := aborted(semconv.CauseConsumerClosed, semconv.RetryReasonNotTransient)
	stopped.Served = []Verdict{gone, gone}
	cancelled := through(faultyllm.Anthropic, "is cancelled", PassesOn,
		[]faultyllm.Exchange{faultyllm.Answer(saying, faultyllm.Stall())}, stopped)
	prepare := cancelled.Prepare
	cancelled.Prepare = func(w *World, s *Setup) {
		prepare(w, s)
		s.Agent.OnText = func(string) { s.Abort(otelllm.AbortUser, "stop_button") }
	}

	return append(cases,
		through(faultyllm.Chat, "swallows a reset", Swallows,
			[]faultyllm.Exchange{faultyllm.Answer(saying, faultyllm.Reset())}, swallowed(faultyllm.Chat, reset, reset)),
		through(faultyllm.Responses, "passes a reset on", PassesOn,
			[]faultyllm.Exchange{faultyllm.Answer(saying, faultyllm.Reset())}, cut),
		through(faultyllm.Chat, "tries again", Retries,
			[]faultyllm.Exchange{faultyllm.Answer(faultyllm.Begin(), faultyllm.Reset()), faultyllm.Answer(done...)},
			Want{Outcome: semconv.RunOutcomeSucceeded, Requests: make([]Verdict, 1), Served: []Verdict{{}, reset, {}}}),
		cancelled,
	)
}
