package classify

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/otelllm/otelllm-go/semconv"
)

// A model that uses an id again for each answer does not hide a tool that ran unrecorded:
// the history then has more outputs of the id than tools executed it.
func TestUnrecordedToolWithAReusedID(t *testing.T) {
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	request := func(n int, finish Finish, calls []string, history ...string) Request {
		r := Request{
			Start: at(10 * n), End: at(10*n + 1), Attempt: 1, Basis: Typed, Status: 200, Failed: No, Finish: finish,
			Ended: semconv.StreamEndTerminalEvent, Phase: semconv.PhaseStreamEnd, Text: Counted(0), ToolInputsStarted: Counted(len(calls)),
			ToolInputsCompleted: Counted(len(calls)), ToolCalls: Counted(len(calls)), CallIDs: calls, ProviderTools: []string{},
		}
		r.HistoryCalls, r.HistoryOutputs = append([]string{}, history...), append([]string{}, history...)
		return r
	}
	cut := func(n int, history ...string) Request {
		r := request(n, FinishMissing, nil, history...)
		r.Failed, r.Ended, r.Phase = Yes, semconv.StreamEndReadError, semconv.PhaseAwaitingResponse
		r.Status, r.Transport.Cause = 0, semconv.TransportCauseClosedBeforeHeaders
		return r
	}
	tool := func(n int) Tool {
		return Tool{Start: at(10*n + 2), End: at(10*n + 3), CallID: "call_0", Name: "look", Effect: semconv.ToolEffectReadOnly, Outcome: semconv.ToolOutcomeSucceeded, Delivery: semconv.OutputDeliveryPending}
	}
	call := []string{"call_0"}
	for _, tt := range []struct {
		name     string
		requests []Request
		tools    []Tool
		safety   semconv.RetrySafety
	}{
		{"every execution is recorded", []Request{request(0, FinishToolCalls, call), request(1, FinishToolCalls, call, "call_0"), cut(2, "call_0", "call_0")}, []Tool{tool(0), tool(1)}, SafeAutoRetry},
		{"the second is not", []Request{request(0, FinishToolCalls, call), request(1, FinishToolCalls, call, "call_0"), cut(2, "call_0", "call_0")}, []Tool{tool(0)}, UserConfirmedRetry},
		{"the first is not", []Request{request(0, FinishToolCalls, call), request(1, FinishToolCalls, call, "call_0"), cut(2, "call_0", "call_0")}, []Tool{tool(1)}, UserConfirmedRetry},
		{"the second was not executed", []Request{request(0, FinishToolCalls, call), request(1, FinishToolCalls, call, "call_0"), cut(2, "call_0")}, []Tool{tool(0)}, SafeAutoRetry},
		{"the second was made again", []Request{request(0, FinishToolCalls, call), request(1, FinishToolCalls, call, "call_0"), request(2, FinishToolCalls, call, "call_0"), cut(3, "call_0", "call_0")}, []Tool{tool(0), tool(2)}, SafeAutoRetry},
		{"of an earlier run", []Request{request(0, FinishToolCalls, call, "call_0"), cut(1, "call_0", "call_0")}, []Tool{tool(0)}, SafeAutoRetry},
	} {
		t.Run(tt.name, func(t *testing.T) {
			run := Run{
				Start: start, End: at(60), Ended: Yes, Failed: Yes, ErrorType: "x", AnnouncedRequests: Counted(len(tt.requests)),
				AnnouncedTools: Counted(len(tt.tools)), Requests: tt.requests, Tools: tt.tools,
			}
			d := Judge(&run).Run
			assert.Equal(t, tt.safety, d.Retry.Safety, d.Retry.Reason)
			if tt.safety == UserConfirmedRetry {
				assert.Equal(t, semconv.RetryReasonToolStateUnknown, d.Retry.Reason)
			}
		})
	}
}

// A tool that executed an earlier call with the same id does not show that the calls of a broken
// answer were executed by recorded tools alone.
func TestReusedIDOfBrokenAnswer(t *testing.T) {
	r := Run{Start: t0, Ended: NotObserved, Requests: []Request{
		request(0, 1, all(calls("call"), carries())),
		request(3, 4, all(calls("call"), reset(semconv.PhaseToolCallReady), carries("call"))),
	}, Tools: []Tool{tool(1, 2, "call", pays, semconv.ToolOutcomeSucceeded)}}
	d := JudgeCall(&r, []int{1})
	assert.Equal(t, UserConfirmedRetry, d.Retry.Safety)
	assert.Equal(t, semconv.RetryReasonToolStateUnknown, d.Retry.Reason)

	r.ToolsRecorded = Yes
	d = JudgeCall(&r, []int{1})
	assert.Equal(t, SafeAutoRetry, d.Retry.Safety)
}
