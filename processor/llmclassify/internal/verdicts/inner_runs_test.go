package verdicts

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/otel/attribute"

	"github.com/otelllm/otelllm-go/internal/sample"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/harness"
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
	finished := func(id, parent byte, from, to float64) harness.Span {
		return harness.ChatSpan(id, parent, from, to).Finished("stop")
	}
	for _, tt := range []struct {
		name  string
		spans []harness.Span // as they end
		want  map[byte]semconv.RunOutcome
	}{
		{
			"beneath it",
			[]harness.Span{finished(11, 10, 1.1, 1.9), harness.AgentSpan(10, 1, 1, 2), finished(21, 20, 2.1, 2.9), harness.AgentSpan(20, 1, 2, 3), harness.AgentSpan(1, 0, 0, 4)},
			map[byte]semconv.RunOutcome{10: well, 20: well, 1: well},
		},
		{
			"beneath it, by this project's client",
			[]harness.Span{harness.RequestSpan(11, 10, 1.1, 1.9).Answered("stop", harness.Answer), harness.RunSpan(10, 1, 2, 1, 0).Under(1), harness.AgentSpan(1, 0, 0, 4)},
			map[byte]semconv.RunOutcome{10: well, 1: well},
		},
		{
			"in a tool of it",
			[]harness.Span{finished(11, 10, 1.1, 1.9), harness.AgentSpan(10, 4, 1, 2), harness.CallSpan(4, 1, 0.9, 2.1, "call_7"), harness.AgentSpan(1, 0, 0, 4)},
			map[byte]semconv.RunOutcome{10: well, 1: well},
		},
		{
			"beneath spans that are no part of a run",
			[]harness.Span{finished(11, 10, 1.1, 1.9), harness.AgentSpan(10, 8, 1, 2), harness.OtherSpan(8, 9, 0.8, 2.1), harness.OtherSpan(9, 1, 0.5, 2.2), harness.AgentSpan(1, 0, 0, 4)},
			map[byte]semconv.RunOutcome{10: well, 1: well},
		},
		{
			"ending with it, by a clock of whole milliseconds",
			[]harness.Span{finished(11, 10, 1.1, 1.9), harness.AgentSpan(10, 8, 1, 4.0004), harness.OtherSpan(8, 9, 0.8, 4), harness.OtherSpan(9, 1, 0.5, 4), harness.AgentSpan(1, 0, 0, 4)},
			map[byte]semconv.RunOutcome{10: well, 1: well},
		},
		{
			"two deep",
			[]harness.Span{finished(11, 10, 1.1, 1.9), harness.AgentSpan(10, 2, 1, 2), harness.AgentSpan(2, 1, 0.5, 3), harness.AgentSpan(1, 0, 0, 3)},
			map[byte]semconv.RunOutcome{10: well, 2: well, 1: well},
		},
		{
			"one of them did not go well",
			[]harness.Span{
				harness.ChatSpan(11, 10, 1.1, 1.9).Failed("InternalServerError"), harness.AgentSpan(10, 1, 1, 2).Failed("InternalServerError"),
				finished(21, 20, 2.1, 2.9), harness.AgentSpan(20, 1, 2, 3), harness.AgentSpan(1, 0, 0, 4),
			},
			map[byte]semconv.RunOutcome{10: semconv.RunOutcomeFailed, 20: well, 1: unknown},
		},
		{
			"nothing is known of one of them",
			[]harness.Span{harness.AgentSpan(10, 1, 1, 2), harness.AgentSpan(1, 0, 0, 4)},
			map[byte]semconv.RunOutcome{10: unknown, 1: unknown},
		},
		{
			"a run beside it says nothing of it",
			[]harness.Span{finished(11, 10, 1.1, 1.9), harness.AgentSpan(10, 9, 1, 2), harness.AgentSpan(1, 9, 0, 4), harness.OtherSpan(9, 0, 0, 5)},
			map[byte]semconv.RunOutcome{10: well, 1: unknown},
		},
		{
			"a run before it says nothing of it",
			[]harness.Span{finished(11, 10, 1.1, 1.9), harness.AgentSpan(10, 8, 1, 2), harness.OtherSpan(8, 0, 0, 2), harness.AgentSpan(1, 0, 3, 4)},
			map[byte]semconv.RunOutcome{10: well, 1: unknown},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, order := range orders(len(tt.spans)) {
				h := harness.New(t, harness.DefaultConfig(), nil)
				var spans []harness.Span
				for _, i := range order {
					spans = append(spans, tt.spans[i])
				}
				h.Consume(t, spans...)
				h.Pass(t, harness.MaxHold)
				require.Equal(t, len(spans), h.Out().SpanCount())
				require.Equal(t, tt.want, harness.Outcomes(h.Out()), "order %v", order)
			}
			h := harness.New(t, harness.DefaultConfig(), nil)
			for _, s := range tt.spans {
				h.Consume(t, s)
				h.Pass(t, 2*harness.Settle)
			}
			h.Pass(t, harness.MaxHold)
			assert.Equal(t, tt.want, harness.Outcomes(h.Out()), "one by one")
			assert.Equal(t, telemetry.Load{}, h.Load())
		})
	}
}

