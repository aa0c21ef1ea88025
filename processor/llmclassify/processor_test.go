package llmclassify_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/processor/processortest"
	"go.opentelemetry.io/otel/attribute"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/otelllm/otelllm-go/processor/llmclassify"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/harness"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/metadata"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/telemetry"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/worker"
	"github.com/otelllm/otelllm-go/semconv"
)

func TestOthersPassInTheSameCall(t *testing.T) {
	h := harness.New(t, harness.DefaultConfig(), nil)
	h.Consume(t, harness.OtherSpan(8, 1, 0.1, 0.2), harness.RequestSpan(2, 1, 0.1, 1).Answered("stop", harness.Answer), harness.HTTPSpan(9, 0.9))
	out := harness.SpansOf(h.Out())
	assert.Len(t, out, 2)
	assert.Contains(t, out, harness.SpanID(8))
	assert.Contains(t, out, harness.SpanID(9))

	td := harness.TracesOf(t, harness.OtherSpan(7, 1, 0.1, 0.2))
	td.ResourceSpans().AppendEmpty() // a call without LLM spans passes as it is
	want := ptrace.NewTraces()
	td.CopyTo(want)
	require.NoError(t, h.ConsumeTraces(t.Context(), td))
	assert.Equal(t, want, h.Sink.AllTraces()[1])
}

func TestSpanWithoutIDsPasses(t *testing.T) {
	h := harness.New(t, harness.DefaultConfig(), nil)
	td := harness.TracesOf(t, harness.RequestSpan(2, 0, 0.1, 1).Answered("stop", harness.Answer), harness.RequestSpan(0, 0, 0.1, 1).Answered("stop", harness.Answer))
	td.ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0).SetTraceID([16]byte{})
	require.NoError(t, h.ConsumeTraces(t.Context(), td))
	assert.Equal(t, 2, h.Out().SpanCount())
	assert.Zero(t, h.Load().Traces)
}

// Spans come in any order and any number of calls; the run goes out with the
// last of them.
func TestCompleteInAnyOrder(t *testing.T) {
	run := harness.RunSpan(1, 0, 3, 2, 1)
	parts := []harness.Span{
		harness.RequestSpan(2, 1, 0.1, 1).Answered("tool_calls", harness.Counts{Inputs: 1, Completed: 1, Calls: 1, CallIDs: []string{"call_1"}}),
		harness.ToolSpan(3, 1.1, 1.9, "call_1", semconv.ToolEffectReadOnly, semconv.ToolOutcomeSucceeded),
		harness.RequestSpan(4, 1, 2, 2.5).History([]string{"call_1"}, []string{"call_1"}).Answered("stop", harness.Answer),
		run,
	}
	for first := range parts {
		h := harness.New(t, harness.DefaultConfig(), nil)
		for i := range parts {
			require.Empty(t, h.Sink.AllTraces())
			h.Consume(t, parts[(first+i)%len(parts)])
		}
		out := h.Out()
		require.Equal(t, len(parts), out.SpanCount())
		require.Equal(t, 1, out.ResourceSpans().Len(), "one resource, however many calls its spans came in")
		harness.CheckVerdicts(t, out, map[byte]harness.Verdict{1: harness.Ran(semconv.RunOutcomeSucceeded, 0)})
		assert.Equal(t, telemetry.Load{}, h.Load(), "nothing is left")
	}
}

// A run that announced more than comes is judged on what came.
func TestAnnouncedPartNeverComes(t *testing.T) {
	h := harness.New(t, harness.DefaultConfig(), nil)
	h.Consume(t, harness.RequestSpan(2, 1, 0.1, 1).Answered("stop", harness.Answer), harness.RunSpan(1, 0, 3, 2, 0))
	h.Pass(t, harness.MaxHold-1)
	require.Empty(t, h.Sink.AllTraces())
	h.Pass(t, 1)
	out := h.Out()
	require.Equal(t, 2, out.SpanCount())
	v := harness.VerdictOf(harness.SpansOf(out)[harness.SpanID(1)])
	assert.Equal(t, semconv.RunOutcomeIncomplete, v.Outcome)
	assert.Equal(t, semconv.CauseMissingChildren, v.Cause)
	assert.Equal(t, semconv.TriggerHoldExpired, v.Trigger)
}

