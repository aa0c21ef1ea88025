package llmclassify

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/otel/attribute"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/telemetry"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/trace"
	"github.com/otelllm/otelllm-go/semconv"
)

// A run without a request of its own went as the runs within it went. In one call
// their order says nothing; spans that come one by one come as they end.
func TestRunOverRuns(t *testing.T) {
	const (
		well    = semconv.RunOutcomeSucceeded
		unknown = semconv.RunOutcomeIncomplete
	)
	finished := func(id, parent byte, from, to float64) spanSpec {
		return chatSpan(id, parent, from, to).finished("stop")
	}
	for _, tt := range []struct {
		name  string
		spans []spanSpec // as they end
		want  map[byte]semconv.RunOutcome
	}{
		{
			"beneath it",
			[]spanSpec{finished(11, 10, 1.1, 1.9), agentSpan(10, 1, 1, 2), finished(21, 20, 2.1, 2.9), agentSpan(20, 1, 2, 3), agentSpan(1, 0, 0, 4)},
			map[byte]semconv.RunOutcome{10: well, 20: well, 1: well},
		},
		{
			"beneath it, by this project's client",
			[]spanSpec{requestSpan(11, 10, 1.1, 1.9).answered("stop", answer), runSpan(10, 1, 2, 1, 0).under(1), agentSpan(1, 0, 0, 4)},
			map[byte]semconv.RunOutcome{10: well, 1: well},
		},
		{
			"in a tool of it",
			[]spanSpec{finished(11, 10, 1.1, 1.9), agentSpan(10, 4, 1, 2), callSpan(4, 1, 0.9, 2.1, "call_7"), agentSpan(1, 0, 0, 4)},
			map[byte]semconv.RunOutcome{10: well, 1: well},
		},
		{
			"beneath spans that are no part of a run",
			[]spanSpec{finished(11, 10, 1.1, 1.9), agentSpan(10, 8, 1, 2), otherSpan(8, 9, 0.8, 2.1), otherSpan(9, 1, 0.5, 2.2), agentSpan(1, 0, 0, 4)},
			map[byte]semconv.RunOutcome{10: well, 1: well},
		},
		{
			"ending with it, by a clock of whole milliseconds",
			[]spanSpec{finished(11, 10, 1.1, 1.9), agentSpan(10, 8, 1, 4.0004), otherSpan(8, 9, 0.8, 4), otherSpan(9, 1, 0.5, 4), agentSpan(1, 0, 0, 4)},
			map[byte]semconv.RunOutcome{10: well, 1: well},
		},
		{
			"two deep",
			[]spanSpec{finished(11, 10, 1.1, 1.9), agentSpan(10, 2, 1, 2), agentSpan(2, 1, 0.5, 3), agentSpan(1, 0, 0, 3)},
			map[byte]semconv.RunOutcome{10: well, 2: well, 1: well},
		},
		{
			"one of them did not go well",
			[]spanSpec{
				chatSpan(11, 10, 1.1, 1.9).failed("InternalServerError"), agentSpan(10, 1, 1, 2).failed("InternalServerError"),
				finished(21, 20, 2.1, 2.9), agentSpan(20, 1, 2, 3), agentSpan(1, 0, 0, 4),
			},
			map[byte]semconv.RunOutcome{10: semconv.RunOutcomeFailed, 20: well, 1: unknown},
		},
		{
			"nothing is known of one of them",
			[]spanSpec{agentSpan(10, 1, 1, 2), agentSpan(1, 0, 0, 4)},
			map[byte]semconv.RunOutcome{10: unknown, 1: unknown},
		},
		{
			"a run beside it says nothing of it",
			[]spanSpec{finished(11, 10, 1.1, 1.9), agentSpan(10, 9, 1, 2), agentSpan(1, 9, 0, 4), otherSpan(9, 0, 0, 5)},
			map[byte]semconv.RunOutcome{10: well, 1: unknown},
		},
		{
			"a run before it says nothing of it",
			[]spanSpec{finished(11, 10, 1.1, 1.9), agentSpan(10, 8, 1, 2), otherSpan(8, 0, 0, 2), agentSpan(1, 0, 3, 4)},
			map[byte]semconv.RunOutcome{10: well, 1: unknown},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, order := range orders(len(tt.spans)) {
				h := newHarness(t, defaultConfig(), nil)
				var spans []spanSpec
				for _, i := range order {
					spans = append(spans, tt.spans[i])
				}
				h.consume(t, spans...)
				h.pass(t, xMaxHold)
				require.Equal(t, len(spans), h.out().SpanCount())
				require.Equal(t, tt.want, outcomes(h.out()), "order %v", order)
			}
			h := newHarness(t, defaultConfig(), nil)
			for _, s := range tt.spans {
				h.consume(t, s)
				h.pass(t, 2*xSettle)
			}
			h.pass(t, xMaxHold)
			assert.Equal(t, tt.want, outcomes(h.out()), "one by one")
			assert.Equal(t, telemetry.Load{}, h.Load())
		})
	}
}

