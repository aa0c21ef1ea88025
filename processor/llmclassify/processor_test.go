package llmclassify

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

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/metadata"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/telemetry"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/worker"
	"github.com/otelllm/otelllm-go/semconv"
)

var answer = counts{text: 3}

func early(trigger semconv.Trigger) verdict { return verdict{trigger: trigger} }

func TestOthersPassInTheSameCall(t *testing.T) {
	h := newHarness(t, defaultConfig(), nil)
	h.consume(t, otherSpan(8, 1, 0.1, 0.2), requestSpan(2, 1, 0.1, 1).answered("stop", answer), httpSpan(9, 0.9))
	out := spansOf(h.out())
	assert.Len(t, out, 2)
	assert.Contains(t, out, spanID(8))
	assert.Contains(t, out, spanID(9))

	td := tracesOf(t, otherSpan(7, 1, 0.1, 0.2))
	td.ResourceSpans().AppendEmpty() // a call without LLM spans passes as it is
	want := ptrace.NewTraces()
	td.CopyTo(want)
	require.NoError(t, h.ConsumeTraces(t.Context(), td))
	assert.Equal(t, want, h.sink.AllTraces()[1])
}

func TestSpanWithoutIDsPasses(t *testing.T) {
	h := newHarness(t, defaultConfig(), nil)
	td := tracesOf(t, requestSpan(2, 0, 0.1, 1).answered("stop", answer), requestSpan(0, 0, 0.1, 1).answered("stop", answer))
	td.ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0).SetTraceID([16]byte{})
	require.NoError(t, h.ConsumeTraces(t.Context(), td))
	assert.Equal(t, 2, h.out().SpanCount())
	assert.Zero(t, h.Load().Traces)
}

// Spans come in any order and any number of calls; the run goes out with the
// last of them.
func TestCompleteInAnyOrder(t *testing.T) {
	run := runSpan(1, 0, 3, 2, 1)
	parts := []spanSpec{
		requestSpan(2, 1, 0.1, 1).answered("tool_calls", counts{inputs: 1, completed: 1, calls: 1, callIDs: []string{"call_1"}}),
		toolSpan(3, 1.1, 1.9, "call_1", semconv.ToolEffectReadOnly, semconv.ToolOutcomeSucceeded),
		requestSpan(4, 1, 2, 2.5).history([]string{"call_1"}, []string{"call_1"}).answered("stop", answer),
		run,
	}
	for first := range parts {
		h := newHarness(t, defaultConfig(), nil)
		for i := range parts {
			require.Empty(t, h.sink.AllTraces())
			h.consume(t, parts[(first+i)%len(parts)])
		}
		out := h.out()
		require.Equal(t, len(parts), out.SpanCount())
		require.Equal(t, 1, out.ResourceSpans().Len(), "one resource, however many calls its spans came in")
		checkVerdicts(t, out, map[byte]verdict{1: ran(semconv.RunOutcomeSucceeded, 0)})
		assert.Equal(t, telemetry.Load{}, h.Load(), "nothing is left")
	}
}

// A run that announced more than comes is judged on what came.
func TestMissingChild(t *testing.T) {
	h := newHarness(t, defaultConfig(), nil)
	h.consume(t, requestSpan(2, 1, 0.1, 1).answered("stop", answer), runSpan(1, 0, 3, 2, 0))
	h.pass(t, xMaxHold-1)
	require.Empty(t, h.sink.AllTraces())
	h.pass(t, 1)
	out := h.out()
	require.Equal(t, 2, out.SpanCount())
	v := verdictOf(spansOf(out)[spanID(1)])
	assert.Equal(t, semconv.RunOutcomeIncomplete, v.outcome)
	assert.Equal(t, semconv.CauseMissingChildren, v.cause)
	assert.Equal(t, semconv.TriggerHoldExpired, v.trigger)
}

// A run span without counts waits for what comes after it.
func TestRunEnded(t *testing.T) {
	h := newHarness(t, defaultConfig(), nil)
	h.consume(t, agentSpan(1, 0, 0, 3))
	h.pass(t, xSettle/2)
	h.consume(t, chatSpan(2, 1, 0.1, 1).finished("max_tokens"))
	h.pass(t, xSettle/2-1)
	require.Empty(t, h.sink.AllTraces())
	h.pass(t, 1)
	out := h.out()
	require.Equal(t, 2, out.SpanCount())
	v := verdictOf(spansOf(out)[spanID(1)])
	assert.Equal(t, semconv.RunOutcomeLimited, v.outcome)
	assert.Equal(t, semconv.TriggerRunEnded, v.trigger)
}

