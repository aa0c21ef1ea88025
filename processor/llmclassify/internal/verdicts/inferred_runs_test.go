package verdicts

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/harness"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/telemetry"
	"github.com/otelllm/otelllm-go/semconv"
)

// observedSpan is the tool 5 that the next request of the inferred run 3 shows.
func observedSpan() harness.Span {
	return harness.CallSpan(5, 3, 0.9, 2.2, "call_1").With(
		semconv.RunID(harness.SpanID(3).String()), semconv.RunInferred(true), semconv.ToolObservedAttr(semconv.ToolObservedHistory),
		semconv.ToolEffectKey.String(semconv.ToolEffectUnknown.String()), semconv.ToolOutputDeliveryKey.String(semconv.OutputDeliverySent.String()),
	).In(harness.GatewayService)
}

// servedRequest is a request of the inferred run 3, as a gateway records it. Its parent is
// the run unless the caller has one of its own.
func servedRequest(id, parent byte, from, to float64) harness.Span {
	s := harness.RequestSpan(id, 3, from, to).Under(parent).In(harness.GatewayService).With(semconv.RunInferred(true))
	s.Kind = ptrace.SpanKindServer
	return s
}

// withoutSpans are the spans without those with these ids.
func withoutSpans(spans []harness.Span, ids ...byte) (rest []harness.Span) {
	for _, s := range spans {
		keep := true
		for _, id := range ids {
			keep = keep && s.ID != id
		}
		if keep {
			rest = append(rest, s)
		}
	}
	return rest
}