// What a run within another one did is a part of what the outer one did: its tools make
// repeating the outer one no safer than repeating itself, and the numbers that the outer
// one announces include its parts. The outer run is judged once all of them are here,
// in whatever order and company they come.
func TestEffectsJoinTheRunAround(t *testing.T) {
	call := func(id string) harness.Counts {
		return harness.Counts{Inputs: 1, Completed: 1, Calls: 1, CallIDs: []string{id}}
	}
	reset := func(id, run byte, from, to float64, calls ...string) harness.Span {
		return harness.RequestSpan(id, run, from, to).History(calls, calls).
			Cut(semconv.PhaseResponseStarted, semconv.TransportCauseConnectionReset, "ECONNRESET", harness.Counts{})
	}
	inRun := func(s harness.Span, run byte) harness.Span {
		for i, kv := range s.Attrs {
			if kv.Key == semconv.RunIDKey {
				s.Attrs[i] = semconv.RunID(harness.SpanID(run).String())
			}
		}
		return s.Under(run)
	}
	pay := func(id, run byte, from, to float64) harness.Span {
		return inRun(harness.ToolSpan(id, from, to, "call_pay", semconv.ToolEffectNonIdempotent, semconv.ToolOutcomeSucceeded), run)
	}
	delegate := func(effect semconv.ToolEffect) harness.Span {
		return harness.ToolSpan(4, 1.1, 5, "call_1", effect, semconv.ToolOutcomeSucceeded)
	}
	// Run 10 answers and pays; it is within run 1, whose last request is reset.
	inner := func(parent byte) []harness.Span {
		return []harness.Span{
			harness.RequestSpan(11, 10, 1.3, 2).Answered("tool_calls", call("call_pay")),
			pay(12, 10, 2.1, 2.5),
			harness.RequestSpan(13, 10, 2.6, 4).History([]string{"call_pay"}, []string{"call_pay"}).Answered("stop", harness.Answer),
			harness.RunSpan(10, 1.2, 4.8, 2, 1).Under(parent),
		}
	}
	asked := harness.RequestSpan(2, 1, 0.1, 1).Answered("tool_calls", call("call_1"))
	broken := harness.Failure(semconv.ClassStreamInterrupted, semconv.CauseConnectionReset, semconv.PhaseResponseStarted, semconv.OriginTransport).
		On(semconv.RunOutcomeFailed)
	for _, tt := range []struct {
		name  string
		spans []harness.Span  // as they end
		want  harness.Verdict // of run 1
	}{
		{
			"in a tool of it", append(append([]harness.Span{asked}, inner(4)...),
				delegate(semconv.ToolEffectReadOnly), reset(6, 1, 5.1, 6, "call_1"), harness.RunSpan(1, 0, 7, 4, 2)),
			broken.Because(harness.Confirm, semconv.RetryReasonToolSideEffect),
		},
		{
			"beneath it, which has no part but one", append(inner(1), reset(6, 1, 5.1, 6), harness.RunSpan(1, 0, 7, 3, 1)),
			broken.Because(harness.Confirm, semconv.RetryReasonToolSideEffect),
		},
		{
			"beneath spans that are no part of a run", append(inner(8), harness.OtherSpan(8, 9, 1.1, 4.9), harness.OtherSpan(9, 1, 1.05, 4.95),
				reset(6, 1, 5.1, 6), harness.RunSpan(1, 0, 7, 3, 1)),
			broken.Because(harness.Confirm, semconv.RetryReasonToolSideEffect),
		},
		{
			"two deep", append(inner(20), reset(21, 20, 4.9, 4.95), harness.RunSpan(20, 1.1, 4.99, 3, 1).Under(1),
				reset(6, 1, 5.1, 6), harness.RunSpan(1, 0, 7, 4, 1)),
			broken.Because(harness.Confirm, semconv.RetryReasonToolSideEffect),
		},
		{
			"another service's, which is in no number", append(append([]harness.Span{asked},
				harness.RequestSpan(11, 10, 1.3, 2).Answered("tool_calls", call("call_pay")).In("remote"),
				pay(12, 10, 2.1, 2.5).In("remote"),
				harness.RequestSpan(13, 10, 2.6, 4).History([]string{"call_pay"}, []string{"call_pay"}).Answered("stop", harness.Counts{Reasoning: 1}).In("remote"),
				harness.RunSpan(10, 1.2, 4.8, 2, 1).Under(4).In("remote"),
			), delegate(semconv.ToolEffectReadOnly), reset(6, 1, 5.1, 6, "call_1"), harness.RunSpan(1, 0, 7, 2, 1)),
			broken.Because(harness.Confirm, semconv.RetryReasonToolSideEffect),
		},
		{
			"which only read", append(append([]harness.Span{asked},
				harness.RequestSpan(11, 10, 1.3, 2).Answered("stop", harness.Counts{Reasoning: 1}), harness.RunSpan(10, 1.2, 4.8, 1, 0).Under(4),
			), delegate(semconv.ToolEffectReadOnly), reset(6, 1, 5.1, 6, "call_1"), harness.RunSpan(1, 0, 7, 3, 1)),
			broken.Because(harness.Safe, semconv.RetryReasonReadOnlyToolsOnly),
		},
		{
			"a run beside it says nothing of it", append(inner(9), harness.OtherSpan(9, 0, 0, 8), reset(6, 1, 5.1, 6), harness.RunSpan(1, 0, 7, 1, 0).Under(9)),
			broken.Because(harness.Safe, semconv.RetryReasonNoOutput),
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, order := range orders(len(tt.spans)) {
				h := harness.New(t, harness.DefaultConfig(), nil)
				var spans []harness.Span
				for _, i := range order {
					spans = append(spans, tt.spans[i])
				}
				h.Consume(t, spans...)
				require.Equal(t, tt.want, harness.VerdictOf(harness.SpansOf(h.Out())[harness.SpanID(1)]), "order %v", order)
				require.Equal(t, len(spans), h.Out().SpanCount(), "order %v", order)
				assert.Equal(t, telemetry.Load{}, h.Load())
			}
			h := harness.New(t, harness.DefaultConfig(), nil)
			for _, s := range tt.spans {
				h.Consume(t, s)
				h.Pass(t, 2*harness.Settle)
			}
			assert.Equal(t, tt.want, harness.VerdictOf(harness.SpansOf(h.Out())[harness.SpanID(1)]), "one by one")
			assert.Equal(t, telemetry.Load{}, h.Load())
			for n := range len(tt.spans) - 1 {
				h := harness.New(t, harness.DefaultConfig(), nil)
				h.Consume(t, tt.spans[:n+1]...)
				h.Consume(t, tt.spans[n+1:]...)
				assert.Equal(t, tt.want, harness.VerdictOf(harness.SpansOf(h.Out())[harness.SpanID(1)]), "in two calls, %d first", n+1)
				assert.Equal(t, telemetry.Load{}, h.Load())
			}
		})
	}
}

