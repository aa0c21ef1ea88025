package classify

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/otelllm/otelllm-go/semconv"
)

// A run that would be safe to repeat is not safe if its end never came: tools with effects
// may have run unobserved.
func TestARunWithoutItsEndMayHaveMoreParts(t *testing.T) {
	cut := Request{
		Basis: Typed, Phase: semconv.PhaseResponseStarted, Ended: semconv.StreamEndReadError, Failed: Yes, Status: 200,
		Transport: Transport{Stage: semconv.TransportStageBody, Cause: semconv.TransportCauseConnectionReset},
		Text:      Counted(0), Reasoning: Counted(0), ToolInputsStarted: Counted(0), ToolInputsCompleted: Counted(0), ToolCalls: Counted(0),
		ProviderToolsStarted: Counted(0), ProviderTools: []string{}, HistoryCalls: []string{}, HistoryOutputs: []string{},
	}
	whole := Judge(&Run{Ended: Yes, Failed: Yes, AnnouncedRequests: Counted(1), AnnouncedTools: Counted(0), Requests: []Request{cut}}).Run
	assert.Equal(t, SafeAutoRetry, whole.Retry.Safety)
	part := Judge(&Run{Ended: No, Requests: []Request{cut}})
	assert.Equal(t, semconv.ClassStreamInterrupted, part.Run.Class)
	assert.Equal(t, UserConfirmedRetry, part.Run.Retry.Safety)
	assert.Equal(t, semconv.RetryReasonEvidenceIncomplete, part.Run.Retry.Reason)
	assert.Contains(t, part.Run.MissingEvidence, factAgentRunSpan)
	assert.Equal(t, SafeAutoRetry, part.Requests[0].Retry.Safety, "the request itself may be sent again as it was")
}