// What a run within another one did is a part of what the outer one did: its tools make
// repeating the outer one no safer than repeating itself, and the numbers that the outer
// one announces include its parts. The outer run is judged once all of them are here,
// in whatever order and company they come.
func TestEffectsJoinTheRunAround(t *testing.T) {
	call := func(id string) counts { return counts{inputs: 1, completed: 1, calls: 1, callIDs: []string{id}} }
	reset := func(id, run byte, from, to float64, calls ...string) spanSpec {
		return requestSpan(id, run, from, to).history(calls, calls).
			cut(semconv.PhaseResponseStarted, semconv.TransportCauseConnectionReset, "ECONNRESET", counts{})
	}
	inRun := func(s spanSpec, run byte) spanSpec {
		for i, kv := range s.attrs {
			if kv.Key == semconv.RunIDKey {
				s.attrs[i] = semconv.RunID(spanID(run).String())
			}
		}
		return s.under(run)
	}
	pay := func(id, run byte, from, to float64) spanSpec {
		return inRun(toolSpan(id, from, to, "call_pay", semconv.ToolEffectNonIdempotent, semconv.ToolOutcomeSucceeded), run)
	}
	delegate := func(effect semconv.ToolEffect) spanSpec {
		return toolSpan(4, 1.1, 5, "call_1", effect, semconv.ToolOutcomeSucceeded)
	}
	// Run 10 answers and pays; it is within run 1, whose last request is reset.
	inner := func(parent byte) []spanSpec {
		return []spanSpec{
			requestSpan(11, 10, 1.3, 2).answered("tool_calls", call("call_pay")),
			pay(12, 10, 2.1, 2.5),
			requestSpan(13, 10, 2.6, 4).history([]string{"call_pay"}, []string{"call_pay"}).answered("stop", answer),
			runSpan(10, 1.2, 4.8, 2, 1).under(parent),
		}
	}
	asked := requestSpan(2, 1, 0.1, 1).answered("tool_calls", call("call_1"))
	broken := failure(semconv.ClassStreamInterrupted, semconv.CauseConnectionReset, semconv.PhaseResponseStarted, semconv.OriginTransport).
		on(semconv.RunOutcomeFailed)
	for _, tt := range []struct {
		name  string
		spans []spanSpec // as they end
		want  verdict    // of run 1
	}{
		{
			"in a tool of it", append(append([]spanSpec{asked}, inner(4)...),
				delegate(semconv.ToolEffectReadOnly), reset(6, 1, 5.1, 6, "call_1"), runSpan(1, 0, 7, 4, 2)),
			broken.because(confirm, semconv.RetryReasonToolSideEffect),
		},
		{
			"beneath it, which has no part but one", append(inner(1), reset(6, 1, 5.1, 6), runSpan(1, 0, 7, 3, 1)),
			broken.because(confirm, semconv.RetryReasonToolSideEffect),
		},
		{
			"beneath spans that are no part of a run", append(inner(8), otherSpan(8, 9, 1.1, 4.9), otherSpan(9, 1, 1.05, 4.95),
				reset(6, 1, 5.1, 6), runSpan(1, 0, 7, 3, 1)),
			broken.because(confirm, semconv.RetryReasonToolSideEffect),
		},
		{
			"two deep", append(inner(20), reset(21, 20, 4.9, 4.95), runSpan(20, 1.1, 4.99, 3, 1).under(1),
				reset(6, 1, 5.1, 6), runSpan(1, 0, 7, 4, 1)),
			broken.because(confirm, semconv.RetryReasonToolSideEffect),
		},
		{
			"another service's, which is in no number", append(append([]spanSpec{asked},
				requestSpan(11, 10, 1.3, 2).answered("tool_calls", call("call_pay")).in("remote"),
				pay(12, 10, 2.1, 2.5).in("remote"),
				requestSpan(13, 10, 2.6, 4).history([]string{"call_pay"}, []string{"call_pay"}).answered("stop", counts{reasoning: 1}).in("remote"),
				runSpan(10, 1.2, 4.8, 2, 1).under(4).in("remote"),
			), delegate(semconv.ToolEffectReadOnly), reset(6, 1, 5.1, 6, "call_1"), runSpan(1, 0, 7, 2, 1)),
			broken.because(confirm, semconv.RetryReasonToolSideEffect),
		},
		{
			"which only read", append(append([]spanSpec{asked},
				requestSpan(11, 10, 1.3, 2).answered("stop", counts{reasoning: 1}), runSpan(10, 1.2, 4.8, 1, 0).under(4),
			), delegate(semconv.ToolEffectReadOnly), reset(6, 1, 5.1, 6, "call_1"), runSpan(1, 0, 7, 3, 1)),
			broken.because(safe, semconv.RetryReasonReadOnlyToolsOnly),
		},
		{
			"a run beside it says nothing of it", append(inner(9), otherSpan(9, 0, 0, 8), reset(6, 1, 5.1, 6), runSpan(1, 0, 7, 1, 0).under(9)),
			broken.because(safe, semconv.RetryReasonNoOutput),
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, order := range orders(len(tt.spans)) {
				h := newHarness(t, defaultConfig(), nil)
				var spans []spanSpec
				for _, i := range order {
					spans = append(spans, tt.spans[i])
				}
				h.consume(t, spans...)
				require.Equal(t, tt.want, verdictOf(spansOf(h.out())[spanID(1)]), "order %v", order)
				require.Equal(t, len(spans), h.out().SpanCount(), "order %v", order)
				assert.Equal(t, telemetry.Load{}, h.Load())
			}
			h := newHarness(t, defaultConfig(), nil)
			for _, s := range tt.spans {
				h.consume(t, s)
				h.pass(t, 2*xSettle)
			}
			assert.Equal(t, tt.want, verdictOf(spansOf(h.out())[spanID(1)]), "one by one")
			assert.Equal(t, telemetry.Load{}, h.Load())
			for n := range len(tt.spans) - 1 {
				h := newHarness(t, defaultConfig(), nil)
				h.consume(t, tt.spans[:n+1]...)
				h.consume(t, tt.spans[n+1:]...)
				assert.Equal(t, tt.want, verdictOf(spansOf(h.out())[spanID(1)]), "in two calls, %d first", n+1)
				assert.Equal(t, telemetry.Load{}, h.Load())
			}
		})
	}
}