// Acceptance case 24: every span of a run of 200 requests goes out within
// max_hold, and the run span is judged on all of them.
func TestLongRun(t *testing.T) {
	const requests, every = 200, 5 * time.Second
	cfg := defaultConfig()
	h := newHarness(t, cfg, nil)
	came, ended := map[byte]time.Time{}, false
	check := func(id byte, span ptrace.Span) {
		require.LessOrEqual(t, h.clock.Now().Sub(came[id]), cfg.MaxHold, "span %d", id)
		want := early(semconv.TriggerHoldExpired)
		switch id {
		case 250:
			want = ran(semconv.RunOutcomeRecovered, 1)
		case 4:
			want = failure(semconv.ClassStreamInterrupted, semconv.CauseConnectionReset, semconv.PhaseResponseStarted, semconv.OriginTransport).
				because(safe, semconv.RetryReasonNoOutput)
			want.trigger = semconv.TriggerHoldExpired
		default:
			if ended {
				want = verdict{} // still here when the run was judged
			}
		}
		require.Equal(t, want, verdictOf(span), "span %d", id)
		delete(came, id)
	}
	collect := func() {
		for id, span := range spansOf(h.out()) {
			check(id[7], span)
		}
		h.sink.Reset()
	}
	for i := range requests {
		id := byte(i + 2)
		from := float64(i) * every.Seconds()
		r := requestSpan(id, 250, from, from+1)
		if i == 2 {
			r = r.cut(semconv.PhaseResponseStarted, semconv.TransportCauseConnectionReset, "ECONNRESET", counts{})
		} else {
			r = r.answered("stop", answer)
		}
		came[id] = h.clock.Now()
		h.consume(t, r)
		collect()
		for range every / time.Second {
			h.pass(t, time.Second)
			collect()
		}
	}
	assert.Positive(t, h.Load().FactBytes)
	came[250], ended = h.clock.Now(), true
	h.consume(t, runSpan(250, 0, requests*every.Seconds(), requests, 0))
	h.pass(t, 100*time.Millisecond) // a large trace rests after its spans went early
	collect()
	assert.Empty(t, came, "every span came out")
	assert.Equal(t, telemetry.Load{}, h.Load())
}

// Without a run span the LLM spans under one parent are one run, once it is
// known that none will come.
func TestNoRunSpan(t *testing.T) {
	h := newHarness(t, defaultConfig(), nil)
	h.consume(t,
		chatSpan(2, 1, 0.1, 0.4).failed("RateLimitError").with(),
		chatSpan(3, 1, 0.5, 1).finished("stop"),
		chatSpan(4, 0, 0.5, 1).finished("length").of(2), // a root of its own
	)
	out := spansOf(h.out())
	require.Len(t, out, 1, "at once")
	assert.Equal(t, semconv.ClassOutputLimited, verdictOf(out[spanID(4)]).class)
	assert.Equal(t, semconv.RunOutcomeUnset, verdictOf(out[spanID(4)]).outcome, "it is alone, and no run")
	h.pass(t, time.Second)
	h.consume(t, otherSpan(1, 0, 0, 3)) // the parent, and a root
	h.pass(t, xMaxHold-time.Second)
	out = spansOf(h.out())
	require.Len(t, out, 4)
	assert.Equal(t, verdict{outcome: semconv.RunOutcomeRecovered, recovered: 1, trigger: semconv.TriggerHoldExpired}, verdictOf(out[spanID(3)]))
	assert.Equal(t, semconv.CauseRateLimited, verdictOf(out[spanID(2)]).cause)
	assert.Equal(t, semconv.RunOutcomeUnset, verdictOf(out[spanID(2)]).outcome)
	assert.Equal(t, telemetry.Load{}, h.Load())
}

