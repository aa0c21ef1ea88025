package verdicts

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/harness"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/telemetry"
	"github.com/otelllm/otelllm-go/semconv"
)

// asksForTools is a whole answer that ends in a tool call.
var asksForTools = harness.Counts{Inputs: 1, Completed: 1, Calls: 1, CallIDs: []string{"call_1"}}

// untouched asserts that a span came out without any verdict.
func untouched(t *testing.T, td ptrace.Traces, id byte, message ...any) {
	t.Helper()
	span, ok := harness.SpansOf(td)[harness.SpanID(id)]
	require.True(t, ok, message...)
	assert.Equal(t, harness.Verdict{}, harness.VerdictOf(span), message...)
}

// noRuns asserts that no run was judged or counted.
func noRuns(t *testing.T, h *harness.Harness, message ...any) {
	t.Helper()
	assert.Empty(t, harness.RunsJudged(h.Out()), message...)
	assert.Empty(t, harness.AbandonedSpans(h.Out()), message...)
	_, err := h.Metrics.GetMetric("otelcol_processor_llm_classify_runs")
	assert.Error(t, err, "no run is counted")
}

// attempt is an attempt of the logical call 2.
func attempt(id byte, from, to float64) harness.Span {
	s := harness.RequestSpan(id, 0, from, to)
	return s.Under(2)
}

// One request or tool alone is not a run, whatever becomes of it and however it is
// released. If nothing failed, nothing is written.
func TestRequestAloneIsNoRun(t *testing.T) {
	passed := harness.OtherSpan(9, 0, 0, 3) // the parent, where there is one
	served := func(s harness.Span, parent byte) harness.Span {
		s.Kind = ptrace.SpanKindServer
		return s.In(harness.GatewayService).Under(parent)
	}
	tool := harness.CallSpan(2, 9, 0.1, 1, "call_1")
	for name, tt := range map[string]struct {
		spans []harness.Span
		want  map[byte]harness.Verdict // of spans that failed
	}{
		"it asks for a tool":  {spans: []harness.Span{harness.RequestSpan(2, 0, 0.1, 1).Answered("tool_calls", asksForTools)}},
		"it answers":          {spans: []harness.Span{harness.ChatSpan(2, 0, 0.1, 1).Finished("stop")}},
		"beneath another one": {spans: []harness.Span{harness.RequestSpan(2, 0, 0.1, 1).Answered("tool_calls", asksForTools).Under(9), passed}},
		"a tool":              {spans: []harness.Span{tool, passed}},
		"nothing is known":    {spans: []harness.Span{harness.ChatSpan(2, 9, 0.1, 1), passed}},
		"it is refused": {
			spans: []harness.Span{harness.RequestSpan(2, 0, 0.1, 1).Refused(429, semconv.ProviderErrorKindRateLimited, "")},
			want:  map[byte]harness.Verdict{2: {Class: semconv.ClassProviderError, Cause: semconv.CauseRateLimited, Safety: semconv.RetrySafetySafeAutoRetry}},
		},
		"it is cut by a limit": {
			spans: []harness.Span{harness.ChatSpan(2, 9, 0.1, 1).Finished("length"), passed},
			want:  map[byte]harness.Verdict{2: {Class: semconv.ClassOutputLimited, Cause: semconv.CauseMaxOutputTokens, Safety: semconv.RetrySafetyNoRetry}},
		},
		"attempts of a call": {
			spans: []harness.Span{
				attempt(3, 0.1, 0.3).Refused(429, semconv.ProviderErrorKindRateLimited, ""), attempt(4, 0.4, 1).Answered("stop", harness.Answer),
				harness.ChatSpan(2, 0, 0.1, 1).Finished("stop"),
			},
			// More may come beneath a root that others are beneath.
			want: map[byte]harness.Verdict{3: {Class: semconv.ClassProviderError, Cause: semconv.CauseRateLimited, Safety: semconv.RetrySafetyUserConfirmedRetry}},
		},
		"a gateway": {
			spans: []harness.Span{
				harness.RequestSpan(2, 0, 0.1, 2).Answered("stop", harness.Answer), served(harness.RequestSpan(6, 0, 0.2, 1.9).Answered("stop", harness.Answer), 2),
				harness.RequestSpan(7, 0, 0.3, 0.5).Refused(503, semconv.ProviderErrorKindOverloaded, "").In(harness.GatewayService).Under(6),
				harness.RequestSpan(8, 0, 0.6, 1.8).Answered("stop", harness.Answer).In(harness.GatewayService).Under(6),
			},
			want: map[byte]harness.Verdict{7: {Class: semconv.ClassProviderError, Cause: semconv.CauseOverloaded, Safety: semconv.RetrySafetySafeAutoRetry}},
		},
	} {
		check := func(t *testing.T, h *harness.Harness, message ...any) {
			t.Helper()
			for id, want := range tt.want {
				got := harness.VerdictOf(harness.SpansOf(h.Out())[harness.SpanID(id)])
				assert.Equal(t, want, harness.Verdict{Class: got.Class, Cause: got.Cause, Safety: got.Safety}, "span %d %v", id, message)
			}
			for _, s := range tt.spans {
				if _, failed := tt.want[s.ID]; !failed {
					untouched(t, h.Out(), s.ID, fmt.Sprintf("span %d", s.ID), message)
				}
			}
			noRuns(t, h, message...)
		}
		t.Run(name, func(t *testing.T) {
			h := harness.New(t, harness.DefaultConfig(), nil)
			h.Consume(t, tt.spans...)
			h.Pass(t, harness.MaxHold)
			check(t, h, "in one call")
			assert.Equal(t, telemetry.Load{}, h.Load())

			h = harness.New(t, harness.DefaultConfig(), nil)
			h.Consume(t, tt.spans...)
			require.NoError(t, h.Shutdown(t.Context()))
			check(t, h, "at the end")
		})
	}
}