// A run span without counts waits for what comes after it.
func TestRunEnded(t *testing.T) {
	h := harness.New(t, harness.DefaultConfig(), nil)
	h.Consume(t, harness.AgentSpan(1, 0, 0, 3))
	h.Pass(t, harness.Settle/2)
	h.Consume(t, harness.ChatSpan(2, 1, 0.1, 1).Finished("max_tokens"))
	h.Pass(t, harness.Settle/2-1)
	require.Empty(t, h.Sink.AllTraces())
	h.Pass(t, 1)
	out := h.Out()
	require.Equal(t, 2, out.SpanCount())
	v := harness.VerdictOf(harness.SpansOf(out)[harness.SpanID(1)])
	assert.Equal(t, semconv.RunOutcomeLimited, v.Outcome)
	assert.Equal(t, semconv.TriggerRunEnded, v.Trigger)
}

// Acceptance case 24: every span of a run of 200 requests goes out within
// max_hold, and the run span is judged on all of them.
func TestLongRun(t *testing.T) {
	const requests, every = 200, 5 * time.Second
	cfg := harness.DefaultConfig()
	h := harness.New(t, cfg, nil)
	came, ended := map[byte]time.Time{}, false
	check := func(id byte, span ptrace.Span) {
		require.LessOrEqual(t, h.Clock.Now().Sub(came[id]), cfg.MaxHold, "span %d", id)
		want := harness.EarlyVerdict(semconv.TriggerHoldExpired)
		switch id {
		case 250:
			want = harness.Ran(semconv.RunOutcomeRecovered, 1)
		case 4:
			want = harness.Failure(semconv.ClassStreamInterrupted, semconv.CauseConnectionReset, semconv.PhaseResponseStarted, semconv.OriginTransport).
				Because(harness.Safe, semconv.RetryReasonNoOutput)
			want.Trigger = semconv.TriggerHoldExpired
		default:
			if ended {
				want = harness.Verdict{} // still here when the run was judged
			}
		}
		require.Equal(t, want, harness.VerdictOf(span), "span %d", id)
		delete(came, id)
	}
	collect := func() {
		for id, span := range harness.SpansOf(h.Out()) {
			check(id[7], span)
		}
		h.Sink.Reset()
	}
	for i := range requests {
		id := byte(i + 2)
		from := float64(i) * every.Seconds()
		r := harness.RequestSpan(id, 250, from, from+1)
		if i == 2 {
			r = r.Cut(semconv.PhaseResponseStarted, semconv.TransportCauseConnectionReset, "ECONNRESET", harness.Counts{})
		} else {
			r = r.Answered("stop", harness.Answer)
		}
		came[id] = h.Clock.Now()
		h.Consume(t, r)
		collect()
		for range every / time.Second {
			h.Pass(t, time.Second)
			collect()
		}
	}
	assert.Positive(t, h.Load().FactBytes)
	came[250], ended = h.Clock.Now(), true
	h.Consume(t, harness.RunSpan(250, 0, requests*every.Seconds(), requests, 0))
	h.Pass(t, 100*time.Millisecond) // a large trace rests after its spans went early
	collect()
	assert.Empty(t, came, "every span came out")
	assert.Equal(t, telemetry.Load{}, h.Load())
}