// Where a run within another one never reports its end, its parts are missing of the
// outer one, and what they did is not known.
func TestInnerRunThatIsMissing(t *testing.T) {
	outer := []spanSpec{
		requestSpan(6, 1, 5.1, 6).cut(semconv.PhaseResponseStarted, semconv.TransportCauseConnectionReset, "ECONNRESET", counts{}),
		runSpan(1, 0, 7, 3, 1),
	}
	parts := []spanSpec{
		requestSpan(11, 10, 1.3, 2).answered("stop", counts{reasoning: 1}), requestSpan(13, 10, 2.6, 4).answered("stop", counts{reasoning: 1}),
	}
	for name, spans := range map[string][]spanSpec{
		"nothing of it": outer, "all but its end": append(parts, outer...), "all but one": append(append([]spanSpec{}, parts[1], runSpan(10, 1.2, 4.8, 2, 1).under(1)), outer...),
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, defaultConfig(), nil)
			h.consume(t, spans...)
			require.Empty(t, runsJudged(h.out()))
			h.pass(t, xMaxHold)
			v := verdictOf(spansOf(h.out())[spanID(1)])
			assert.Equal(t, semconv.CauseConnectionReset, v.cause)
			assert.Equal(t, confirm, v.safety)
			assert.Equal(t, semconv.RetryReasonEvidenceIncomplete, v.reason)
			assert.Equal(t, semconv.TriggerHoldExpired, v.trigger)
		})
	}
}

