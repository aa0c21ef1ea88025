package llmclassify

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/telemetry"
	"github.com/otelllm/otelllm-go/semconv"
)

// served is a gateway's side of request 2, with nothing in the answer, and its
// own request that the provider refused.
func served(server, client spanSpec) []spanSpec {
	server = server.in(gatewayService)
	server.kind = ptrace.SpanKindServer
	return []spanSpec{client.in(gatewayService), server}
}

// Where more requests of other services may explain a failure than are looked at, the
// others may show that a repetition does not help.
func TestManyUpstreamRequests(t *testing.T) {
	for _, beneath := range []bool{true, false} {
		for attempts, want := range map[int]semconv.RetrySafety{10: semconv.RetrySafetyNoRetry, 127: semconv.RetrySafetyNoRetry, 300: confirm, 2000: confirm} {
			f := newForest(t)
			f.add(runSpan(1, 0, 0, 1, 0).failed("x"), spanID(1), pcommon.SpanID{}, 0, 10)
			f.add(requestSpan(2, 1, 0, 1).refused(503, semconv.ProviderErrorKindOverloaded, ""), spanID(2), spanID(1), 0.1, 9)
			above := spanID(3)
			if beneath {
				above = spanID(2)
			}
			for n := range attempts {
				s := requestSpan(9, 50, 0, 1).refused(503, semconv.ProviderErrorKindOverloaded, "").in(gatewayService)
				if n == attempts-1 {
					s = requestSpan(9, 50, 0, 1).refused(401, semconv.ProviderErrorKindAuthentication, "").in(gatewayService)
				}
				f.add(s, many(n), above, 0.2+0.001*float64(n), 0.2+0.001*float64(n+1))
			}
			v := judgeCalls(t, 0, f)
			assert.Equal(t, want, v[1].safety, "%d, beneath it %v", attempts, beneath)
		}
	}
}

// A gateway's spans come from another process, before the agent's, with them or
// after the run is complete: the error that it swallowed explains the empty answer
// all the same (acceptance case 19).
func TestGatewaySpansInAnyOrder(t *testing.T) {
	agent := []spanSpec{requestSpan(2, 1, 0.1, 2).answered("stop", counts{}), runSpan(1, 0, 3, 1, 0)}
	refused := func(id, parent byte) spanSpec {
		return requestSpan(id, 0, 0.3, 1).refused(503, semconv.ProviderErrorKindOverloaded, "overloaded").under(parent)
	}
	native := served(
		requestSpan(6, 0, 0.2, 1.9).answered("stop", counts{}).under(2), // beneath the agent's request
		refused(7, 6),
	)
	foreign := served( // the gateway has a run of its own, which never comes
		requestSpan(6, 50, 0.2, 1.9).answered("stop", counts{}).under(2),
		refused(7, 50).with(semconv.RunID(spanID(50).String())),
	)
	apart := served( // nothing leads from one to the other but the trace and the time
		requestSpan(6, 0, 0.2, 1.9).answered("stop", counts{}).under(60),
		refused(7, 61),
	)
	skewed := served(
		requestSpan(6, 0, -0.5, 1.2).answered("stop", counts{}).under(60),
		requestSpan(7, 0, -0.4, 0.3).refused(503, semconv.ProviderErrorKindOverloaded, "overloaded").under(61),
	)
	for name, gateway := range map[string][]spanSpec{
		"beneath the request": native, "of another run": foreign, "in the trace alone": apart, "by another clock": skewed,
	} {
		for order, calls := range map[string][][]spanSpec{
			"before":                    {gateway, agent},
			"with":                      {append(append([]spanSpec{}, gateway...), agent...)},
			"after":                     {agent, gateway},
			"after, one by one":         {agent, gateway[:1], gateway[1:]},
			"after, the other way":      {agent, gateway[1:], gateway[:1]},
			"amid":                      {agent[:1], gateway, agent[1:]},
			"after, another run's also": {agent, {requestSpan(12, 11, 0.1, 2).answered("stop", answer), runSpan(11, 0, 3, 1, 0)}, gateway},
		} {
			t.Run(name+"/"+order, func(t *testing.T) {
				h := newHarness(t, defaultConfig(), nil)
				for _, call := range calls {
					h.consume(t, call...)
					h.pass(t, xSettle/time.Duration(len(calls)+1))
				}
				out := spansOf(h.out())
				require.Contains(t, out, spanID(1), "it goes out as soon as it is explained")
				want := failure(semconv.ClassEmptyCompletion, semconv.CauseSwallowedError, semconv.PhaseStreamEnd, semconv.OriginGateway).
					because(safe, semconv.RetryReasonNoOutput)
				assert.Equal(t, want, verdictOf(out[spanID(2)]))
				assert.Equal(t, want.on(semconv.RunOutcomeFailed), verdictOf(out[spanID(1)]))

				h.pass(t, xMaxHold) // the gateway's wait for their own run, where they have one
				out = spansOf(h.out())
				if order == "after" {
					checkGolden(t, "19_gateway_"+strings.ReplaceAll(name, " ", "_"), tracesOf(t, append(append([]spanSpec{}, agent...), gateway...)...), h.out())
				}
				assert.Equal(t, semconv.CauseOverloaded, verdictOf(out[spanID(7)]).cause, "its own span names the cause")
				assert.Contains(t, out, spanID(6))
			})
		}
	}
}