// Where a run within another one never reports its end, its parts are missing of the
// outer one, and what they did is not known.
func TestInnerRunThatIsMissing(t *testing.T) {
	outer := []harness.Span{
		harness.RequestSpan(6, 1, 5.1, 6).Cut(semconv.PhaseResponseStarted, semconv.TransportCauseConnectionReset, "ECONNRESET", harness.Counts{}),
		harness.RunSpan(1, 0, 7, 3, 1),
	}
	parts := []harness.Span{
		harness.RequestSpan(11, 10, 1.3, 2).Answered("stop", harness.Counts{Reasoning: 1}), harness.RequestSpan(13, 10, 2.6, 4).Answered("stop", harness.Counts{Reasoning: 1}),
	}
	for name, spans := range map[string][]harness.Span{
		"nothing of it": outer, "all but its end": append(parts, outer...), "all but one": append(append([]harness.Span{}, parts[1], harness.RunSpan(10, 1.2, 4.8, 2, 1).Under(1)), outer...),
	} {
		t.Run(name, func(t *testing.T) {
			h := harness.New(t, harness.DefaultConfig(), nil)
			h.Consume(t, spans...)
			require.Empty(t, harness.RunsJudged(h.Out()))
			h.Pass(t, harness.MaxHold)
			v := harness.VerdictOf(harness.SpansOf(h.Out())[harness.SpanID(1)])
			assert.Equal(t, semconv.CauseConnectionReset, v.Cause)
			assert.Equal(t, harness.Confirm, v.Safety)
			assert.Equal(t, semconv.RetryReasonEvidenceIncomplete, v.Reason)
			assert.Equal(t, semconv.TriggerHoldExpired, v.Trigger)
		})
	}
}

// What a run within another one did counts for that one, also where so many other runs of the
// trace wait that it is not one of the newest.
func TestInnerRunAmongMany(t *testing.T) {
	h := harness.New(t, harness.DefaultConfig(), nil)
	pay := harness.ToolSpan(12, 1.1, 1.3, "call_1", semconv.ToolEffectNonIdempotent, semconv.ToolOutcomeSucceeded).Under(10).In(harness.GatewayService)
	pay.Attrs = append(pay.Without(semconv.RunIDKey).Attrs, semconv.RunID(harness.SpanID(10).String()))
	h.Consume(t, pay, harness.RunSpan(10, 1, 2, 1, 1).Under(1).In(harness.GatewayService)) // a request of it is to come
	for id := byte(100); id < 200; id++ {
		h.Consume(t, harness.RunSpan(id, 0, 9, 1, 0))
	}
	h.Consume(t,
		harness.RequestSpan(2, 1, 2.1, 3).Cut(semconv.PhaseResponseStarted, semconv.TransportCauseConnectionReset, "ECONNRESET", harness.Counts{}),
		harness.RunSpan(1, 0, 3, 1, 0).Failed("ECONNRESET"))
	h.Pass(t, harness.Settle)
	assert.Empty(t, harness.RunsJudged(h.Out()), "it waits for the one within it")
	h.Consume(t, harness.RequestSpan(11, 10, 1.4, 1.9).Answered("stop", harness.Answer).In(harness.GatewayService).History([]string{"call_1"}, []string{"call_1"}))
	h.Pass(t, harness.Settle)
	v := harness.VerdictOf(harness.SpansOf(h.Out())[harness.SpanID(1)])
	assert.Equal(t, semconv.TriggerComplete, v.Trigger)
	assert.Equal(t, semconv.RetrySafetyUserConfirmedRetry, v.Safety)
	assert.Equal(t, semconv.RetryReasonToolSideEffect, v.Reason)
}

