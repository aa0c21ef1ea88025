package llmclassify

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/otelllm/otelllm-go/semconv"
)

// handedOver is request 2, cut just after it had handed over a tool call. If no tool
// ran, it is safe to repeat.
func handedOver() spanSpec {
	return requestSpan(2, 1, 0.1, 1).cut(semconv.PhaseToolCallReady, semconv.TransportCauseConnectionReset, "ECONNRESET",
		counts{inputs: 1, completed: 1, calls: 1, callIDs: []string{"call_1"}})
}

// unannounced is a run of the same client whose numbers cannot be read.
func unannounced(s spanSpec) spanSpec { return s.with(semconv.RunRequests(-1), semconv.RunTools(-1)) }

// inCalls are all ways to send spans in this order: in one call, one by one, and in two calls.
func inCalls(spans []spanSpec) (ways [][][]spanSpec) {
	one := make([][]spanSpec, 0, len(spans))
	for _, s := range spans {
		one = append(one, []spanSpec{s})
	}
	ways = append(ways, [][]spanSpec{spans}, one)
	for at := 1; at < len(spans); at++ {
		ways = append(ways, [][]spanSpec{spans[:at], spans[at:]})
	}
	return ways
}

// A run with more requests or tools than it announced is judged as one that announces
// nothing: after it has settled, and never with less care.
func TestContradictedManifest(t *testing.T) {
	tool := toolSpan(3, 1, 1.5, "call_1", semconv.ToolEffectNonIdempotent, semconv.ToolOutcomeSucceeded)
	for name, tt := range map[string]struct {
		requests, tools int // that it announces
		spans           []spanSpec
	}{
		"a tool of none":         {1, 0, []spanSpec{handedOver(), tool}},
		"a tool that reads":      {1, 0, []spanSpec{handedOver(), toolSpan(3, 0.1, 0.2, "call_0", semconv.ToolEffectReadOnly, semconv.ToolOutcomeSucceeded)}},
		"a request of none":      {0, 0, []spanSpec{handedOver()}},
		"two requests of one":    {1, 0, []spanSpec{handedOver(), requestSpan(4, 1, 0.1, 0.3).answered("stop", answer)}},
		"and another is missing": {2, 0, []spanSpec{handedOver(), tool}},
	} {
		run := runSpan(1, 0, 2, tt.requests, tt.tools).failed("*net.OpError")
		for _, order := range orders(len(tt.spans) + 1) {
			var list, plain []spanSpec
			for _, i := range order {
				if i == len(tt.spans) {
					list, plain = append(list, run), append(plain, unannounced(run))
				} else {
					list, plain = append(list, tt.spans[i]), append(plain, tt.spans[i])
				}
			}
			for way, calls := range inCalls(list) {
				if completeBefore(calls, tt.requests, tt.tools) {
					continue // see TestLateCorrection
				}
				h, other := newHarness(t, defaultConfig(), nil), newHarness(t, defaultConfig(), nil)
				for n := range calls {
					h.consume(t, calls[n]...)
					other.consume(t, inCalls(plain)[way][n]...)
				}
				require.Empty(t, runsJudged(h.out()), "%s %v %d: it waits as one that announces nothing", name, order, way)
				h.pass(t, xSettle)
				other.pass(t, xSettle)
				require.Equal(t, []pcommon.SpanID{spanID(1)}, runsJudged(h.out()), "%s %v %d", name, order, way)
				got, want := verdictOf(spansOf(h.out())[spanID(1)]), verdictOf(spansOf(other.out())[spanID(1)])
				assert.Equal(t, semconv.TriggerRunEnded, got.trigger)
				assert.NotEqual(t, semconv.RetrySafetySafeAutoRetry, got.safety)
				assert.Equal(t, want, got, "%s %v %d", name, order, way)
			}
		}
	}
}

// completeBefore reports whether as many requests and tools as the run announces are here
// with it, and no more, before the last call.
func completeBefore(calls [][]spanSpec, requests, tools int) bool {
	run, here := false, tallied{}
	for _, call := range calls[:len(calls)-1] {
		for _, s := range call {
			switch s.attrs[0] {
			case otelsemconv.GenAIOperationNameInvokeAgent:
				run = true
			case otelsemconv.GenAIOperationNameExecuteTool:
				here.tools++
			default:
				here.requests++
			}
		}
		if run && here == (tallied{requests, tools}) {
			return true
		}
	}
	return false
}

type tallied struct{ requests, tools int }