// A span whose run may still come carries no verdict on the run.
func TestRunMayStillCome(t *testing.T) {
	for name, spans := range map[string][]spanSpec{
		"named":                  {requestSpan(2, 1, 0.1, 1).answered("stop", answer)},
		"parent not seen":        {chatSpan(2, 1, 0.1, 1).finished("stop")},
		"grandparent not seen":   {chatSpan(2, 7, 0.1, 1).finished("stop"), otherSpan(7, 1, 0, 2)},
		"seen before, and after": {chatSpan(2, 7, 0.1, 1).finished("stop"), otherSpan(7, 6, 0, 2), otherSpan(6, 1, 0, 2)},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, defaultConfig(), nil)
			for _, s := range spans {
				h.consume(t, s)
			}
			h.pass(t, xMaxHold)
			out := spansOf(h.out())
			require.Len(t, out, len(spans))
			assert.Equal(t, early(semconv.TriggerHoldExpired), verdictOf(out[spanID(2)]))
			assert.Positive(t, h.Load().FactBytes)

			h.sink.Reset()
			h.pass(t, time.Minute)
			h.consume(t, agentSpan(1, 0, 0, 90))
			h.pass(t, xSettle)
			assert.Equal(t, verdict{outcome: semconv.RunOutcomeSucceeded, trigger: semconv.TriggerRunEnded},
				verdictOf(spansOf(h.out())[spanID(1)]), "judged on the facts of the span that went before")
			assert.Equal(t, telemetry.Load{}, h.Load())
		})
	}
}

func TestSeveralRunsInOneTrace(t *testing.T) {
	h := newHarness(t, defaultConfig(), nil)
	limited := func(id, run byte, from, to float64) spanSpec {
		return requestSpan(id, run, from, to).answered("length", answer)
	}
	h.consume(t,
		requestSpan(2, 1, 0.1, 1).answered("stop", answer), limited(12, 11, 4, 5),
		runSpan(11, 3.9, 6, 1, 0),
	)
	assert.Equal(t, map[byte]semconv.RunOutcome{11: semconv.RunOutcomeLimited}, outcomes(h.out()))
	h.consume(t, runSpan(1, 0, 3, 1, 0))
	assert.Equal(t, map[byte]semconv.RunOutcome{1: semconv.RunOutcomeSucceeded, 11: semconv.RunOutcomeLimited}, outcomes(h.out()))
}

func outcomes(td ptrace.Traces) map[byte]semconv.RunOutcome {
	found := map[byte]semconv.RunOutcome{}
	for id, span := range spansOf(td) {
		if v := verdictOf(span); v.outcome != semconv.RunOutcomeUnset {
			found[id[7]] = v.outcome
		}
	}
	return found
}

func TestSpanLimit(t *testing.T) {
	cfg := defaultConfig()
	cfg.MaxSpansPerRun = 3
	h := newHarness(t, cfg, nil)
	for id := byte(2); id < 5; id++ {
		h.consume(t, requestSpan(id, 1, float64(id), float64(id)+0.5).answered("stop", answer))
	}
	require.Empty(t, h.sink.AllTraces())
	h.consume(t, requestSpan(5, 1, 5, 5.5).answered("length", answer))
	out := spansOf(h.out())
	require.Len(t, out, 4)
	assert.Equal(t, early(semconv.TriggerSpanLimit), verdictOf(out[spanID(2)]))
	assert.Equal(t, semconv.CauseMaxOutputTokens, verdictOf(out[spanID(5)]).cause)
	assert.Equal(t, semconv.TriggerSpanLimit, verdictOf(out[spanID(5)]).trigger)
	h.sink.Reset()
	h.consume(t, requestSpan(6, 1, 6, 6.5).answered("stop", answer), runSpan(1, 0, 7, 5, 0))
	assert.Equal(t, map[byte]semconv.RunOutcome{1: semconv.RunOutcomeSucceeded}, outcomes(h.out()))
	assert.Equal(t, telemetry.Load{}, h.Load())
}