// An agent with spans of its own talks to a gateway, which infers a run. In every order in
// which they arrive there is one run at most: the outer one.
func TestInferredRunsAreCountedOnce(t *testing.T) {
	asks := harness.Counts{Inputs: 1, Completed: 1, Calls: 1, CallIDs: []string{"call_1"}}
	gateway := []harness.Span{
		harness.HTTPClient(20, 2, 0.1, 1), harness.InferredSpan(3, 20, 0.2, 2.9).In(harness.GatewayService),
		servedRequest(4, 3, 0.2, 0.9).Answered("tool_calls", asks), observedSpan(),
		harness.HTTPClient(21, 7, 2.1, 2.95), servedRequest(8, 21, 2.2, 2.9).Answered("stop", harness.Answer).History([]string{"call_1"}, []string{"call_1"}),
	}
	agent := []harness.Span{harness.ChatSpan(2, 1, 0.1, 1).Finished("tool_calls"), harness.CallSpan(6, 1, 1, 2, "call_1"), harness.ChatSpan(7, 1, 2, 3).Finished("stop")}
	ofAgent := append(append([]harness.Span{harness.AgentSpan(1, 0, 0, 3)}, agent...), gateway...)
	beneathHTTP := append(append([]harness.Span{harness.OtherSpan(1, 0, 0, 3.1)}, agent...), gateway...) // no agent's run is declared
	alone := []harness.Span{                                                                             // no spans of the agent are here
		harness.InferredSpan(3, 0, 0.2, 2.9).In(harness.GatewayService), servedRequest(4, 3, 0.2, 0.9).Answered("tool_calls", asks),
		observedSpan(), servedRequest(8, 3, 2.2, 2.9).Answered("stop", harness.Answer),
	}
	var called []harness.Span // beneath the handler of a web application
	for _, s := range append([]harness.Span{harness.OtherSpan(9, 0, 0, 3)}, alone...) {
		if s.ID == 3 {
			s.Parent = 9
		}
		called = append(called, s)
	}
	transport := append([]harness.Span{
		harness.InferredSpan(1, 0, 0, 3),
		harness.RequestSpan(2, 1, 0.1, 1).Answered("tool_calls", asks), harness.RequestSpan(7, 1, 2, 3).Answered("stop", harness.Answer),
	}, gateway...)
	for name, tt := range map[string]struct {
		spans []harness.Span
		run   byte // with the run's verdict
		after time.Duration
	}{
		"beneath an agent's run":           {ofAgent, 1, harness.Settle},
		"beneath an agent's requests":      {beneathHTTP, 7, harness.MaxHold},
		"beneath a run that a client sees": {transport, 1, harness.Settle},
		"alone":                            {alone, 3, harness.Settle},
		"beneath a handler":                {called, 3, harness.Settle},
		"beneath what never comes":         {withoutSpans(called, 9), 3, harness.MaxHold},
		"its own span never comes":         {withoutSpans(ofAgent, 3), 1, harness.Settle},
		"nor does it beneath requests":     {withoutSpans(beneathHTTP, 3), 7, harness.MaxHold},
		"one of its links never comes":     {withoutSpans(beneathHTTP, 20), 7, harness.MaxHold},
		"a response joins them":            {responses(withoutSpans(beneathHTTP, 20, 21)), 7, harness.MaxHold},
	} {
		for _, order := range orders(len(tt.spans)) {
			for calls, step := range map[string]time.Duration{"in one call": -1, "at once": 0, "after a while": 100 * time.Millisecond} {
				disk := harness.NewDisk()
				h := harness.NewOn(t, disk, harness.DefaultConfig(), nil, harness.T0)
				spans := harness.InOrder(tt.spans, order)
				if step < 0 {
					h.Consume(t, spans...)
				}
				for i := 0; step >= 0 && i < len(spans); i++ {
					h.Consume(t, spans[i])
					h.Pass(t, step)
				}
				h.Pass(t, tt.after)
				require.Equal(t, []pcommon.SpanID{harness.SpanID(tt.run)}, harness.RunsJudged(h.Out()), "%s %s %v", name, calls, order)
				v := harness.VerdictOf(harness.SpansOf(h.Out())[harness.SpanID(tt.run)])
				require.Equal(t, semconv.RunOutcomeSucceeded, v.Outcome, "%s %s %v", name, calls, order)
				h.Pass(t, 2*harness.RunTimeout)
				require.Len(t, harness.RunsJudged(h.Out()), 1, "%s %s %v", name, calls, order)
				require.Empty(t, harness.AbandonedSpans(h.Out()), "%s %s %v", name, calls, order)
				require.Equal(t, len(spans), h.Out().SpanCount(), "%s %s %v", name, calls, order)
				assert.Equal(t, telemetry.Load{}, h.Load(), "%s %s %v", name, calls, order)
				assert.Empty(t, disk.Entries(), "%s %s %v", name, calls, order)
			}
		}
	}
}

// An agent's client repeats its request through a gateway, which infers a run from that. All
// of it is one call of the agent, and no run, even if the spans of its HTTP client never come.
func TestInferredRunBeneathOneCall(t *testing.T) {
	limited := func(id, parent byte, from, to float64) harness.Span {
		return servedRequest(id, parent, from, to).Refused(429, semconv.ProviderErrorKindRateLimited, "rate_limit_exceeded")
	}
	client := harness.RequestSpan(10, 0, 2.3, 2.8).Under(8).In(harness.GatewayService).Answered("stop", harness.Answer).Response("r1")
	spans := []harness.Span{
		harness.OtherSpan(1, 0, 0, 3.1), harness.ChatSpan(2, 1, 0.1, 3).Finished("stop").Response("r1"),
		harness.HTTPClient(20, 2, 0.1, 1), harness.HTTPClient(21, 2, 1.1, 2), harness.HTTPClient(22, 2, 2.1, 2.95),
		harness.InferredSpan(3, 20, 0.2, 2.9).In(harness.GatewayService), limited(4, 20, 0.2, 0.9), limited(5, 21, 1.2, 1.9),
		servedRequest(8, 22, 2.2, 2.9).Answered("stop", harness.Answer).Response("r1"), client,
	}
	for name, spans := range map[string][]harness.Span{
		"all": spans, "without HTTP": withoutSpans(spans, 20, 21, 22), "without the first": withoutSpans(spans, 20),
	} {
		for _, order := range orders(len(spans)) {
			for calls, step := range map[string]time.Duration{"in one call": -1, "at once": 0, "after a while": 100 * time.Millisecond} {
				h := harness.New(t, harness.DefaultConfig(), nil)
				spans := harness.InOrder(spans, order)
				if step < 0 {
					h.Consume(t, spans...)
				}
				for i := 0; step >= 0 && i < len(spans); i++ {
					h.Consume(t, spans[i])
					h.Pass(t, step)
				}
				h.Pass(t, harness.MaxHold)
				require.Empty(t, harness.RunsJudged(h.Out()), "%s %s %v", name, calls, order)
				h.Pass(t, 2*harness.RunTimeout)
				require.Empty(t, harness.RunsJudged(h.Out()), "%s %s %v", name, calls, order)
				require.Empty(t, harness.AbandonedSpans(h.Out()), "%s %s %v", name, calls, order)
				assert.Equal(t, telemetry.Load{}, h.Load(), "%s %s %v", name, calls, order)
			}
		}
	}
}