// A run that names the run around it is in the numbers of that one alone, whatever its
// parents and its time say.
func TestRunNamesTheRunAroundIt(t *testing.T) {
	spans := []harness.Span{
		harness.RequestSpan(21, 20, 1, 2).Answered("stop", harness.Answer), harness.RunSpan(20, 0.9, 2.1, 1, 0).Under(80).With(semconv.RunID(harness.SpanID(1).String())),
		harness.RequestSpan(3, 2, 3, 4).Answered("stop", harness.Answer), harness.RequestSpan(4, 1, 3, 4).Answered("stop", harness.Answer),
		harness.RunSpan(1, 0, 9, 2, 0).Under(91), harness.RunSpan(2, 0.5, 10, 2, 0).Under(92),
	}
	for _, order := range orders(len(spans)) {
		h := harness.New(t, harness.DefaultConfig(), nil)
		for _, i := range order {
			h.Consume(t, spans[i])
		}
		require.ElementsMatch(t, []pcommon.SpanID{harness.SpanID(1), harness.SpanID(20)}, harness.RunsJudged(h.Out()), "a request of run 2 is missing")
		assert.Equal(t, harness.Ran(semconv.RunOutcomeSucceeded, 0), harness.VerdictOf(harness.SpansOf(h.Out())[harness.SpanID(1)]))
		h.Consume(t, harness.RequestSpan(5, 2, 3, 4).Answered("stop", harness.Answer))
		require.Equal(t, harness.Ran(semconv.RunOutcomeSucceeded, 0), harness.VerdictOf(harness.SpansOf(h.Out())[harness.SpanID(2)]))
		assert.Equal(t, telemetry.Load{}, h.Load())
	}
}

// Runs that are within one another, by what they say, go when they have been held.
func TestRunsThatAreEachOthersParents(t *testing.T) {
	h := harness.New(t, harness.DefaultConfig(), nil)
	around := func(s harness.Span, run byte) harness.Span {
		return s.With(semconv.RunID(harness.SpanID(run).String())).Under(run)
	}
	h.Consume(t, around(harness.RunSpan(1, 0, 7, 2, 0), 2), around(harness.RunSpan(2, 0, 7, 2, 0), 3), around(harness.RunSpan(3, 0, 7, 2, 0), 1), harness.RequestSpan(4, 1, 1, 2).Answered("stop", harness.Answer))
	h.Pass(t, harness.MaxHold)
	assert.Len(t, harness.RunsJudged(h.Out()), 3)
	assert.Equal(t, telemetry.Load{}, h.Load())
}

// A run whose span says how many requests it has, and not how many tools, is not known to
// have executed none: it goes after settle, once those requests are here.
func TestToolsAreNotObserved(t *testing.T) {
	announces := func(requests int) harness.Span {
		s := harness.RunSpan(1, 0, 3, requests, 0)
		s.Attrs = s.Attrs[:len(s.Attrs)-1] // llm.run.tools
		return s
	}
	cut := harness.RequestSpan(2, 1, 0.1, 1).Cut(semconv.PhaseToolCallReady, semconv.TransportCauseConnectionReset, "ECONNRESET",
		harness.Counts{Inputs: 1, Completed: 1, Calls: 1, CallIDs: []string{"call_1"}})
	good := harness.RequestSpan(3, 1, 1.1, 2).With(semconv.RequestAttempt(2)).Answered("stop", harness.Answer)

	h := harness.New(t, harness.DefaultConfig(), nil)
	h.Consume(t, cut, announces(1))
	h.Pass(t, harness.Settle-1)
	require.Empty(t, h.Sink.AllTraces(), "a tool may be on its way")
	h.Pass(t, 1)
	want := harness.Failure(semconv.ClassStreamInterrupted, semconv.CauseConnectionReset, semconv.PhaseToolCallReady, semconv.OriginTransport).
		Because(harness.Confirm, semconv.RetryReasonToolStateUnknown).On(semconv.RunOutcomeFailed)
	want.Trigger, want.Confidence = semconv.TriggerRunEnded, semconv.ConfidenceMedium
	assert.Equal(t, want, harness.VerdictOf(harness.SpansOf(h.Out())[harness.SpanID(1)]))

	h = harness.New(t, harness.DefaultConfig(), nil)
	h.Consume(t, cut, announces(2))
	h.Pass(t, 2*harness.Settle)
	require.Empty(t, h.Sink.AllTraces(), "a request is still open")
	h.Consume(t, good)
	assert.Equal(t, harness.Verdict{Outcome: semconv.RunOutcomeRecovered, Recovered: 1, Trigger: semconv.TriggerRunEnded}, harness.VerdictOf(harness.SpansOf(h.Out())[harness.SpanID(1)]))
	assert.Equal(t, telemetry.Load{}, h.Load())

	h = harness.New(t, harness.DefaultConfig(), nil)
	h.Consume(t, good, announces(2))
	h.Pass(t, harness.MaxHold)
	v := harness.VerdictOf(harness.SpansOf(h.Out())[harness.SpanID(1)])
	assert.Equal(t, semconv.TriggerHoldExpired, v.Trigger)
	assert.Equal(t, semconv.CauseMissingChildren, v.Cause)
}

