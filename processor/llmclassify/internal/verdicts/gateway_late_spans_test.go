package verdicts

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/processor/llmclassify"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/harness"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/telemetry"
	"github.com/otelllm/otelllm-go/semconv"
)

// What a gateway sends after the agent's run was judged, in any order, is no run
// (acceptance case 19): each span has its own verdict, and none is added.
func TestGatewayAfterTheRunWasJudged(t *testing.T) {
	reset := func(id byte, from, to float64) harness.Span {
		return harness.RequestSpan(id, 0, from, to).Cut(semconv.PhaseText, semconv.TransportCauseConnectionReset, "ECONNRESET", harness.Counts{Text: 2}).In(harness.GatewayService)
	}
	good := func(id byte, from, to float64) harness.Span {
		return harness.RequestSpan(id, 0, from, to).Answered("stop", harness.Answer).In(harness.GatewayService)
	}
	serves := func(s harness.Span, parent byte) harness.Span {
		s.Kind = ptrace.SpanKindServer
		return s.Under(parent)
	}
	cancelled := func(id byte) harness.Span {
		return harness.RequestSpan(id, 0, 0.2, 1.8).Streamed(semconv.PhaseText, semconv.StreamEndCancelled, harness.Counts{Text: 2}).In(harness.GatewayService)
	}
	trigger := func(td ptrace.Traces, id byte) semconv.Trigger {
		return harness.VerdictOf(harness.SpansOf(td)[harness.SpanID(id)]).Trigger
	}
	for name, spans := range map[string][]harness.Span{
		"passes a reset on": {serves(reset(6, 0.2, 1.9), 2), reset(7, 0.3, 1.8).Under(6)},
		"tries again":       {serves(good(6, 0.2, 1.9), 2), reset(7, 0.3, 0.8).Under(6), good(8, 0.9, 1.8).Under(6)},
		"is cancelled":      {serves(cancelled(6), 2), cancelled(7).Under(6)},
		"of a gateway":      {serves(good(6, 0.2, 1.9), 2), serves(good(7, 0.3, 1.8), 6), reset(8, 0.4, 1.7).Under(7)},
	} {
		for _, order := range orders(len(spans)) {
			for calls, step := range map[string]time.Duration{
				"in one call": -1, "at once": 0, "after a while": time.Second, "after they were held": harness.MaxHold,
			} {
				disk := harness.NewDisk()
				h := harness.NewOn(t, disk, withRunTimeout(2*time.Minute), nil, harness.T0)
				h.Consume(t, harness.RequestSpan(2, 1, 0.1, 2).Answered("stop", harness.Answer), harness.RunSpan(1, 0, 3, 1, 0))
				var late []harness.Span
				for _, i := range order {
					late = append(late, spans[i])
				}
				h.Pass(t, 5*time.Second)
				if step < 0 {
					h.Consume(t, late...)
				} else {
					for _, s := range late {
						h.Consume(t, s)
						h.Pass(t, step)
					}
				}
				if step <= time.Second {
					for _, s := range spans {
						assert.Equal(t, semconv.TriggerLate, trigger(h.Out(), s.ID), "%s %s %v: span %d", name, calls, order, s.ID)
					}
					assert.Equal(t, telemetry.Load{}, h.Load(), "%s %s %v", name, calls, order)
				}
				h.Pass(t, 10*time.Minute)
				h.Pass(t, 10*time.Minute)
				td := h.Out()
				require.Equal(t, []pcommon.SpanID{harness.SpanID(1)}, harness.RunsJudged(td), "%s %s %v", name, calls, order)
				require.Empty(t, harness.AbandonedSpans(td), "%s %s %v", name, calls, order)
				require.Equal(t, 2+len(spans), td.SpanCount(), "%s %s %v", name, calls, order)
				assert.Equal(t, telemetry.Load{}, h.Load(), "%s %s %v", name, calls, order)
				assert.Empty(t, disk.Entries(), "%s %s %v", name, calls, order)
			}
		}
	}
}

