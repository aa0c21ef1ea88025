package verdicts

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/harness"
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
			h := harness.New(t, harness.DefaultConfig(), nil)
			run, refused := harness.UncountedRun(0, 1)[0], harness.UncountedRun(0, 1)[1]
			h.Consume(t, refused, refused.Of(2))
			counted := harness.RunSpan(1, 0, 1, 1, 0).Failed("429")
			for _, n := range calls {
				td := harness.TracesOf(t, harness.OtherSpan(8, 1, 0, 1))
				spans := td.ResourceSpans().At(0).ScopeSpans().At(0).Spans()
				for range n - 1 {
					spans.At(0).CopyTo(spans.AppendEmpty())
				}
				require.NoError(t, h.Processor.ConsumeTraces(t.Context(), td)) // its shard does not look yet
			}
			require.NoError(t, h.Processor.ConsumeTraces(t.Context(), harness.TracesOf(t, refused.Of(3))))
			h.Settle(t.Context())
			h.Consume(t, run, counted.Of(2), run.Of(3))
			h.Pass(t, 2*harness.Settle)
			h.Consume(t, run.Of(4), refused.Of(4))
			h.Pass(t, harness.Settle)
			got := map[byte]harness.Verdict{}
			harness.EachSpan(h.Out(), func(span ptrace.Span) {
				if span.SpanID() == harness.SpanID(1) {
					got[span.TraceID()[15]] = harness.VerdictOf(span)
				}
			})
			assert.Equal(t, semconv.RetryReasonEvidenceIncomplete, got[1].Reason)
			assert.Equal(t, harness.Safe, got[2].Safety, "it announces its parts")
			assert.Equal(t, semconv.RetryReasonEvidenceIncomplete, got[3].Reason, "it was on its way")
			assert.Equal(t, harness.Safe, got[4].Safety, "it came later")
		})
	}
}
