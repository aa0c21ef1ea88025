package llmclassify

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/telemetry"
	"github.com/otelllm/otelllm-go/semconv"
)

// What a gateway reports as an error of its own is explained by what it asked for: the
// spans beneath the agent's request outweigh the status and the error that it sent on.
func TestWhatLiesBeneathAGatewaysError(t *testing.T) {
	type came struct {
		class  semconv.Class
		cause  semconv.Cause
		origin semconv.Origin
	}
	const lost, slow = semconv.TransportCauseConnectionReset, semconv.TransportCauseHeaderTimeout
	served500 := requestSpan(6, 0, 0.2, 1.9).refused(500, semconv.ProviderErrorKindServerError, "").under(2)
	asked := func(id, parent byte, from, to float64) spanSpec { return requestSpan(id, 0, from, to).under(parent) }
	reset := func(id, parent byte, from, to float64) spanSpec {
		return asked(id, parent, from, to).cut(semconv.PhaseText, lost, "ECONNRESET", counts{text: 2})
	}
	shutDown := func(s spanSpec) spanSpec {
		return s.streamed(semconv.PhaseResponseStarted, semconv.StreamEndCancelled, counts{}).
			with(semconv.AbortSourceKey.String(semconv.AbortSourceShutdown.String()))
	}
	refused := requestSpan(2, 1, 0.1, 2).refused(500, semconv.ProviderErrorKindServerError, "")
	inBand := requestSpan(2, 1, 0.1, 2).streamed(semconv.PhaseResponseStarted, semconv.StreamEndTerminalEvent, counts{}).failed("server_error").
		with(semconv.ProviderErrorKindKey.String(semconv.ProviderErrorKindServerError.String()), semconv.ProviderErrorInBand(true))
	empty := requestSpan(2, 1, 0.1, 2).answered("stop", counts{})
	theProviders := came{semconv.ClassProviderError, semconv.CauseServerError, semconv.OriginProvider}
	theGateways := came{semconv.ClassProviderError, semconv.CauseServerError, semconv.OriginGateway}
	theTransports := came{semconv.ClassStreamInterrupted, semconv.CauseConnectionReset, semconv.OriginTransport}
	shutdown := came{semconv.ClassStreamInterrupted, semconv.CauseShutdown, semconv.OriginGateway}
	swallowed := came{semconv.ClassEmptyCompletion, semconv.CauseSwallowedError, semconv.OriginGateway}
	for name, tt := range map[string]struct {
		agents  spanSpec
		gateway []spanSpec
		want    came
	}{
		"its upstream was cut":        {refused, served(served500, reset(7, 6, 0.3, 1.8)), theTransports},
		"and it said so in band":      {inBand, served(served500, reset(7, 6, 0.3, 1.8)), theTransports},
		"in the trace alone":          {refused, served(served500.under(60), reset(7, 61, 0.3, 1.8)), theTransports},
		"a gateway of a gateway":      {refused, append(served(served500, asked(7, 6, 0.3, 1.8).refused(502, semconv.ProviderErrorKindServerError, "")), served(asked(8, 7, 0.4, 1.7).refused(502, semconv.ProviderErrorKindServerError, ""), asked(9, 8, 0.5, 1.6).unconnected(semconv.TransportStageConnect, semconv.TransportCauseConnectRefused, "ECONNREFUSED"))...), came{semconv.ClassConnectionFailed, semconv.CauseConnectRefused, semconv.OriginTransport}},
		"it tried twice":              {refused, append(served(served500, asked(8, 6, 0.3, 0.8).cut(semconv.PhaseAwaitingResponse, slow, "", counts{})), reset(7, 6, 0.9, 1.8).in(gatewayService)), theTransports},
		"its second try went well":    {refused, append(served(served500, reset(7, 6, 0.3, 0.8)), asked(8, 6, 0.9, 1.8).answered("stop", answer).in(gatewayService)), theGateways},
		"it refused by itself":        {requestSpan(2, 1, 0.1, 2).refused(401, semconv.ProviderErrorKindAuthentication, ""), served(served500, reset(7, 6, 0.3, 1.8)), came{semconv.ClassProviderError, semconv.CauseAuthentication, semconv.OriginProvider}},
		"nothing is wrong beneath it": {refused, served(served500.with(semconv.AbortSourceKey.String(semconv.AbortSourceUnknown.String())), asked(7, 6, 0.3, 1.8).answered("stop", answer)), theGateways},
		"it has no span of serving":   {refused, []spanSpec{asked(7, 2, 0.3, 1.8).answered("stop", answer).in(gatewayService)}, theGateways},
		"its upstream was empty":      {refused, served(served500, asked(7, 6, 0.3, 1.8).answered("stop", counts{})), theGateways},
		"its upstream hit a limit":    {refused, served(served500, asked(7, 6, 0.3, 1.8).answered("length", answer)), theGateways},
		"it never asked":              {refused, []spanSpec{served500.in(gatewayService)}, theProviders},
		"both are empty":              {empty, served(requestSpan(6, 0, 0.2, 1.9).answered("stop", counts{}).under(2), asked(7, 6, 0.3, 1.8).answered("stop", counts{})), came{semconv.ClassEmptyCompletion, semconv.CauseNoContent, semconv.OriginProvider}},
		"it was shut down":            {empty, served(shutDown(requestSpan(6, 0, 0.2, 1.9).under(2)), shutDown(asked(7, 6, 0.3, 1.8))), swallowed},
		"it was shut down, and cut":   {requestSpan(2, 1, 0.1, 2).cut(semconv.PhaseText, lost, "ECONNRESET", counts{text: 2}), served(shutDown(requestSpan(6, 0, 0.2, 1.9).under(2)), shutDown(asked(7, 6, 0.3, 1.8))), shutdown},
		"it was shut down, and ended": {requestSpan(2, 1, 0.1, 2).streamed(semconv.PhaseText, semconv.StreamEndEOF, counts{text: 1}).failed("clean_eof"), served(shutDown(requestSpan(6, 0, 0.2, 1.9).under(2)), shutDown(asked(7, 6, 0.3, 1.8))), shutdown},
		"it was shut down, and said":  {refused, served(shutDown(requestSpan(6, 0, 0.2, 1.9).under(2)), shutDown(asked(7, 6, 0.3, 1.8))), came{semconv.ClassProviderError, semconv.CauseServerError, semconv.OriginGateway}},
	} {
		agent := []spanSpec{tt.agents, runSpan(1, 0, 3, 1, 0)}
		inRun := []spanSpec{runSpan(50, 0.15, 1.95, len(tt.gateway), 0).under(2).in(gatewayService)}
		for _, s := range tt.gateway {
			inRun = append(inRun, s.with(semconv.RunID(spanID(50).String())))
		}
		for order, calls := range map[string][][]spanSpec{
			"before": {tt.gateway, agent}, "with": {append(append([]spanSpec{}, tt.gateway...), agent...)}, "amid": {agent[:1], tt.gateway, agent[1:]},
			"in a run of its own": {append(append([]spanSpec{}, inRun...), agent...)},
		} {
			t.Run(name+"/"+order, func(t *testing.T) {
				h := newHarness(t, defaultConfig(), nil)
				for _, call := range calls {
					h.consume(t, call...)
				}
				h.pass(t, xMaxHold)
				out := spansOf(h.out())
				for _, id := range []byte{2, 1} {
					v := verdictOf(out[spanID(id)])
					assert.Equal(t, tt.want, came{v.class, v.cause, v.origin}, "span %d", id)
				}
				require.Equal(t, telemetry.Load{}, h.Load())
			})
		}
	}
}