// What began after the end of a run, and what is delivered twice, contradicts nothing.
func TestManifestHolds(t *testing.T) {
	tool := toolSpan(3, 1, 1.5, "call_1", semconv.ToolEffectReadOnly, semconv.ToolOutcomeSucceeded)
	after := toolSpan(4, 2.1, 2.2, "call_2", semconv.ToolEffectReadOnly, semconv.ToolOutcomeSucceeded)
	run := runSpan(1, 0, 2, 1, 1)
	for name, calls := range map[string][][]spanSpec{
		"twice":             {{handedOver(), tool}, {tool}, {handedOver(), run}},
		"twice, in a call":  {{handedOver(), tool, tool, run}},
		"after its end":     {{handedOver(), after}, {tool, run}},
		"and then in a row": {{after, tool, handedOver(), run}},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, defaultConfig(), nil)
			for _, call := range calls {
				h.consume(t, call...)
			}
			h.pass(t, time.Millisecond)
			require.Equal(t, []pcommon.SpanID{spanID(1)}, runsJudged(h.out()))
			assert.Equal(t, semconv.TriggerComplete, verdictOf(spansOf(h.out())[spanID(1)]).trigger)
		})
	}
}

// contradicted is how many spans the processor's metric counts.
func contradicted(t *testing.T, h *harness) int64 {
	t.Helper()
	m, err := h.telemetry.GetMetric("otelcol_processor_llm_classify_verdicts_contradicted")
	if err != nil {
		return 0 // nothing was counted yet
	}
	return total(t, m)
}

func summaryOf(span ptrace.Span) string {
	summary, ok := span.Attributes().Get(string(semconv.FailureSummaryKey))
	if !ok {
		return ""
	}
	return summary.AsString()
}

// A run that announced no tool, and was called safe to repeat because of that, is corrected
// by the tool that comes after its verdict.
func TestLateCorrection(t *testing.T) {
	const ask, never = semconv.RetrySafetyUserConfirmedRetry, semconv.RetrySafetyNoRetry
	failedRun := runSpan(1, 0, 2, 1, 0).failed("*net.OpError")
	patch := func(effect semconv.ToolEffect) spanSpec {
		return toolSpan(3, 1, 1.5, "call_1", effect, semconv.ToolOutcomeSucceeded)
	}
	for name, tt := range map[string]struct {
		late   spanSpec
		want   verdict
		says   string
		counts int64
	}{
		"a tool with side effects": {
			patch(semconv.ToolEffectNonIdempotent),
			verdict{safety: ask, reason: semconv.RetryReasonToolSideEffect, trigger: semconv.TriggerLate},
			"Ask before repeating the run: a tool with side effects could run twice.", 1,
		},
		"a tool of unknown effect": {
			patch(semconv.ToolEffectUnknown),
			verdict{safety: ask, reason: semconv.RetryReasonToolStateUnknown, trigger: semconv.TriggerLate},
			"Ask before repeating the run: a tool could run twice.", 1,
		},
		"a tool that reads": {
			patch(semconv.ToolEffectReadOnly),
			verdict{safety: ask, reason: semconv.RetryReasonEvidenceIncomplete, trigger: semconv.TriggerLate},
			"Ask before repeating the run: the recorded facts do not prove that it is safe.", 1,
		},
		"a request that showed text": {
			requestSpan(3, 1, 0.1, 0.5).answered("stop", answer),
			verdict{safety: ask, reason: semconv.RetryReasonVisibleOutput, trigger: semconv.TriggerLate},
			"Ask before repeating the run: the answer would be shown again from the start.", 1,
		},
		"a request that failed for good": {
			requestSpan(3, 1, 0.1, 0.5).refused(401, semconv.ProviderErrorKindAuthentication, "invalid_api_key"),
			verdict{
				class: semconv.ClassProviderError, cause: semconv.CauseAuthentication, phase: semconv.PhaseResponseStarted,
				origin: semconv.OriginProvider, confidence: semconv.ConfidenceMedium,
				safety: never, reason: semconv.RetryReasonNotTransient, trigger: semconv.TriggerLate,
			},
			"Do not repeat the run.", 1,
		},
		"after the end of the run": {
			toolSpan(3, 2.1, 2.2, "call_1", semconv.ToolEffectNonIdempotent, semconv.ToolOutcomeSucceeded), verdict{trigger: semconv.TriggerLate}, "", 0,
		},
		"of another run":   {patch(semconv.ToolEffectNonIdempotent).with(semconv.RunID(spanID(9).String())), verdict{}, "", 0},
		"delivered before": {handedOver(), verdict{trigger: semconv.TriggerLate}, "", 0},
	} {
		for calls, first := range map[string][][]spanSpec{
			"in one call":                  {{handedOver(), failedRun}},
			"held":                         {{handedOver()}, {failedRun}},
			"with others":                  {{handedOver(), otherSpan(20, 2, 0.1, 0.2), failedRun}},
			"the run first":                {{failedRun}, {handedOver()}},
			"after it was delivered twice": {{handedOver(), failedRun}, {handedOver(), failedRun}},
		} {
			t.Run(name+", "+calls, func(t *testing.T) {
				h := newHarness(t, defaultConfig(), nil)
				for _, call := range first {
					h.consume(t, call...)
				}
				require.Equal(t, semconv.RetrySafetySafeAutoRetry.String(), one(outcomeOf(h.out())[spanKey{traceID(1), spanID(1)}])[string(semconv.RetrySafetyKey)])
				require.Zero(t, contradicted(t, h))
				h.sink.Reset()
				h.pass(t, time.Second)
				for range 2 {
					h.consume(t, tt.late)
				}
				h.pass(t, xMaxHold)
				if tt.late.id == 2 { // its own verdict, as one that is late
					assert.Equal(t, semconv.TriggerLate, verdictOf(spansOf(h.out())[spanID(2)]).trigger)
				} else if tt.counts > 0 {
					span := spansOf(h.sink.AllTraces()[0])[spanID(3)]
					assert.Equal(t, tt.want, verdictOf(span))
					assert.True(t, strings.HasSuffix(summaryOf(span), tt.says), summaryOf(span))
				} else {
					for id, span := range spansOf(h.out()) {
						assert.NotContains(t, summaryOf(span), "repeating the run", id)
					}
				}
				assert.Equal(t, tt.counts, contradicted(t, h), "a second delivery contradicts nothing")
			})
		}
	}
}