// responses are the spans with the ids of the responses that requests at the same time got.
func responses(spans []harness.Span) (list []harness.Span) {
	of := map[byte]string{2: "r1", 4: "r1", 7: "r2", 8: "r2"}
	for _, s := range spans {
		if id, ok := of[s.ID]; ok {
			s = s.Response(id)
		}
		list = append(list, s)
	}
	return list
}

// What comes of a gateway's run after the agent's was judged is late, in any order, and is
// no run.
func TestInferredRunAfterTheOuterOne(t *testing.T) {
	late := []harness.Span{
		harness.InferredSpan(3, 20, 0.2, 2.9).In(harness.GatewayService), servedRequest(4, 3, 0.2, 0.9).Answered("tool_calls", asksForTools),
		servedRequest(8, 21, 2.2, 2.9).Answered("stop", harness.Answer), observedSpan(),
	}
	for _, order := range orders(len(late)) {
		for calls, step := range map[string]time.Duration{"in one call": -1, "at once": 0, "after a while": time.Second} {
			h := harness.New(t, harness.DefaultConfig(), nil)
			h.Consume(t, harness.AgentSpan(1, 0, 0, 3), harness.ChatSpan(2, 1, 0.1, 1).Finished("tool_calls"), harness.CallSpan(6, 1, 1, 2, "call_1"),
				harness.ChatSpan(7, 1, 2, 3).Finished("stop"), harness.HTTPClient(20, 2, 0.1, 1), harness.HTTPClient(21, 7, 2.1, 2.95))
			h.Pass(t, harness.Settle)
			require.Len(t, harness.RunsJudged(h.Out()), 1)
			spans := harness.InOrder(late, order)
			if step < 0 {
				h.Consume(t, spans...)
			}
			for i := 0; step >= 0 && i < len(spans); i++ {
				h.Consume(t, spans[i])
				h.Pass(t, step)
			}
			h.Pass(t, 2*harness.RunTimeout)
			assert.Equal(t, []pcommon.SpanID{harness.SpanID(1)}, harness.RunsJudged(h.Out()), "%s %v", calls, order)
			assert.Empty(t, harness.AbandonedSpans(h.Out()), "%s %v", calls, order)
			assert.Equal(t, 10, h.Out().SpanCount(), "%s %v", calls, order)
			assert.Equal(t, telemetry.Load{}, h.Load(), "%s %v", calls, order)
		}
	}
}