// Where the span in between never comes, or long after its like was forgotten, and
// where it came before the run whose time it is not within.
func TestGatewayWithoutItsParent(t *testing.T) {
	orphan := harness.RequestSpan(7, 0, 500, 501).Cut(semconv.PhaseText, semconv.TransportCauseConnectionReset, "ECONNRESET", harness.Counts{Text: 2}).Under(60).In(harness.GatewayService)
	agent := []harness.Span{harness.RequestSpan(2, 1, 0.1, 2).Answered("stop", harness.Answer), harness.RunSpan(1, 0, 3, 1, 0)}
	for name, tt := range map[string]struct {
		calls [][]harness.Span
		wait  time.Duration
	}{
		"after the run":                  {[][]harness.Span{agent, {orphan}}, time.Second},
		"long after the run":             {[][]harness.Span{agent, {orphan}}, 110 * time.Second},
		"before the run":                 {[][]harness.Span{{orphan}, agent}, 90 * time.Second},
		"beside a run that is abandoned": {[][]harness.Span{{orphan}, agent[:1]}, 90 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			disk := harness.NewDisk()
			h := harness.NewOn(t, disk, withRunTimeout(2*time.Minute), nil, harness.T0)
			for _, call := range tt.calls {
				h.Consume(t, call...)
				h.Pass(t, tt.wait)
			}
			h.Pass(t, 10*time.Minute)
			h.Pass(t, 10*time.Minute)
			td := h.Out()
			v := harness.VerdictOf(harness.SpansOf(td)[harness.SpanID(7)])
			assert.Equal(t, semconv.CauseConnectionReset, v.Cause)
			assert.Equal(t, semconv.TriggerHoldExpired, v.Trigger)
			require.Len(t, harness.RunsJudged(td), 1)
			for _, span := range harness.AbandonedSpans(td) {
				assert.Equal(t, harness.SpanID(1), span.ParentSpanID())
			}
			assert.Equal(t, telemetry.Load{}, h.Load())
			assert.Empty(t, disk.Entries(), "nothing is left in the storage")
		})
	}
}

// withRunTimeout is the default configuration with another run_timeout.
func withRunTimeout(d time.Duration) *llmclassify.Config {
	cfg := harness.DefaultConfig()
	cfg.RunTimeout = d
	return cfg
}

// What another service did comes later than the agent's run, as a rule: it goes out as late,
// and is not counted as a run's own spans are.
func TestLateSpansOfOthersDoNotCount(t *testing.T) {
	late := func(spans ...harness.Span) int64 {
		h := harness.New(t, harness.DefaultConfig(), nil)
		h.Consume(t, harness.AgentSpan(1, 0, 0, 3), harness.ChatSpan(2, 1, 0.1, 2).Finished("stop"), harness.HTTPClient(20, 2, 0.1, 1))
		h.Pass(t, harness.Settle)
		h.Consume(t, spans...)
		for _, s := range spans {
			assert.Equal(t, semconv.TriggerLate, harness.VerdictOf(harness.SpansOf(h.Out())[harness.SpanID(s.ID)]).Trigger)
		}
		m, err := h.Metrics.GetMetric("otelcol_processor_llm_classify_spans_late")
		if err != nil {
			return 0
		}
		return harness.Total(t, m)
	}
	served := harness.RequestSpan(6, 0, 0.2, 1.9).Answered("stop", harness.Answer).In(harness.GatewayService).Under(20)
	assert.Zero(t, late(served, harness.RequestSpan(7, 0, 0.3, 1.8).Answered("stop", harness.Answer).In(harness.GatewayService).Under(6)))
	assert.Zero(t, late(harness.InferredSpan(3, 20, 0.2, 1.9).In(harness.GatewayService), servedRequest(4, 3, 0.2, 1.9).Answered("stop", harness.Answer)))
	assert.Equal(t, int64(1), late(harness.ChatSpan(8, 1, 2, 3).Finished("stop")))
}