// A run that went well has nothing to correct: its verdict says nothing of a repetition.
func TestLateContradictionOfARunThatWentWell(t *testing.T) {
	h := newHarness(t, defaultConfig(), nil)
	h.consume(t, finishedRun(1)...)
	h.consume(t, toolSpan(3, 1, 1.5, "call_1", semconv.ToolEffectNonIdempotent, semconv.ToolOutcomeSucceeded))
	assert.Equal(t, verdict{trigger: semconv.TriggerLate}, verdictOf(spansOf(h.out())[spanID(3)]))
	assert.Equal(t, int64(1), contradicted(t, h))
}

// A run that announces nothing is corrected as well: nothing was contradicted.
func TestLateCorrectionOfARunWithoutNumbers(t *testing.T) {
	h := newHarness(t, defaultConfig(), nil)
	cut := requestSpan(2, 1, 0.1, 1).cut(semconv.PhaseResponseStarted, semconv.TransportCauseConnectionReset, "ECONNRESET", counts{})
	h.consume(t, cut, unannounced(runSpan(1, 0, 2, 0, 0)).failed("*net.OpError"))
	h.pass(t, xSettle)
	require.Equal(t, semconv.RetrySafetySafeAutoRetry, verdictOf(spansOf(h.out())[spanID(1)]).safety)
	h.consume(t, toolSpan(3, 1, 1.5, "call_1", semconv.ToolEffectNonIdempotent, semconv.ToolOutcomeSucceeded))
	v := verdictOf(spansOf(h.out())[spanID(3)])
	assert.Equal(t, verdict{safety: semconv.RetrySafetyUserConfirmedRetry, reason: semconv.RetryReasonToolSideEffect, trigger: semconv.TriggerLate}, v)
	assert.Zero(t, contradicted(t, h))
}

// Each of several late spans rests on those before it: what they say is never weaker.
func TestLateCorrectionsAddUp(t *testing.T) {
	late := []spanSpec{
		toolSpan(3, 1, 1.5, "call_1", semconv.ToolEffectReadOnly, semconv.ToolOutcomeSucceeded),
		toolSpan(4, 1, 1.5, "call_2", semconv.ToolEffectNonIdempotent, semconv.ToolOutcomeSucceeded),
		requestSpan(5, 1, 0.1, 0.5).refused(401, semconv.ProviderErrorKindAuthentication, "invalid_api_key"),
	}
	for _, order := range orders(len(late)) {
		h := newHarness(t, defaultConfig(), nil)
		h.consume(t, handedOver(), runSpan(1, 0, 2, 1, 0).failed("*net.OpError"))
		most := semconv.RetrySafetySafeAutoRetry
		for _, i := range order {
			h.consume(t, late[i])
			v := verdictOf(spansOf(h.out())[spanID(late[i].id)])
			if v.safety != semconv.RetrySafetyUnset {
				assert.Greater(t, v.safety, semconv.RetrySafetySafeAutoRetry)
				most = max(most, v.safety)
			}
		}
		assert.Equal(t, semconv.RetrySafetyNoRetry, most, "%v", order)
		assert.Equal(t, int64(3), contradicted(t, h))
	}
}

