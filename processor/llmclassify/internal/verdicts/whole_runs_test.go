package llmclassify

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/processor/processortest"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/clock"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/metadata"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/telemetry"
	"github.com/otelllm/otelllm-go/semconv"
)

// A run that comes whole in one call goes out at once, and is remembered: spans of it that arrive
// later are late, and so are those beneath them.
func TestWholeRunGoesAtOnce(t *testing.T) {
	h, next := newFlakyHarness(t, defaultConfig())
	h.consume(t, append(finishedRun(1), otherSpan(9, 2, 0.1, 0.2))...)
	require.Equal(t, 3, next.SpanCount())
	assert.Equal(t, ran(semconv.RunOutcomeSucceeded, 0), verdictOf(spansOf(h.out())[spanID(1)]))
	assert.Equal(t, telemetry.Load{}, h.Load())
	assert.False(t, h.Live.Any())

	next.Reset()
	h.consume(t, finishedRun(1)...)
	h.consume(t, chatSpan(20, 9, 1, 2).in("gateway").finished("stop"))
	require.Equal(t, 3, next.SpanCount())
	for _, td := range next.AllTraces() {
		for id, span := range spansOf(td) {
			assert.Equal(t, semconv.TriggerLate, verdictOf(span).trigger, "%d", id[7])
		}
	}
}

// A span whose parent may still come waits for the run of its trace.
func TestGatewayBeforeTheWholeRun(t *testing.T) {
	h := newHarness(t, defaultConfig(), nil)
	h.consume(t, chatSpan(20, 30, 0.2, 0.3).of(2).in("gateway").finished("stop"))
	h.consume(t, finishedRun(2)...)
	require.Equal(t, 3, h.sink.SpanCount())
	assert.Equal(t, verdict{}, verdictOf(spansOf(h.out())[spanID(20)]), "it is a part of the run, and not late")
}

// An exchange is evidence for its request, whether it comes with the run or before.
func TestExchangeOfAWholeRun(t *testing.T) {
	broken := requestSpan(2, 1, 0.1, 1).cut(semconv.PhaseUnknown, semconv.TransportCauseUnset, "", counts{})
	for name, calls := range map[string][][]spanSpec{
		"in one call": {{broken, httpSpan(8, 2).failed("ECONNRESET"), runSpan(1, 0, 3, 1, 0)}},
		"in two":      {{broken, httpSpan(8, 2).failed("ECONNRESET")}, {runSpan(1, 0, 3, 1, 0)}},
	} {
		h := newHarness(t, defaultConfig(), nil)
		for _, specs := range calls {
			h.consume(t, specs...)
		}
		assert.Equal(t, semconv.CauseConnectionReset, verdictOf(spansOf(h.out())[spanID(2)]).cause, name)
		assert.Zero(t, h.Load().Evidence, name)
	}
}

// However often and whenever a run is delivered, it is judged once.
func TestRunIsJudgedOnceHoweverOftenItComes(t *testing.T) {
	var mu sync.Mutex
	verdicts, spans := map[string]int{}, 0
	next, err := consumer.NewTraces(func(_ context.Context, td ptrace.Traces) error {
		mu.Lock()
		defer mu.Unlock()
		for _, rs := range td.ResourceSpans().All() {
			for _, ss := range rs.ScopeSpans().All() {
				for _, span := range ss.Spans().All() {
					spans++
					if verdictOf(span).outcome != semconv.RunOutcomeUnset {
						verdicts[span.TraceID().String()]++
					}
				}
			}
		}
		return nil
	})
	require.NoError(t, err)
	cfg := defaultConfig()
	cfg.Shards = 2
	p := newInside(t, processortest.NewNopSettings(metadata.Type), cfg, next, clock.System{})
	require.NoError(t, p.Start(t.Context(), componenttest.NewNopHost()))
	const senders, traces = 4, 200
	var all sync.WaitGroup
	for sender := range senders {
		all.Go(func() {
			for trace := range byte(traces) {
				specs := finishedRun(trace + 1)
				if sender%2 == 0 {
					specs = append(specs, otherSpan(9, 1, 0.1, 0.2).of(trace+1))
				}
				assert.NoError(t, p.ConsumeTraces(t.Context(), tracesOf(t, specs...)))
			}
		})
	}
	all.Wait()
	require.NoError(t, p.Shutdown(t.Context()))
	assert.Equal(t, senders*traces*5/2, spans)
	assert.Len(t, verdicts, traces)
	for trace, n := range verdicts {
		assert.Equal(t, 1, n, trace)
	}
	assert.False(t, p.Live.Any())
}