// What nothing explains goes out after settle, for what it is.
func TestUnexplainedRunSettles(t *testing.T) {
	h := newHarness(t, defaultConfig(), nil)
	h.consume(t, requestSpan(2, 1, 0.1, 2).answered("stop", counts{}), runSpan(1, 0, 3, 1, 0))
	h.pass(t, xSettle/2)
	h.consume(t, requestSpan(12, 11, 0.1, 2).answered("stop", answer), runSpan(11, 0, 3, 1, 0)) // another run, which explains nothing
	require.Len(t, spansOf(h.out()), 2)
	h.pass(t, xSettle/2-1)
	require.Len(t, spansOf(h.out()), 2)
	h.pass(t, 1)
	out := spansOf(h.out())
	require.Len(t, out, 4)
	want := failure(semconv.ClassEmptyCompletion, semconv.CauseNoContent, semconv.PhaseStreamEnd, semconv.OriginProvider).
		because(safe, semconv.RetryReasonNoOutput)
	assert.Equal(t, want, verdictOf(out[spanID(2)]))
	assert.Equal(t, want.on(semconv.RunOutcomeFailed), verdictOf(out[spanID(1)]))
	assert.Equal(t, telemetry.Load{}, h.Load())
}

// A cancelled gateway swallowed nothing.
func TestGatewayCancelled(t *testing.T) {
	h := newHarness(t, defaultConfig(), nil)
	h.consume(t, requestSpan(2, 1, 0.1, 2).answered("stop", counts{}), runSpan(1, 0, 3, 1, 0))
	h.consume(t, served(
		requestSpan(6, 0, 0.2, 1.9).answered("stop", counts{}).under(2),
		requestSpan(7, 0, 0.3, 1).streamed(semconv.PhaseResponseStarted, semconv.StreamEndCancelled, counts{}).
			with(semconv.AbortSourceKey.String(semconv.AbortSourceUnknown.String())).under(6),
	)...)
	require.Empty(t, h.sink.AllTraces())
	h.pass(t, xSettle)
	assert.Equal(t, semconv.CauseNoContent, verdictOf(spansOf(h.out())[spanID(1)]).cause)
}

// Verdicts that the client wrote itself give way to the processor's, which saw
// more: on every span, whatever comes in their place.
func TestClientVerdictsGiveWay(t *testing.T) {
	judged := func(s spanSpec) spanSpec {
		return s.with(
			semconv.FailureClassKey.String(semconv.ClassUnclassified.String()), semconv.FailureCauseKey.String(semconv.CauseUnknown.String()),
			semconv.FailurePhaseKey.String(semconv.PhaseUnknown.String()), semconv.FailureOriginKey.String(semconv.OriginUnknown.String()),
			semconv.FailureConfidenceKey.String(semconv.ConfidenceLow.String()), semconv.FailureSummary("the client's word"),
			semconv.FailureEvidence("the client's"), semconv.FailureMissingEvidence("the client's"),
			semconv.RetrySafetyKey.String(never.String()), semconv.RetryReasonKey.String(semconv.RetryReasonUserAbort.String()),
			semconv.RunOutcomeKey.String(semconv.RunOutcomeIncomplete.String()), semconv.RunTimeline("the client's"),
			semconv.RunRecoveredFailures(7), semconv.HistoryMissingOutputs("call_of_the_client"),
			semconv.ClassificationTriggerKey.String(semconv.TriggerClient.String()), semconv.ClassificationRuleset("of the client"),
		)
	}
	cut := requestSpan(2, 1, 0.1, 0.4).refused(429, semconv.ProviderErrorKindRateLimited, "rate_limit_exceeded").with(semconv.RetryAfter(1.5))
	again := requestSpan(3, 1, 1.9, 2.8).with(semconv.RequestAttempt(2)).history([]string{"call_1"}, []string{"call_1"}).answered("stop", answer)
	tool := toolSpan(4, 1.1, 1.5, "call_1", semconv.ToolEffectReadOnly, semconv.ToolOutcomeSucceeded)
	run := runSpan(1, 0, 3, 2, 1)
	late := requestSpan(5, 1, 2, 2.5).answered("stop", answer)

	specs := []spanSpec{cut, again, tool, run}
	plain, overwritten := newHarness(t, defaultConfig(), nil), newHarness(t, defaultConfig(), nil)
	plain.consume(t, specs...)
	plain.consume(t, late)
	for i, s := range specs {
		specs[i] = judged(s)
	}
	overwritten.consume(t, specs...)
	overwritten.consume(t, judged(late))

	want, got := spansOf(plain.out()), spansOf(overwritten.out())
	require.Len(t, got, 5)
	for id, span := range want {
		assert.Equal(t, span.Attributes().AsRaw(), got[id].Attributes().AsRaw(), span.Name())
	}
	after, ok := got[spanID(2)].Attributes().Get(string(semconv.RetryAfterKey))
	require.True(t, ok, "a fact, and no verdict")
	assert.InDelta(t, 1.5, after.Double(), 0)
	_, ok = got[spanID(3)].Attributes().Get(string(semconv.ClassificationTriggerKey))
	assert.False(t, ok, "nothing failed in it")
	model, ok := got[spanID(3)].Attributes().Get(string(otelsemconv.GenAIRequestModelKey))
	require.True(t, ok)
	assert.Equal(t, "gpt-test", model.Str())
}
