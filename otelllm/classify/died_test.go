package classify

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/otelllm/otelllm-go/semconv"
)

// The death of an agent's process explains what it left open, also a failure that it would have
// tried again. Nothing of such a run is safe to repeat.
func TestProcessDied(t *testing.T) {
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	answered := Request{
		Start: start, End: start.Add(time.Second), Basis: Typed, Failed: No, Finish: FinishToolCalls, Ended: semconv.StreamEndTerminalEvent,
		Text: Counted(0), Reasoning: Counted(0), ToolInputsStarted: Counted(1), ToolInputsCompleted: Counted(1), ToolCalls: Counted(1), CallIDs: []string{"c"},
		ProviderToolsStarted: Counted(0), HistoryCalls: []string{}, HistoryOutputs: []string{},
	}
	refused := Request{Start: start, End: start.Add(time.Second), Basis: Typed, Failed: Yes, Status: 429, Ended: semconv.StreamEndHTTPError, HistoryCalls: []string{}, HistoryOutputs: []string{}}
	open := Request{Start: start, End: start.Add(time.Second), HistoryCalls: []string{}, HistoryOutputs: []string{}}
	running := Tool{Start: start.Add(time.Second), CallID: "c", Name: "pay"}
	for _, tt := range []struct {
		name       string
		by         semconv.RunEnd
		requests   []Request
		tools      []Tool
		confidence semconv.Confidence
		summary    string
	}{
		{
			"in a tool", semconv.RunEndProcessDied,
			[]Request{answered},
			[]Tool{running},
			semconv.ConfidenceHigh,
			"The agent's process died before the run ended: it was killed, or it crashed. Last seen: pay started. Ask before retrying: pay could run twice.",
		},
		{
			"in an answer", semconv.RunEndProcessDied,
			[]Request{open},
			nil, semconv.ConfidenceHigh,
			"The agent's process died before the run ended: it was killed, or it crashed. Last seen: a model call.",
		},
		{
			"between two attempts", semconv.RunEndProcessDied,
			[]Request{refused},
			nil, semconv.ConfidenceHigh,
			"The agent's process died before the run ended: it was killed, or it crashed. Last seen: a model call failed.",
		},
		{
			"before anything", semconv.RunEndProcessDied, nil, nil, semconv.ConfidenceHigh,
			"The agent's process died before the run ended: it was killed, or it crashed.",
		},
		{
			"by its silence", semconv.RunEndProcessSilent,
			[]Request{answered},
			[]Tool{running},
			semconv.ConfidenceMedium,
			"The run never ended, and no process is known that could continue it. Last seen: pay started.",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			run := Run{
				Start: start, End: start.Add(time.Minute), Ended: Yes, EndedBy: tt.by, AnnouncedRequests: Counted(len(tt.requests)),
				Requests: tt.requests, Tools: tt.tools,
			}
			d := Judge(&run).Run
			assert.Equal(t, semconv.RunOutcomeIncomplete, d.Outcome)
			assert.Equal(t, semconv.ClassRunAbandoned, d.Class)
			assert.Equal(t, semconv.CauseProcessDied, d.Cause)
			assert.Equal(t, tt.confidence, d.Confidence)
			assert.Equal(t, UserConfirmedRetry, d.Retry.Safety)
			assert.Contains(t, d.Summary, tt.summary)
			assert.Contains(t, d.Evidence, "llm.run.end="+tt.by.String())
			if p := PlanRun(&run); len(tt.tools) > 0 {
				assert.Equal(t, []PlannedCall{{ID: "c", Name: "pay", Effect: semconv.ToolEffectUnknown}}, p.MayHaveRun)
			} else {
				assert.True(t, p.More, "calls may have run that are not recorded")
			}
		})
	}
}