// A run whose inner runs were forgotten, as there was no room for them, may have done more
// than is known, also where it announces nothing.
func TestInnerRunsForgotten(t *testing.T) {
	for room := range 3 {
		cfg := harness.DefaultConfig()
		cfg.MaxFactBytes = 16*2*320*room + 5000
		h := harness.New(t, cfg, nil)
		inner := func(id byte, from float64) []harness.Span {
			return []harness.Span{
				harness.RequestSpan(id+1, id, from+0.1, from+0.5).Cut(semconv.PhaseText, semconv.TransportCauseConnectionReset, "ECONNRESET", harness.Counts{Text: 2}),
				harness.RunSpan(id, from, from+1, 1, 0).Under(1),
			}
		}
		for i := range 1 + 2*room {
			h.Consume(t, inner(byte(10+2*i), float64(i))...)
		}
		run := harness.RunSpan(1, 0, 80, 0, 0).Failed("429")
		run.Attrs = slices.DeleteFunc(run.Attrs, func(kv attribute.KeyValue) bool {
			return kv.Key == semconv.RunRequestsKey || kv.Key == semconv.RunToolsKey
		})
		h.Consume(t, harness.RequestSpan(4, 1, 79, 79.5).Refused(429, semconv.ProviderErrorKindRateLimited, "rate_limit_exceeded"), run)
		h.Pass(t, harness.MaxHold)
		v := harness.Verdicts(h.Out())[1]
		assert.Equal(t, semconv.RunOutcomeFailed, v.Outcome)
		assert.Greater(t, v.Safety, semconv.RetrySafetySafeAutoRetry, "room for %d: %s", room, v.Words())
	}
}

// A trace may have any number of runs, beneath a root that is still open. Where some were
// forgotten to make room for others of the trace, a run that began later was around none of them.
func TestManyRunsBeneathARoot(t *testing.T) {
	play := func(t *testing.T, counted bool, began, start float64) harness.Verdict {
		h := harness.New(t, harness.DefaultConfig(), nil)
		at := start
		for n := range 2 * trace.MaxPastRuns {
			id := pcommon.SpanID{1, byte(n >> 8), byte(n)}
			f := harness.NewForest(t)
			f.Add(harness.RunSpan(9, 0, 0, 1, 0), id, harness.SpanID(99), at, at+1)
			request := f.Add(harness.ShownText(8, 0), pcommon.SpanID{2, byte(n >> 8), byte(n)}, id, at+0.1, at+0.9)
			request.Attributes().PutStr(string(semconv.RunIDKey), id.String())
			require.NoError(t, h.ConsumeTraces(t.Context(), f.Traces))
			at++
		}
		run := harness.RunSpan(1, 0, 0, 1, 0).Failed("429")
		if !counted {
			run = harness.UncountedRun(0, 1)[0]
		}
		f := harness.NewForest(t)
		f.Add(run, harness.SpanID(1), harness.SpanID(99), began, at+1)
		f.Add(harness.UncountedRun(0, 1)[1], harness.SpanID(2), harness.SpanID(1), at+0.5, at+0.6)
		require.NoError(t, h.ConsumeTraces(t.Context(), f.Traces))
		h.Pass(t, harness.MaxHold)
		return harness.Verdicts(h.Out())[1]
	}
	for _, counted := range []bool{false, true}[:2/sample.Every(2)] {
		const start, forgotten = 100, 100 + trace.MaxPastRuns
		assert.Equal(t, harness.Safe, play(t, counted, start+2*trace.MaxPastRuns, start).Safety, "it began after all of them, counted %v", counted)
		assert.Equal(t, harness.Safe, play(t, counted, forgotten+11, start).Safety, "it is beside those that are kept, counted %v", counted)
		for _, began := range []float64{forgotten + 5, forgotten - 5, start - 5, 0}[:4/sample.Every(2)] {
			v := play(t, counted, began, start)
			assert.Equal(t, harness.Confirm, v.Safety, "it began at %v, counted %v", began, counted)
			assert.Equal(t, semconv.RetryReasonEvidenceIncomplete, v.Reason)
		}
	}
}