// An agent that got a gateway's error and one whose stream the gateway cut have the same cause, and
// not the same story: the summary and the evidence say what came from the gateway, and why.
func TestWhatAGatewayAnsweredAndWhy(t *testing.T) {
	const lost = semconv.TransportCauseConnectionReset
	beneath := func() []spanSpec {
		return served(requestSpan(6, 0, 0.2, 1.9).refused(502, semconv.ProviderErrorKindServerError, "").under(2),
			requestSpan(7, 0, 0.3, 1.8).under(6).cut(semconv.PhaseText, lost, "ECONNRESET", counts{text: 2}))
	}
	for _, tt := range []struct {
		name     string
		agents   spanSpec
		summary  string
		evidence []string
	}{
		{
			"an error", requestSpan(2, 1, 0.1, 2).refused(502, semconv.ProviderErrorKindServerError, ""),
			"A gateway answered with an error, because the connection to the model was lost (connection reset) before any output. Nothing had been shown yet. It is safe to retry automatically.",
			[]string{"http.response.status_code=502", "gateway.upstream=stream_interrupted/connection_reset"},
		},
		{
			"a cut", requestSpan(2, 1, 0.1, 2).cut(semconv.PhaseText, lost, "ECONNRESET", counts{text: 2}),
			"The connection to the model was lost (connection reset) while the assistant was still writing. Part of the answer had already been shown. Ask before retrying: the answer would be shown again from the start.",
			[]string{"llm.transport.cause=connection_reset", "gateway.upstream=stream_interrupted/connection_reset"},
		},
	} {
		h := newHarness(t, defaultConfig(), nil)
		h.consume(t, append(beneath(), tt.agents, runSpan(1, 0, 3, 1, 0))...)
		h.pass(t, xMaxHold)
		out := spansOf(h.out())
		for _, id := range []byte{2, 1} {
			attrs := out[spanID(id)].Attributes()
			summary, _ := attrs.Get(string(semconv.FailureSummaryKey))
			assert.Equal(t, tt.summary, summary.Str(), tt.name)
			list, _ := attrs.Get(string(semconv.FailureEvidenceKey))
			for _, want := range tt.evidence {
				assert.Contains(t, list.Slice().AsRaw(), want, tt.name)
			}
		}
	}
}
