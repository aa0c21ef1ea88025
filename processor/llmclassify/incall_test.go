package llmclassify

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/processor/processortest"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/metadata"
	"github.com/otelllm/otelllm-go/semconv"
)

// A run that is complete in its call goes on in that call, with the other spans, and is
// remembered: spans of it that arrive later are late, and so is what is beneath them.
func TestCompleteRunIsNotHeld(t *testing.T) {
	next := &flakyNext{}
	h := newHarness(t, defaultConfig(), next)
	td := tracesOf(t, append(finishedRun(1), otherSpan(9, 2, 0.1, 0.2))...)
	require.NoError(t, h.classifier.ConsumeTraces(t.Context(), td))
	assert.Equal(t, 1, next.tries)
	require.Equal(t, 3, next.SpanCount(), "no shard has had its turn")
	assert.Equal(t, ran(semconv.RunOutcomeSucceeded, 0), verdictOf(spansOf(next.AllTraces()[0])[spanID(1)]))
	assert.Equal(t, load{}, h.load())
	assert.False(t, h.interest.any())

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

// What the next consumer refuses was not judged: the sender sends it again.
func TestCompleteRunIsRefused(t *testing.T) {
	for name, specs := range map[string][]spanSpec{
		"complete":   finishedRun(1),
		"and others": append(finishedRun(1), requestSpan(2, 1, 0.1, 1).answered("stop", answer).of(2)),
	} {
		t.Run(name, func(t *testing.T) {
			next := &flakyNext{fail: down, mutates: true}
			h := newHarness(t, defaultConfig(), next)
			for range 3 {
				require.ErrorIs(t, h.ConsumeTraces(t.Context(), tracesOf(t, append(specs, otherSpan(9, 1, 0.1, 0.2))...)), errDown)
				assert.Equal(t, load{}, h.load())
				assert.False(t, h.interest.any())
			}
			next.fail = nil
			h.consume(t, append(specs, otherSpan(9, 1, 0.1, 0.2))...)
			assert.Equal(t, ran(semconv.RunOutcomeSucceeded, 0), verdictOf(spansOf(next.AllTraces()[0])[spanID(1)]))
			h.consume(t, chatSpan(20, 9, 1, 2).in("gateway").finished("stop"))
			last := next.AllTraces()[len(next.AllTraces())-1]
			assert.Equal(t, semconv.TriggerLate, verdictOf(spansOf(last)[spanID(20)]).trigger)
			runs, err := h.telemetry.GetMetric("otelcol_processor_llm_classify_runs")
			require.NoError(t, err)
			assert.Equal(t, int64(1), total(t, runs))
		})
	}
}

// A run of whose trace anything else is here is held.
func TestCompleteRunWithOthersOfItsTraceIsHeld(t *testing.T) {
	h := newHarness(t, defaultConfig(), nil)
	h.consume(t, httpSpan(8, 2).failed("ECONNRESET")) // beneath the request that comes with the run
	h.consume(t, finishedRun(1)...)
	assert.False(t, h.evidenced.any(), "the evidence was taken")
	h.consume(t, chatSpan(20, 30, 0.2, 0.3).of(2).in("gateway").finished("stop"))
	h.consume(t, finishedRun(2)...)
	require.Equal(t, 6, h.sink.SpanCount())
	assert.Equal(t, verdict{}, verdictOf(spansOf(h.out())[spanID(20)]), "it is a part of the run, and not late")
}

// The exchanges that come with a complete run are its evidence.
func TestCompleteRunWithExchange(t *testing.T) {
	for name, calls := range map[string][][]spanSpec{
		"complete": {{
			chatless(2).cut(semconv.PhaseUnknown, semconv.TransportCauseUnset, "", counts{}), httpSpan(8, 2).failed("ECONNRESET"), runSpan(1, 0, 3, 1, 0),
		}},
		"held": {
			{chatless(2).cut(semconv.PhaseUnknown, semconv.TransportCauseUnset, "", counts{}), httpSpan(8, 2).failed("ECONNRESET")},
			{runSpan(1, 0, 3, 1, 0)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, defaultConfig(), nil)
			for _, specs := range calls {
				h.consume(t, specs...)
			}
			assert.Equal(t, semconv.CauseConnectionReset, verdictOf(spansOf(h.out())[spanID(2)]).cause)
			assert.False(t, h.evidenced.any())
		})
	}
}

func chatless(id byte) spanSpec { return requestSpan(id, 1, 0.1, 1) }

// However often and whenever a run is delivered, it is judged once.
func TestCompleteRunIsJudgedOnce(t *testing.T) {
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
	p, err := newClassifier(processortest.NewNopSettings(metadata.Type), cfg, next, systemClock{})
	require.NoError(t, err)
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
	assert.False(t, p.interest.any())
}