// A request whose parent never comes goes out early, and is no run in the end either.
func TestRequestBeneathAMissingParent(t *testing.T) {
	for name, span := range map[string]harness.Span{
		"a request": harness.RequestSpan(2, 0, 0.1, 1).Answered("tool_calls", asksForTools).Under(9),
		"a tool":    harness.CallSpan(2, 9, 0.1, 1, "call_1"),
	} {
		t.Run(name, func(t *testing.T) {
			h := harness.New(t, harness.DefaultConfig(), nil)
			h.Consume(t, span)
			h.Pass(t, harness.MaxHold-time.Millisecond)
			assert.Zero(t, h.Out().SpanCount())
			h.Pass(t, time.Millisecond)
			assert.Equal(t, harness.EarlyVerdict(semconv.TriggerHoldExpired), harness.VerdictOf(harness.SpansOf(h.Out())[harness.SpanID(2)]))
			h.Pass(t, harness.RunTimeout)
			assert.Equal(t, 1, h.Out().SpanCount())
			noRuns(t, h)
			assert.Equal(t, telemetry.Load{}, h.Load())
		})
	}
}

// A request at the root is judged when it comes. If it failed, another service has until
// settle to explain it.
func TestRootRequestIsJudgedAtOnce(t *testing.T) {
	h := harness.New(t, harness.DefaultConfig(), nil)
	h.Consume(t, harness.RequestSpan(2, 0, 0.1, 1).Answered("tool_calls", asksForTools))
	untouched(t, h.Out(), 2)
	assert.Equal(t, telemetry.Load{}, h.Load())

	aborted := harness.RequestSpan(2, 0, 0.1, 1).Streamed(semconv.PhaseText, semconv.StreamEndCancelled, harness.Counts{Text: 1}).
		With(semconv.AbortSourceKey.String(semconv.AbortSourceUser.String())).Of(2)
	h.Consume(t, aborted)
	byTrace := func(trace byte) (found []ptrace.Span) {
		harness.EachSpan(h.Out(), func(span ptrace.Span) {
			if span.TraceID() == harness.TraceID(trace) {
				found = append(found, span)
			}
		})
		return found
	}
	require.Len(t, byTrace(2), 1, "no other service is to blame")
	assert.Equal(t, harness.Verdict{
		Class: semconv.ClassLocalAbort, Cause: semconv.CauseUser, Phase: semconv.PhaseText, Origin: semconv.OriginLocal, Confidence: semconv.ConfidenceHigh,
		Safety: semconv.RetrySafetyNoRetry, Reason: semconv.RetryReasonUserAbort, Trigger: semconv.TriggerComplete,
	}, harness.VerdictOf(byTrace(2)[0]))

	empty := harness.RequestSpan(2, 0, 0.1, 2).Answered("stop", harness.Counts{}).Of(3)
	gateway := harness.RequestSpan(6, 0, 0.2, 1.9).Refused(429, semconv.ProviderErrorKindRateLimited, "").In(harness.GatewayService).Under(2).Of(3)
	gateway.Kind = ptrace.SpanKindServer
	h.Consume(t, empty)
	assert.Empty(t, byTrace(3))
	h.Pass(t, harness.Settle-time.Millisecond)
	h.Consume(t, gateway)
	assert.Empty(t, byTrace(3))
	h.Pass(t, time.Millisecond)
	require.Len(t, byTrace(3), 2)
	for _, span := range byTrace(3) {
		if v := harness.VerdictOf(span); span.SpanID() == harness.SpanID(2) {
			assert.Equal(t, semconv.CauseSwallowedError, v.Cause, "the gateway explains it")
			assert.Equal(t, semconv.TriggerComplete, v.Trigger)
		}
	}
	assert.Equal(t, telemetry.Load{}, h.Load())
	noRuns(t, h)
}

