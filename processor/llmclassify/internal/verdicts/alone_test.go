package llmclassify

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/telemetry"
	"github.com/otelllm/otelllm-go/semconv"
)

// asksForTools is a whole answer that ends in a tool call.
var asksForTools = counts{inputs: 1, completed: 1, calls: 1, callIDs: []string{"call_1"}}

// untouched asserts that a span came out without any verdict.
func untouched(t *testing.T, td ptrace.Traces, id byte, message ...any) {
	t.Helper()
	span, ok := spansOf(td)[spanID(id)]
	require.True(t, ok, message...)
	assert.Equal(t, verdict{}, verdictOf(span), message...)
}

// noRuns asserts that no run was judged or counted.
func noRuns(t *testing.T, h *harness, message ...any) {
	t.Helper()
	assert.Empty(t, runsJudged(h.out()), message...)
	assert.Empty(t, abandonedSpans(h.out()), message...)
	_, err := h.telemetry.GetMetric("otelcol_processor_llm_classify_runs")
	assert.Error(t, err, "no run is counted")
}

// attempt is an attempt of the logical call 2.
func attempt(id byte, from, to float64) spanSpec {
	s := requestSpan(id, 0, from, to)
	return s.under(2)
}

// One request or tool alone is not a run, whatever becomes of it and however it is
// released. If nothing failed, nothing is written.
func TestAlone(t *testing.T) {
	passed := otherSpan(9, 0, 0, 3) // the parent, where there is one
	served := func(s spanSpec, parent byte) spanSpec {
		s.kind = ptrace.SpanKindServer
		return s.in(gatewayService).under(parent)
	}
	tool := callSpan(2, 9, 0.1, 1, "call_1")
	for name, tt := range map[string]struct {
		spans []spanSpec
		want  map[byte]verdict // of spans that failed
	}{
		"it asks for a tool":  {spans: []spanSpec{requestSpan(2, 0, 0.1, 1).answered("tool_calls", asksForTools)}},
		"it answers":          {spans: []spanSpec{chatSpan(2, 0, 0.1, 1).finished("stop")}},
		"beneath another one": {spans: []spanSpec{requestSpan(2, 0, 0.1, 1).answered("tool_calls", asksForTools).under(9), passed}},
		"a tool":              {spans: []spanSpec{tool, passed}},
		"nothing is known":    {spans: []spanSpec{chatSpan(2, 9, 0.1, 1), passed}},
		"it is refused": {
			spans: []spanSpec{requestSpan(2, 0, 0.1, 1).refused(429, semconv.ProviderErrorKindRateLimited, "")},
			want:  map[byte]verdict{2: {class: semconv.ClassProviderError, cause: semconv.CauseRateLimited, safety: semconv.RetrySafetySafeAutoRetry}},
		},
		"it is cut by a limit": {
			spans: []spanSpec{chatSpan(2, 9, 0.1, 1).finished("length"), passed},
			want:  map[byte]verdict{2: {class: semconv.ClassOutputLimited, cause: semconv.CauseMaxOutputTokens, safety: semconv.RetrySafetyNoRetry}},
		},
		"attempts of a call": {
			spans: []spanSpec{
				attempt(3, 0.1, 0.3).refused(429, semconv.ProviderErrorKindRateLimited, ""), attempt(4, 0.4, 1).answered("stop", answer),
				chatSpan(2, 0, 0.1, 1).finished("stop"),
			},
			// More may come beneath a root that others are beneath.
			want: map[byte]verdict{3: {class: semconv.ClassProviderError, cause: semconv.CauseRateLimited, safety: semconv.RetrySafetyUserConfirmedRetry}},
		},
		"a gateway": {
			spans: []spanSpec{
				requestSpan(2, 0, 0.1, 2).answered("stop", answer), served(requestSpan(6, 0, 0.2, 1.9).answered("stop", answer), 2),
				requestSpan(7, 0, 0.3, 0.5).refused(503, semconv.ProviderErrorKindOverloaded, "").in(gatewayService).under(6),
				requestSpan(8, 0, 0.6, 1.8).answered("stop", answer).in(gatewayService).under(6),
			},
			want: map[byte]verdict{7: {class: semconv.ClassProviderError, cause: semconv.CauseOverloaded, safety: semconv.RetrySafetySafeAutoRetry}},
		},
	} {
		check := func(t *testing.T, h *harness, message ...any) {
			t.Helper()
			for id, want := range tt.want {
				got := verdictOf(spansOf(h.out())[spanID(id)])
				assert.Equal(t, want, verdict{class: got.class, cause: got.cause, safety: got.safety}, "span %d %v", id, message)
			}
			for _, s := range tt.spans {
				if _, failed := tt.want[s.id]; !failed {
					untouched(t, h.out(), s.id, fmt.Sprintf("span %d", s.id), message)
				}
			}
			noRuns(t, h, message...)
		}
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, defaultConfig(), nil)
			h.consume(t, tt.spans...)
			h.pass(t, xMaxHold)
			check(t, h, "in one call")
			assert.Equal(t, telemetry.Load{}, h.Load())

			h = newHarness(t, defaultConfig(), nil)
			h.consume(t, tt.spans...)
			require.NoError(t, h.Shutdown(t.Context()))
			check(t, h, "at the end")
		})
	}
}