// Without a run span the LLM spans under one parent are one run, once it is
// known that none will come.
func TestRunSpanNeverComes(t *testing.T) {
	h := harness.New(t, harness.DefaultConfig(), nil)
	h.Consume(t,
		harness.ChatSpan(2, 1, 0.1, 0.4).Failed("RateLimitError").With(),
		harness.ChatSpan(3, 1, 0.5, 1).Finished("stop"),
		harness.ChatSpan(4, 0, 0.5, 1).Finished("length").Of(2), // a root of its own
	)
	out := harness.SpansOf(h.Out())
	require.Len(t, out, 1, "at once")
	assert.Equal(t, semconv.ClassOutputLimited, harness.VerdictOf(out[harness.SpanID(4)]).Class)
	assert.Equal(t, semconv.RunOutcomeUnset, harness.VerdictOf(out[harness.SpanID(4)]).Outcome, "it is alone, and no run")
	h.Pass(t, time.Second)
	h.Consume(t, harness.OtherSpan(1, 0, 0, 3)) // the parent, and a root
	h.Pass(t, harness.MaxHold-time.Second)
	out = harness.SpansOf(h.Out())
	require.Len(t, out, 4)
	assert.Equal(t, harness.Verdict{Outcome: semconv.RunOutcomeRecovered, Recovered: 1, Trigger: semconv.TriggerHoldExpired}, harness.VerdictOf(out[harness.SpanID(3)]))
	assert.Equal(t, semconv.CauseRateLimited, harness.VerdictOf(out[harness.SpanID(2)]).Cause)
	assert.Equal(t, semconv.RunOutcomeUnset, harness.VerdictOf(out[harness.SpanID(2)]).Outcome)
	assert.Equal(t, telemetry.Load{}, h.Load())
}

// A span whose run may still come carries no verdict on the run.
func TestRunMayStillCome(t *testing.T) {
	for name, spans := range map[string][]harness.Span{
		"named":                  {harness.RequestSpan(2, 1, 0.1, 1).Answered("stop", harness.Answer)},
		"parent not seen":        {harness.ChatSpan(2, 1, 0.1, 1).Finished("stop")},
		"grandparent not seen":   {harness.ChatSpan(2, 7, 0.1, 1).Finished("stop"), harness.OtherSpan(7, 1, 0, 2)},
		"seen before, and after": {harness.ChatSpan(2, 7, 0.1, 1).Finished("stop"), harness.OtherSpan(7, 6, 0, 2), harness.OtherSpan(6, 1, 0, 2)},
	} {
		t.Run(name, func(t *testing.T) {
			h := harness.New(t, harness.DefaultConfig(), nil)
			for _, s := range spans {
				h.Consume(t, s)
			}
			h.Pass(t, harness.MaxHold)
			out := harness.SpansOf(h.Out())
			require.Len(t, out, len(spans))
			assert.Equal(t, harness.EarlyVerdict(semconv.TriggerHoldExpired), harness.VerdictOf(out[harness.SpanID(2)]))
			assert.Positive(t, h.Load().FactBytes)

			h.Sink.Reset()
			h.Pass(t, time.Minute)
			h.Consume(t, harness.AgentSpan(1, 0, 0, 90))
			h.Pass(t, harness.Settle)
			assert.Equal(t, harness.Verdict{Outcome: semconv.RunOutcomeSucceeded, Trigger: semconv.TriggerRunEnded},
				harness.VerdictOf(harness.SpansOf(h.Out())[harness.SpanID(1)]), "judged on the facts of the span that went before")
			assert.Equal(t, telemetry.Load{}, h.Load())
		})
	}
}

func TestSeveralRunsInOneTrace(t *testing.T) {
	h := harness.New(t, harness.DefaultConfig(), nil)
	limited := func(id, run byte, from, to float64) harness.Span {
		return harness.RequestSpan(id, run, from, to).Answered("length", harness.Answer)
	}
	h.Consume(t,
		harness.RequestSpan(2, 1, 0.1, 1).Answered("stop", harness.Answer), limited(12, 11, 4, 5),
		harness.RunSpan(11, 3.9, 6, 1, 0),
	)
	assert.Equal(t, map[byte]semconv.RunOutcome{11: semconv.RunOutcomeLimited}, harness.Outcomes(h.Out()))
	h.Consume(t, harness.RunSpan(1, 0, 3, 1, 0))
	assert.Equal(t, map[byte]semconv.RunOutcome{1: semconv.RunOutcomeSucceeded, 11: semconv.RunOutcomeLimited}, harness.Outcomes(h.Out()))
}