// What comes beneath a root after it was judged is late, and is never called safer than if
// it had come before: what the others did is not known any more.
func TestRequestsBeneathARootInEveryOrder(t *testing.T) {
	cut := func(id, parent byte, from, to float64) harness.Span {
		return harness.RequestSpan(id, 0, from, to).Cut(semconv.PhaseResponseStarted, semconv.TransportCauseConnectionReset, "ECONNRESET", harness.Counts{}).Under(parent)
	}
	tool := harness.CallSpan(5, 4, 1.1, 1.5, "call_1").With(semconv.ToolEffectKey.String(semconv.ToolEffectNonIdempotent.String()))
	for name, spans := range map[string][]harness.Span{
		"requests and a tool":     {harness.RequestSpan(4, 0, 0.1, 3).Answered("tool_calls", asksForTools), tool, cut(6, 4, 1.6, 2)},
		"beneath one that failed": {cut(4, 0, 0.1, 3), tool, cut(6, 5, 1.2, 1.4)},
		"a call and its attempts": {harness.ChatSpan(4, 0, 0.1, 3).Failed("ECONNRESET"), cut(5, 4, 0.1, 1), cut(6, 4, 1.2, 3)},
	} {
		t.Run(name, func(t *testing.T) {
			together := harness.New(t, harness.DefaultConfig(), nil)
			together.Consume(t, spans...)
			together.Pass(t, harness.MaxHold)
			want := harness.SpansOf(together.Out())
			for _, order := range orders(len(spans)) {
				h := harness.New(t, harness.DefaultConfig(), nil)
				for _, i := range order {
					h.Consume(t, spans[i])
					h.Pass(t, harness.Settle+time.Second)
				}
				h.Pass(t, harness.MaxHold)
				out := harness.SpansOf(h.Out())
				require.Len(t, out, len(spans))
				for _, s := range spans[1:] {
					got, all := harness.VerdictOf(out[harness.SpanID(s.ID)]), harness.VerdictOf(want[harness.SpanID(s.ID)])
					if all.Outcome == semconv.RunOutcomeUnset {
						assert.GreaterOrEqual(t, got.Safety, all.Safety, "span %d, order %v", s.ID, order)
						assert.Equal(t, all.Class, got.Class, "span %d, order %v", s.ID, order)
					}
				}
				assert.Equal(t, telemetry.Load{}, h.Load())
			}
		})
	}
}