// What a run within another one did counts for that one, also where so many other runs of the
// trace wait that it is not one of the newest.
func TestInnerRunAmongMany(t *testing.T) {
	h := newHarness(t, defaultConfig(), nil)
	pay := toolSpan(12, 1.1, 1.3, "call_1", semconv.ToolEffectNonIdempotent, semconv.ToolOutcomeSucceeded).under(10).in(gatewayService)
	pay.attrs = append(pay.without(semconv.RunIDKey).attrs, semconv.RunID(spanID(10).String()))
	h.consume(t, pay, runSpan(10, 1, 2, 1, 1).under(1).in(gatewayService)) // a request of it is to come
	for id := byte(100); id < 200; id++ {
		h.consume(t, runSpan(id, 0, 9, 1, 0))
	}
	h.consume(t,
		requestSpan(2, 1, 2.1, 3).cut(semconv.PhaseResponseStarted, semconv.TransportCauseConnectionReset, "ECONNRESET", counts{}),
		runSpan(1, 0, 3, 1, 0).failed("ECONNRESET"))
	h.pass(t, xSettle)
	assert.Empty(t, runsJudged(h.out()), "it waits for the one within it")
	h.consume(t, requestSpan(11, 10, 1.4, 1.9).answered("stop", answer).in(gatewayService).history([]string{"call_1"}, []string{"call_1"}))
	h.pass(t, xSettle)
	v := verdictOf(spansOf(h.out())[spanID(1)])
	assert.Equal(t, semconv.TriggerComplete, v.trigger)
	assert.Equal(t, semconv.RetrySafetyUserConfirmedRetry, v.safety)
	assert.Equal(t, semconv.RetryReasonToolSideEffect, v.reason)
}

// A run that names the run around it is in the numbers of that one alone, whatever its
// parents and its time say.
func TestRunNamesTheRunAroundIt(t *testing.T) {
	spans := []spanSpec{
		requestSpan(21, 20, 1, 2).answered("stop", answer), runSpan(20, 0.9, 2.1, 1, 0).under(80).with(semconv.RunID(spanID(1).String())),
		requestSpan(3, 2, 3, 4).answered("stop", answer), requestSpan(4, 1, 3, 4).answered("stop", answer),
		runSpan(1, 0, 9, 2, 0).under(91), runSpan(2, 0.5, 10, 2, 0).under(92),
	}
	for _, order := range orders(len(spans)) {
		h := newHarness(t, defaultConfig(), nil)
		for _, i := range order {
			h.consume(t, spans[i])
		}
		require.ElementsMatch(t, []pcommon.SpanID{spanID(1), spanID(20)}, runsJudged(h.out()), "a request of run 2 is missing")
		assert.Equal(t, ran(semconv.RunOutcomeSucceeded, 0), verdictOf(spansOf(h.out())[spanID(1)]))
		h.consume(t, requestSpan(5, 2, 3, 4).answered("stop", answer))
		require.Equal(t, ran(semconv.RunOutcomeSucceeded, 0), verdictOf(spansOf(h.out())[spanID(2)]))
		assert.Equal(t, telemetry.Load{}, h.Load())
	}
}

// Runs that are within one another, by what they say, go when they have been held.
func TestRunsInACircle(t *testing.T) {
	h := newHarness(t, defaultConfig(), nil)
	around := func(s spanSpec, run byte) spanSpec { return s.with(semconv.RunID(spanID(run).String())).under(run) }
	h.consume(t, around(runSpan(1, 0, 7, 2, 0), 2), around(runSpan(2, 0, 7, 2, 0), 3), around(runSpan(3, 0, 7, 2, 0), 1), requestSpan(4, 1, 1, 2).answered("stop", answer))
	h.pass(t, xMaxHold)
	assert.Len(t, runsJudged(h.out()), 3)
	assert.Equal(t, telemetry.Load{}, h.Load())
}

// A run whose span says how many requests it has, and not how many tools, is not known to
// have executed none: it goes after settle, once those requests are here.
func TestToolsAreNotObserved(t *testing.T) {
	announces := func(requests int) spanSpec {
		s := runSpan(1, 0, 3, requests, 0)
		s.attrs = s.attrs[:len(s.attrs)-1] // llm.run.tools
		return s
	}
	cut := requestSpan(2, 1, 0.1, 1).cut(semconv.PhaseToolCallReady, semconv.TransportCauseConnectionReset, "ECONNRESET",
		counts{inputs: 1, completed: 1, calls: 1, callIDs: []string{"call_1"}})
	good := requestSpan(3, 1, 1.1, 2).with(semconv.RequestAttempt(2)).answered("stop", answer)

	h := newHarness(t, defaultConfig(), nil)
	h.consume(t, cut, announces(1))
	h.pass(t, xSettle-1)
	require.Empty(t, h.sink.AllTraces(), "a tool may be on its way")
	h.pass(t, 1)
	want := failure(semconv.ClassStreamInterrupted, semconv.CauseConnectionReset, semconv.PhaseToolCallReady, semconv.OriginTransport).
		because(confirm, semconv.RetryReasonToolStateUnknown).on(semconv.RunOutcomeFailed)
	want.trigger, want.confidence = semconv.TriggerRunEnded, semconv.ConfidenceMedium
	assert.Equal(t, want, verdictOf(spansOf(h.out())[spanID(1)]))

	h = newHarness(t, defaultConfig(), nil)
	h.consume(t, cut, announces(2))
	h.pass(t, 2*xSettle)
	require.Empty(t, h.sink.AllTraces(), "a request is still open")
	h.consume(t, good)
	assert.Equal(t, verdict{outcome: semconv.RunOutcomeRecovered, recovered: 1, trigger: semconv.TriggerRunEnded}, verdictOf(spansOf(h.out())[spanID(1)]))
	assert.Equal(t, telemetry.Load{}, h.Load())

	h = newHarness(t, defaultConfig(), nil)
	h.consume(t, good, announces(2))
	h.pass(t, xMaxHold)
	v := verdictOf(spansOf(h.out())[spanID(1)])
	assert.Equal(t, semconv.TriggerHoldExpired, v.trigger)
	assert.Equal(t, semconv.CauseMissingChildren, v.cause)
}

