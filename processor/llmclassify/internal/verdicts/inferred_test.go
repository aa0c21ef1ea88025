package llmclassify

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

	"github.com/otelllm/otelllm-go/internal/race"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/telemetry"
	"github.com/otelllm/otelllm-go/semconv"
)

// inferredSpan is a run that a client or a gateway inferred from two requests.
func inferredSpan(id, parent byte, from, to float64) spanSpec {
	return spanSpec{
		id: id, parent: parent, name: "invoke_agent codex", kind: ptrace.SpanKindInternal, from: from, to: to,
		attrs: []attribute.KeyValue{
			otelsemconv.GenAIOperationNameInvokeAgent, otelsemconv.GenAIAgentName("codex"), otelsemconv.GenAIConversationID("conv"),
			semconv.RunInferred(true), semconv.RunRequests(2), semconv.RunEndKey.String(semconv.RunEndAnswer.String()),
		},
	}
}

// observedSpan is the tool 5 that the next request of the inferred run 3 shows.
func observedSpan() spanSpec {
	return callSpan(5, 3, 0.9, 2.2, "call_1").with(
		semconv.RunID(spanID(3).String()), semconv.RunInferred(true), semconv.ToolObservedAttr(semconv.ToolObservedHistory),
		semconv.ToolEffectKey.String(semconv.ToolEffectUnknown.String()), semconv.ToolOutputDeliveryKey.String(semconv.OutputDeliverySent.String()),
	).in(gatewayService)
}

// servedRequest is a request of the inferred run 3, as a gateway records it. Its parent is
// the run unless the caller has one of its own.
func servedRequest(id, parent byte, from, to float64) spanSpec {
	s := requestSpan(id, 3, from, to).under(parent).in(gatewayService).with(semconv.RunInferred(true))
	s.kind = ptrace.SpanKindServer
	return s
}

// httpClient is the span of an HTTP client.
func httpClient(id, parent byte, from, to float64) spanSpec {
	s := httpSpan(id, to)
	s.parent, s.from = parent, from
	return s
}

func (s spanSpec) response(id string) spanSpec { return s.with(otelsemconv.GenAIResponseID(id)) }

func (s spanSpec) session(id string) spanSpec { return s.with(otelsemconv.GenAIConversationID(id)) }