// A request whose parent never comes goes out early, and is no run in the end either.
func TestAloneBeneathWhatNeverComes(t *testing.T) {
	for name, span := range map[string]spanSpec{
		"a request": requestSpan(2, 0, 0.1, 1).answered("tool_calls", asksForTools).under(9),
		"a tool":    callSpan(2, 9, 0.1, 1, "call_1"),
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, defaultConfig(), nil)
			h.consume(t, span)
			h.pass(t, xMaxHold-time.Millisecond)
			assert.Zero(t, h.out().SpanCount())
			h.pass(t, time.Millisecond)
			assert.Equal(t, early(semconv.TriggerHoldExpired), verdictOf(spansOf(h.out())[spanID(2)]))
			h.pass(t, xRunTimeout)
			assert.Equal(t, 1, h.out().SpanCount())
			noRuns(t, h)
			assert.Equal(t, telemetry.Load{}, h.Load())
		})
	}
}

// A request at the root is judged when it comes. If it failed, another service has until
// settle to explain it.
func TestRootIsJudgedAtOnce(t *testing.T) {
	h := newHarness(t, defaultConfig(), nil)
	h.consume(t, requestSpan(2, 0, 0.1, 1).answered("tool_calls", asksForTools))
	untouched(t, h.out(), 2)
	assert.Equal(t, telemetry.Load{}, h.Load())

	aborted := requestSpan(2, 0, 0.1, 1).streamed(semconv.PhaseText, semconv.StreamEndCancelled, counts{text: 1}).
		with(semconv.AbortSourceKey.String(semconv.AbortSourceUser.String())).of(2)
	h.consume(t, aborted)
	byTrace := func(trace byte) (found []ptrace.Span) {
		eachSpan(h.out(), func(span ptrace.Span) {
			if span.TraceID() == traceID(trace) {
				found = append(found, span)
			}
		})
		return found
	}
	require.Len(t, byTrace(2), 1, "no other service is to blame")
	assert.Equal(t, verdict{
		class: semconv.ClassLocalAbort, cause: semconv.CauseUser, phase: semconv.PhaseText, origin: semconv.OriginLocal, confidence: semconv.ConfidenceHigh,
		safety: semconv.RetrySafetyNoRetry, reason: semconv.RetryReasonUserAbort, trigger: semconv.TriggerComplete,
	}, verdictOf(byTrace(2)[0]))

	empty := requestSpan(2, 0, 0.1, 2).answered("stop", counts{}).of(3)
	gateway := requestSpan(6, 0, 0.2, 1.9).refused(429, semconv.ProviderErrorKindRateLimited, "").in(gatewayService).under(2).of(3)
	gateway.kind = ptrace.SpanKindServer
	h.consume(t, empty)
	assert.Empty(t, byTrace(3))
	h.pass(t, xSettle-time.Millisecond)
	h.consume(t, gateway)
	assert.Empty(t, byTrace(3))
	h.pass(t, time.Millisecond)
	require.Len(t, byTrace(3), 2)
	for _, span := range byTrace(3) {
		if v := verdictOf(span); span.SpanID() == spanID(2) {
			assert.Equal(t, semconv.CauseSwallowedError, v.cause, "the gateway explains it")
			assert.Equal(t, semconv.TriggerComplete, v.trigger)
		}
	}
	assert.Equal(t, telemetry.Load{}, h.Load())
	noRuns(t, h)
}