// A run may last longer than what is kept of the runs within it. It lacks them then, however
// much longer it lasts, also where it announces what its own process did. That is no failure.
func TestInnerRunsForgottenForTheirAge(t *testing.T) {
	play := func(t *testing.T, hours int, run func(end float64) harness.Span) harness.Verdict {
		end := float64(hours) * harness.RunTimeout.Seconds()
		h := harness.New(t, harness.DefaultConfig(), nil)
		h.Consume(t,
			harness.RequestSpan(11, 10, 0.1, 0.5).Cut(semconv.PhaseText, semconv.TransportCauseConnectionReset, "ECONNRESET", harness.Counts{Text: 2}).In("inner"),
			harness.RunSpan(10, 0, 1, 1, 0).Under(1).In("inner"))
		for range hours {
			h.Pass(t, harness.RunTimeout)
			h.Lane().Rotate(h.Clock.Now())
		}
		h.Consume(t, harness.UncountedRun(end-10, end)[1], run(end))
		h.Pass(t, harness.MaxHold)
		v := harness.Verdicts(h.Out())[1]
		assert.Equal(t, semconv.RunOutcomeFailed, v.Outcome)
		return v
	}
	for name, run := range map[string]func(end float64) harness.Span{
		"announces nothing":  func(end float64) harness.Span { return harness.UncountedRun(0, end)[0] },
		"announces its own":  func(end float64) harness.Span { return harness.RunSpan(1, 0, end, 1, 0).Failed("429") },
		"from the beginning": func(end float64) harness.Span { return harness.UncountedRun(-1000, end)[0] },
	} {
		t.Run(name, func(t *testing.T) {
			for _, hours := range []int{2, 3, 4, 5, 8, 23, 24, 25, 26, 49, 100} {
				v := play(t, hours, run)
				assert.Equal(t, semconv.RetryReasonEvidenceIncomplete, v.Reason, "after %d hours", hours)
				assert.Greater(t, v.Safety, harness.Safe, "after %d hours", hours)
			}
		})
	}
	t.Run("went well", func(t *testing.T) {
		const end = 8 * 3600
		h := harness.New(t, harness.DefaultConfig(), nil)
		h.Pass(t, end*time.Second)
		h.Consume(t, harness.RequestSpan(2, 1, end-10, end).Answered("stop", harness.Answer), harness.RunSpan(1, 0, end, 1, 0))
		h.Pass(t, harness.MaxHold)
		assert.Equal(t, semconv.RunOutcomeSucceeded, harness.Verdicts(h.Out())[1].Outcome)
	})
	t.Run("is short", func(t *testing.T) {
		assert.Equal(t, harness.Safe, play(t, 2, func(end float64) harness.Span { return harness.UncountedRun(end-20, end)[0] }).Safety)
	})
}

// A run that goes before one within it was judged lacks what that did: where it goes for its
// age, and where the other one's span is not here yet. A run beside it does not count.
func TestInnerRunsJudgedLater(t *testing.T) {
	shown := func(id, run byte, from float64) harness.Span {
		return harness.RequestSpan(id, run, from, from+0.1).Cut(semconv.PhaseText, semconv.TransportCauseConnectionReset, "ECONNRESET", harness.Counts{Text: 2})
	}
	play := func(t *testing.T, run harness.Span, first, later []harness.Span) harness.Verdict {
		cfg := harness.DefaultConfig()
		cfg.MaxHold = 4 * harness.Settle
		h := harness.New(t, cfg, nil)
		h.Consume(t, append(first, harness.UncountedRun(0, 1)[1], run)...)
		h.Pass(t, harness.Settle*9/10)
		h.Consume(t, later...)
		h.Pass(t, harness.Settle/10)
		h.Pass(t, cfg.MaxHold-harness.Settle)
		v := harness.Verdicts(h.Out())[1]
		assert.Equal(t, semconv.RunOutcomeFailed, v.Outcome)
		return v
	}
	uncounted, counted := harness.UncountedRun(0, 1)[0], harness.RunSpan(1, 0, 1, 1, 0).Failed("429")
	t.Run("its span is here", func(t *testing.T) {
		inner := []harness.Span{harness.RunSpan(10, 0.3, 0.9, 2, 0).Under(1).In("inner"), harness.RequestSpan(11, 10, 0.4, 0.5).Answered("stop", harness.Answer).In("inner")}
		v := play(t, uncounted, nil, inner)
		assert.Equal(t, semconv.TriggerHoldExpired, v.Trigger)
		assert.Equal(t, semconv.RetryReasonEvidenceIncomplete, v.Reason)
		inner[0].Parent = 0
		v = play(t, uncounted, nil, inner)
		assert.Equal(t, semconv.TriggerRunEnded, v.Trigger)
		assert.Equal(t, harness.Safe, v.Safety, "it is beside it")
	})
	t.Run("its requests are", func(t *testing.T) {
		v := play(t, uncounted, []harness.Span{shown(11, 10, 0.4)}, nil)
		assert.Equal(t, semconv.TriggerRunEnded, v.Trigger)
		assert.Equal(t, semconv.RetryReasonEvidenceIncomplete, v.Reason)
		assert.Equal(t, harness.Safe, play(t, counted, []harness.Span{shown(11, 10, 0.4)}, nil).Safety, "all that it announced is here")
		assert.Equal(t, harness.Safe, play(t, uncounted, []harness.Span{shown(11, 10, 1.4)}, nil).Safety, "it began later")
		assert.Equal(t, harness.Safe, play(t, uncounted, []harness.Span{shown(11, 10, 0.4).Of(2)}, nil).Safety, "it is of another trace")
	})
}

