package verdicts

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/harness"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/telemetry"
	"github.com/otelllm/otelllm-go/semconv"
)

// served is a gateway's side of request 2, with nothing in the answer, and its
// own request that the provider refused.
func served(server, client harness.Span) []harness.Span {
	server = server.In(harness.GatewayService)
	server.Kind = ptrace.SpanKindServer
	return []harness.Span{client.In(harness.GatewayService), server}
}

// Where more requests of other services may explain a failure than are looked at, the
// others may show that a repetition does not help.
func TestManyUpstreamRequests(t *testing.T) {
	for _, beneath := range []bool{true, false} {
		for attempts, want := range map[int]semconv.RetrySafety{10: semconv.RetrySafetyNoRetry, 127: semconv.RetrySafetyNoRetry, 300: harness.Confirm, 2000: harness.Confirm} {
			f := harness.NewForest(t)
			f.Add(harness.RunSpan(1, 0, 0, 1, 0).Failed("x"), harness.SpanID(1), pcommon.SpanID{}, 0, 10)
			f.Add(harness.RequestSpan(2, 1, 0, 1).Refused(503, semconv.ProviderErrorKindOverloaded, ""), harness.SpanID(2), harness.SpanID(1), 0.1, 9)
			above := harness.SpanID(3)
			if beneath {
				above = harness.SpanID(2)
			}
			for n := range attempts {
				s := harness.RequestSpan(9, 50, 0, 1).Refused(503, semconv.ProviderErrorKindOverloaded, "").In(harness.GatewayService)
				if n == attempts-1 {
					s = harness.RequestSpan(9, 50, 0, 1).Refused(401, semconv.ProviderErrorKindAuthentication, "").In(harness.GatewayService)
				}
				f.Add(s, harness.NthSpanID(n), above, 0.2+0.001*float64(n), 0.2+0.001*float64(n+1))
			}
			v := judgeCalls(t, 0, f)
			assert.Equal(t, want, v[1].Safety, "%d, beneath it %v", attempts, beneath)
		}
	}
}