// What comes beneath a root after it was judged is late, and is never called safer than if
// it had come before: what the others did is not known any more.
func TestBeneathRootInEveryOrder(t *testing.T) {
	cut := func(id, parent byte, from, to float64) spanSpec {
		return requestSpan(id, 0, from, to).cut(semconv.PhaseResponseStarted, semconv.TransportCauseConnectionReset, "ECONNRESET", counts{}).under(parent)
	}
	tool := callSpan(5, 4, 1.1, 1.5, "call_1").with(semconv.ToolEffectKey.String(semconv.ToolEffectNonIdempotent.String()))
	for name, spans := range map[string][]spanSpec{
		"requests and a tool":     {requestSpan(4, 0, 0.1, 3).answered("tool_calls", asksForTools), tool, cut(6, 4, 1.6, 2)},
		"beneath one that failed": {cut(4, 0, 0.1, 3), tool, cut(6, 5, 1.2, 1.4)},
		"a call and its attempts": {chatSpan(4, 0, 0.1, 3).failed("ECONNRESET"), cut(5, 4, 0.1, 1), cut(6, 4, 1.2, 3)},
	} {
		t.Run(name, func(t *testing.T) {
			together := newHarness(t, defaultConfig(), nil)
			together.consume(t, spans...)
			together.pass(t, xMaxHold)
			want := spansOf(together.out())
			for _, order := range orders(len(spans)) {
				h := newHarness(t, defaultConfig(), nil)
				for _, i := range order {
					h.consume(t, spans[i])
					h.pass(t, xSettle+time.Second)
				}
				h.pass(t, xMaxHold)
				out := spansOf(h.out())
				require.Len(t, out, len(spans))
				for _, s := range spans[1:] {
					got, all := verdictOf(out[spanID(s.id)]), verdictOf(want[spanID(s.id)])
					if all.outcome == semconv.RunOutcomeUnset {
						assert.GreaterOrEqual(t, got.safety, all.safety, "span %d, order %v", s.id, order)
						assert.Equal(t, all.class, got.class, "span %d, order %v", s.id, order)
					}
				}
				assert.Equal(t, telemetry.Load{}, h.Load())
			}
		})
	}
}

// What goes early to make room is not safe to repeat: the tools that ran meanwhile had no
// time to arrive. A root alone is all that there is.
func TestGoesToMakeRoom(t *testing.T) {
	cut := func(id, run byte) spanSpec {
		return requestSpan(id, run, 0.1, 2).cut(semconv.PhaseResponseStarted, semconv.TransportCauseConnectionReset, "ECONNRESET", counts{})
	}
	failed := toolSpan(3, 0.1, 1, "call_1", semconv.ToolEffectReadOnly, semconv.ToolOutcomeFailed)
	for name, tt := range map[string]struct {
		spans []spanSpec
		want  semconv.RetrySafety // of span 2
	}{
		"of a run":        {[]spanSpec{cut(2, 1), failed}, semconv.RetrySafetyUserConfirmedRetry},
		"beneath another": {[]spanSpec{cut(2, 0).under(9), cut(3, 0).under(9)}, semconv.RetrySafetyUserConfirmedRetry},
		"a root":          {[]spanSpec{cut(2, 0), cut(3, 0).in(gatewayService)}, semconv.RetrySafetySafeAutoRetry},
		"its own root":    {[]spanSpec{cut(2, 0), cut(3, 0).under(2)}, semconv.RetrySafetyUserConfirmedRetry},
	} {
		check := func(t *testing.T, h *harness, trigger semconv.Trigger) {
			t.Helper()
			v := verdictOf(spansOf(h.out())[spanID(2)])
			assert.Equal(t, trigger, v.trigger)
			assert.Equal(t, tt.want, v.safety)
		}
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, defaultConfig(), nil)
			h.consume(t, tt.spans...)
			assert.Zero(t, h.out().SpanCount())
			l := h.lane()
			l.Push(l.Buffer.Evict(t0, l.Buffer.Bytes()))
			judgeAll(t.Context(), l)
			check(t, h, semconv.TriggerMemory)

			cfg := defaultConfig()
			cfg.MaxSpansPerRun = 1
			h = newHarness(t, cfg, nil)
			h.consume(t, tt.spans...)
			check(t, h, semconv.TriggerSpanLimit)
		})
	}
}