// At the bound of memory nothing is lost, whatever comes at once.
func TestMemory(t *testing.T) {
	one := requestSpan(2, 1, 0.1, 1).answered("stop", answer)
	probe := newHarness(t, defaultConfig(), nil)
	probe.consume(t, one)
	size := probe.Load().Bytes

	for name, inOneCall := range map[string]bool{"one by one": false, "in one call": true} {
		t.Run(name, func(t *testing.T) {
			cfg := defaultConfig()
			cfg.MaxHeldBytes = 10 * size
			h := newHarness(t, cfg, nil)
			core, logs := observer.New(zap.WarnLevel)
			h.inside.Telemetry.Logger = zap.New(core)
			const traces = 100
			var specs []spanSpec
			for i := range traces {
				specs = append(specs, one.of(byte(i+1)))
			}
			if inOneCall {
				h.consume(t, specs...)
			} else {
				for _, s := range specs {
					h.consume(t, s)
					assert.LessOrEqual(t, h.Load().Bytes, cfg.MaxHeldBytes)
					h.clock.advance(time.Millisecond)
				}
			}
			assert.LessOrEqual(t, h.Load().Bytes, cfg.MaxHeldBytes)
			assert.Greater(t, h.Load().Bytes, cfg.MaxHeldBytes/2, "no more goes than has to")
			spans := 0
			for _, td := range h.sink.AllTraces() {
				spans += td.SpanCount()
				for _, span := range spansOf(td) {
					assert.Equal(t, early(semconv.TriggerMemory), verdictOf(span))
				}
			}
			assert.Len(t, logs.TakeAll(), 1, "said once")
			held := traces - spans
			assert.Positive(t, held)
			require.NoError(t, h.Shutdown(t.Context()))
			assert.Equal(t, traces, h.out().SpanCount())
		})
	}
}

// However much is released at once, it goes out in calls that receivers take.
func TestParcels(t *testing.T) {
	h := newHarness(t, defaultConfig(), nil)
	const spans = 5000
	for i := range spans {
		h.consume(t, requestSpan(byte(i%250+2), 1, 0.1, 1).answered("stop", answer).with(attribute.String("app", strings.Repeat("x", i%2000))))
	}
	require.NoError(t, h.Shutdown(t.Context()))
	assert.Equal(t, spans, h.sink.SpanCount())
	assert.Greater(t, len(h.sink.AllTraces()), 2)
	for _, td := range h.sink.AllTraces() {
		assert.Less(t, (&ptrace.ProtoMarshaler{}).TracesSize(td), 4<<20)
	}
}

func TestFactsForgotten(t *testing.T) {
	cfg := defaultConfig()
	cfg.MaxFactBytes = 10_000
	h := newHarness(t, cfg, nil)
	for i := range 100 {
		h.consume(t, requestSpan(byte(i+2), 1, float64(i), float64(i)+0.5).answered("stop", answer))
	}
	h.pass(t, xMaxHold)
	assert.Equal(t, 100, h.out().SpanCount())
	assert.LessOrEqual(t, h.Load().FactBytes, cfg.MaxFactBytes)
	forgotten, err := h.telemetry.GetMetric("otelcol_processor_llm_classify_facts_forgotten")
	require.NoError(t, err)
	assert.Greater(t, total(t, forgotten), int64(50))

	h.pass(t, xRunTimeout)
	assert.Equal(t, telemetry.Load{}, h.Load(), "no run waits for ever")
}

// A run of which all facts were forgotten is still one that may have done more than is here.
func TestAllFactsForgotten(t *testing.T) {
	cfg := defaultConfig()
	cfg.MaxFactBytes = 1
	h := newHarness(t, cfg, nil)
	refused := func(id byte, from float64) spanSpec {
		return requestSpan(id, 1, from, from+0.5).refused(429, semconv.ProviderErrorKindRateLimited, "rate_limit_exceeded")
	}
	h.consume(t, requestSpan(2, 1, 0.1, 1).cut(semconv.PhaseText, semconv.TransportCauseConnectionReset, "ECONNRESET", counts{text: 2}))
	h.pass(t, xMaxHold)
	require.Equal(t, telemetry.Load{}, h.Load())
	h.consume(t, refused(3, 40))
	h.pass(t, xMaxHold)
	run := runSpan(1, 0, 80, 0, 0).failed("429")
	run.attrs = slices.DeleteFunc(run.attrs, func(kv attribute.KeyValue) bool {
		return kv.Key == semconv.RunRequestsKey || kv.Key == semconv.RunToolsKey
	})
	h.consume(t, refused(4, 79), run)
	h.pass(t, xMaxHold)
	for id, v := range verdicts(h.out()) {
		assert.Greater(t, v.safety, semconv.RetrySafetySafeAutoRetry, "span %d: %s", id, v.words())
	}
}