// A gateway's spans come from another process, before the agent's, with them or
// after the run is complete: the error that it swallowed explains the empty answer
// all the same (acceptance case 19).
func TestGatewaySpansInAnyOrder(t *testing.T) {
	agent := []harness.Span{harness.RequestSpan(2, 1, 0.1, 2).Answered("stop", harness.Counts{}), harness.RunSpan(1, 0, 3, 1, 0)}
	refused := func(id, parent byte) harness.Span {
		return harness.RequestSpan(id, 0, 0.3, 1).Refused(503, semconv.ProviderErrorKindOverloaded, "overloaded").Under(parent)
	}
	native := served(
		harness.RequestSpan(6, 0, 0.2, 1.9).Answered("stop", harness.Counts{}).Under(2), // beneath the agent's request
		refused(7, 6),
	)
	foreign := served( // the gateway has a run of its own, which never comes
		harness.RequestSpan(6, 50, 0.2, 1.9).Answered("stop", harness.Counts{}).Under(2),
		refused(7, 50).With(semconv.RunID(harness.SpanID(50).String())),
	)
	apart := served( // nothing leads from one to the other but the trace and the time
		harness.RequestSpan(6, 0, 0.2, 1.9).Answered("stop", harness.Counts{}).Under(60),
		refused(7, 61),
	)
	skewed := served(
		harness.RequestSpan(6, 0, -0.5, 1.2).Answered("stop", harness.Counts{}).Under(60),
		harness.RequestSpan(7, 0, -0.4, 0.3).Refused(503, semconv.ProviderErrorKindOverloaded, "overloaded").Under(61),
	)
	for name, gateway := range map[string][]harness.Span{
		"beneath the request": native, "of another run": foreign, "in the trace alone": apart, "by another clock": skewed,
	} {
		for order, calls := range map[string][][]harness.Span{
			"before":                    {gateway, agent},
			"with":                      {append(append([]harness.Span{}, gateway...), agent...)},
			"after":                     {agent, gateway},
			"after, one by one":         {agent, gateway[:1], gateway[1:]},
			"after, the other way":      {agent, gateway[1:], gateway[:1]},
			"amid":                      {agent[:1], gateway, agent[1:]},
			"after, another run's also": {agent, {harness.RequestSpan(12, 11, 0.1, 2).Answered("stop", harness.Answer), harness.RunSpan(11, 0, 3, 1, 0)}, gateway},
		} {
			t.Run(name+"/"+order, func(t *testing.T) {
				h := harness.New(t, harness.DefaultConfig(), nil)
				for _, call := range calls {
					h.Consume(t, call...)
					h.Pass(t, harness.Settle/time.Duration(len(calls)+1))
				}
				out := harness.SpansOf(h.Out())
				require.Contains(t, out, harness.SpanID(1), "it goes out as soon as it is explained")
				want := harness.Failure(semconv.ClassEmptyCompletion, semconv.CauseSwallowedError, semconv.PhaseStreamEnd, semconv.OriginGateway).
					Because(harness.Safe, semconv.RetryReasonNoOutput)
				assert.Equal(t, want, harness.VerdictOf(out[harness.SpanID(2)]))
				assert.Equal(t, want.On(semconv.RunOutcomeFailed), harness.VerdictOf(out[harness.SpanID(1)]))

				h.Pass(t, harness.MaxHold) // the gateway's wait for their own run, where they have one
				out = harness.SpansOf(h.Out())
				if order == "after" {
					harness.CheckGolden(t, "19_gateway_"+strings.ReplaceAll(name, " ", "_"), harness.TracesOf(t, append(append([]harness.Span{}, agent...), gateway...)...), h.Out())
				}
				assert.Equal(t, semconv.CauseOverloaded, harness.VerdictOf(out[harness.SpanID(7)]).Cause, "its own span names the cause")
				assert.Contains(t, out, harness.SpanID(6))
			})
		}
	}
}

// What nothing explains goes out after settle, for what it is.
func TestUnexplainedRunSettles(t *testing.T) {
	h := harness.New(t, harness.DefaultConfig(), nil)
	h.Consume(t, harness.RequestSpan(2, 1, 0.1, 2).Answered("stop", harness.Counts{}), harness.RunSpan(1, 0, 3, 1, 0))
	h.Pass(t, harness.Settle/2)
	h.Consume(t, harness.RequestSpan(12, 11, 0.1, 2).Answered("stop", harness.Answer), harness.RunSpan(11, 0, 3, 1, 0)) // another run, which explains nothing
	require.Len(t, harness.SpansOf(h.Out()), 2)
	h.Pass(t, harness.Settle/2-1)
	require.Len(t, harness.SpansOf(h.Out()), 2)
	h.Pass(t, 1)
	out := harness.SpansOf(h.Out())
	require.Len(t, out, 4)
	want := harness.Failure(semconv.ClassEmptyCompletion, semconv.CauseNoContent, semconv.PhaseStreamEnd, semconv.OriginProvider).
		Because(harness.Safe, semconv.RetryReasonNoOutput)
	assert.Equal(t, want, harness.VerdictOf(out[harness.SpanID(2)]))
	assert.Equal(t, want.On(semconv.RunOutcomeFailed), harness.VerdictOf(out[harness.SpanID(1)]))
	assert.Equal(t, telemetry.Load{}, h.Load())
}

