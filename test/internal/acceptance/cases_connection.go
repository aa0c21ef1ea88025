package acceptance

import (
	"net"
	"net/http"

	"github.com/otelllm/otelllm-go/semconv"
	"github.com/otelllm/otelllm-go/test/faultyllm"
)

// connections returns case 3: no connection can be made.
func connections() []Case {
	none := func(wire faultyllm.Wire, variant string, cause semconv.Cause, safety semconv.RetrySafety, reason semconv.RetryReason,
		prepare func(*World, *Setup),
	) Case {
		return Case{
			Number: 3, Title: "no connection", Variant: variant, Wire: wire,
			Want: failed(Verdict{
				Class: semconv.ClassConnectionFailed, Cause: cause, Phase: semconv.PhaseBeforeConnection, Origin: semconv.OriginTransport,
				Safety: safety, Reason: reason,
			}),
			Prepare: prepare,
		}
	}
	sent, lasting := semconv.RetryReasonNothingLeftClient, semconv.RetryReasonNotTransient
	var cases []Case
	for _, w := range faultyllm.Wires() {
		cases = append(cases, none(w, "refused", semconv.CauseConnectRefused, safe, sent, func(world *World, s *Setup) {
			s.BaseURL = world.Refusing.BaseURL("http", w)
		}))
	}
	return append(cases,
		none(faultyllm.Chat, "unknown host", semconv.CauseDNSNotFound, never, lasting, resolving(faultyllm.UnknownHost, faultyllm.Chat)),
		none(faultyllm.Responses, "DNS in trouble", semconv.CauseDNSTemporary, safe, sent, resolving(faultyllm.TroubledHost, faultyllm.Responses)),
		none(faultyllm.Anthropic, "untrusted certificate", semconv.CauseTLS, never, lasting, func(world *World, s *Setup) {
			s.BaseURL = world.Untrusted.BaseURL("https", faultyllm.Anthropic)
		}),
		none(faultyllm.Chat, "no TLS", semconv.CauseTLS, never, lasting, func(world *World, s *Setup) {
			s.BaseURL = world.Garbage.BaseURL("https", faultyllm.Chat)
		}),
	)
}

// resolving sends the agent to a host name that the fake name server does not resolve.
func resolving(host string, w faultyllm.Wire) func(*World, *Setup) {
	return func(world *World, s *Setup) {
		s.BaseURL = faultyllm.BaseURL("http", host, w)
		s.Transport = &http.Transport{DialContext: (&net.Dialer{Resolver: world.DNS.Resolver()}).DialContext}
	}
}