// What comes after its run was judged goes out at once, with its own verdict; a
// run is judged once.
func TestLate(t *testing.T) {
	h := newHarness(t, defaultConfig(), nil)
	run := runSpan(1, 0, 3, 1, 0)
	h.consume(t, requestSpan(2, 1, 0.1, 1).answered("stop", answer), run)
	require.Equal(t, 2, h.out().SpanCount())
	h.sink.Reset()

	h.consume(t, requestSpan(3, 1, 1.1, 2).answered("length", answer), run, chatSpan(4, 1, 1, 2).finished("stop"))
	out := spansOf(h.out())
	require.Len(t, out, 3)
	assert.Equal(t, semconv.CauseMaxOutputTokens, verdictOf(out[spanID(3)]).cause)
	assert.Equal(t, semconv.TriggerLate, verdictOf(out[spanID(3)]).trigger)
	assert.Equal(t, early(semconv.TriggerLate), verdictOf(out[spanID(1)]))
	assert.Equal(t, early(semconv.TriggerLate), verdictOf(out[spanID(4)]))
	assert.Equal(t, telemetry.Load{}, h.Load())
}

func TestShutdown(t *testing.T) {
	h := newHarness(t, defaultConfig(), nil)
	h.consume(t,
		requestSpan(2, 1, 0.1, 1).answered("length", answer),                         // its run may still come
		agentSpan(1, 0, 0, 3).of(2), chatSpan(2, 1, 0.1, 1).finished("length").of(2), // its run is here
	)
	require.NoError(t, h.Shutdown(t.Context()))
	out := h.out()
	require.Equal(t, 3, out.SpanCount())
	for _, rs := range out.ResourceSpans().All() {
		for _, span := range rs.ScopeSpans().At(0).Spans().All() {
			v := verdictOf(span)
			assert.Equal(t, semconv.CauseMaxOutputTokens, v.cause)
			assert.Equal(t, semconv.TriggerShutdown, v.trigger)
			assert.Equal(t, span.SpanID() == spanID(1), v.outcome != semconv.RunOutcomeUnset)
		}
	}
	require.NoError(t, h.Shutdown(t.Context()), "a second shutdown does nothing")

	// What still comes is refused, so that it is not lost.
	err := h.ConsumeTraces(t.Context(), tracesOf(t, requestSpan(5, 1, 0.1, 1).answered("stop", answer)))
	require.ErrorContains(t, err, "llm_classify is shut down")
	assert.False(t, consumererror.IsPermanent(err))
	h.consume(t, otherSpan(9, 1, 0.1, 0.2))
	assert.Equal(t, 4, h.out().SpanCount(), "other spans pass")
}

func TestVerifyShutdown(t *testing.T) {
	processortest.VerifyShutdown(t, NewFactory(), NewFactory().CreateDefaultConfig())
}

// TestTimer runs the processor's own goroutine, on a clock that is moved by hand.
func TestTimer(t *testing.T) {
	sink := new(consumertest.TracesSink)
	c := newManualClock()
	p := newInside(t, processortest.NewNopSettings(metadata.Type), defaultConfig(), sink, c)
	require.NoError(t, p.Start(t.Context(), componenttest.NewNopHost()))

	require.NoError(t, p.ConsumeTraces(t.Context(), tracesOf(t, agentSpan(1, 0, 0, 3))))
	require.Eventually(t, func() bool { return c.waitsUntil(t0.Add(xSettle)) }, 10*time.Second, time.Millisecond,
		"the timer is set for the run that settles")
	require.NoError(t, p.ConsumeTraces(t.Context(), tracesOf(t, requestSpan(2, 1, 0.1, 1).of(2))))
	require.Eventually(t, func() bool { return p.Load().Traces == 2 }, 10*time.Second, time.Millisecond)
	c.advance(xSettle)
	require.Eventually(t, func() bool { return sink.SpanCount() == 1 }, 10*time.Second, time.Millisecond)
	require.Eventually(t, func() bool { return c.waitsUntil(t0.Add(worker.PackAfter)) }, 10*time.Second, time.Millisecond,
		"then for the span that is to be packed")
	c.advance(worker.PackAfter - xSettle)
	require.Eventually(t, func() bool { return c.waitsUntil(t0.Add(xMaxHold)) }, 10*time.Second, time.Millisecond,
		"and then for it to expire")
	c.advance(xMaxHold - worker.PackAfter)
	require.Eventually(t, func() bool { return sink.SpanCount() == 2 }, 10*time.Second, time.Millisecond)
	require.NoError(t, p.Shutdown(t.Context()))
}