func TestSpanLimit(t *testing.T) {
	cfg := harness.DefaultConfig()
	cfg.MaxSpansPerRun = 3
	h := harness.New(t, cfg, nil)
	for id := byte(2); id < 5; id++ {
		h.Consume(t, harness.RequestSpan(id, 1, float64(id), float64(id)+0.5).Answered("stop", harness.Answer))
	}
	require.Empty(t, h.Sink.AllTraces())
	h.Consume(t, harness.RequestSpan(5, 1, 5, 5.5).Answered("length", harness.Answer))
	out := harness.SpansOf(h.Out())
	require.Len(t, out, 4)
	assert.Equal(t, harness.EarlyVerdict(semconv.TriggerSpanLimit), harness.VerdictOf(out[harness.SpanID(2)]))
	assert.Equal(t, semconv.CauseMaxOutputTokens, harness.VerdictOf(out[harness.SpanID(5)]).Cause)
	assert.Equal(t, semconv.TriggerSpanLimit, harness.VerdictOf(out[harness.SpanID(5)]).Trigger)
	h.Sink.Reset()
	h.Consume(t, harness.RequestSpan(6, 1, 6, 6.5).Answered("stop", harness.Answer), harness.RunSpan(1, 0, 7, 5, 0))
	assert.Equal(t, map[byte]semconv.RunOutcome{1: semconv.RunOutcomeSucceeded}, harness.Outcomes(h.Out()))
	assert.Equal(t, telemetry.Load{}, h.Load())
}

// At the bound of memory nothing is lost, whatever comes at once.
func TestMemoryBoundLosesNothing(t *testing.T) {
	one := harness.RequestSpan(2, 1, 0.1, 1).Answered("stop", harness.Answer)
	probe := harness.New(t, harness.DefaultConfig(), nil)
	probe.Consume(t, one)
	size := probe.Load().Bytes

	for name, inOneCall := range map[string]bool{"one by one": false, "in one call": true} {
		t.Run(name, func(t *testing.T) {
			cfg := harness.DefaultConfig()
			cfg.MaxHeldBytes = 10 * size
			h := harness.New(t, cfg, nil)
			core, logs := observer.New(zap.WarnLevel)
			h.Processor.Telemetry.Logger = zap.New(core)
			const traces = 100
			var specs []harness.Span
			for i := range traces {
				specs = append(specs, one.Of(byte(i+1)))
			}
			if inOneCall {
				h.Consume(t, specs...)
			} else {
				for _, s := range specs {
					h.Consume(t, s)
					assert.LessOrEqual(t, h.Load().Bytes, cfg.MaxHeldBytes)
					h.Clock.Advance(time.Millisecond)
				}
			}
			assert.LessOrEqual(t, h.Load().Bytes, cfg.MaxHeldBytes)
			assert.Greater(t, h.Load().Bytes, cfg.MaxHeldBytes/2, "no more goes than has to")
			spans := 0
			for _, td := range h.Sink.AllTraces() {
				spans += td.SpanCount()
				for _, span := range harness.SpansOf(td) {
					assert.Equal(t, harness.EarlyVerdict(semconv.TriggerMemory), harness.VerdictOf(span))
				}
			}
			assert.Len(t, logs.TakeAll(), 1, "said once")
			held := traces - spans
			assert.Positive(t, held)
			require.NoError(t, h.Shutdown(t.Context()))
			assert.Equal(t, traces, h.Out().SpanCount())
		})
	}
}