// If the spans between the agent and the gateway came before all others, they are not known.
// What the gateway did in the time of the agent's run belongs to that run all the same.
func TestInferredRunInTheTimeOfAJudgedOne(t *testing.T) {
	gateway := func(from, to float64) []harness.Span {
		return []harness.Span{
			harness.InferredSpan(3, 20, from, to).In(harness.GatewayService), servedRequest(4, 3, from, from+0.1).Answered("tool_calls", asksForTools),
			servedRequest(8, 21, to-0.1, to).Answered("stop", harness.Answer),
		}
	}
	for name, agent := range map[string][]harness.Span{
		"held":        {harness.AgentSpan(1, 0, 0, 3), harness.ChatSpan(2, 1, 0.1, 1).Finished("tool_calls"), harness.ChatSpan(7, 1, 2, 3).Finished("stop")},
		"in one call": {harness.RunSpan(1, 0, 3, 1, 0), harness.RequestSpan(7, 1, 2, 3).Answered("stop", harness.Answer)},
	} {
		for _, tt := range []struct {
			from, to float64
			runs     int
		}{{0.2, 2.9, 1}, {10, 12, 2}} {
			h := harness.New(t, harness.DefaultConfig(), nil)
			h.Consume(t, agent...)
			h.Pass(t, harness.Settle)
			require.Equal(t, []pcommon.SpanID{harness.SpanID(1)}, harness.RunsJudged(h.Out()), name)
			h.Consume(t, gateway(tt.from, tt.to)...)
			h.Pass(t, 3*harness.RunTimeout)
			assert.Len(t, harness.RunsJudged(h.Out()), tt.runs, "%s, at %v s", name, tt.from)
			assert.Empty(t, harness.AbandonedSpans(h.Out()), "%s, at %v s", name, tt.from)
			assert.Equal(t, telemetry.Load{}, h.Load(), "%s, at %v s", name, tt.from)
		}
	}
}

// The tools that a gateway observed are evidence for the agent's run, except for those
// with a span of their own.
func TestObservedToolsServeTheOuterRun(t *testing.T) {
	cut := harness.ChatSpan(7, 1, 2, 3).Failed("ECONNRESET")
	gateway := []harness.Span{
		harness.HTTPClient(20, 2, 0.1, 1), harness.InferredSpan(3, 20, 0.2, 2.9).In(harness.GatewayService),
		servedRequest(4, 3, 0.2, 0.9).Answered("tool_calls", asksForTools), observedSpan(),
	}
	agent := []harness.Span{harness.RunSpan(1, 0, 3, 2, 1), harness.RequestSpan(2, 1, 0.1, 1).Answered("tool_calls", asksForTools), cut.With(semconv.RunID(harness.SpanID(1).String()))}
	tool := harness.ToolSpan(6, 1, 2, "call_1", semconv.ToolEffectNonIdempotent, semconv.ToolOutcomeSucceeded)
	for name, tt := range map[string]struct {
		spans []harness.Span
		want  semconv.RetryReason
	}{
		"with a span of its own": {append(append(append([]harness.Span(nil), gateway...), agent...), tool), semconv.RetryReasonToolSideEffect},
		"only observed":          {append(append([]harness.Span(nil), gateway...), agent...), semconv.RetryReasonToolStateUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			h := harness.New(t, harness.DefaultConfig(), nil)
			h.Consume(t, tt.spans...)
			h.Pass(t, harness.MaxHold)
			require.Equal(t, []pcommon.SpanID{harness.SpanID(1)}, harness.RunsJudged(h.Out()))
			run := harness.SpansOf(h.Out())[harness.SpanID(1)]
			assert.Equal(t, tt.want, harness.VerdictOf(run).Reason)
			timeline, _ := run.Attributes().Get(string(semconv.RunTimelineKey))
			assert.Equal(t, 1, strings.Count(timeline.AsString(), "apply_patch: started"), timeline.AsString())
		})
	}
}