// withoutSpans are the spans without those with these ids.
func withoutSpans(spans []spanSpec, ids ...byte) (rest []spanSpec) {
	for _, s := range spans {
		keep := true
		for _, id := range ids {
			keep = keep && s.id != id
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
	asks := counts{inputs: 1, completed: 1, calls: 1, callIDs: []string{"call_1"}}
	gateway := []spanSpec{
		httpClient(20, 2, 0.1, 1), inferredSpan(3, 20, 0.2, 2.9).in(gatewayService),
		servedRequest(4, 3, 0.2, 0.9).answered("tool_calls", asks), observedSpan(),
		httpClient(21, 7, 2.1, 2.95), servedRequest(8, 21, 2.2, 2.9).answered("stop", answer).history([]string{"call_1"}, []string{"call_1"}),
	}
	agent := []spanSpec{chatSpan(2, 1, 0.1, 1).finished("tool_calls"), callSpan(6, 1, 1, 2, "call_1"), chatSpan(7, 1, 2, 3).finished("stop")}
	ofAgent := append(append([]spanSpec{agentSpan(1, 0, 0, 3)}, agent...), gateway...)
	beneathHTTP := append(append([]spanSpec{otherSpan(1, 0, 0, 3.1)}, agent...), gateway...) // no agent's run is declared
	alone := []spanSpec{                                                                     // no spans of the agent are here
		inferredSpan(3, 0, 0.2, 2.9).in(gatewayService), servedRequest(4, 3, 0.2, 0.9).answered("tool_calls", asks),
		observedSpan(), servedRequest(8, 3, 2.2, 2.9).answered("stop", answer),
	}
	var called []spanSpec // beneath the handler of a web application
	for _, s := range append([]spanSpec{otherSpan(9, 0, 0, 3)}, alone...) {
		if s.id == 3 {
			s.parent = 9
		}
		called = append(called, s)
	}
	transport := append([]spanSpec{
		inferredSpan(1, 0, 0, 3),
		requestSpan(2, 1, 0.1, 1).answered("tool_calls", asks), requestSpan(7, 1, 2, 3).answered("stop", answer),
	}, gateway...)
	for name, tt := range map[string]struct {
		spans []spanSpec
		run   byte // with the run's verdict
		after time.Duration
	}{
		"beneath an agent's run":           {ofAgent, 1, xSettle},
		"beneath an agent's requests":      {beneathHTTP, 7, xMaxHold},
		"beneath a run that a client sees": {transport, 1, xSettle},
		"alone":                            {alone, 3, xSettle},
		"beneath a handler":                {called, 3, xSettle},
		"beneath what never comes":         {withoutSpans(called, 9), 3, xMaxHold},
		"its own span never comes":         {withoutSpans(ofAgent, 3), 1, xSettle},
		"nor does it beneath requests":     {withoutSpans(beneathHTTP, 3), 7, xMaxHold},
		"one of its links never comes":     {withoutSpans(beneathHTTP, 20), 7, xMaxHold},
		"a response joins them":            {responses(withoutSpans(beneathHTTP, 20, 21)), 7, xMaxHold},
	} {
		for n, order := range orders(len(tt.spans)) {
			if n%race.Every(5) != 0 {
				continue
			}
			for calls, step := range map[string]time.Duration{"in one call": -1, "at once": 0, "after a while": 100 * time.Millisecond} {
				disk := newDisk()
				h := newHarnessOn(t, disk, defaultConfig(), nil, t0)
				spans := inOrder(tt.spans, order)
				if step < 0 {
					h.consume(t, spans...)
				}
				for i := 0; step >= 0 && i < len(spans); i++ {
					h.consume(t, spans[i])
					h.pass(t, step)
				}
				h.pass(t, tt.after)
				require.Equal(t, []pcommon.SpanID{spanID(tt.run)}, runsJudged(h.out()), "%s %s %v", name, calls, order)
				v := verdictOf(spansOf(h.out())[spanID(tt.run)])
				require.Equal(t, semconv.RunOutcomeSucceeded, v.outcome, "%s %s %v", name, calls, order)
				h.pass(t, 2*xRunTimeout)
				require.Len(t, runsJudged(h.out()), 1, "%s %s %v", name, calls, order)
				require.Empty(t, abandonedSpans(h.out()), "%s %s %v", name, calls, order)
				require.Equal(t, len(spans), h.out().SpanCount(), "%s %s %v", name, calls, order)
				assert.Equal(t, telemetry.Load{}, h.Load(), "%s %s %v", name, calls, order)
				assert.Empty(t, disk.entries(), "%s %s %v", name, calls, order)
			}
		}
	}
}

// An agent's client repeats its request through a gateway, which infers a run from that. All
// of it is one call of the agent, and no run, even if the spans of its HTTP client never come.
func TestInferredRunBeneathOneCall(t *testing.T) {
	limited := func(id, parent byte, from, to float64) spanSpec {
		return servedRequest(id, parent, from, to).refused(429, semconv.ProviderErrorKindRateLimited, "rate_limit_exceeded")
	}
	client := requestSpan(10, 0, 2.3, 2.8).under(8).in(gatewayService).answered("stop", answer).response("r1")
	spans := []spanSpec{
		otherSpan(1, 0, 0, 3.1), chatSpan(2, 1, 0.1, 3).finished("stop").response("r1"),
		httpClient(20, 2, 0.1, 1), httpClient(21, 2, 1.1, 2), httpClient(22, 2, 2.1, 2.95),
		inferredSpan(3, 20, 0.2, 2.9).in(gatewayService), limited(4, 20, 0.2, 0.9), limited(5, 21, 1.2, 1.9),
		servedRequest(8, 22, 2.2, 2.9).answered("stop", answer).response("r1"), client,
	}
	for name, spans := range map[string][]spanSpec{
		"all": spans, "without HTTP": withoutSpans(spans, 20, 21, 22), "without the first": withoutSpans(spans, 20),
	} {
		for _, order := range orders(len(spans)) {
			for calls, step := range map[string]time.Duration{"in one call": -1, "at once": 0, "after a while": 100 * time.Millisecond} {
				h := newHarness(t, defaultConfig(), nil)
				spans := inOrder(spans, order)
				if step < 0 {
					h.consume(t, spans...)
				}
				for i := 0; step >= 0 && i < len(spans); i++ {
					h.consume(t, spans[i])
					h.pass(t, step)
				}
				h.pass(t, xMaxHold)
				require.Empty(t, runsJudged(h.out()), "%s %s %v", name, calls, order)
				h.pass(t, 2*xRunTimeout)
				require.Empty(t, runsJudged(h.out()), "%s %s %v", name, calls, order)
				require.Empty(t, abandonedSpans(h.out()), "%s %s %v", name, calls, order)
				assert.Equal(t, telemetry.Load{}, h.Load(), "%s %s %v", name, calls, order)
			}
		}
	}
}

// inOrder are spans in another order, an LLM span first: what comes before the first one
// of its trace is not known later.
func inOrder(spans []spanSpec, order []int) (list []spanSpec) {
	var others []spanSpec
	for _, i := range order {
		s := spans[i]
		if len(list) == 0 && !slices.ContainsFunc(s.attrs, func(kv attribute.KeyValue) bool { return kv.Key == otelsemconv.GenAIOperationNameKey }) {
			others = append(others, s)
		} else {
			list = append(list, s)
		}
	}
	return append(list, others...)
}

// responses are the spans with the ids of the responses that requests at the same time got.
func responses(spans []spanSpec) (list []spanSpec) {
	of := map[byte]string{2: "r1", 4: "r1", 7: "r2", 8: "r2"}
	for _, s := range spans {
		if id, ok := of[s.id]; ok {
			s = s.response(id)
		}
		list = append(list, s)
	}
	return list
}

// What comes of a gateway's run after the agent's was judged is late, in any order, and is
// no run.
func TestInferredRunAfterTheOuterOne(t *testing.T) {
	late := []spanSpec{
		inferredSpan(3, 20, 0.2, 2.9).in(gatewayService), servedRequest(4, 3, 0.2, 0.9).answered("tool_calls", asksForTools),
		servedRequest(8, 21, 2.2, 2.9).answered("stop", answer), observedSpan(),
	}
	for _, order := range orders(len(late)) {
		for calls, step := range map[string]time.Duration{"in one call": -1, "at once": 0, "after a while": time.Second} {
			h := newHarness(t, defaultConfig(), nil)
			h.consume(t, agentSpan(1, 0, 0, 3), chatSpan(2, 1, 0.1, 1).finished("tool_calls"), callSpan(6, 1, 1, 2, "call_1"),
				chatSpan(7, 1, 2, 3).finished("stop"), httpClient(20, 2, 0.1, 1), httpClient(21, 7, 2.1, 2.95))
			h.pass(t, xSettle)
			require.Len(t, runsJudged(h.out()), 1)
			spans := inOrder(late, order)
			if step < 0 {
				h.consume(t, spans...)
			}
			for i := 0; step >= 0 && i < len(spans); i++ {
				h.consume(t, spans[i])
				h.pass(t, step)
			}
			h.pass(t, 2*xRunTimeout)
			assert.Equal(t, []pcommon.SpanID{spanID(1)}, runsJudged(h.out()), "%s %v", calls, order)
			assert.Empty(t, abandonedSpans(h.out()), "%s %v", calls, order)
			assert.Equal(t, 10, h.out().SpanCount(), "%s %v", calls, order)
			assert.Equal(t, telemetry.Load{}, h.Load(), "%s %v", calls, order)
		}
	}
}

// If the spans between the agent and the gateway came before all others, they are not known.
// What the gateway did in the time of the agent's run belongs to that run all the same.
func TestInferredRunInTheTimeOfAJudgedOne(t *testing.T) {
	gateway := func(from, to float64) []spanSpec {
		return []spanSpec{
			inferredSpan(3, 20, from, to).in(gatewayService), servedRequest(4, 3, from, from+0.1).answered("tool_calls", asksForTools),
			servedRequest(8, 21, to-0.1, to).answered("stop", answer),
		}
	}
	for name, agent := range map[string][]spanSpec{
		"held":        {agentSpan(1, 0, 0, 3), chatSpan(2, 1, 0.1, 1).finished("tool_calls"), chatSpan(7, 1, 2, 3).finished("stop")},
		"in one call": {runSpan(1, 0, 3, 1, 0), requestSpan(7, 1, 2, 3).answered("stop", answer)},
	} {
		for _, tt := range []struct {
			from, to float64
			runs     int
		}{{0.2, 2.9, 1}, {10, 12, 2}} {
			h := newHarness(t, defaultConfig(), nil)
			h.consume(t, agent...)
			h.pass(t, xSettle)
			require.Equal(t, []pcommon.SpanID{spanID(1)}, runsJudged(h.out()), name)
			h.consume(t, gateway(tt.from, tt.to)...)
			h.pass(t, 3*xRunTimeout)
			assert.Len(t, runsJudged(h.out()), tt.runs, "%s, at %v s", name, tt.from)
			assert.Empty(t, abandonedSpans(h.out()), "%s, at %v s", name, tt.from)
			assert.Equal(t, telemetry.Load{}, h.Load(), "%s, at %v s", name, tt.from)
		}
	}
}

// The tools that a gateway observed are evidence for the agent's run, except for those
// with a span of their own.
func TestObservedToolsServeTheOuterRun(t *testing.T) {
	cut := chatSpan(7, 1, 2, 3).failed("ECONNRESET")
	gateway := []spanSpec{
		httpClient(20, 2, 0.1, 1), inferredSpan(3, 20, 0.2, 2.9).in(gatewayService),
		servedRequest(4, 3, 0.2, 0.9).answered("tool_calls", asksForTools), observedSpan(),
	}
	agent := []spanSpec{runSpan(1, 0, 3, 2, 1), requestSpan(2, 1, 0.1, 1).answered("tool_calls", asksForTools), cut.with(semconv.RunID(spanID(1).String()))}
	tool := toolSpan(6, 1, 2, "call_1", semconv.ToolEffectNonIdempotent, semconv.ToolOutcomeSucceeded)
	for name, tt := range map[string]struct {
		spans []spanSpec
		want  semconv.RetryReason
	}{
		"with a span of its own": {append(append(append([]spanSpec(nil), gateway...), agent...), tool), semconv.RetryReasonToolSideEffect},
		"only observed":          {append(append([]spanSpec(nil), gateway...), agent...), semconv.RetryReasonToolStateUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, defaultConfig(), nil)
			h.consume(t, tt.spans...)
			h.pass(t, xMaxHold)
			require.Equal(t, []pcommon.SpanID{spanID(1)}, runsJudged(h.out()))
			run := spansOf(h.out())[spanID(1)]
			assert.Equal(t, tt.want, verdictOf(run).reason)
			timeline, _ := run.Attributes().Get(string(semconv.RunTimelineKey))
			assert.Equal(t, 1, strings.Count(timeline.AsString(), "apply_patch: started"), timeline.AsString())
		})
	}
}