// A run whose inner runs were forgotten, as there was no room for them, may have done more
// than is known, also where it announces nothing.
func TestInnerRunsForgotten(t *testing.T) {
	for room := range 3 {
		cfg := defaultConfig()
		cfg.MaxFactBytes = 16*2*320*room + 5000
		h := newHarness(t, cfg, nil)
		inner := func(id byte, from float64) []spanSpec {
			return []spanSpec{
				requestSpan(id+1, id, from+0.1, from+0.5).cut(semconv.PhaseText, semconv.TransportCauseConnectionReset, "ECONNRESET", counts{text: 2}),
				runSpan(id, from, from+1, 1, 0).under(1),
			}
		}
		for i := range 1 + 2*room {
			h.consume(t, inner(byte(10+2*i), float64(i))...)
		}
		run := runSpan(1, 0, 80, 0, 0).failed("429")
		run.attrs = slices.DeleteFunc(run.attrs, func(kv attribute.KeyValue) bool {
			return kv.Key == semconv.RunRequestsKey || kv.Key == semconv.RunToolsKey
		})
		h.consume(t, requestSpan(4, 1, 79, 79.5).refused(429, semconv.ProviderErrorKindRateLimited, "rate_limit_exceeded"), run)
		h.pass(t, xMaxHold)
		v := verdicts(h.out())[1]
		assert.Equal(t, semconv.RunOutcomeFailed, v.outcome)
		assert.Greater(t, v.safety, semconv.RetrySafetySafeAutoRetry, "room for %d: %s", room, v.words())
	}
}

// A trace may have any number of runs, beneath a root that is still open. Where some were
// forgotten to make room for others of the trace, a run that began later was around none of them.
func TestManyRunsBeneathARoot(t *testing.T) {
	play := func(t *testing.T, counted bool, began, start float64) verdict {
		h := newHarness(t, defaultConfig(), nil)
		at := start
		for n := range 2 * trace.MaxPastRuns {
			id := pcommon.SpanID{1, byte(n >> 8), byte(n)}
			f := newForest(t)
			f.add(runSpan(9, 0, 0, 1, 0), id, spanID(99), at, at+1)
			request := f.add(shownText(8, 0), pcommon.SpanID{2, byte(n >> 8), byte(n)}, id, at+0.1, at+0.9)
			request.Attributes().PutStr(string(semconv.RunIDKey), id.String())
			require.NoError(t, h.ConsumeTraces(t.Context(), f.Traces))
			at++
		}
		run := runSpan(1, 0, 0, 1, 0).failed("429")
		if !counted {
			run = uncountedRun(0, 1)[0]
		}
		f := newForest(t)
		f.add(run, spanID(1), spanID(99), began, at+1)
		f.add(uncountedRun(0, 1)[1], spanID(2), spanID(1), at+0.5, at+0.6)
		require.NoError(t, h.ConsumeTraces(t.Context(), f.Traces))
		h.pass(t, xMaxHold)
		return verdicts(h.out())[1]
	}
	for _, counted := range []bool{false, true} {
		const start, forgotten = 100, 100 + trace.MaxPastRuns
		assert.Equal(t, safe, play(t, counted, start+2*trace.MaxPastRuns, start).safety, "it began after all of them, counted %v", counted)
		assert.Equal(t, safe, play(t, counted, forgotten+11, start).safety, "it is beside those that are kept, counted %v", counted)
		for _, began := range []float64{forgotten + 5, forgotten - 5, start - 5, 0} {
			v := play(t, counted, began, start)
			assert.Equal(t, confirm, v.safety, "it began at %v, counted %v", began, counted)
			assert.Equal(t, semconv.RetryReasonEvidenceIncomplete, v.reason)
		}
	}
}