// A run with requests in other traces was judged by its client. Its verdict stays, and
// counts; beneath another run it goes.
func TestClientsVerdictOnAnInferredRun(t *testing.T) {
	judged := runJudgedByClient(harness.InferredSpan(3, 0, 0.2, 2.9), semconv.RunOutcomeRecovered).With(semconv.RunRecoveredFailures(1))
	request := harness.RequestSpan(4, 3, 0.2, 0.9).Answered("stop", harness.Answer)
	h := harness.New(t, harness.DefaultConfig(), nil)
	h.Consume(t, judged, request)
	h.Pass(t, harness.MaxHold)
	assert.Equal(t, harness.Verdict{Outcome: semconv.RunOutcomeRecovered, Recovered: 1, Trigger: semconv.TriggerClient}, harness.VerdictOf(harness.SpansOf(h.Out())[harness.SpanID(3)]))
	assert.Equal(t, map[telemetry.Ending]int64{{Outcome: semconv.RunOutcomeRecovered, Trigger: semconv.TriggerClient}: 1}, runsCounted(t, h))

	h = harness.New(t, harness.DefaultConfig(), nil)
	h.Consume(t, harness.AgentSpan(1, 0, 0, 3), harness.ChatSpan(2, 1, 0.1, 1).Finished("stop"), judged.Under(2), request)
	h.Pass(t, harness.MaxHold)
	assert.Equal(t, harness.Verdict{}, harness.VerdictOf(harness.SpansOf(h.Out())[harness.SpanID(3)]))
	assert.Equal(t, map[telemetry.Ending]int64{{Outcome: semconv.RunOutcomeSucceeded, Trigger: semconv.TriggerRunEnded}: 1}, runsCounted(t, h))
}

// Spans of one session under several parents are one run where no span is a run.
func TestSessionsJoinSpans(t *testing.T) {
	steps := func(first, second string) []harness.Span {
		return []harness.Span{
			harness.OtherSpan(9, 0, 0, 4), harness.OtherSpan(10, 9, 0, 1.6), harness.OtherSpan(11, 9, 2, 4),
			harness.ChatSpan(2, 10, 0.1, 1).Finished("tool_calls").Session(first), harness.CallSpan(3, 10, 1, 1.5, "call_1"),
			harness.ChatSpan(4, 11, 2, 3).Failed("ECONNRESET").Session(second), harness.ChatSpan(5, 11, 3.1, 4).Finished("stop").Session(second),
		}
	}
	for _, order := range orders(7) {
		h := harness.New(t, harness.DefaultConfig(), nil)
		for _, s := range harness.InOrder(steps("s1", "s1"), order) {
			h.Consume(t, s)
		}
		h.Pass(t, harness.MaxHold)
		require.Equal(t, []pcommon.SpanID{harness.SpanID(5)}, harness.RunsJudged(h.Out()), "%v", order)
		v := harness.VerdictOf(harness.SpansOf(h.Out())[harness.SpanID(5)])
		assert.Equal(t, semconv.RunOutcomeRecovered, v.Outcome)
		assert.Equal(t, telemetry.Load{}, h.Load())
	}
	h := harness.New(t, harness.DefaultConfig(), nil)
	h.Consume(t, steps("s1", "s2")...)
	h.Pass(t, harness.MaxHold)
	assert.Equal(t, []pcommon.SpanID{harness.SpanID(5)}, harness.RunsJudged(h.Out()), "the first step asks for a tool, and what followed is not here")
	late := harness.ChatSpan(6, 10, 3.1, 4).Finished("stop").Session("s1")
	h.Consume(t, late)
	h.Pass(t, 2*harness.RunTimeout)
	assert.Len(t, harness.RunsJudged(h.Out()), 1)
}