// A run with requests in other traces was judged by its client. Its verdict stays, and
// counts; beneath another run it goes.
func TestClientsVerdictOnAnInferredRun(t *testing.T) {
	judged := runJudgedByClient(inferredSpan(3, 0, 0.2, 2.9), semconv.RunOutcomeRecovered).with(semconv.RunRecoveredFailures(1))
	request := requestSpan(4, 3, 0.2, 0.9).answered("stop", answer)
	h := newHarness(t, defaultConfig(), nil)
	h.consume(t, judged, request)
	h.pass(t, xMaxHold)
	assert.Equal(t, verdict{outcome: semconv.RunOutcomeRecovered, recovered: 1, trigger: semconv.TriggerClient}, verdictOf(spansOf(h.out())[spanID(3)]))
	assert.Equal(t, map[telemetry.Ending]int64{{Outcome: semconv.RunOutcomeRecovered, Trigger: semconv.TriggerClient}: 1}, runsCounted(t, h))

	h = newHarness(t, defaultConfig(), nil)
	h.consume(t, agentSpan(1, 0, 0, 3), chatSpan(2, 1, 0.1, 1).finished("stop"), judged.under(2), request)
	h.pass(t, xMaxHold)
	assert.Equal(t, verdict{}, verdictOf(spansOf(h.out())[spanID(3)]))
	assert.Equal(t, map[telemetry.Ending]int64{{Outcome: semconv.RunOutcomeSucceeded, Trigger: semconv.TriggerRunEnded}: 1}, runsCounted(t, h))
}