// What comes late of an inner run corrects the runs around it, too: their numbers included
// that.
func TestLateCorrectionOfTheRunsAround(t *testing.T) {
	inner := runSpan(11, 0.2, 1.9, 0, 0).under(1).with(semconv.RunID(spanID(1).String()))
	late := toolSpan(3, 1, 1.5, "call_9", semconv.ToolEffectNonIdempotent, semconv.ToolOutcomeSucceeded).under(11).with(semconv.RunID(spanID(11).String()))
	h := newHarness(t, defaultConfig(), nil)
	h.consume(t, inner, handedOver(), runSpan(1, 0, 2, 1, 0).failed("*net.OpError"))
	require.Equal(t, semconv.RetrySafetySafeAutoRetry, verdictOf(spansOf(h.out())[spanID(1)]).safety)
	require.Equal(t, semconv.RunOutcomeSucceeded, verdictOf(spansOf(h.out())[spanID(11)]).outcome)
	h.consume(t, late)
	v := verdictOf(spansOf(h.out())[spanID(3)])
	assert.Equal(t, verdict{safety: semconv.RetrySafetyUserConfirmedRetry, reason: semconv.RetryReasonToolSideEffect, trigger: semconv.TriggerLate}, v)
	assert.Equal(t, int64(1), contradicted(t, h))
	h.consume(t, late)
	assert.Equal(t, int64(1), contradicted(t, h))
}

// A run that announces less than it has, in any number of calls: the most careful of what is
// said of it and of its late spans is never weaker than the verdict on the whole run.
func TestLiesAboutARunNeverMakeItSafer(t *testing.T) {
	effects := semconv.ToolEffectValues()
	late, raised := 0, 0
	for seed := range uint64(1000) {
		g := rand.New(rand.NewPCG(seed, 7))
		var parts []spanSpec
		requests, tools := 1+g.IntN(3), g.IntN(3)
		for i := range requests {
			r := requestSpan(byte(10+i), 1, float64(i), float64(i)+0.5)
			c, reason := counts{text: g.IntN(2)}, "stop"
			if g.IntN(2) == 0 {
				call := fmt.Sprint("call_", i)
				reason = "tool_calls"
				c.inputs, c.completed, c.calls, c.callIDs = 1, 1, 1, []string{call}
			}
			switch {
			case i == requests-1 || g.IntN(3) == 0:
				r = r.cut(semconv.PhaseToolCallReady, semconv.TransportCauseConnectionReset, "ECONNRESET", c)
			default:
				r = r.answered(reason, c)
			}
			parts = append(parts, r)
		}
		for i := range tools {
			parts = append(parts, toolSpan(byte(20+i), float64(i)+0.6, float64(i)+0.8, fmt.Sprint("call_", i), effects[g.IntN(len(effects))], semconv.ToolOutcomeSucceeded))
		}
		honest := newHarness(t, defaultConfig(), nil)
		honest.consume(t, append(slices.Clone(parts), runSpan(1, 0, 9, requests, tools).failed("*net.OpError"))...)
		honest.pass(t, xSettle) // an empty response waits to be explained
		want := verdictOf(spansOf(honest.out())[spanID(1)])
		require.Equal(t, semconv.TriggerComplete, want.trigger)

		spans := append(slices.Clone(parts), runSpan(1, 0, 9, g.IntN(requests+1), g.IntN(tools+1)).failed("*net.OpError"))
		g.Shuffle(len(spans), func(i, k int) { spans[i], spans[k] = spans[k], spans[i] })
		h := newHarness(t, defaultConfig(), nil)
		for len(spans) > 0 {
			n := 1 + g.IntN(len(spans))
			h.consume(t, spans[:n]...)
			h.pass(t, time.Duration(g.IntN(3))*time.Second)
			spans = spans[n:]
		}
		h.pass(t, xMaxHold)
		got, most := verdictOf(spansOf(h.out())[spanID(1)]), semconv.RetrySafetyUnset
		for _, span := range spansOf(h.out()) {
			if v := verdictOf(span); span.SpanID() == spanID(1) || v.trigger == semconv.TriggerLate {
				most = max(most, v.safety)
				if v.trigger == semconv.TriggerLate {
					late++
				}
			}
		}
		if got.safety != semconv.RetrySafetyUnset {
			require.GreaterOrEqual(t, most, want.safety, "seed %d", seed)
			if got.safety < want.safety {
				raised++
			}
		}
	}
	assert.Greater(t, late, 200)
	assert.Greater(t, raised, 5)
}
