package verdicts

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/harness"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/telemetry"
	"github.com/otelllm/otelllm-go/semconv"
)

// What a gateway reports as an error of its own is explained by what it asked for: the
// spans beneath the agent's request outweigh the status and the error that it sent on.
func TestSpansBeneathAGatewaysErrorExplainIt(t *testing.T) {
	type came struct {
		class  semconv.Class
		cause  semconv.Cause
		origin semconv.Origin
	}
	const lost, slow = semconv.TransportCauseConnectionReset, semconv.TransportCauseHeaderTimeout
	served500 := harness.RequestSpan(6, 0, 0.2, 1.9).Refused(500, semconv.ProviderErrorKindServerError, "").Under(2)
	asked := func(id, parent byte, from, to float64) harness.Span {
		return harness.RequestSpan(id, 0, from, to).Under(parent)
	}
	reset := func(id, parent byte, from, to float64) harness.Span {
		return asked(id, parent, from, to).Cut(semconv.PhaseText, lost, "ECONNRESET", harness.Counts{Text: 2})
	}
	shutDown := func(s harness.Span) harness.Span {
		return s.Streamed(semconv.PhaseResponseStarted, semconv.StreamEndCancelled, harness.Counts{}).
			With(semconv.AbortSourceKey.String(semconv.AbortSourceShutdown.String()))
	}
	refused := harness.RequestSpan(2, 1, 0.1, 2).Refused(500, semconv.ProviderErrorKindServerError, "")
	inBand := harness.RequestSpan(2, 1, 0.1, 2).Streamed(semconv.PhaseResponseStarted, semconv.StreamEndTerminalEvent, harness.Counts{}).Failed("server_error").
		With(semconv.ProviderErrorKindKey.String(semconv.ProviderErrorKindServerError.String()), semconv.ProviderErrorInBand(true))
	empty := harness.RequestSpan(2, 1, 0.1, 2).Answered("stop", harness.Counts{})
	theProviders := came{semconv.ClassProviderError, semconv.CauseServerError, semconv.OriginProvider}
	theGateways := came{semconv.ClassProviderError, semconv.CauseServerError, semconv.OriginGateway}
	theTransports := came{semconv.ClassStreamInterrupted, semconv.CauseConnectionReset, semconv.OriginTransport}
	shutdown := came{semconv.ClassStreamInterrupted, semconv.CauseShutdown, semconv.OriginGateway}
	swallowed := came{semconv.ClassEmptyCompletion, semconv.CauseSwallowedError, semconv.OriginGateway}
	for name, tt := range map[string]struct {
		agents  harness.Span
		gateway []harness.Span
		want    came
	}{
		"its upstream was cut":        {refused, served(served500, reset(7, 6, 0.3, 1.8)), theTransports},
		"and it said so in band":      {inBand, served(served500, reset(7, 6, 0.3, 1.8)), theTransports},
		"in the trace alone":          {refused, served(served500.Under(60), reset(7, 61, 0.3, 1.8)), theTransports},
		"a gateway of a gateway":      {refused, append(served(served500, asked(7, 6, 0.3, 1.8).Refused(502, semconv.ProviderErrorKindServerError, "")), served(asked(8, 7, 0.4, 1.7).Refused(502, semconv.ProviderErrorKindServerError, ""), asked(9, 8, 0.5, 1.6).Unconnected(semconv.TransportStageConnect, semconv.TransportCauseConnectRefused, "ECONNREFUSED"))...), came{semconv.ClassConnectionFailed, semconv.CauseConnectRefused, semconv.OriginTransport}},
		"it tried twice":              {refused, append(served(served500, asked(8, 6, 0.3, 0.8).Cut(semconv.PhaseAwaitingResponse, slow, "", harness.Counts{})), reset(7, 6, 0.9, 1.8).In(harness.GatewayService)), theTransports},
		"its second try went well":    {refused, append(served(served500, reset(7, 6, 0.3, 0.8)), asked(8, 6, 0.9, 1.8).Answered("stop", harness.Answer).In(harness.GatewayService)), theGateways},
		"it refused by itself":        {harness.RequestSpan(2, 1, 0.1, 2).Refused(401, semconv.ProviderErrorKindAuthentication, ""), served(served500, reset(7, 6, 0.3, 1.8)), came{semconv.ClassProviderError, semconv.CauseAuthentication, semconv.OriginProvider}},
		"nothing is wrong beneath it": {refused, served(served500.With(semconv.AbortSourceKey.String(semconv.AbortSourceUnknown.String())), asked(7, 6, 0.3, 1.8).Answered("stop", harness.Answer)), theGateways},
		"it has no span of serving":   {refused, []harness.Span{asked(7, 2, 0.3, 1.8).Answered("stop", harness.Answer).In(harness.GatewayService)}, theGateways},
		"its upstream was empty":      {refused, served(served500, asked(7, 6, 0.3, 1.8).Answered("stop", harness.Counts{})), theGateways},
		"its upstream hit a limit":    {refused, served(served500, asked(7, 6, 0.3, 1.8).Answered("length", harness.Answer)), theGateways},
		"it never asked":              {refused, []harness.Span{served500.In(harness.GatewayService)}, theProviders},
		"both are empty":              {empty, served(harness.RequestSpan(6, 0, 0.2, 1.9).Answered("stop", harness.Counts{}).Under(2), asked(7, 6, 0.3, 1.8).Answered("stop", harness.Counts{})), came{semconv.ClassEmptyCompletion, semconv.CauseNoContent, semconv.OriginProvider}},
		"it was shut down":            {empty, served(shutDown(harness.RequestSpan(6, 0, 0.2, 1.9).Under(2)), shutDown(asked(7, 6, 0.3, 1.8))), swallowed},
		"it was shut down, and cut":   {harness.RequestSpan(2, 1, 0.1, 2).Cut(semconv.PhaseText, lost, "ECONNRESET", harness.Counts{Text: 2}), served(shutDown(harness.RequestSpan(6, 0, 0.2, 1.9).Under(2)), shutDown(asked(7, 6, 0.3, 1.8))), shutdown},
		"it was shut down, and ended": {harness.RequestSpan(2, 1, 0.1, 2).Streamed(semconv.PhaseText, semconv.StreamEndEOF, harness.Counts{Text: 1}).Failed("clean_eof"), served(shutDown(harness.RequestSpan(6, 0, 0.2, 1.9).Under(2)), shutDown(asked(7, 6, 0.3, 1.8))), shutdown},
		"it was shut down, and said":  {refused, served(shutDown(harness.RequestSpan(6, 0, 0.2, 1.9).Under(2)), shutDown(asked(7, 6, 0.3, 1.8))), came{semconv.ClassProviderError, semconv.CauseServerError, semconv.OriginGateway}},
	} {
		agent := []harness.Span{tt.agents, harness.RunSpan(1, 0, 3, 1, 0)}
		inRun := []harness.Span{harness.RunSpan(50, 0.15, 1.95, len(tt.gateway), 0).Under(2).In(harness.GatewayService)}
		for _, s := range tt.gateway {
			inRun = append(inRun, s.With(semconv.RunID(harness.SpanID(50).String())))
		}
		for order, calls := range map[string][][]harness.Span{
			"before": {tt.gateway, agent}, "with": {append(append([]harness.Span{}, tt.gateway...), agent...)}, "amid": {agent[:1], tt.gateway, agent[1:]},
			"in a run of its own": {append(append([]harness.Span{}, inRun...), agent...)},
		} {
			t.Run(name+"/"+order, func(t *testing.T) {
				h := harness.New(t, harness.DefaultConfig(), nil)
				for _, call := range calls {
					h.Consume(t, call...)
				}
				h.Pass(t, harness.MaxHold)
				out := harness.SpansOf(h.Out())
				for _, id := range []byte{2, 1} {
					v := harness.VerdictOf(out[harness.SpanID(id)])
					assert.Equal(t, tt.want, came{v.Class, v.Cause, v.Origin}, "span %d", id)
				}
				require.Equal(t, telemetry.Load{}, h.Load())
			})
		}
	}
}