// What goes early to make room is not safe to repeat: the tools that ran meanwhile had no
// time to arrive. A root alone is all that there is.
func TestEarlyRequestIsNotSafe(t *testing.T) {
	cut := func(id, run byte) harness.Span {
		return harness.RequestSpan(id, run, 0.1, 2).Cut(semconv.PhaseResponseStarted, semconv.TransportCauseConnectionReset, "ECONNRESET", harness.Counts{})
	}
	failed := harness.ToolSpan(3, 0.1, 1, "call_1", semconv.ToolEffectReadOnly, semconv.ToolOutcomeFailed)
	for name, tt := range map[string]struct {
		spans []harness.Span
		want  semconv.RetrySafety // of span 2
	}{
		"of a run":        {[]harness.Span{cut(2, 1), failed}, semconv.RetrySafetyUserConfirmedRetry},
		"beneath another": {[]harness.Span{cut(2, 0).Under(9), cut(3, 0).Under(9)}, semconv.RetrySafetyUserConfirmedRetry},
		"a root":          {[]harness.Span{cut(2, 0), cut(3, 0).In(harness.GatewayService)}, semconv.RetrySafetySafeAutoRetry},
		"its own root":    {[]harness.Span{cut(2, 0), cut(3, 0).Under(2)}, semconv.RetrySafetyUserConfirmedRetry},
	} {
		check := func(t *testing.T, h *harness.Harness, trigger semconv.Trigger) {
			t.Helper()
			v := harness.VerdictOf(harness.SpansOf(h.Out())[harness.SpanID(2)])
			assert.Equal(t, trigger, v.Trigger)
			assert.Equal(t, tt.want, v.Safety)
		}
		t.Run(name, func(t *testing.T) {
			h := harness.New(t, harness.DefaultConfig(), nil)
			h.Consume(t, tt.spans...)
			assert.Zero(t, h.Out().SpanCount())
			l := h.Lane()
			l.Push(l.Buffer.Evict(harness.T0, l.Buffer.Bytes()))
			harness.JudgeAll(t.Context(), l)
			check(t, h, semconv.TriggerMemory)

			cfg := harness.DefaultConfig()
			cfg.MaxSpansPerRun = 1
			h = harness.New(t, cfg, nil)
			h.Consume(t, tt.spans...)
			check(t, h, semconv.TriggerSpanLimit)
		})
	}
}

// A run that goes to make room has not succeeded by a request of which only the time shows that
// it is of the run: another one of the run may be to come, beside which it does not count.
func TestEarlyRunByTimeDidNotSucceed(t *testing.T) {
	own := harness.ChatSpan(2, 1, 0.1, 0.3).Finished("tool_calls")
	ofTime, run := harness.ChatSpan(3, 97, 0.4, 1).Finished("stop"), harness.AgentSpan(1, 98, 0, 3)
	h := harness.New(t, harness.DefaultConfig(), nil)
	h.Consume(t, own, ofTime, run)
	h.Pass(t, harness.Settle)
	assert.Equal(t, semconv.RunOutcomeIncomplete, harness.VerdictOf(harness.SpansOf(h.Out())[harness.SpanID(1)]).Outcome, "with both")

	h = harness.New(t, harness.DefaultConfig(), nil)
	h.Consume(t, ofTime, run)
	h.Pass(t, harness.Settle)
	assert.Equal(t, semconv.RunOutcomeSucceeded, harness.VerdictOf(harness.SpansOf(h.Out())[harness.SpanID(1)]).Outcome, "it was all")

	h = harness.New(t, harness.DefaultConfig(), nil)
	h.Consume(t, ofTime, run)
	l := h.Lane()
	l.Push(l.Buffer.Evict(harness.T0, l.Buffer.Bytes()))
	harness.JudgeAll(t.Context(), l)
	v := harness.VerdictOf(harness.SpansOf(h.Out())[harness.SpanID(1)])
	assert.Equal(t, semconv.TriggerMemory, v.Trigger)
	assert.Equal(t, semconv.RunOutcomeIncomplete, v.Outcome)
}