// A run may last longer than what is kept of the runs within it. It lacks them then, however
// much longer it lasts, also where it announces what its own process did. That is no failure.
func TestInnerRunsForgottenForTheirAge(t *testing.T) {
	play := func(t *testing.T, hours int, run func(end float64) spanSpec) verdict {
		end := float64(hours) * xRunTimeout.Seconds()
		h := newHarness(t, defaultConfig(), nil)
		h.consume(t,
			requestSpan(11, 10, 0.1, 0.5).cut(semconv.PhaseText, semconv.TransportCauseConnectionReset, "ECONNRESET", counts{text: 2}).in("inner"),
			runSpan(10, 0, 1, 1, 0).under(1).in("inner"))
		for range hours {
			h.pass(t, xRunTimeout)
			h.lane().Rotate(h.clock.Now())
		}
		h.consume(t, uncountedRun(end-10, end)[1], run(end))
		h.pass(t, xMaxHold)
		v := verdicts(h.out())[1]
		assert.Equal(t, semconv.RunOutcomeFailed, v.outcome)
		return v
	}
	for name, run := range map[string]func(end float64) spanSpec{
		"announces nothing":  func(end float64) spanSpec { return uncountedRun(0, end)[0] },
		"announces its own":  func(end float64) spanSpec { return runSpan(1, 0, end, 1, 0).failed("429") },
		"from the beginning": func(end float64) spanSpec { return uncountedRun(-1000, end)[0] },
	} {
		t.Run(name, func(t *testing.T) {
			for _, hours := range []int{2, 3, 4, 5, 8, 23, 24, 25, 26, 49, 100} {
				v := play(t, hours, run)
				assert.Equal(t, semconv.RetryReasonEvidenceIncomplete, v.reason, "after %d hours", hours)
				assert.Greater(t, v.safety, safe, "after %d hours", hours)
			}
		})
	}
	t.Run("went well", func(t *testing.T) {
		const end = 8 * 3600
		h := newHarness(t, defaultConfig(), nil)
		h.pass(t, end*time.Second)
		h.consume(t, requestSpan(2, 1, end-10, end).answered("stop", answer), runSpan(1, 0, end, 1, 0))
		h.pass(t, xMaxHold)
		assert.Equal(t, semconv.RunOutcomeSucceeded, verdicts(h.out())[1].outcome)
	})
	t.Run("is short", func(t *testing.T) {
		assert.Equal(t, safe, play(t, 2, func(end float64) spanSpec { return uncountedRun(end-20, end)[0] }).safety)
	})
}

// A run that goes before one within it was judged lacks what that did: where it goes for its
// age, and where the other one's span is not here yet. A run beside it does not count.
func TestInnerRunsThatGoLater(t *testing.T) {
	shown := func(id, run byte, from float64) spanSpec {
		return requestSpan(id, run, from, from+0.1).cut(semconv.PhaseText, semconv.TransportCauseConnectionReset, "ECONNRESET", counts{text: 2})
	}
	play := func(t *testing.T, run spanSpec, first, later []spanSpec) verdict {
		cfg := defaultConfig()
		cfg.MaxHold = 4 * xSettle
		h := newHarness(t, cfg, nil)
		h.consume(t, append(first, uncountedRun(0, 1)[1], run)...)
		h.pass(t, xSettle*9/10)
		h.consume(t, later...)
		h.pass(t, xSettle/10)
		h.pass(t, cfg.MaxHold-xSettle)
		v := verdicts(h.out())[1]
		assert.Equal(t, semconv.RunOutcomeFailed, v.outcome)
		return v
	}
	uncounted, counted := uncountedRun(0, 1)[0], runSpan(1, 0, 1, 1, 0).failed("429")
	t.Run("its span is here", func(t *testing.T) {
		inner := []spanSpec{runSpan(10, 0.3, 0.9, 2, 0).under(1).in("inner"), requestSpan(11, 10, 0.4, 0.5).answered("stop", answer).in("inner")}
		v := play(t, uncounted, nil, inner)
		assert.Equal(t, semconv.TriggerHoldExpired, v.trigger)
		assert.Equal(t, semconv.RetryReasonEvidenceIncomplete, v.reason)
		inner[0].parent = 0
		v = play(t, uncounted, nil, inner)
		assert.Equal(t, semconv.TriggerRunEnded, v.trigger)
		assert.Equal(t, safe, v.safety, "it is beside it")
	})
	t.Run("its requests are", func(t *testing.T) {
		v := play(t, uncounted, []spanSpec{shown(11, 10, 0.4)}, nil)
		assert.Equal(t, semconv.TriggerRunEnded, v.trigger)
		assert.Equal(t, semconv.RetryReasonEvidenceIncomplete, v.reason)
		assert.Equal(t, safe, play(t, counted, []spanSpec{shown(11, 10, 0.4)}, nil).safety, "all that it announced is here")
		assert.Equal(t, safe, play(t, uncounted, []spanSpec{shown(11, 10, 1.4)}, nil).safety, "it began later")
		assert.Equal(t, safe, play(t, uncounted, []spanSpec{shown(11, 10, 0.4).of(2)}, nil).safety, "it is of another trace")
	})
}

