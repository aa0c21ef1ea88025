package llmclassify

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/worker"
	"github.com/otelllm/otelllm-go/semconv"
)

// Where there is no room for links, runs of the traces that are here or on their way, and that
// announce no numbers, may have requests that are taken for another run's.
func TestLinksWithoutRoom(t *testing.T) {
	for name, calls := range map[string][]int{
		"in one call":   {worker.MaxNews + 1},
		"in many calls": {worker.MaxNews / 2, worker.MaxNews / 2, 10},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, defaultConfig(), nil)
			run, refused := uncountedRun(0, 1)[0], uncountedRun(0, 1)[1]
			h.consume(t, refused, refused.of(2))
			counted := runSpan(1, 0, 1, 1, 0).failed("429")
			for _, n := range calls {
				td := tracesOf(t, otherSpan(8, 1, 0, 1))
				spans := td.ResourceSpans().At(0).ScopeSpans().At(0).Spans()
				for range n - 1 {
					spans.At(0).CopyTo(spans.AppendEmpty())
				}
				require.NoError(t, h.inside.ConsumeTraces(t.Context(), td)) // its shard does not look yet
			}
			require.NoError(t, h.inside.ConsumeTraces(t.Context(), tracesOf(t, refused.of(3))))
			h.settle(t.Context())
			h.consume(t, run, counted.of(2), run.of(3))
			h.pass(t, 2*xSettle)
			h.consume(t, run.of(4), refused.of(4))
			h.pass(t, xSettle)
			got := map[byte]verdict{}
			eachSpan(h.out(), func(span ptrace.Span) {
				if span.SpanID() == spanID(1) {
					got[span.TraceID()[15]] = verdictOf(span)
				}
			})
			assert.Equal(t, semconv.RetryReasonEvidenceIncomplete, got[1].reason)
			assert.Equal(t, safe, got[2].safety, "it announces its parts")
			assert.Equal(t, semconv.RetryReasonEvidenceIncomplete, got[3].reason, "it was on its way")
			assert.Equal(t, safe, got[4].safety, "it came later")
		})
	}
}
