package verdicts

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

	"github.com/otelllm/otelllm-go/internal/sample"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/harness"
	"github.com/otelllm/otelllm-go/semconv"
)

// handedOver is request 2, cut just after it had handed over a tool call. If no tool
// ran, it is safe to repeat.
func handedOver() harness.Span {
	return harness.RequestSpan(2, 1, 0.1, 1).Cut(semconv.PhaseToolCallReady, semconv.TransportCauseConnectionReset, "ECONNRESET",
		harness.Counts{Inputs: 1, Completed: 1, Calls: 1, CallIDs: []string{"call_1"}})
}

// inCalls are all ways to send spans in this order: in one call, one by one, and in two calls.
func inCalls(spans []harness.Span) (ways [][][]harness.Span) {
	one := make([][]harness.Span, 0, len(spans))
	for _, s := range spans {
		one = append(one, []harness.Span{s})
	}
	ways = append(ways, [][]harness.Span{spans}, one)
	for at := 1; at < len(spans); at++ {
		ways = append(ways, [][]harness.Span{spans[:at], spans[at:]})
	}
	return ways
}

// A run with more requests or tools than it announced is judged as one that announces
// nothing: after it has settled, and never with less care.
func TestContradictedAnnouncement(t *testing.T) {
	tool := harness.ToolSpan(3, 1, 1.5, "call_1", semconv.ToolEffectNonIdempotent, semconv.ToolOutcomeSucceeded)
	for name, tt := range map[string]struct {
		requests, tools int // that it announces
		spans           []harness.Span
	}{
		"a tool of none":         {1, 0, []harness.Span{handedOver(), tool}},
		"a tool that reads":      {1, 0, []harness.Span{handedOver(), harness.ToolSpan(3, 0.1, 0.2, "call_0", semconv.ToolEffectReadOnly, semconv.ToolOutcomeSucceeded)}},
		"a request of none":      {0, 0, []harness.Span{handedOver()}},
		"two requests of one":    {1, 0, []harness.Span{handedOver(), harness.RequestSpan(4, 1, 0.1, 0.3).Answered("stop", harness.Answer)}},
		"and another is missing": {2, 0, []harness.Span{handedOver(), tool}},
	} {
		run := harness.RunSpan(1, 0, 2, tt.requests, tt.tools).Failed("*net.OpError")
		for _, order := range orders(len(tt.spans) + 1) {
			var list, plain []harness.Span
			for _, i := range order {
				if i == len(tt.spans) {
					list, plain = append(list, run), append(plain, harness.Unannounced(run))
				} else {
					list, plain = append(list, tt.spans[i]), append(plain, tt.spans[i])
				}
			}
			for way, calls := range inCalls(list) {
				if completeBefore(calls, tt.requests, tt.tools) {
					continue // see TestLateCorrection
				}
				h, other := harness.New(t, harness.DefaultConfig(), nil), harness.New(t, harness.DefaultConfig(), nil)
				for n := range calls {
					h.Consume(t, calls[n]...)
					other.Consume(t, inCalls(plain)[way][n]...)
				}
				require.Empty(t, harness.RunsJudged(h.Out()), "%s %v %d: it waits as one that announces nothing", name, order, way)
				h.Pass(t, harness.Settle)
				other.Pass(t, harness.Settle)
				require.Equal(t, []pcommon.SpanID{harness.SpanID(1)}, harness.RunsJudged(h.Out()), "%s %v %d", name, order, way)
				got, want := harness.VerdictOf(harness.SpansOf(h.Out())[harness.SpanID(1)]), harness.VerdictOf(harness.SpansOf(other.Out())[harness.SpanID(1)])
				assert.Equal(t, semconv.TriggerRunEnded, got.Trigger)
				assert.NotEqual(t, semconv.RetrySafetySafeAutoRetry, got.Safety)
				assert.Equal(t, want, got, "%s %v %d", name, order, way)
			}
		}
	}
}