// A request that comes long before the span of its run, an inner one, is not the last answer
// of the run around that: the outer run's own last request asked for a tool.
func TestInnerRequestBeforeItsRun(t *testing.T) {
	h := harness.New(t, harness.DefaultConfig(), nil)
	h.Consume(t, harness.ChatSpan(2, 1, 0.1, 1).Finished("tool_use"), harness.ChatSpan(12, 10, 1.5, 2.3).Finished("end_turn"), harness.AgentSpan(1, 0, 0, 3))
	h.Pass(t, harness.MaxHold)
	h.Consume(t, harness.CallSpan(3, 1, 1.1, 2.5, "call_1"), harness.AgentSpan(10, 3, 1.2, 2.4))
	h.Pass(t, harness.MaxHold)
	v := harness.Verdicts(h.Out())[1]
	assert.Equal(t, semconv.RunOutcomeIncomplete, v.Outcome, v.Words())
	assert.Greater(t, v.Safety, semconv.RetrySafetySafeAutoRetry)
}

// Nothing is said of a run that may have returned its calls, but what it did counts for the
// run around it.
func TestEffectsOfARunWithoutVerdict(t *testing.T) {
	pydantic := func(s harness.Span) harness.Span { s.Library = "pydantic-ai"; return s }
	h := harness.New(t, harness.DefaultConfig(), nil)
	for _, s := range []harness.Span{
		harness.RequestSpan(2, 1, 0.1, 1).Answered("tool_calls", harness.Counts{Inputs: 1, Completed: 1, Calls: 1, CallIDs: []string{"call_1"}}),
		pydantic(harness.ChatSpan(11, 10, 1.3, 2).Finished("tool_call")), pydantic(harness.CallSpan(12, 10, 2.1, 2.5, "call_pay")),
		pydantic(harness.ChatSpan(13, 10, 2.6, 4).Finished("tool_call")), pydantic(harness.AgentSpan(10, 4, 1.2, 4.8)),
		harness.ToolSpan(4, 1.1, 5, "call_1", semconv.ToolEffectReadOnly, semconv.ToolOutcomeSucceeded),
		harness.RequestSpan(6, 1, 5.1, 6).History([]string{"call_1"}, []string{"call_1"}).
			Cut(semconv.PhaseResponseStarted, semconv.TransportCauseConnectionReset, "ECONNRESET", harness.Counts{}),
		harness.RunSpan(1, 0, 7, 2, 1),
	} {
		h.Consume(t, s)
		h.Pass(t, 2*harness.Settle)
	}
	out := harness.SpansOf(h.Out())
	assert.Equal(t, harness.Verdict{}, harness.VerdictOf(out[harness.SpanID(10)]))
	assert.Equal(t, harness.Confirm, harness.VerdictOf(out[harness.SpanID(1)]).Safety, "a tool ran within it")
}

