package verdicts

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
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/harness"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/metadata"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/telemetry"
	"github.com/otelllm/otelllm-go/semconv"
)

// A run that comes whole in one call goes out at once, and is remembered: spans of it that arrive
// later are late, and so are those beneath them.
func TestWholeRunGoesAtOnce(t *testing.T) {
	h, next := harness.NewFlaky(t, harness.DefaultConfig())
	h.Consume(t, append(harness.FinishedRun(1), harness.OtherSpan(9, 2, 0.1, 0.2))...)
	require.Equal(t, 3, next.SpanCount())
	assert.Equal(t, harness.Ran(semconv.RunOutcomeSucceeded, 0), harness.VerdictOf(harness.SpansOf(h.Out())[harness.SpanID(1)]))
	assert.Equal(t, telemetry.Load{}, h.Load())
	assert.False(t, h.Live.Any())

	next.Reset()
	h.Consume(t, harness.FinishedRun(1)...)
	h.Consume(t, harness.ChatSpan(20, 9, 1, 2).In("gateway").Finished("stop"))
	require.Equal(t, 3, next.SpanCount())
	for _, td := range next.AllTraces() {
		for id, span := range harness.SpansOf(td) {
			assert.Equal(t, semconv.TriggerLate, harness.VerdictOf(span).Trigger, "%d", id[7])
		}
	}
}

// A span whose parent may still come waits for the run of its trace.
func TestGatewayBeforeTheWholeRun(t *testing.T) {
	h := harness.New(t, harness.DefaultConfig(), nil)
	h.Consume(t, harness.ChatSpan(20, 30, 0.2, 0.3).Of(2).In("gateway").Finished("stop"))
	h.Consume(t, harness.FinishedRun(2)...)
	require.Equal(t, 3, h.Sink.SpanCount())
	assert.Equal(t, harness.Verdict{}, harness.VerdictOf(harness.SpansOf(h.Out())[harness.SpanID(20)]), "it is a part of the run, and not late")
}

// An exchange is evidence for its request, whether it comes with the run or before.
func TestExchangeOfAWholeRun(t *testing.T) {
	broken := harness.RequestSpan(2, 1, 0.1, 1).Cut(semconv.PhaseUnknown, semconv.TransportCauseUnset, "", harness.Counts{})
	for name, calls := range map[string][][]harness.Span{
		"in one call": {{broken, harness.HTTPSpan(8, 2).Failed("ECONNRESET"), harness.RunSpan(1, 0, 3, 1, 0)}},
		"in two":      {{broken, harness.HTTPSpan(8, 2).Failed("ECONNRESET")}, {harness.RunSpan(1, 0, 3, 1, 0)}},
	} {
		h := harness.New(t, harness.DefaultConfig(), nil)
		for _, specs := range calls {
			h.Consume(t, specs...)
		}
		assert.Equal(t, semconv.CauseConnectionReset, harness.VerdictOf(harness.SpansOf(h.Out())[harness.SpanID(2)]).Cause, name)
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
					if harness.VerdictOf(span).Outcome != semconv.RunOutcomeUnset {
						verdicts[span.TraceID().String()]++
					}
				}
			}
		}
		return nil
	})
	require.NoError(t, err)
	cfg := harness.DefaultConfig()
	cfg.Shards = 2
	p := harness.Make(t, processortest.NewNopSettings(metadata.Type), cfg, next, clock.System{})
	require.NoError(t, p.Start(t.Context(), componenttest.NewNopHost()))
	const senders, traces = 4, 200
	var all sync.WaitGroup
	for sender := range senders {
		all.Go(func() {
			for trace := range byte(traces) {
				specs := harness.FinishedRun(trace + 1)
				if sender%2 == 0 {
					specs = append(specs, harness.OtherSpan(9, 1, 0.1, 0.2).Of(trace+1))
				}
				assert.NoError(t, p.ConsumeTraces(t.Context(), harness.TracesOf(t, specs...)))
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
	for name, others := range map[string][]harness.Span{"alone": nil, "with other spans": {harness.OtherSpan(9, 2, 0.1, 0.2)}} {
		next := &harness.FlakyNext{Fail: harness.Down}
		h := harness.New(t, harness.DefaultConfig(), next)
		call := append(harness.FinishedRun(1), others...)
		require.ErrorIs(t, h.ConsumeTraces(t.Context(), harness.TracesOf(t, call...)), harness.ErrDown, name)
		assert.Equal(t, telemetry.Load{}, h.Load(), name)
		assert.False(t, h.Live.Any(), name)
		next.Fail = nil
		h.Consume(t, call...)
		h.Settle(t.Context())
		assert.Equal(t, len(call), next.SpanCount(), name)
		for _, td := range next.AllTraces() {
			if span, ok := harness.SpansOf(td)[harness.SpanID(1)]; ok {
				assert.Equal(t, harness.Ran(semconv.RunOutcomeSucceeded, 0), harness.VerdictOf(span), name)
			}
		}
	}
}

// An inferred run announces no tools. From one source nothing of it comes after its span, so it is
// judged when its requests are here, unless what a gateway asked upstream for one may still come. The verdict is
// that of a run which waited. Where the run is all of its trace, nothing of it is remembered.
func TestWholeInferredRunOfOneSource(t *testing.T) {
	asks := harness.Counts{Inputs: 1, Completed: 1, Calls: 1, CallIDs: []string{"call_1"}}
	first, second := harness.RequestSpan(2, 3, 0.3, 0.9).Answered("tool_calls", asks), harness.RequestSpan(4, 3, 1, 2.8).Answered("stop", harness.Answer)
	for _, tt := range []struct {
		name   string
		spans  []harness.Span
		atOnce bool
		keeps  bool
	}{
		{"whole", []harness.Span{first, observedSpan(), second, harness.InferredSpan(3, 0, 0.2, 2.9)}, true, false},
		{"with a parent elsewhere", []harness.Span{first, second, harness.InferredSpan(3, 20, 0.2, 2.9)}, true, true},
		{"a request is missing", []harness.Span{first, harness.InferredSpan(3, 0, 0.2, 2.9)}, false, true},
		{"served", []harness.Span{first, servedRequest(4, 3, 1, 2.8).Answered("stop", harness.Answer), harness.InferredSpan(3, 0, 0.2, 2.9)}, false, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var verdicts []map[pcommon.SpanID]harness.Verdict
			for _, one := range []bool{false, true} {
				cfg := harness.DefaultConfig()
				cfg.OneSource = one
				h := harness.New(t, cfg, nil)
				for i := range tt.spans {
					tt.spans[i] = tt.spans[i].In(harness.GatewayService)
				}
				h.Consume(t, tt.spans...)
				assert.Equal(t, one && tt.atOnce, h.Sink.SpanCount() == len(tt.spans), "one source: %v", one)
				h.Pass(t, harness.MaxHold)
				require.Equal(t, len(tt.spans), h.Sink.SpanCount())
				assert.Equal(t, !one || tt.keeps, h.Tables() != telemetry.TableSizes{}, "one source: %v", one)
				of := map[pcommon.SpanID]harness.Verdict{}
				for id, span := range harness.SpansOf(h.Out()) {
					v := harness.VerdictOf(span)
					v.Trigger = semconv.TriggerUnset // a parent elsewhere is waited for, for longer
					of[id] = v
				}
				verdicts = append(verdicts, of)
			}
			assert.Equal(t, verdicts[0], verdicts[1])
		})
	}
}
