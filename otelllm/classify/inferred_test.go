package classify

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/otelllm/otelllm-go/semconv"
)

// A run that was inferred is judged by what it is over by.
func TestInferredRuns(t *testing.T) {
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	answer := func(finish Finish) Request {
		return Request{
			Start: start, End: start.Add(time.Second), Basis: Typed, Failed: No, Status: 200, Finish: finish,
			Ended: semconv.StreamEndTerminalEvent, Phase: semconv.PhaseStreamEnd, Text: Counted(0), ToolInputsStarted: Counted(1),
			ToolInputsCompleted: Counted(1), ToolCalls: Counted(1), CallIDs: []string{"c"}, HistoryCalls: []string{}, HistoryOutputs: []string{}, ProviderTools: []string{},
		}
	}
	reset := answer(FinishMissing)
	reset.Failed, reset.Ended, reset.Transport.Cause = Yes, semconv.StreamEndReadError, semconv.TransportCauseConnectionReset
	for _, tt := range []struct {
		name    string
		by      semconv.RunEnd
		failed  Fact
		abort   semconv.AbortSource
		request Request
		missing int // requests in other traces

		outcome semconv.RunOutcome
		class   semconv.Class
	}{
		{"answer", semconv.RunEndAnswer, No, 0, answer(FinishStop), 0, semconv.RunOutcomeSucceeded, 0},
		{"answer whose call was forced", semconv.RunEndAnswer, No, 0, answer(FinishToolCalls), 0, semconv.RunOutcomeSucceeded, 0},
		{"failure", semconv.RunEndFailure, Yes, 0, reset, 0, semconv.RunOutcomeFailed, semconv.ClassStreamInterrupted},
		{"idle", semconv.RunEndIdle, NotObserved, 0, answer(FinishToolCalls), 0, semconv.RunOutcomeIncomplete, semconv.ClassRunAbandoned},
		{"shutdown", semconv.RunEndShutdown, NotObserved, semconv.AbortSourceShutdown, answer(FinishToolCalls), 0, semconv.RunOutcomeAborted, semconv.ClassLocalAbort},
		{"unclear", semconv.RunEndUnclear, NotObserved, 0, answer(FinishToolCalls), 0, 0, 0},
		{"evicted", semconv.RunEndEvicted, NotObserved, 0, answer(FinishToolCalls), 0, 0, 0},
		{"requests elsewhere", semconv.RunEndAnswer, No, 0, answer(FinishToolCalls), 1, 0, 0},
		{"declared, requests missing", semconv.RunEndUnset, No, 0, answer(FinishStop), 1, semconv.RunOutcomeIncomplete, semconv.ClassRunAbandoned},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := Judge(&Run{
				Start: start, End: start.Add(time.Minute), Ended: Yes, EndedBy: tt.by, Failed: tt.failed, Abort: Abort{Source: tt.abort},
				AnnouncedRequests: Counted(1 + tt.missing), Requests: []Request{tt.request},
			}).Run
			assert.Equal(t, tt.outcome, d.Outcome)
			assert.Equal(t, tt.class, d.Class)
			if tt.class != 0 {
				assert.NotEqual(t, SafeAutoRetry, d.Retry.Safety, "whether the call ran is not observed")
			}
			if tt.by == semconv.RunEndIdle {
				assert.Contains(t, d.Evidence, "llm.run.end=idle")
			}
		})
	}
}
