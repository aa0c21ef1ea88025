package classify

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/otelllm/otelllm-go/semconv"
)

// A later request with the output of a call whose input was cut shows that the client executed it.
func TestRepairedCall(t *testing.T) {
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, outputs := range [][]string{nil, {"a"}} {
		cut := Request{
			Start: start, End: start.Add(time.Second), Basis: Typed, Failed: Yes, Status: 200, Ended: semconv.StreamEndEOF, Finish: FinishMissing,
			Phase: semconv.PhaseToolInput, Transport: Transport{Cause: semconv.TransportCauseCleanEOF},
			Text: Counted(0), Reasoning: Counted(0), ToolInputsStarted: Counted(1), ToolInputsCompleted: Counted(0), ToolCalls: Counted(0), OpenCallIDs: []string{"a"},
			ProviderTools: []string{}, ProviderToolsStarted: Counted(0), HistoryCalls: []string{}, HistoryOutputs: []string{},
		}
		answered := Request{
			Start: start.Add(2 * time.Second), End: start.Add(3 * time.Second), Basis: Typed, Failed: No, Status: 200, Ended: semconv.StreamEndTerminalEvent,
			Finish: FinishStop, Text: Counted(1), Reasoning: Counted(0), ToolInputsStarted: Counted(0), ToolInputsCompleted: Counted(0), ToolCalls: Counted(0),
			ProviderTools: []string{}, ProviderToolsStarted: Counted(0), HistoryCalls: outputs, HistoryOutputs: outputs,
		}
		if outputs == nil {
			answered.HistoryCalls, answered.HistoryOutputs = []string{}, []string{}
		}
		d := Judge(&Run{
			Start: start, End: answered.End, Ended: Yes, EndedBy: semconv.RunEndAnswer, Failed: No, AnnouncedRequests: Counted(2),
			Requests: []Request{cut, answered},
		}).Requests[0]
		assert.Equal(t, semconv.ClassStreamInterrupted, d.Class)
		if outputs == nil {
			assert.Equal(t, SafeAutoRetry, d.Retry.Safety, d.Summary)
			continue
		}
		assert.Equal(t, UserConfirmedRetry, d.Retry.Safety)
		assert.Equal(t, semconv.RetryReasonToolStateUnknown, d.Retry.Reason)
		assert.NotContains(t, d.Summary, "had not run")
	}
}