// An agent that got a gateway's error and one whose stream the gateway cut have the same cause, and
// not the same story: the summary and the evidence say what came from the gateway, and why.
func TestSummaryNamesTheGatewaysError(t *testing.T) {
	const lost = semconv.TransportCauseConnectionReset
	beneath := func() []harness.Span {
		return served(harness.RequestSpan(6, 0, 0.2, 1.9).Refused(502, semconv.ProviderErrorKindServerError, "").Under(2),
			harness.RequestSpan(7, 0, 0.3, 1.8).Under(6).Cut(semconv.PhaseText, lost, "ECONNRESET", harness.Counts{Text: 2}))
	}
	for _, tt := range []struct {
		name     string
		agents   harness.Span
		summary  string
		evidence []string
	}{
		{
			"an error", harness.RequestSpan(2, 1, 0.1, 2).Refused(502, semconv.ProviderErrorKindServerError, ""),
			"A gateway answered with an error, because the connection to the model was lost (connection reset) before any output. Nothing had been shown yet. It is safe to retry automatically.",
			[]string{"http.response.status_code=502", "gateway.upstream=stream_interrupted/connection_reset"},
		},
		{
			"a cut", harness.RequestSpan(2, 1, 0.1, 2).Cut(semconv.PhaseText, lost, "ECONNRESET", harness.Counts{Text: 2}),
			"The connection to the model was lost (connection reset) while the assistant was still writing. Part of the answer had already been shown. Ask before retrying: the answer would be shown again from the start.",
			[]string{"llm.transport.cause=connection_reset", "gateway.upstream=stream_interrupted/connection_reset"},
		},
	} {
		h := harness.New(t, harness.DefaultConfig(), nil)
		h.Consume(t, append(beneath(), tt.agents, harness.RunSpan(1, 0, 3, 1, 0))...)
		h.Pass(t, harness.MaxHold)
		out := harness.SpansOf(h.Out())
		for _, id := range []byte{2, 1} {
			attrs := out[harness.SpanID(id)].Attributes()
			summary, _ := attrs.Get(string(semconv.FailureSummaryKey))
			assert.Equal(t, tt.summary, summary.Str(), tt.name)
			list, _ := attrs.Get(string(semconv.FailureEvidenceKey))
			for _, want := range tt.evidence {
				assert.Contains(t, list.Slice().AsRaw(), want, tt.name)
			}
		}
	}
}