// A cancelled gateway swallowed nothing.
func TestGatewayCancelled(t *testing.T) {
	h := harness.New(t, harness.DefaultConfig(), nil)
	h.Consume(t, harness.RequestSpan(2, 1, 0.1, 2).Answered("stop", harness.Counts{}), harness.RunSpan(1, 0, 3, 1, 0))
	h.Consume(t, served(
		harness.RequestSpan(6, 0, 0.2, 1.9).Answered("stop", harness.Counts{}).Under(2),
		harness.RequestSpan(7, 0, 0.3, 1).Streamed(semconv.PhaseResponseStarted, semconv.StreamEndCancelled, harness.Counts{}).
			With(semconv.AbortSourceKey.String(semconv.AbortSourceUnknown.String())).Under(6),
	)...)
	require.Empty(t, h.Sink.AllTraces())
	h.Pass(t, harness.Settle)
	assert.Equal(t, semconv.CauseNoContent, harness.VerdictOf(harness.SpansOf(h.Out())[harness.SpanID(1)]).Cause)
}

// Verdicts that the client wrote itself give way to the processor's, which saw
// more: on every span, whatever comes in their place.
func TestProcessorsVerdictReplacesTheClients(t *testing.T) {
	judged := func(s harness.Span) harness.Span {
		return s.With(
			semconv.FailureClassKey.String(semconv.ClassUnclassified.String()), semconv.FailureCauseKey.String(semconv.CauseUnknown.String()),
			semconv.FailurePhaseKey.String(semconv.PhaseUnknown.String()), semconv.FailureOriginKey.String(semconv.OriginUnknown.String()),
			semconv.FailureConfidenceKey.String(semconv.ConfidenceLow.String()), semconv.FailureSummary("the client's word"),
			semconv.FailureEvidence("the client's"), semconv.FailureMissingEvidence("the client's"),
			semconv.RetrySafetyKey.String(harness.Never.String()), semconv.RetryReasonKey.String(semconv.RetryReasonUserAbort.String()),
			semconv.RunOutcomeKey.String(semconv.RunOutcomeIncomplete.String()), semconv.RunTimeline("the client's"),
			semconv.RunRecoveredFailures(7), semconv.HistoryMissingOutputs("call_of_the_client"),
			semconv.ClassificationTriggerKey.String(semconv.TriggerClient.String()), semconv.ClassificationRuleset("of the client"),
		)
	}
	cut := harness.RequestSpan(2, 1, 0.1, 0.4).Refused(429, semconv.ProviderErrorKindRateLimited, "rate_limit_exceeded").With(semconv.RetryAfter(1.5))
	again := harness.RequestSpan(3, 1, 1.9, 2.8).With(semconv.RequestAttempt(2)).History([]string{"call_1"}, []string{"call_1"}).Answered("stop", harness.Answer)
	tool := harness.ToolSpan(4, 1.1, 1.5, "call_1", semconv.ToolEffectReadOnly, semconv.ToolOutcomeSucceeded)
	run := harness.RunSpan(1, 0, 3, 2, 1)
	late := harness.RequestSpan(5, 1, 2, 2.5).Answered("stop", harness.Answer)

	specs := []harness.Span{cut, again, tool, run}
	plain, overwritten := harness.New(t, harness.DefaultConfig(), nil), harness.New(t, harness.DefaultConfig(), nil)
	plain.Consume(t, specs...)
	plain.Consume(t, late)
	for i, s := range specs {
		specs[i] = judged(s)
	}
	overwritten.Consume(t, specs...)
	overwritten.Consume(t, judged(late))

	want, got := harness.SpansOf(plain.Out()), harness.SpansOf(overwritten.Out())
	require.Len(t, got, 5)
	for id, span := range want {
		assert.Equal(t, span.Attributes().AsRaw(), got[id].Attributes().AsRaw(), span.Name())
	}
	after, ok := got[harness.SpanID(2)].Attributes().Get(string(semconv.RetryAfterKey))
	require.True(t, ok, "a fact, and no verdict")
	assert.InDelta(t, 1.5, after.Double(), 0)
	_, ok = got[harness.SpanID(3)].Attributes().Get(string(semconv.ClassificationTriggerKey))
	assert.False(t, ok, "nothing failed in it")
	model, ok := got[harness.SpanID(3)].Attributes().Get(string(otelsemconv.GenAIRequestModelKey))
	require.True(t, ok)
	assert.Equal(t, "gpt-test", model.Str())
}