// Spans of one session under several parents are one run where no span is a run.
func TestSessionsJoinSpans(t *testing.T) {
	steps := func(first, second string) []spanSpec {
		return []spanSpec{
			otherSpan(9, 0, 0, 4), otherSpan(10, 9, 0, 1.6), otherSpan(11, 9, 2, 4),
			chatSpan(2, 10, 0.1, 1).finished("tool_calls").session(first), callSpan(3, 10, 1, 1.5, "call_1"),
			chatSpan(4, 11, 2, 3).failed("ECONNRESET").session(second), chatSpan(5, 11, 3.1, 4).finished("stop").session(second),
		}
	}
	for _, order := range orders(7) {
		h := newHarness(t, defaultConfig(), nil)
		for _, s := range inOrder(steps("s1", "s1"), order) {
			h.consume(t, s)
		}
		h.pass(t, xMaxHold)
		require.Equal(t, []pcommon.SpanID{spanID(5)}, runsJudged(h.out()), "%v", order)
		v := verdictOf(spansOf(h.out())[spanID(5)])
		assert.Equal(t, semconv.RunOutcomeRecovered, v.outcome)
		assert.Equal(t, telemetry.Load{}, h.Load())
	}
	h := newHarness(t, defaultConfig(), nil)
	h.consume(t, steps("s1", "s2")...)
	h.pass(t, xMaxHold)
	assert.Equal(t, []pcommon.SpanID{spanID(5)}, runsJudged(h.out()), "the first step asks for a tool, and what followed is not here")
	late := chatSpan(6, 10, 3.1, 4).finished("stop").session("s1")
	h.consume(t, late)
	h.pass(t, 2*xRunTimeout)
	assert.Len(t, runsJudged(h.out()), 1)
}