// A call delivered what none of its attempts shows: the one that it came from is not here, and
// to repeat the call, or the run that it is of, repeats that. The attempt that failed is as safe
// as it is alone.
func TestCallWithoutItsAttempt(t *testing.T) {
	none := []string{}
	for name, c := range map[string]harness.Span{
		"text":   harness.RequestSpan(4, 0, 0.1, 3).Answered("stop", harness.Answer),
		"a call": harness.RequestSpan(4, 0, 0.1, 3).Answered("tool_calls", harness.Counts{Inputs: 1, Completed: 1, Calls: 1}),
	} {
		t.Run(name, func(t *testing.T) {
			call := c.In(harness.GatewayService).History(none, none)
			limited := harness.RequestSpan(6, 0, 0.2, 0.5).Refused(429, semconv.ProviderErrorKindRateLimited, "rate_limit_exceeded").
				Under(4).In(harness.GatewayService).History(none, none)
			const safe, asks = semconv.RetrySafetySafeAutoRetry, semconv.RetrySafetyUserConfirmedRetry

			served := call
			served.Kind = ptrace.SpanKindServer
			h := harness.New(t, harness.DefaultConfig(), nil)
			h.Consume(t, served, limited)
			h.Pass(t, harness.Settle)
			assert.Equal(t, asks, harness.VerdictOf(harness.SpansOf(h.Out())[harness.SpanID(4)]).Safety, "a gateway's")
			assert.Equal(t, safe, harness.VerdictOf(harness.SpansOf(h.Out())[harness.SpanID(6)]).Safety, "the gateway's attempt")

			h = harness.New(t, harness.DefaultConfig(), nil)
			run := harness.RunSpan(1, 0, 4, 1, 0).Failed("429").In(harness.GatewayService)
			h.Consume(t, run, call.Under(1), limited)
			h.Pass(t, harness.MaxHold)
			assert.Equal(t, asks, harness.VerdictOf(harness.SpansOf(h.Out())[harness.SpanID(1)]).Safety, "a run")
		})
	}
}