// A call that the next consumer refused, and that its sender sends again, is judged again. The
// numbers of a run count once toward those that the run around it announced.
func TestInnerRunIsRefused(t *testing.T) {
	nothing := func(id, run byte, from, to float64) harness.Span {
		return harness.RequestSpan(id, run, from, to).Cut(semconv.PhaseResponseStarted, semconv.TransportCauseConnectionReset, "ECONNRESET", harness.Counts{})
	}
	inner := []harness.Span{
		nothing(11, 10, 0.3, 0.4),
		harness.ToolSpan(12, 0.4, 0.45, "call_5", semconv.ToolEffectReadOnly, semconv.ToolOutcomeSucceeded).Under(10).With(semconv.RunID(harness.SpanID(10).String())),
		harness.RunSpan(10, 0.2, 0.5, 1, 1).Under(1).With(semconv.RunID(harness.SpanID(1).String())).Failed("x"), harness.OtherSpan(9, 11, 0.3, 0.4),
	}
	outer := harness.RunSpan(1, 0, 2, 3, 2).Failed("*net.OpError")
	shown := harness.RequestSpan(3, 1, 0.6, 0.7).Answered("tool_calls", harness.Counts{Text: 3, Inputs: 1, Completed: 1, Calls: 1, CallIDs: []string{"call_1"}})
	tool := harness.ToolSpan(4, 0.8, 0.9, "call_1", semconv.ToolEffectNonIdempotent, semconv.ToolOutcomeSucceeded)
	for refusals := range 3 {
		next := &harness.FlakyNext{Fail: harness.Down, Mutates: true} // what it refuses is not kept
		h := harness.New(t, harness.DefaultConfig(), next)
		for range refusals {
			require.ErrorIs(t, h.ConsumeTraces(t.Context(), harness.TracesOf(t, inner...)), harness.ErrDown)
		}
		next.Fail = nil
		h.Consume(t, inner...)
		h.Consume(t, nothing(2, 1, 1, 1.5), outer)
		h.Pass(t, time.Second)
		assert.NotContains(t, harness.SpansOf(harness.OutOf(&next.TracesSink)), harness.SpanID(1), "a request and a tool are on their way")
		h.Consume(t, shown, tool)
		h.Pass(t, harness.MaxHold)
		got := harness.Verdicts(harness.OutOf(&next.TracesSink))[1]
		assert.Equal(t, semconv.RetrySafetyUserConfirmedRetry, got.Safety, "refused %d times", refusals)
	}
}

// What a run within another one did counts, however often the call of the outer one is repeated.
func TestOuterRunIsRepeated(t *testing.T) {
	inner := []harness.Span{
		harness.RequestSpan(11, 10, 0.2, 0.3).Answered("tool_calls", harness.Counts{Inputs: 1, Completed: 1, Calls: 1, CallIDs: []string{"call_5"}}).In("b"),
		harness.ToolSpan(12, 0.4, 0.45, "call_5", semconv.ToolEffectNonIdempotent, semconv.ToolOutcomeSucceeded).Under(10).Without(semconv.RunIDKey).
			With(semconv.RunID(harness.SpanID(10).String())).In("b"),
		harness.RunSpan(10, 0.1, 0.5, 1, 1).Under(1).In("b").Failed("x"),
	}
	request := harness.RequestSpan(2, 1, 1, 1.5).Cut(semconv.PhaseResponseStarted, semconv.TransportCauseConnectionReset, "ECONNRESET", harness.Counts{})
	outer := []harness.Span{request, harness.RunSpan(1, 0, 2, 1, 0).Under(30).Failed("*net.OpError"), harness.OtherSpan(30, 0, 0, 3)}
	for refusals := range 2 {
		next := &harness.FlakyNext{Mutates: true} // what it refuses is not kept
		h := harness.New(t, harness.DefaultConfig(), next)
		h.Consume(t, inner...)
		next.Fail = harness.Down
		for range refusals {
			require.ErrorIs(t, h.ConsumeTraces(t.Context(), harness.TracesOf(t, outer...)), harness.ErrDown)
		}
		next.Fail = nil
		h.Consume(t, outer...)
		h.Pass(t, harness.MaxHold)
		got := harness.Fullest(harness.OutcomeOf(harness.OutOf(&next.TracesSink))[harness.SpanKey{Trace: harness.TraceID(1), ID: harness.SpanID(1)}])
		assert.Equal(t, semconv.RetryReasonToolSideEffect.String(), got[string(semconv.RetryReasonKey)], "refused %d times", refusals)
	}
}

// A span that comes while the release of its run waits to be judged is judged after it,
// whatever else of the trace is judged in that turn: it corrects the run.
func TestLateWhileItsRunIsPending(t *testing.T) {
	request, run := harness.RequestSpan(22, 21, 0.1, 1).Answered("stop", harness.Answer), harness.RunSpan(21, 0, 3, 1, 0)
	failed := harness.RunSpan(1, 0, 2, 1, 0).Failed("*net.OpError")
	late := harness.ToolSpan(3, 1, 1.5, "call_1", semconv.ToolEffectNonIdempotent, semconv.ToolOutcomeSucceeded)
	for name, calls := range map[string][][]harness.Span{
		"alone":                {{handedOver()}, {failed}, {late}},
		"with another run":     {{handedOver(), request}, {failed, run}, {late}},
		"another run after it": {{handedOver(), request}, {failed}, {late}, {run}},
		"another run before":   {{handedOver(), request}, {failed}, {run}, {late}},
	} {
		h := harness.New(t, harness.DefaultConfig(), nil)
		for _, c := range calls {
			require.NoError(t, h.Processor.ConsumeTraces(t.Context(), harness.TracesOf(t, c...)))
		}
		for h.Shards[0].Turn(t.Context()) {
		}
		got := harness.Verdicts(h.Out())
		assert.Equal(t, semconv.TriggerLate, got[3].Trigger, name)
		assert.Greater(t, got[3].Safety, harness.Safe, name)
		assert.EqualValues(t, 1, contradicted(t, h), name)
	}
}