// completeBefore reports whether as many requests and tools as the run announces are here
// with it, and no more, before the last call.
func completeBefore(calls [][]harness.Span, requests, tools int) bool {
	run, here := false, tallied{}
	for _, call := range calls[:len(calls)-1] {
		for _, s := range call {
			switch s.Attrs[0] {
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
func TestTrueAnnouncement(t *testing.T) {
	tool := harness.ToolSpan(3, 1, 1.5, "call_1", semconv.ToolEffectReadOnly, semconv.ToolOutcomeSucceeded)
	after := harness.ToolSpan(4, 2.1, 2.2, "call_2", semconv.ToolEffectReadOnly, semconv.ToolOutcomeSucceeded)
	run := harness.RunSpan(1, 0, 2, 1, 1)
	for name, calls := range map[string][][]harness.Span{
		"twice":             {{handedOver(), tool}, {tool}, {handedOver(), run}},
		"twice, in a call":  {{handedOver(), tool, tool, run}},
		"after its end":     {{handedOver(), after}, {tool, run}},
		"and then in a row": {{after, tool, handedOver(), run}},
	} {
		t.Run(name, func(t *testing.T) {
			h := harness.New(t, harness.DefaultConfig(), nil)
			for _, call := range calls {
				h.Consume(t, call...)
			}
			h.Pass(t, time.Millisecond)
			require.Equal(t, []pcommon.SpanID{harness.SpanID(1)}, harness.RunsJudged(h.Out()))
			assert.Equal(t, semconv.TriggerComplete, harness.VerdictOf(harness.SpansOf(h.Out())[harness.SpanID(1)]).Trigger)
		})
	}
}

// contradicted is how many spans the processor's metric counts.
func contradicted(t *testing.T, h *harness.Harness) int64 {
	t.Helper()
	m, err := h.Metrics.GetMetric("otelcol_processor_llm_classify_verdicts_contradicted")
	if err != nil {
		return 0 // nothing was counted yet
	}
	return harness.Total(t, m)
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
	failedRun := harness.RunSpan(1, 0, 2, 1, 0).Failed("*net.OpError")
	patch := func(effect semconv.ToolEffect) harness.Span {
		return harness.ToolSpan(3, 1, 1.5, "call_1", effect, semconv.ToolOutcomeSucceeded)
	}
	for name, tt := range map[string]struct {
		late   harness.Span
		want   harness.Verdict
		says   string
		counts int64
	}{
		"a tool with side effects": {
			patch(semconv.ToolEffectNonIdempotent),
			harness.Verdict{Safety: ask, Reason: semconv.RetryReasonToolSideEffect, Trigger: semconv.TriggerLate},
			"Ask before repeating the run: a tool with side effects could run twice.", 1,
		},
		"a tool of unknown effect": {
			patch(semconv.ToolEffectUnknown),
			harness.Verdict{Safety: ask, Reason: semconv.RetryReasonToolStateUnknown, Trigger: semconv.TriggerLate},
			"Ask before repeating the run: a tool could run twice.", 1,
		},
		"a tool that reads": {
			patch(semconv.ToolEffectReadOnly),
			harness.Verdict{Safety: ask, Reason: semconv.RetryReasonEvidenceIncomplete, Trigger: semconv.TriggerLate},
			"Ask before repeating the run: the recorded facts do not prove that it is safe.", 1,
		},
		"a request that showed text": {
			harness.RequestSpan(3, 1, 0.1, 0.5).Answered("stop", harness.Answer),
			harness.Verdict{Safety: ask, Reason: semconv.RetryReasonVisibleOutput, Trigger: semconv.TriggerLate},
			"Ask before repeating the run: the answer would be shown again from the start.", 1,
		},
		"a request that failed for good": {
			harness.RequestSpan(3, 1, 0.1, 0.5).Refused(401, semconv.ProviderErrorKindAuthentication, "invalid_api_key"),
			harness.Verdict{
				Class: semconv.ClassProviderError, Cause: semconv.CauseAuthentication, Phase: semconv.PhaseResponseStarted,
				Origin: semconv.OriginProvider, Confidence: semconv.ConfidenceMedium,
				Safety: never, Reason: semconv.RetryReasonNotTransient, Trigger: semconv.TriggerLate,
			},
			"Do not repeat the run.", 1,
		},
		"after the end of the run": {
			harness.ToolSpan(3, 2.1, 2.2, "call_1", semconv.ToolEffectNonIdempotent, semconv.ToolOutcomeSucceeded), harness.Verdict{Trigger: semconv.TriggerLate}, "", 0,
		},
		"of another run":   {patch(semconv.ToolEffectNonIdempotent).With(semconv.RunID(harness.SpanID(9).String())), harness.Verdict{}, "", 0},
		"delivered before": {handedOver(), harness.Verdict{Trigger: semconv.TriggerLate}, "", 0},
	} {
		for calls, first := range map[string][][]harness.Span{
			"in one call":                  {{handedOver(), failedRun}},
			"held":                         {{handedOver()}, {failedRun}},
			"with others":                  {{handedOver(), harness.OtherSpan(20, 2, 0.1, 0.2), failedRun}},
			"the run first":                {{failedRun}, {handedOver()}},
			"after it was delivered twice": {{handedOver(), failedRun}, {handedOver(), failedRun}},
		} {
			t.Run(name+", "+calls, func(t *testing.T) {
				h := harness.New(t, harness.DefaultConfig(), nil)
				for _, call := range first {
					h.Consume(t, call...)
				}
				require.Equal(t, semconv.RetrySafetySafeAutoRetry.String(), harness.Fullest(harness.OutcomeOf(h.Out())[harness.SpanKey{Trace: harness.TraceID(1), ID: harness.SpanID(1)}])[string(semconv.RetrySafetyKey)])
				require.Zero(t, contradicted(t, h))
				h.Sink.Reset()
				h.Pass(t, time.Second)
				for range 2 {
					h.Consume(t, tt.late)
				}
				h.Pass(t, harness.MaxHold)
				if tt.late.ID == 2 { // its own verdict, as one that is late
					assert.Equal(t, semconv.TriggerLate, harness.VerdictOf(harness.SpansOf(h.Out())[harness.SpanID(2)]).Trigger)
				} else if tt.counts > 0 {
					span := harness.SpansOf(h.Sink.AllTraces()[0])[harness.SpanID(3)]
					assert.Equal(t, tt.want, harness.VerdictOf(span))
					assert.True(t, strings.HasSuffix(summaryOf(span), tt.says), summaryOf(span))
				} else {
					for id, span := range harness.SpansOf(h.Out()) {
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
	h := harness.New(t, harness.DefaultConfig(), nil)
	h.Consume(t, harness.FinishedRun(1)...)
	h.Consume(t, harness.ToolSpan(3, 1, 1.5, "call_1", semconv.ToolEffectNonIdempotent, semconv.ToolOutcomeSucceeded))
	assert.Equal(t, harness.Verdict{Trigger: semconv.TriggerLate}, harness.VerdictOf(harness.SpansOf(h.Out())[harness.SpanID(3)]))
	assert.Equal(t, int64(1), contradicted(t, h))
}

// A run that announces nothing is corrected as well: nothing was contradicted.
func TestLateCorrectionOfARunWithoutNumbers(t *testing.T) {
	h := harness.New(t, harness.DefaultConfig(), nil)
	cut := harness.RequestSpan(2, 1, 0.1, 1).Cut(semconv.PhaseResponseStarted, semconv.TransportCauseConnectionReset, "ECONNRESET", harness.Counts{})
	h.Consume(t, cut, harness.Unannounced(harness.RunSpan(1, 0, 2, 0, 0)).Failed("*net.OpError"))
	h.Pass(t, harness.Settle)
	require.Equal(t, semconv.RetrySafetySafeAutoRetry, harness.VerdictOf(harness.SpansOf(h.Out())[harness.SpanID(1)]).Safety)
	h.Consume(t, harness.ToolSpan(3, 1, 1.5, "call_1", semconv.ToolEffectNonIdempotent, semconv.ToolOutcomeSucceeded))
	v := harness.VerdictOf(harness.SpansOf(h.Out())[harness.SpanID(3)])
	assert.Equal(t, harness.Verdict{Safety: semconv.RetrySafetyUserConfirmedRetry, Reason: semconv.RetryReasonToolSideEffect, Trigger: semconv.TriggerLate}, v)
	assert.Zero(t, contradicted(t, h))
}

// Each of several late spans rests on those before it: what they say is never weaker.
func TestLateCorrectionsAddUp(t *testing.T) {
	late := []harness.Span{
		harness.ToolSpan(3, 1, 1.5, "call_1", semconv.ToolEffectReadOnly, semconv.ToolOutcomeSucceeded),
		harness.ToolSpan(4, 1, 1.5, "call_2", semconv.ToolEffectNonIdempotent, semconv.ToolOutcomeSucceeded),
		harness.RequestSpan(5, 1, 0.1, 0.5).Refused(401, semconv.ProviderErrorKindAuthentication, "invalid_api_key"),
	}
	for _, order := range orders(len(late)) {
		h := harness.New(t, harness.DefaultConfig(), nil)
		h.Consume(t, handedOver(), harness.RunSpan(1, 0, 2, 1, 0).Failed("*net.OpError"))
		most := semconv.RetrySafetySafeAutoRetry
		for _, i := range order {
			h.Consume(t, late[i])
			v := harness.VerdictOf(harness.SpansOf(h.Out())[harness.SpanID(late[i].ID)])
			if v.Safety != semconv.RetrySafetyUnset {
				assert.Greater(t, v.Safety, semconv.RetrySafetySafeAutoRetry)
				most = max(most, v.Safety)
			}
		}
		assert.Equal(t, semconv.RetrySafetyNoRetry, most, "%v", order)
		assert.Equal(t, int64(3), contradicted(t, h))
	}
}

// What comes late of an inner run corrects the runs around it, too: their numbers included
// that.
func TestLateCorrectionOfTheRunsAround(t *testing.T) {
	inner := harness.RunSpan(11, 0.2, 1.9, 0, 0).Under(1).With(semconv.RunID(harness.SpanID(1).String()))
	late := harness.ToolSpan(3, 1, 1.5, "call_9", semconv.ToolEffectNonIdempotent, semconv.ToolOutcomeSucceeded).Under(11).With(semconv.RunID(harness.SpanID(11).String()))
	h := harness.New(t, harness.DefaultConfig(), nil)
	h.Consume(t, inner, handedOver(), harness.RunSpan(1, 0, 2, 1, 0).Failed("*net.OpError"))
	require.Equal(t, semconv.RetrySafetySafeAutoRetry, harness.VerdictOf(harness.SpansOf(h.Out())[harness.SpanID(1)]).Safety)
	require.Equal(t, semconv.RunOutcomeSucceeded, harness.VerdictOf(harness.SpansOf(h.Out())[harness.SpanID(11)]).Outcome)
	h.Consume(t, late)
	v := harness.VerdictOf(harness.SpansOf(h.Out())[harness.SpanID(3)])
	assert.Equal(t, harness.Verdict{Safety: semconv.RetrySafetyUserConfirmedRetry, Reason: semconv.RetryReasonToolSideEffect, Trigger: semconv.TriggerLate}, v)
	assert.Equal(t, int64(1), contradicted(t, h))
	h.Consume(t, late)
	assert.Equal(t, int64(1), contradicted(t, h))
}

// A run that announces less than it has, in any number of calls: the most careful of what is
// said of it and of its late spans is never weaker than the verdict on the whole run.
func TestFalseAnnouncementIsNeverSafer(t *testing.T) {
	effects := semconv.ToolEffectValues()
	late, raised := 0, 0
	for seed := range uint64(1000 / sample.Every(5)) {
		g := rand.New(rand.NewPCG(seed, 7))
		var parts []harness.Span
		requests, tools := 1+g.IntN(3), g.IntN(3)
		for i := range requests {
			r := harness.RequestSpan(byte(10+i), 1, float64(i), float64(i)+0.5)
			c, reason := harness.Counts{Text: g.IntN(2)}, "stop"
			if g.IntN(2) == 0 {
				call := fmt.Sprint("call_", i)
				reason = "tool_calls"
				c.Inputs, c.Completed, c.Calls, c.CallIDs = 1, 1, 1, []string{call}
			}
			switch {
			case i == requests-1 || g.IntN(3) == 0:
				r = r.Cut(semconv.PhaseToolCallReady, semconv.TransportCauseConnectionReset, "ECONNRESET", c)
			default:
				r = r.Answered(reason, c)
			}
			parts = append(parts, r)
		}
		for i := range tools {
			parts = append(parts, harness.ToolSpan(byte(20+i), float64(i)+0.6, float64(i)+0.8, fmt.Sprint("call_", i), effects[g.IntN(len(effects))], semconv.ToolOutcomeSucceeded))
		}
		honest := harness.New(t, harness.DefaultConfig(), nil)
		honest.Consume(t, append(slices.Clone(parts), harness.RunSpan(1, 0, 9, requests, tools).Failed("*net.OpError"))...)
		honest.Pass(t, harness.Settle) // an empty response waits to be explained
		want := harness.VerdictOf(harness.SpansOf(honest.Out())[harness.SpanID(1)])
		require.Equal(t, semconv.TriggerComplete, want.Trigger)

		spans := append(slices.Clone(parts), harness.RunSpan(1, 0, 9, g.IntN(requests+1), g.IntN(tools+1)).Failed("*net.OpError"))
		g.Shuffle(len(spans), func(i, k int) { spans[i], spans[k] = spans[k], spans[i] })
		h := harness.New(t, harness.DefaultConfig(), nil)
		for len(spans) > 0 {
			n := 1 + g.IntN(len(spans))
			h.Consume(t, spans[:n]...)
			h.Pass(t, time.Duration(g.IntN(3))*time.Second)
			spans = spans[n:]
		}
		h.Pass(t, harness.MaxHold)
		got, most := harness.VerdictOf(harness.SpansOf(h.Out())[harness.SpanID(1)]), semconv.RetrySafetyUnset
		for _, span := range harness.SpansOf(h.Out()) {
			if v := harness.VerdictOf(span); span.SpanID() == harness.SpanID(1) || v.Trigger == semconv.TriggerLate {
				most = max(most, v.Safety)
				if v.Trigger == semconv.TriggerLate {
					late++
				}
			}
		}
		if got.Safety != semconv.RetrySafetyUnset {
			require.GreaterOrEqual(t, most, want.Safety, "seed %d", seed)
			if got.Safety < want.Safety {
				raised++
			}
		}
	}
	assert.Greater(t, late, 200/sample.Every(5))
	assert.Greater(t, raised, 5/sample.Every(5))
}