// Two agents at the same time are not one run because they name one session: what failed
// is not made good by the other one.
func TestSessionDoesNotJoinAgentsAtTheSameTime(t *testing.T) {
	h := harness.New(t, harness.DefaultConfig(), nil)
	h.Consume(t, harness.OtherSpan(9, 0, 0, 5), harness.OtherSpan(10, 9, 0, 3), harness.OtherSpan(11, 9, 0, 5),
		harness.ChatSpan(2, 10, 0.1, 1).Finished("tool_calls").Session("s"), harness.ChatSpan(3, 10, 2, 3).Failed("ECONNRESET").Session("s"),
		harness.ChatSpan(4, 11, 0.1, 2).Finished("tool_calls").Session("s"), harness.ChatSpan(5, 11, 3.3, 4).Finished("stop").Session("s"))
	h.Pass(t, harness.MaxHold)
	out := harness.SpansOf(h.Out())
	assert.Equal(t, semconv.RunOutcomeFailed, harness.VerdictOf(out[harness.SpanID(3)]).Outcome)
	assert.Equal(t, semconv.RunOutcomeSucceeded, harness.VerdictOf(out[harness.SpanID(5)]).Outcome)
	assert.Len(t, harness.RunsJudged(h.Out()), 2)
}

// The span that represents an abandoned run says whose it was.
func TestAbandonedRunIsNamed(t *testing.T) {
	h := harness.New(t, harness.DefaultConfig(), nil)
	h.Consume(t, harness.RequestSpan(2, 1, 0.1, 1).Answered("tool_calls", asksForTools).With(otelsemconv.GenAIAgentName("coder")),
		harness.RequestSpan(4, 1, 1.1, 2).Answered("stop", harness.Answer).Session("conv"))
	h.Pass(t, harness.RunTimeout+time.Minute)
	spans := harness.AbandonedSpans(h.Out())
	require.Len(t, spans, 1)
	for key, want := range map[attribute.Key]string{otelsemconv.GenAIAgentNameKey: "coder", otelsemconv.GenAIConversationIDKey: "conv"} {
		got, _ := spans[0].Attributes().Get(string(key))
		assert.Equal(t, want, got.AsString())
	}
}

// runsCounted are the runs that the processor's metric counts, by how they ended.
func runsCounted(t *testing.T, h *harness.Harness) map[telemetry.Ending]int64 {
	t.Helper()
	m, err := h.Metrics.GetMetric("otelcol_processor_llm_classify_runs")
	require.NoError(t, err)
	counted := map[telemetry.Ending]int64{}
	for _, point := range m.Data.(metricdata.Sum[int64]).DataPoints {
		value := func(key attribute.Key) string { v, _ := point.Attributes.Value(key); return v.AsString() }
		var e telemetry.Ending
		e.Outcome, _ = semconv.ParseRunOutcome(value("outcome"))
		e.Class, _ = semconv.ParseClass(value("class"))
		e.Trigger, _ = semconv.ParseTrigger(value("trigger"))
		counted[e] += point.Value
	}
	return counted
}

// Two inferred runs with requests in other traces, each judged by its client: the inner one is
// a part of the outer one.
func TestClientsVerdictsOnTwoInferredRuns(t *testing.T) {
	client := func(s harness.Span) harness.Span { return runJudgedByClient(s, semconv.RunOutcomeSucceeded) }
	agent := []harness.Span{
		client(harness.InferredSpan(1, 20, 0, 3)),
		harness.RequestSpan(2, 1, 0, 1).Answered("tool_calls", asksForTools),
	}
	gateway := []harness.Span{
		client(harness.InferredSpan(3, 2, 0.1, 2.9).In(harness.GatewayService)),
		servedRequest(4, 2, 0.1, 0.9).Answered("tool_calls", asksForTools),
	}
	for name, calls := range map[string][][]harness.Span{
		"together":      {append(slices.Clone(agent), gateway...)},
		"agent first":   {agent, gateway},
		"gateway first": {gateway, agent},
	} {
		t.Run(name, func(t *testing.T) {
			h := harness.New(t, harness.DefaultConfig(), nil)
			for _, spans := range calls {
				h.Consume(t, spans...)
				h.Pass(t, 3*time.Second)
			}
			h.Pass(t, harness.MaxHold)
			assert.Equal(t, []pcommon.SpanID{harness.SpanID(1)}, harness.RunsJudged(h.Out()))
		})
	}
}