// A gateway that only passed a request on, at the root of its trace, shows all that there is:
// its request and those beneath it are as safe to repeat as each by itself, whichever comes
// first. One that may have done more is not.
func TestGatewayPassesAnErrorOn(t *testing.T) {
	call := []string{"call_1"}
	asked := func(id, parent byte, from, to float64) harness.Span {
		return harness.RequestSpan(id, 0, from, to).Under(parent).In(harness.GatewayService).History(call, call)
	}
	cut := func(s harness.Span, c harness.Counts) harness.Span {
		return s.Cut(semconv.PhaseResponseStarted, semconv.TransportCauseConnectionReset, "ECONNRESET", c)
	}
	served := func(s harness.Span) harness.Span { s.Kind = ptrace.SpanKindServer; return s }
	root := served(cut(asked(4, 0, 0.1, 3), harness.Counts{}))
	limited := asked(6, 4, 0.2, 0.5).Refused(429, semconv.ProviderErrorKindRateLimited, "")
	const safe, asks = semconv.RetrySafetySafeAutoRetry, semconv.RetrySafetyUserConfirmedRetry
	for name, tt := range map[string]struct {
		spans []harness.Span // the root first
		want  map[byte]semconv.RetrySafety
	}{
		"once":                 {[]harness.Span{root, cut(asked(5, 4, 0.2, 2.9), harness.Counts{})}, map[byte]semconv.RetrySafety{4: safe, 5: safe}},
		"twice":                {[]harness.Span{root, limited, cut(asked(5, 4, 0.6, 2.9), harness.Counts{})}, map[byte]semconv.RetrySafety{4: safe, 5: safe, 6: safe}},
		"twice, then well":     {[]harness.Span{served(asked(4, 0, 0.1, 3).Answered("stop", harness.Answer)), limited, asked(5, 4, 0.6, 2.9).Answered("stop", harness.Answer)}, map[byte]semconv.RetrySafety{6: safe}},
		"it ran a tool":        {[]harness.Span{root, cut(asked(5, 4, 0.2, 2.9).History([]string{"call_1", "call_2"}, []string{"call_1", "call_2"}), harness.Counts{})}, map[byte]semconv.RetrySafety{4: asks, 5: asks}},
		"an unknown history":   {[]harness.Span{root, cut(asked(5, 4, 0.2, 2.9).Without(semconv.HistoryToolCallsKey), harness.Counts{})}, map[byte]semconv.RetrySafety{4: asks, 5: asks}},
		"it showed text":       {[]harness.Span{served(cut(asked(4, 0, 0.1, 3), harness.Counts{Text: 1})), limited, cut(asked(5, 4, 0.6, 2.9), harness.Counts{})}, map[byte]semconv.RetrySafety{4: asks, 5: asks, 6: asks}},
		"it was sent text":     {[]harness.Span{root, cut(asked(6, 4, 0.2, 0.5), harness.Counts{Text: 1}), cut(asked(5, 4, 0.6, 2.9), harness.Counts{})}, map[byte]semconv.RetrySafety{4: asks, 5: asks, 6: asks}},
		"it is an agent":       {[]harness.Span{cut(asked(4, 0, 0.1, 3), harness.Counts{}), cut(asked(5, 4, 0.2, 2.9), harness.Counts{})}, map[byte]semconv.RetrySafety{4: asks, 5: asks}},
		"a tool is beneath it": {[]harness.Span{root, cut(asked(5, 4, 0.2, 2.9), harness.Counts{}), harness.CallSpan(7, 4, 0.3, 0.4, "call_1").In(harness.GatewayService)}, map[byte]semconv.RetrySafety{4: asks, 5: asks}},
	} {
		safeties := func(h *harness.Harness) map[byte]semconv.RetrySafety {
			found := map[byte]semconv.RetrySafety{}
			for id, span := range harness.SpansOf(h.Out()) {
				if v := harness.VerdictOf(span); v.Safety != semconv.RetrySafetyUnset {
					found[id[7]] = v.Safety
				}
			}
			return found
		}
		t.Run(name, func(t *testing.T) {
			h := harness.New(t, harness.DefaultConfig(), nil)
			h.Consume(t, tt.spans...)
			h.Pass(t, harness.Settle)
			assert.Equal(t, tt.want, safeties(h), "together")

			h = harness.New(t, harness.DefaultConfig(), nil)
			h.Consume(t, tt.spans...)
			l := h.Lane()
			l.Push(l.Buffer.Evict(harness.T0, l.Buffer.Bytes()))
			harness.JudgeAll(t.Context(), l)
			assert.Equal(t, tt.want, safeties(h), "to make room")

			for _, order := range orders(len(tt.spans)) {
				h := harness.New(t, harness.DefaultConfig(), nil)
				for _, i := range order {
					h.Consume(t, tt.spans[i])
					h.Pass(t, harness.Settle/time.Duration(len(tt.spans)+1))
				}
				h.Pass(t, harness.MaxHold)
				want, got := maps.Clone(tt.want), safeties(h)
				if _, failed := want[4]; !failed && slices.Index(order, 0) < slices.Index(order, 1) {
					want[6] = asks // late: a root that went well does not wait
				}
				assert.Equal(t, want, got, "order %v", order)
				assert.Equal(t, telemetry.Load{}, h.Load())
			}
		})
	}
}