// A run that goes to make room has not succeeded by a request of which only the time shows that
// it is of the run: another one of the run may be to come, beside which it does not count.
func TestRoomIsMadeByRunOfItsTime(t *testing.T) {
	own := chatSpan(2, 1, 0.1, 0.3).finished("tool_calls")
	ofTime, run := chatSpan(3, 97, 0.4, 1).finished("stop"), agentSpan(1, 98, 0, 3)
	h := newHarness(t, defaultConfig(), nil)
	h.consume(t, own, ofTime, run)
	h.pass(t, xSettle)
	assert.Equal(t, semconv.RunOutcomeIncomplete, verdictOf(spansOf(h.out())[spanID(1)]).outcome, "with both")

	h = newHarness(t, defaultConfig(), nil)
	h.consume(t, ofTime, run)
	h.pass(t, xSettle)
	assert.Equal(t, semconv.RunOutcomeSucceeded, verdictOf(spansOf(h.out())[spanID(1)]).outcome, "it was all")

	h = newHarness(t, defaultConfig(), nil)
	h.consume(t, ofTime, run)
	l := h.lane()
	l.Push(l.Buffer.Evict(t0, l.Buffer.Bytes()))
	judgeAll(t.Context(), l)
	v := verdictOf(spansOf(h.out())[spanID(1)])
	assert.Equal(t, semconv.TriggerMemory, v.trigger)
	assert.Equal(t, semconv.RunOutcomeIncomplete, v.outcome)
}

// A call delivered what none of its attempts shows: the one that it came from is not here, and
// to repeat the call, or the run that it is of, repeats that. The attempt that failed is as safe
// as it is alone.
func TestCallLacksItsAttempt(t *testing.T) {
	none := []string{}
	for name, c := range map[string]spanSpec{
		"text":   requestSpan(4, 0, 0.1, 3).answered("stop", answer),
		"a call": requestSpan(4, 0, 0.1, 3).answered("tool_calls", counts{inputs: 1, completed: 1, calls: 1}),
	} {
		t.Run(name, func(t *testing.T) {
			call := c.in(gatewayService).history(none, none)
			limited := requestSpan(6, 0, 0.2, 0.5).refused(429, semconv.ProviderErrorKindRateLimited, "rate_limit_exceeded").
				under(4).in(gatewayService).history(none, none)
			const safe, asks = semconv.RetrySafetySafeAutoRetry, semconv.RetrySafetyUserConfirmedRetry

			served := call
			served.kind = ptrace.SpanKindServer
			h := newHarness(t, defaultConfig(), nil)
			h.consume(t, served, limited)
			h.pass(t, xSettle)
			assert.Equal(t, asks, verdictOf(spansOf(h.out())[spanID(4)]).safety, "a gateway's")
			assert.Equal(t, safe, verdictOf(spansOf(h.out())[spanID(6)]).safety, "the gateway's attempt")

			h = newHarness(t, defaultConfig(), nil)
			run := runSpan(1, 0, 4, 1, 0).failed("429").in(gatewayService)
			h.consume(t, run, call.under(1), limited)
			h.pass(t, xMaxHold)
			assert.Equal(t, asks, verdictOf(spansOf(h.out())[spanID(1)]).safety, "a run")
		})
	}
}