// However much is released at once, it goes out in calls that receivers take.
func TestParcels(t *testing.T) {
	h := harness.New(t, harness.DefaultConfig(), nil)
	const spans = 5000
	for i := range spans {
		h.Consume(t, harness.RequestSpan(byte(i%250+2), 1, 0.1, 1).Answered("stop", harness.Answer).With(attribute.String("app", strings.Repeat("x", i%2000))))
	}
	require.NoError(t, h.Shutdown(t.Context()))
	assert.Equal(t, spans, h.Sink.SpanCount())
	assert.Greater(t, len(h.Sink.AllTraces()), 2)
	for _, td := range h.Sink.AllTraces() {
		assert.Less(t, (&ptrace.ProtoMarshaler{}).TracesSize(td), 4<<20)
	}
}

func TestFactsForgotten(t *testing.T) {
	cfg := harness.DefaultConfig()
	cfg.MaxFactBytes = 10_000
	h := harness.New(t, cfg, nil)
	for i := range 100 {
		h.Consume(t, harness.RequestSpan(byte(i+2), 1, float64(i), float64(i)+0.5).Answered("stop", harness.Answer))
	}
	h.Pass(t, harness.MaxHold)
	assert.Equal(t, 100, h.Out().SpanCount())
	assert.LessOrEqual(t, h.Load().FactBytes, cfg.MaxFactBytes)
	forgotten, err := h.Metrics.GetMetric("otelcol_processor_llm_classify_facts_forgotten")
	require.NoError(t, err)
	assert.Greater(t, harness.Total(t, forgotten), int64(50))

	h.Pass(t, harness.RunTimeout)
	assert.Equal(t, telemetry.Load{}, h.Load(), "no run waits for ever")
}

// A run of which all facts were forgotten is still one that may have done more than is here.
func TestAllFactsForgotten(t *testing.T) {
	cfg := harness.DefaultConfig()
	cfg.MaxFactBytes = 1
	h := harness.New(t, cfg, nil)
	refused := func(id byte, from float64) harness.Span {
		return harness.RequestSpan(id, 1, from, from+0.5).Refused(429, semconv.ProviderErrorKindRateLimited, "rate_limit_exceeded")
	}
	h.Consume(t, harness.RequestSpan(2, 1, 0.1, 1).Cut(semconv.PhaseText, semconv.TransportCauseConnectionReset, "ECONNRESET", harness.Counts{Text: 2}))
	h.Pass(t, harness.MaxHold)
	require.Equal(t, telemetry.Load{}, h.Load())
	h.Consume(t, refused(3, 40))
	h.Pass(t, harness.MaxHold)
	run := harness.RunSpan(1, 0, 80, 0, 0).Failed("429")
	run.Attrs = slices.DeleteFunc(run.Attrs, func(kv attribute.KeyValue) bool {
		return kv.Key == semconv.RunRequestsKey || kv.Key == semconv.RunToolsKey
	})
	h.Consume(t, refused(4, 79), run)
	h.Pass(t, harness.MaxHold)
	for id, v := range harness.Verdicts(h.Out()) {
		assert.Greater(t, v.Safety, semconv.RetrySafetySafeAutoRetry, "span %d: %s", id, v.Words())
	}
}

// What comes after its run was judged goes out at once, with its own verdict; a
// run is judged once.
func TestLateSpanGoesAtOnce(t *testing.T) {
	h := harness.New(t, harness.DefaultConfig(), nil)
	run := harness.RunSpan(1, 0, 3, 1, 0)
	h.Consume(t, harness.RequestSpan(2, 1, 0.1, 1).Answered("stop", harness.Answer), run)
	require.Equal(t, 2, h.Out().SpanCount())
	h.Sink.Reset()

	h.Consume(t, harness.RequestSpan(3, 1, 1.1, 2).Answered("length", harness.Answer), run, harness.ChatSpan(4, 1, 1, 2).Finished("stop"))
	out := harness.SpansOf(h.Out())
	require.Len(t, out, 3)
	assert.Equal(t, semconv.CauseMaxOutputTokens, harness.VerdictOf(out[harness.SpanID(3)]).Cause)
	assert.Equal(t, semconv.TriggerLate, harness.VerdictOf(out[harness.SpanID(3)]).Trigger)
	assert.Equal(t, harness.EarlyVerdict(semconv.TriggerLate), harness.VerdictOf(out[harness.SpanID(1)]))
	assert.Equal(t, harness.EarlyVerdict(semconv.TriggerLate), harness.VerdictOf(out[harness.SpanID(4)]))
	assert.Equal(t, telemetry.Load{}, h.Load())
}