// A request that comes long before the span of its run, an inner one, is not the last answer
// of the run around that: the outer run's own last request asked for a tool.
func TestInnerRequestBeforeItsRun(t *testing.T) {
	h := newHarness(t, defaultConfig(), nil)
	h.consume(t, chatSpan(2, 1, 0.1, 1).finished("tool_use"), chatSpan(12, 10, 1.5, 2.3).finished("end_turn"), agentSpan(1, 0, 0, 3))
	h.pass(t, xMaxHold)
	h.consume(t, callSpan(3, 1, 1.1, 2.5, "call_1"), agentSpan(10, 3, 1.2, 2.4))
	h.pass(t, xMaxHold)
	v := verdicts(h.out())[1]
	assert.Equal(t, semconv.RunOutcomeIncomplete, v.outcome, v.words())
	assert.Greater(t, v.safety, semconv.RetrySafetySafeAutoRetry)
}

// Nothing is said of a run that may have returned its calls, but what it did counts for the
// run around it.
func TestEffectsOfARunWithoutAVerdict(t *testing.T) {
	pydantic := func(s spanSpec) spanSpec { s.library = "pydantic-ai"; return s }
	h := newHarness(t, defaultConfig(), nil)
	for _, s := range []spanSpec{
		requestSpan(2, 1, 0.1, 1).answered("tool_calls", counts{inputs: 1, completed: 1, calls: 1, callIDs: []string{"call_1"}}),
		pydantic(chatSpan(11, 10, 1.3, 2).finished("tool_call")), pydantic(callSpan(12, 10, 2.1, 2.5, "call_pay")),
		pydantic(chatSpan(13, 10, 2.6, 4).finished("tool_call")), pydantic(agentSpan(10, 4, 1.2, 4.8)),
		toolSpan(4, 1.1, 5, "call_1", semconv.ToolEffectReadOnly, semconv.ToolOutcomeSucceeded),
		requestSpan(6, 1, 5.1, 6).history([]string{"call_1"}, []string{"call_1"}).
			cut(semconv.PhaseResponseStarted, semconv.TransportCauseConnectionReset, "ECONNRESET", counts{}),
		runSpan(1, 0, 7, 2, 1),
	} {
		h.consume(t, s)
		h.pass(t, 2*xSettle)
	}
	out := spansOf(h.out())
	assert.Equal(t, verdict{}, verdictOf(out[spanID(10)]))
	assert.Equal(t, confirm, verdictOf(out[spanID(1)]).safety, "a tool ran within it")
}

