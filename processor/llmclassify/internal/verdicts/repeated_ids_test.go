package verdicts

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/harness"
	"github.com/otelllm/otelllm-go/semconv"
)

// A span that is delivered twice counts once. Another one with its id is no copy of it, and
// counts whichever came first.
func TestSpansOfOneID(t *testing.T) {
	run := harness.RunSpan(1, 0, 2, 1, 0).Failed("*net.OpError")
	cut := func(phase semconv.Phase, from, to float64, c harness.Counts) harness.Span {
		return harness.RequestSpan(2, 1, from, to).Cut(phase, semconv.TransportCauseConnectionReset, "ECONNRESET", c)
	}
	request := cut(semconv.PhaseResponseStarted, 0.1, 1, harness.Counts{})
	for name, tt := range map[string]struct {
		other  harness.Span
		safety semconv.RetrySafety
		reason semconv.RetryReason
	}{
		"a copy":               {request, harness.Safe, semconv.RetryReasonNoOutput},
		"other attributes":     {cut(semconv.PhaseText, 0.1, 1, harness.Counts{Text: 3}), semconv.RetrySafetyUserConfirmedRetry, semconv.RetryReasonVisibleOutput},
		"at another time":      {cut(semconv.PhaseText, 1.1, 1.5, harness.Counts{Text: 3}), semconv.RetrySafetyUserConfirmedRetry, semconv.RetryReasonVisibleOutput},
		"alike, at other time": {cut(semconv.PhaseResponseStarted, 1.1, 1.5, harness.Counts{}), semconv.RetrySafetyUserConfirmedRetry, semconv.RetryReasonEvidenceIncomplete},
		"a tool":               {harness.ToolSpan(2, 1, 1.5, "call_1", semconv.ToolEffectNonIdempotent, semconv.ToolOutcomeSucceeded), semconv.RetrySafetyUserConfirmedRetry, semconv.RetryReasonToolSideEffect},
		"a run":                {harness.RunSpan(2, 0.1, 1, 1, 0).Under(1), semconv.RetrySafetyUserConfirmedRetry, semconv.RetryReasonEvidenceIncomplete},
	} {
		for how, calls := range map[string][][]harness.Span{
			"last":               {{request}, {tt.other}, {run}},
			"first":              {{tt.other}, {request}, {run}},
			"last, in one call":  {{request, tt.other, run}},
			"first, in one call": {{tt.other, request, run}},
			"after the first":    {{request}, nil, {tt.other, run}},
		} {
			t.Run(name+" "+how, func(t *testing.T) {
				h := harness.New(t, harness.DefaultConfig(), nil)
				for _, call := range calls {
					if call == nil {
						h.Pass(t, harness.MaxHold) // what is here goes, and its facts stay
						continue
					}
					h.Consume(t, call...)
				}
				h.Pass(t, harness.MaxHold+time.Millisecond)
				got := harness.Verdicts(h.Out())[1]
				assert.Equal(t, tt.safety, got.Safety)
				assert.Equal(t, tt.reason, got.Reason)
			})
		}
	}
}
