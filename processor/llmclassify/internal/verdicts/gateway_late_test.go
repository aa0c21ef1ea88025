package llmclassify

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/telemetry"
	"github.com/otelllm/otelllm-go/semconv"
)

// runsJudged are the spans that carry a run's verdict.
func runsJudged(td ptrace.Traces) (ids []pcommon.SpanID) {
	for id, span := range spansOf(td) {
		if _, ok := span.Attributes().Get(string(semconv.RunOutcomeKey)); ok {
			ids = append(ids, id)
		}
	}
	return ids
}

// What a gateway sends after the agent's run was judged, in any order, is no run
// (acceptance case 19): each span has its own verdict, and none is added.
func TestGatewayAfterTheRunWasJudged(t *testing.T) {
	reset := func(id byte, from, to float64) spanSpec {
		return requestSpan(id, 0, from, to).cut(semconv.PhaseText, semconv.TransportCauseConnectionReset, "ECONNRESET", counts{text: 2}).in(gatewayService)
	}
	good := func(id byte, from, to float64) spanSpec {
		return requestSpan(id, 0, from, to).answered("stop", answer).in(gatewayService)
	}
	serves := func(s spanSpec, parent byte) spanSpec {
		s.kind = ptrace.SpanKindServer
		return s.under(parent)
	}
	cancelled := func(id byte) spanSpec {
		return requestSpan(id, 0, 0.2, 1.8).streamed(semconv.PhaseText, semconv.StreamEndCancelled, counts{text: 2}).in(gatewayService)
	}
	trigger := func(td ptrace.Traces, id byte) semconv.Trigger { return verdictOf(spansOf(td)[spanID(id)]).trigger }
	for name, spans := range map[string][]spanSpec{
		"passes a reset on": {serves(reset(6, 0.2, 1.9), 2), reset(7, 0.3, 1.8).under(6)},
		"tries again":       {serves(good(6, 0.2, 1.9), 2), reset(7, 0.3, 0.8).under(6), good(8, 0.9, 1.8).under(6)},
		"is cancelled":      {serves(cancelled(6), 2), cancelled(7).under(6)},
		"of a gateway":      {serves(good(6, 0.2, 1.9), 2), serves(good(7, 0.3, 1.8), 6), reset(8, 0.4, 1.7).under(7)},
	} {
		for _, order := range orders(len(spans)) {
			for calls, step := range map[string]time.Duration{
				"in one call": -1, "at once": 0, "after a while": time.Second, "after they were held": xMaxHold,
			} {
				disk := newDisk()
				h := newHarnessOn(t, disk, withRunTimeout(2*time.Minute), nil, t0)
				h.consume(t, requestSpan(2, 1, 0.1, 2).answered("stop", answer), runSpan(1, 0, 3, 1, 0))
				var late []spanSpec
				for _, i := range order {
					late = append(late, spans[i])
				}
				h.pass(t, 5*time.Second)
				if step < 0 {
					h.consume(t, late...)
				} else {
					for _, s := range late {
						h.consume(t, s)
						h.pass(t, step)
					}
				}
				if step <= time.Second {
					for _, s := range spans {
						assert.Equal(t, semconv.TriggerLate, trigger(h.out(), s.id), "%s %s %v: span %d", name, calls, order, s.id)
					}
					assert.Equal(t, telemetry.Load{}, h.Load(), "%s %s %v", name, calls, order)
				}
				h.pass(t, 10*time.Minute)
				h.pass(t, 10*time.Minute)
				td := h.out()
				require.Equal(t, []pcommon.SpanID{spanID(1)}, runsJudged(td), "%s %s %v", name, calls, order)
				require.Empty(t, abandonedSpans(td), "%s %s %v", name, calls, order)
				require.Equal(t, 2+len(spans), td.SpanCount(), "%s %s %v", name, calls, order)
				assert.Equal(t, telemetry.Load{}, h.Load(), "%s %s %v", name, calls, order)
				assert.Empty(t, disk.entries(), "%s %s %v", name, calls, order)
			}
		}
	}
}

// Where the span in between never comes, or long after its like was forgotten, and
// where it came before the run whose time it is not within.
func TestGatewayWithoutItsParent(t *testing.T) {
	orphan := requestSpan(7, 0, 500, 501).cut(semconv.PhaseText, semconv.TransportCauseConnectionReset, "ECONNRESET", counts{text: 2}).under(60).in(gatewayService)
	agent := []spanSpec{requestSpan(2, 1, 0.1, 2).answered("stop", answer), runSpan(1, 0, 3, 1, 0)}
	for name, tt := range map[string]struct {
		calls [][]spanSpec
		wait  time.Duration
	}{
		"after the run":                  {[][]spanSpec{agent, {orphan}}, time.Second},
		"long after the run":             {[][]spanSpec{agent, {orphan}}, 110 * time.Second},
		"before the run":                 {[][]spanSpec{{orphan}, agent}, 90 * time.Second},
		"beside a run that is abandoned": {[][]spanSpec{{orphan}, agent[:1]}, 90 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			disk := newDisk()
			h := newHarnessOn(t, disk, withRunTimeout(2*time.Minute), nil, t0)
			for _, call := range tt.calls {
				h.consume(t, call...)
				h.pass(t, tt.wait)
			}
			h.pass(t, 10*time.Minute)
			h.pass(t, 10*time.Minute)
			td := h.out()
			v := verdictOf(spansOf(td)[spanID(7)])
			assert.Equal(t, semconv.CauseConnectionReset, v.cause)
			assert.Equal(t, semconv.TriggerHoldExpired, v.trigger)
			require.Len(t, runsJudged(td), 1)
			for _, span := range abandonedSpans(td) {
				assert.Equal(t, spanID(1), span.ParentSpanID())
			}
			assert.Equal(t, telemetry.Load{}, h.Load())
			assert.Empty(t, disk.entries(), "nothing is left in the storage")
		})
	}
}

// withRunTimeout is the default configuration with another run_timeout.
func withRunTimeout(d time.Duration) *Config {
	cfg := defaultConfig()
	cfg.RunTimeout = d
	return cfg
}

// What another service did comes later than the agent's run, as a rule: it goes out as late,
// and is not counted as a run's own spans are.
func TestLateSpansOfOthersDoNotCount(t *testing.T) {
	late := func(spans ...spanSpec) int64 {
		h := newHarness(t, defaultConfig(), nil)
		h.consume(t, agentSpan(1, 0, 0, 3), chatSpan(2, 1, 0.1, 2).finished("stop"), httpClient(20, 2, 0.1, 1))
		h.pass(t, xSettle)
		h.consume(t, spans...)
		for _, s := range spans {
			assert.Equal(t, semconv.TriggerLate, verdictOf(spansOf(h.out())[spanID(s.id)]).trigger)
		}
		m, err := h.telemetry.GetMetric("otelcol_processor_llm_classify_spans_late")
		if err != nil {
			return 0
		}
		return total(t, m)
	}
	served := requestSpan(6, 0, 0.2, 1.9).answered("stop", answer).in(gatewayService).under(20)
	assert.Zero(t, late(served, requestSpan(7, 0, 0.3, 1.8).answered("stop", answer).in(gatewayService).under(6)))
	assert.Zero(t, late(inferredSpan(3, 20, 0.2, 1.9).in(gatewayService), servedRequest(4, 3, 0.2, 1.9).answered("stop", answer)))
	assert.Equal(t, int64(1), late(chatSpan(8, 1, 2, 3).finished("stop")))
}