// A gateway that only passed a request on, at the root of its trace, shows all that there is:
// its request and those beneath it are as safe to repeat as each by itself, whichever comes
// first. One that may have done more is not.
func TestGatewayPassesOn(t *testing.T) {
	call := []string{"call_1"}
	asked := func(id, parent byte, from, to float64) spanSpec {
		return requestSpan(id, 0, from, to).under(parent).in(gatewayService).history(call, call)
	}
	cut := func(s spanSpec, c counts) spanSpec {
		return s.cut(semconv.PhaseResponseStarted, semconv.TransportCauseConnectionReset, "ECONNRESET", c)
	}
	served := func(s spanSpec) spanSpec { s.kind = ptrace.SpanKindServer; return s }
	root := served(cut(asked(4, 0, 0.1, 3), counts{}))
	limited := asked(6, 4, 0.2, 0.5).refused(429, semconv.ProviderErrorKindRateLimited, "")
	const safe, asks = semconv.RetrySafetySafeAutoRetry, semconv.RetrySafetyUserConfirmedRetry
	for name, tt := range map[string]struct {
		spans []spanSpec // the root first
		want  map[byte]semconv.RetrySafety
	}{
		"once":                 {[]spanSpec{root, cut(asked(5, 4, 0.2, 2.9), counts{})}, map[byte]semconv.RetrySafety{4: safe, 5: safe}},
		"twice":                {[]spanSpec{root, limited, cut(asked(5, 4, 0.6, 2.9), counts{})}, map[byte]semconv.RetrySafety{4: safe, 5: safe, 6: safe}},
		"twice, then well":     {[]spanSpec{served(asked(4, 0, 0.1, 3).answered("stop", answer)), limited, asked(5, 4, 0.6, 2.9).answered("stop", answer)}, map[byte]semconv.RetrySafety{6: safe}},
		"it ran a tool":        {[]spanSpec{root, cut(asked(5, 4, 0.2, 2.9).history([]string{"call_1", "call_2"}, []string{"call_1", "call_2"}), counts{})}, map[byte]semconv.RetrySafety{4: asks, 5: asks}},
		"an unknown history":   {[]spanSpec{root, cut(asked(5, 4, 0.2, 2.9).without(semconv.HistoryToolCallsKey), counts{})}, map[byte]semconv.RetrySafety{4: asks, 5: asks}},
		"it showed text":       {[]spanSpec{served(cut(asked(4, 0, 0.1, 3), counts{text: 1})), limited, cut(asked(5, 4, 0.6, 2.9), counts{})}, map[byte]semconv.RetrySafety{4: asks, 5: asks, 6: asks}},
		"it was sent text":     {[]spanSpec{root, cut(asked(6, 4, 0.2, 0.5), counts{text: 1}), cut(asked(5, 4, 0.6, 2.9), counts{})}, map[byte]semconv.RetrySafety{4: asks, 5: asks, 6: asks}},
		"it is an agent":       {[]spanSpec{cut(asked(4, 0, 0.1, 3), counts{}), cut(asked(5, 4, 0.2, 2.9), counts{})}, map[byte]semconv.RetrySafety{4: asks, 5: asks}},
		"a tool is beneath it": {[]spanSpec{root, cut(asked(5, 4, 0.2, 2.9), counts{}), callSpan(7, 4, 0.3, 0.4, "call_1").in(gatewayService)}, map[byte]semconv.RetrySafety{4: asks, 5: asks}},
	} {
		safeties := func(h *harness) map[byte]semconv.RetrySafety {
			found := map[byte]semconv.RetrySafety{}
			for id, span := range spansOf(h.out()) {
				if v := verdictOf(span); v.safety != semconv.RetrySafetyUnset {
					found[id[7]] = v.safety
				}
			}
			return found
		}
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, defaultConfig(), nil)
			h.consume(t, tt.spans...)
			h.pass(t, xSettle)
			assert.Equal(t, tt.want, safeties(h), "together")

			h = newHarness(t, defaultConfig(), nil)
			h.consume(t, tt.spans...)
			l := h.lane()
			l.Push(l.Buffer.Evict(t0, l.Buffer.Bytes()))
			judgeAll(t.Context(), l)
			assert.Equal(t, tt.want, safeties(h), "to make room")

			for _, order := range orders(len(tt.spans)) {
				h := newHarness(t, defaultConfig(), nil)
				for _, i := range order {
					h.consume(t, tt.spans[i])
					h.pass(t, xSettle/time.Duration(len(tt.spans)+1))
				}
				h.pass(t, xMaxHold)
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