// A call that the next consumer refused, and that its sender sends again, is judged again. The
// numbers of a run count once toward those that the run around it announced.
func TestInnerRunIsRefused(t *testing.T) {
	nothing := func(id, run byte, from, to float64) spanSpec {
		return requestSpan(id, run, from, to).cut(semconv.PhaseResponseStarted, semconv.TransportCauseConnectionReset, "ECONNRESET", counts{})
	}
	inner := []spanSpec{
		nothing(11, 10, 0.3, 0.4),
		toolSpan(12, 0.4, 0.45, "call_5", semconv.ToolEffectReadOnly, semconv.ToolOutcomeSucceeded).under(10).with(semconv.RunID(spanID(10).String())),
		runSpan(10, 0.2, 0.5, 1, 1).under(1).with(semconv.RunID(spanID(1).String())).failed("x"), otherSpan(9, 11, 0.3, 0.4),
	}
	outer := runSpan(1, 0, 2, 3, 2).failed("*net.OpError")
	shown := requestSpan(3, 1, 0.6, 0.7).answered("tool_calls", counts{text: 3, inputs: 1, completed: 1, calls: 1, callIDs: []string{"call_1"}})
	tool := toolSpan(4, 0.8, 0.9, "call_1", semconv.ToolEffectNonIdempotent, semconv.ToolOutcomeSucceeded)
	for refusals := range 3 {
		next := &flakyNext{fail: down, mutates: true} // what it refuses is not kept
		h := newHarness(t, defaultConfig(), next)
		for range refusals {
			require.ErrorIs(t, h.ConsumeTraces(t.Context(), tracesOf(t, inner...)), errDown)
		}
		next.fail = nil
		h.consume(t, inner...)
		h.consume(t, nothing(2, 1, 1, 1.5), outer)
		h.pass(t, time.Second)
		assert.NotContains(t, spansOf(outOf(&next.TracesSink)), spanID(1), "a request and a tool are on their way")
		h.consume(t, shown, tool)
		h.pass(t, xMaxHold)
		got := verdicts(outOf(&next.TracesSink))[1]
		assert.Equal(t, semconv.RetrySafetyUserConfirmedRetry, got.safety, "refused %d times", refusals)
	}
}

// What a run within another one did counts, however often the call of the outer one is repeated.
func TestOuterRunIsRepeated(t *testing.T) {
	inner := []spanSpec{
		requestSpan(11, 10, 0.2, 0.3).answered("tool_calls", counts{inputs: 1, completed: 1, calls: 1, callIDs: []string{"call_5"}}).in("b"),
		toolSpan(12, 0.4, 0.45, "call_5", semconv.ToolEffectNonIdempotent, semconv.ToolOutcomeSucceeded).under(10).without(semconv.RunIDKey).
			with(semconv.RunID(spanID(10).String())).in("b"),
		runSpan(10, 0.1, 0.5, 1, 1).under(1).in("b").failed("x"),
	}
	request := requestSpan(2, 1, 1, 1.5).cut(semconv.PhaseResponseStarted, semconv.TransportCauseConnectionReset, "ECONNRESET", counts{})
	outer := []spanSpec{request, runSpan(1, 0, 2, 1, 0).under(30).failed("*net.OpError"), otherSpan(30, 0, 0, 3)}
	for refusals := range 2 {
		next := &flakyNext{mutates: true} // what it refuses is not kept
		h := newHarness(t, defaultConfig(), next)
		h.consume(t, inner...)
		next.fail = down
		for range refusals {
			require.ErrorIs(t, h.ConsumeTraces(t.Context(), tracesOf(t, outer...)), errDown)
		}
		next.fail = nil
		h.consume(t, outer...)
		h.pass(t, xMaxHold)
		got := one(outcomeOf(outOf(&next.TracesSink))[spanKey{traceID(1), spanID(1)}])
		assert.Equal(t, semconv.RetryReasonToolSideEffect.String(), got[string(semconv.RetryReasonKey)], "refused %d times", refusals)
	}
}

// A span that comes while the release of its run waits to be judged is judged after it,
// whatever else of the trace is judged in that turn: it corrects the run.
func TestLateWhileItsRunIsPending(t *testing.T) {
	request, run := requestSpan(22, 21, 0.1, 1).answered("stop", answer), runSpan(21, 0, 3, 1, 0)
	failed := runSpan(1, 0, 2, 1, 0).failed("*net.OpError")
	late := toolSpan(3, 1, 1.5, "call_1", semconv.ToolEffectNonIdempotent, semconv.ToolOutcomeSucceeded)
	for name, calls := range map[string][][]spanSpec{
		"alone":                {{handedOver()}, {failed}, {late}},
		"with another run":     {{handedOver(), request}, {failed, run}, {late}},
		"another run after it": {{handedOver(), request}, {failed}, {late}, {run}},
		"another run before":   {{handedOver(), request}, {failed}, {run}, {late}},
	} {
		h := newHarness(t, defaultConfig(), nil)
		for _, c := range calls {
			require.NoError(t, h.inside.ConsumeTraces(t.Context(), tracesOf(t, c...)))
		}
		for h.Shards[0].Turn(t.Context()) {
		}
		got := verdicts(h.out())
		assert.Equal(t, semconv.TriggerLate, got[3].trigger, name)
		assert.Greater(t, got[3].safety, safe, name)
		assert.EqualValues(t, 1, contradicted(t, h), name)
	}
}