// Two agents at the same time are not one run because they name one session: what failed
// is not made good by the other one.
func TestSessionDoesNotJoinAgentsAtTheSameTime(t *testing.T) {
	h := newHarness(t, defaultConfig(), nil)
	h.consume(t, otherSpan(9, 0, 0, 5), otherSpan(10, 9, 0, 3), otherSpan(11, 9, 0, 5),
		chatSpan(2, 10, 0.1, 1).finished("tool_calls").session("s"), chatSpan(3, 10, 2, 3).failed("ECONNRESET").session("s"),
		chatSpan(4, 11, 0.1, 2).finished("tool_calls").session("s"), chatSpan(5, 11, 3.3, 4).finished("stop").session("s"))
	h.pass(t, xMaxHold)
	out := spansOf(h.out())
	assert.Equal(t, semconv.RunOutcomeFailed, verdictOf(out[spanID(3)]).outcome)
	assert.Equal(t, semconv.RunOutcomeSucceeded, verdictOf(out[spanID(5)]).outcome)
	assert.Len(t, runsJudged(h.out()), 2)
}

// The span that represents an abandoned run says whose it was.
func TestAbandonedRunIsNamed(t *testing.T) {
	h := newHarness(t, defaultConfig(), nil)
	h.consume(t, requestSpan(2, 1, 0.1, 1).answered("tool_calls", asksForTools).with(otelsemconv.GenAIAgentName("coder")),
		requestSpan(4, 1, 1.1, 2).answered("stop", answer).session("conv"))
	h.pass(t, xRunTimeout+time.Minute)
	spans := abandonedSpans(h.out())
	require.Len(t, spans, 1)
	for key, want := range map[attribute.Key]string{otelsemconv.GenAIAgentNameKey: "coder", otelsemconv.GenAIConversationIDKey: "conv"} {
		got, _ := spans[0].Attributes().Get(string(key))
		assert.Equal(t, want, got.AsString())
	}
}

// runsCounted are the runs that the processor's metric counts, by how they ended.
func runsCounted(t *testing.T, h *harness) map[telemetry.Ending]int64 {
	t.Helper()
	m, err := h.telemetry.GetMetric("otelcol_processor_llm_classify_runs")
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
	client := func(s spanSpec) spanSpec { return runJudgedByClient(s, semconv.RunOutcomeSucceeded) }
	agent := []spanSpec{
		client(inferredSpan(1, 20, 0, 3)),
		requestSpan(2, 1, 0, 1).answered("tool_calls", asksForTools),
	}
	gateway := []spanSpec{
		client(inferredSpan(3, 2, 0.1, 2.9).in(gatewayService)),
		servedRequest(4, 2, 0.1, 0.9).answered("tool_calls", asksForTools),
	}
	for name, calls := range map[string][][]spanSpec{
		"together":      {append(slices.Clone(agent), gateway...)},
		"agent first":   {agent, gateway},
		"gateway first": {gateway, agent},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, defaultConfig(), nil)
			for _, spans := range calls {
				h.consume(t, spans...)
				h.pass(t, 3*time.Second)
			}
			h.pass(t, xMaxHold)
			assert.Equal(t, []pcommon.SpanID{spanID(1)}, runsJudged(h.out()))
		})
	}
}
