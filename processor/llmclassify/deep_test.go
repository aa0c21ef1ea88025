package llmclassify

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/semconv"
)

// What a run did counts, however many spans are between the two.
func TestDeepChain(t *testing.T) {
	between := map[string]spanSpec{
		"other spans": otherSpan(9, 1, 0, 1),
		"requests":    requestSpan(9, 0, 0, 1).refused(429, semconv.ProviderErrorKindRateLimited, "rate_limit_exceeded"),
		"runs":        unannounced(runSpan(9, 0, 1, 0, 0)).failed("429"),
	}
	for name, spec := range between {
		for _, depth := range []int{10, 60, 120, 126, 130, 300, 1000} {
			for _, order := range []string{"chain, text, run", "run, text, chain", "at once"} {
				t.Run(fmt.Sprintf("%s, %d, %s", name, depth, order), func(t *testing.T) {
					chain, above := ptrace.NewTraces(), spanID(1)
					for n := range depth {
						td := tracesOf(t, spec)
						s := td.ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0)
						s.SetParentSpanID(above)
						above = pcommon.SpanID{0xde, byte(n >> 8), byte(n), 1}
						s.SetSpanID(above)
						s.SetStartTimestamp(at(0.0001 * float64(n+1)))
						s.SetEndTimestamp(at(1 - 0.0001*float64(n+1)))
						td.ResourceSpans().MoveAndAppendTo(chain.ResourceSpans())
					}
					text := tracesOf(t, requestSpan(3, 0, 0.3, 0.5).cut(semconv.PhaseText, semconv.TransportCauseConnectionReset, "ECONNRESET", counts{text: 2}))
					text.ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0).SetParentSpanID(above)
					run := tracesOf(t, uncountedRun(0, 1)...)
					calls := []ptrace.Traces{chain, text, run}
					switch order {
					case "run, text, chain":
						calls = []ptrace.Traces{run, text, chain}
					case "at once":
						text.ResourceSpans().MoveAndAppendTo(chain.ResourceSpans())
						run.ResourceSpans().MoveAndAppendTo(chain.ResourceSpans())
						calls = calls[:1]
					}
					h := newHarness(t, defaultConfig(), nil)
					for _, td := range calls {
						require.NoError(t, h.ConsumeTraces(t.Context(), td))
					}
					h.pass(t, time.Minute)
					assert.Equal(t, confirm, verdicts(h.out())[1].safety)
				})
			}
		}
	}
}

// A request whose parents are not here may be of any of many runs of its time, also where
// these are more than are searched.
func TestRequestOfOneOfManyRuns(t *testing.T) {
	for _, others := range []int{1, 250, 260, 1000} {
		for _, last := range []bool{false, true} {
			text := tracesOf(t, requestSpan(3, 0, 0.3, 0.5).under(99).cut(semconv.PhaseText, semconv.TransportCauseConnectionReset, "ECONNRESET", counts{text: 2}))
			later := ptrace.NewTraces()
			for n := range others {
				td := tracesOf(t, unannounced(runSpan(9, 2, 3, 0, 0)).failed("429"))
				td.ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0).SetSpanID(pcommon.SpanID{0xde, byte(n >> 8), byte(n), 1})
				td.ResourceSpans().MoveAndAppendTo(later.ResourceSpans())
			}
			calls := []ptrace.Traces{tracesOf(t, uncountedRun(0, 1)...), text, later}
			if last {
				calls[1], calls[2] = later, text
			}
			h := newHarness(t, defaultConfig(), nil)
			for _, td := range calls {
				require.NoError(t, h.ConsumeTraces(t.Context(), td))
			}
			h.pass(t, time.Minute)
			assert.Equal(t, confirm, verdicts(h.out())[1].safety, "%d others, last %v", others, last)
		}
	}
}
