package llmclassify

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/otelllm/otelllm-go/semconv"
)

// A span that is delivered twice counts once. Another one with its id is no copy of it, and
// counts whichever came first.
func TestSameID(t *testing.T) {
	run := runSpan(1, 0, 2, 1, 0).failed("*net.OpError")
	cut := func(phase semconv.Phase, from, to float64, c counts) spanSpec {
		return requestSpan(2, 1, from, to).cut(phase, semconv.TransportCauseConnectionReset, "ECONNRESET", c)
	}
	request := cut(semconv.PhaseResponseStarted, 0.1, 1, counts{})
	for name, tt := range map[string]struct {
		other  spanSpec
		safety semconv.RetrySafety
		reason semconv.RetryReason
	}{
		"a copy":               {request, safe, semconv.RetryReasonNoOutput},
		"other attributes":     {cut(semconv.PhaseText, 0.1, 1, counts{text: 3}), semconv.RetrySafetyUserConfirmedRetry, semconv.RetryReasonVisibleOutput},
		"at another time":      {cut(semconv.PhaseText, 1.1, 1.5, counts{text: 3}), semconv.RetrySafetyUserConfirmedRetry, semconv.RetryReasonVisibleOutput},
		"alike, at other time": {cut(semconv.PhaseResponseStarted, 1.1, 1.5, counts{}), semconv.RetrySafetyUserConfirmedRetry, semconv.RetryReasonEvidenceIncomplete},
		"a tool":               {toolSpan(2, 1, 1.5, "call_1", semconv.ToolEffectNonIdempotent, semconv.ToolOutcomeSucceeded), semconv.RetrySafetyUserConfirmedRetry, semconv.RetryReasonToolSideEffect},
		"a run":                {runSpan(2, 0.1, 1, 1, 0).under(1), semconv.RetrySafetyUserConfirmedRetry, semconv.RetryReasonEvidenceIncomplete},
	} {
		for how, calls := range map[string][][]spanSpec{
			"last":               {{request}, {tt.other}, {run}},
			"first":              {{tt.other}, {request}, {run}},
			"last, in one call":  {{request, tt.other, run}},
			"first, in one call": {{tt.other, request, run}},
			"after the first":    {{request}, nil, {tt.other, run}},
		} {
			t.Run(name+" "+how, func(t *testing.T) {
				h := newHarness(t, defaultConfig(), nil)
				for _, call := range calls {
					if call == nil {
						h.pass(t, xMaxHold) // what is here goes, and its facts stay
						continue
					}
					h.consume(t, call...)
				}
				h.pass(t, xMaxHold+time.Millisecond)
				got := verdicts(h.out())[1]
				assert.Equal(t, tt.safety, got.safety)
				assert.Equal(t, tt.reason, got.reason)
			})
		}
	}
}
