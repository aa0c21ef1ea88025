package llmclassify

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/otelllm/otelllm-go/semconv"
)

// handedOver is a request that was cut just after it had handed over a tool call. If no tool
// ran, it is safe to repeat.
func handedOver(id byte) spanSpec {
	return requestSpan(id, 1, 0.1, 1).cut(semconv.PhaseToolCallReady, semconv.TransportCauseConnectionReset, "ECONNRESET",
		counts{inputs: 1, completed: 1, calls: 1, callIDs: []string{"call_1"}})
}

// unannounced is a run of the same client whose numbers cannot be read.
func unannounced(s spanSpec) spanSpec { return s.with(semconv.RunRequests(-1), semconv.RunTools(-1)) }

// inCalls are all ways to send spans in this order: in one call, one by one, and in two calls.
func inCalls(spans []spanSpec) (ways [][][]spanSpec) {
	one := make([][]spanSpec, 0, len(spans))
	for _, s := range spans {
		one = append(one, []spanSpec{s})
	}
	ways = append(ways, [][]spanSpec{spans}, one)
	for at := 1; at < len(spans); at++ {
		ways = append(ways, [][]spanSpec{spans[:at], spans[at:]})
	}
	return ways
}

// A run with more requests or tools than it announced is judged as one that announces
// nothing: after it has settled, and never with less care.
func TestContradictedManifest(t *testing.T) {
	tool := toolSpan(3, 1, 1.5, "call_1", semconv.ToolEffectNonIdempotent, semconv.ToolOutcomeSucceeded)
	for name, tt := range map[string]struct {
		requests, tools int // that it announces
		spans           []spanSpec
	}{
		"a tool of none":         {1, 0, []spanSpec{handedOver(2), tool}},
		"a tool that reads":      {1, 0, []spanSpec{handedOver(2), toolSpan(3, 0.1, 0.2, "call_0", semconv.ToolEffectReadOnly, semconv.ToolOutcomeSucceeded)}},
		"a request of none":      {0, 0, []spanSpec{handedOver(2)}},
		"two requests of one":    {1, 0, []spanSpec{handedOver(2), requestSpan(4, 1, 0.1, 0.3).answered("stop", answer)}},
		"and another is missing": {2, 0, []spanSpec{handedOver(2), tool}},
	} {
		run := runSpan(1, 0, 2, tt.requests, tt.tools).failed("*net.OpError")
		for _, order := range orders(len(tt.spans) + 1) {
			var list, plain []spanSpec
			for _, i := range order {
				if i == len(tt.spans) {
					list, plain = append(list, run), append(plain, unannounced(run))
				} else {
					list, plain = append(list, tt.spans[i]), append(plain, tt.spans[i])
				}
			}
			for way, calls := range inCalls(list) {
				if completeBefore(calls, tt.requests, tt.tools) {
					continue // see TestLateCorrection
				}
				h, other := newHarness(t, defaultConfig(), nil), newHarness(t, defaultConfig(), nil)
				for n := range calls {
					h.consume(t, calls[n]...)
					other.consume(t, inCalls(plain)[way][n]...)
				}
				require.Empty(t, runsJudged(h.out()), "%s %v %d: it waits as one that announces nothing", name, order, way)
				h.pass(t, defaultSettle)
				other.pass(t, defaultSettle)
				require.Equal(t, []pcommon.SpanID{spanID(1)}, runsJudged(h.out()), "%s %v %d", name, order, way)
				got, want := verdictOf(spansOf(h.out())[spanID(1)]), verdictOf(spansOf(other.out())[spanID(1)])
				assert.Equal(t, semconv.TriggerRunEnded, got.trigger)
				assert.NotEqual(t, semconv.RetrySafetySafeAutoRetry, got.safety)
				assert.Equal(t, want, got, "%s %v %d", name, order, way)
			}
		}
	}
}

// completeBefore reports whether as many requests and tools as the run announces are here
// with it, and no more, before the last call.
func completeBefore(calls [][]spanSpec, requests, tools int) bool {
	run, here := false, tallied{}
	for _, call := range calls[:len(calls)-1] {
		for _, s := range call {
			switch s.attrs[0] {
			case otelsemconv.GenAIOperationNameInvokeAgent:
				run = true
			case otelsemconv.GenAIOperationNameExecuteTool:
				here.tools++
			default:
				here.requests++
			}
		}
		if run && here == (tallied{requests, tools}) {
			return true
		}
	}
	return false
}

type tallied struct{ requests, tools int }

// What began after the end of a run, and what is delivered twice, contradicts nothing.
func TestManifestHolds(t *testing.T) {
	tool := toolSpan(3, 1, 1.5, "call_1", semconv.ToolEffectReadOnly, semconv.ToolOutcomeSucceeded)
	after := toolSpan(4, 2.1, 2.2, "call_2", semconv.ToolEffectReadOnly, semconv.ToolOutcomeSucceeded)
	run := runSpan(1, 0, 2, 1, 1)
	for name, calls := range map[string][][]spanSpec{
		"twice":             {{handedOver(2), tool}, {tool}, {handedOver(2), run}},
		"twice, in a call":  {{handedOver(2), tool, tool, run}},
		"after its end":     {{handedOver(2), after}, {tool, run}},
		"and then in a row": {{after, tool, handedOver(2), run}},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, defaultConfig(), nil)
			for _, call := range calls {
				h.consume(t, call...)
			}
			h.pass(t, time.Millisecond)
			require.Equal(t, []pcommon.SpanID{spanID(1)}, runsJudged(h.out()))
			assert.Equal(t, semconv.TriggerComplete, verdictOf(spansOf(h.out())[spanID(1)]).trigger)
		})
	}
}