func TestShutdown(t *testing.T) {
	h := harness.New(t, harness.DefaultConfig(), nil)
	h.Consume(t,
		harness.RequestSpan(2, 1, 0.1, 1).Answered("length", harness.Answer),                         // its run may still come
		harness.AgentSpan(1, 0, 0, 3).Of(2), harness.ChatSpan(2, 1, 0.1, 1).Finished("length").Of(2), // its run is here
	)
	require.NoError(t, h.Shutdown(t.Context()))
	out := h.Out()
	require.Equal(t, 3, out.SpanCount())
	for _, rs := range out.ResourceSpans().All() {
		for _, span := range rs.ScopeSpans().At(0).Spans().All() {
			v := harness.VerdictOf(span)
			assert.Equal(t, semconv.CauseMaxOutputTokens, v.Cause)
			assert.Equal(t, semconv.TriggerShutdown, v.Trigger)
			assert.Equal(t, span.SpanID() == harness.SpanID(1), v.Outcome != semconv.RunOutcomeUnset)
		}
	}
	require.NoError(t, h.Shutdown(t.Context()), "a second shutdown does nothing")

	// What still comes is refused, so that it is not lost.
	err := h.ConsumeTraces(t.Context(), harness.TracesOf(t, harness.RequestSpan(5, 1, 0.1, 1).Answered("stop", harness.Answer)))
	require.ErrorContains(t, err, "llm_classify is shut down")
	assert.False(t, consumererror.IsPermanent(err))
	h.Consume(t, harness.OtherSpan(9, 1, 0.1, 0.2))
	assert.Equal(t, 4, h.Out().SpanCount(), "other spans pass")
}

func TestVerifyShutdown(t *testing.T) {
	processortest.VerifyShutdown(t, llmclassify.NewFactory(), llmclassify.NewFactory().CreateDefaultConfig())
}

// TestTimer runs the processor's own goroutine, on a clock that is moved by hand.
func TestTimer(t *testing.T) {
	sink := new(consumertest.TracesSink)
	c := harness.NewClock()
	p := harness.Make(t, processortest.NewNopSettings(metadata.Type), harness.DefaultConfig(), sink, c)
	require.NoError(t, p.Start(t.Context(), componenttest.NewNopHost()))

	require.NoError(t, p.ConsumeTraces(t.Context(), harness.TracesOf(t, harness.AgentSpan(1, 0, 0, 3))))
	require.Eventually(t, func() bool { return c.WaitsUntil(harness.T0.Add(harness.Settle)) }, 10*time.Second, time.Millisecond,
		"the timer is set for the run that settles")
	require.NoError(t, p.ConsumeTraces(t.Context(), harness.TracesOf(t, harness.RequestSpan(2, 1, 0.1, 1).Of(2))))
	require.Eventually(t, func() bool { return p.Load().Traces == 2 }, 10*time.Second, time.Millisecond)
	c.Advance(harness.Settle)
	require.Eventually(t, func() bool { return sink.SpanCount() == 1 }, 10*time.Second, time.Millisecond)
	require.Eventually(t, func() bool { return c.WaitsUntil(harness.T0.Add(worker.PackAfter)) }, 10*time.Second, time.Millisecond,
		"then for the span that is to be packed")
	c.Advance(worker.PackAfter - harness.Settle)
	require.Eventually(t, func() bool { return c.WaitsUntil(harness.T0.Add(harness.MaxHold)) }, 10*time.Second, time.Millisecond,
		"and then for it to expire")
	c.Advance(harness.MaxHold - worker.PackAfter)
	require.Eventually(t, func() bool { return sink.SpanCount() == 2 }, 10*time.Second, time.Millisecond)
	require.NoError(t, p.Shutdown(t.Context()))
}