// A run that comes whole goes with its call: if the next consumer refuses that, the sender has the error, and the run
// is judged when it comes again.
func TestWholeRunOfARefusedCallIsJudgedAgain(t *testing.T) {
	for name, others := range map[string][]spanSpec{"alone": nil, "with other spans": {otherSpan(9, 2, 0.1, 0.2)}} {
		next := &flakyNext{fail: down}
		h := newHarness(t, defaultConfig(), next)
		call := append(finishedRun(1), others...)
		require.ErrorIs(t, h.ConsumeTraces(t.Context(), tracesOf(t, call...)), errDown, name)
		assert.Equal(t, telemetry.Load{}, h.Load(), name)
		assert.False(t, h.Live.Any(), name)
		next.fail = nil
		h.consume(t, call...)
		h.settle(t.Context())
		assert.Equal(t, len(call), next.SpanCount(), name)
		for _, td := range next.AllTraces() {
			if span, ok := spansOf(td)[spanID(1)]; ok {
				assert.Equal(t, ran(semconv.RunOutcomeSucceeded, 0), verdictOf(span), name)
			}
		}
	}
}

// An inferred run announces no tools. From one source nothing of it comes after its span, so it is
// judged when its requests are here, unless what a gateway asked upstream for one may still come. The verdict is
// that of a run which waited.
func TestWholeInferredRunOfOneSource(t *testing.T) {
	asks := counts{inputs: 1, completed: 1, calls: 1, callIDs: []string{"call_1"}}
	first, second := requestSpan(2, 3, 0.3, 0.9).answered("tool_calls", asks), requestSpan(4, 3, 1, 2.8).answered("stop", answer)
	for _, tt := range []struct {
		name   string
		spans  []spanSpec
		atOnce bool
	}{
		{"whole", []spanSpec{first, observedSpan(), second, inferredSpan(3, 0, 0.2, 2.9)}, true},
		{"with a parent elsewhere", []spanSpec{first, second, inferredSpan(3, 20, 0.2, 2.9)}, true},
		{"a request is missing", []spanSpec{first, inferredSpan(3, 0, 0.2, 2.9)}, false},
		{"served", []spanSpec{first, servedRequest(4, 3, 1, 2.8).answered("stop", answer), inferredSpan(3, 0, 0.2, 2.9)}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var verdicts []map[pcommon.SpanID]verdict
			for _, one := range []bool{false, true} {
				cfg := defaultConfig()
				cfg.OneSource = one
				h := newHarness(t, cfg, nil)
				for i := range tt.spans {
					tt.spans[i] = tt.spans[i].in(gatewayService)
				}
				h.consume(t, tt.spans...)
				assert.Equal(t, one && tt.atOnce, h.sink.SpanCount() == len(tt.spans), "one source: %v", one)
				h.pass(t, xMaxHold)
				require.Equal(t, len(tt.spans), h.sink.SpanCount())
				of := map[pcommon.SpanID]verdict{}
				for id, span := range spansOf(h.out()) {
					v := verdictOf(span)
					v.trigger = semconv.TriggerUnset // a parent elsewhere is waited for, for longer
					of[id] = v
				}
				verdicts = append(verdicts, of)
			}
			assert.Equal(t, verdicts[0], verdicts[1])
		})
	}
}
