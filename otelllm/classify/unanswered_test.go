package classify

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/otelllm/otelllm-go/semconv"
)

// TestToolRecovers plays a tool that failed, with the requests around it in time. A request is an
// answer only if it follows the tool: not the one that made the call, however short the tool was.
func TestToolRecovers(t *testing.T) {
	const us = time.Microsecond
	begin := time.Unix(1, 0)
	answer := func(from, to time.Duration, calls ...string) Request {
		return Request{
			Start: begin.Add(from), End: begin.Add(to), Ended: semconv.StreamEndTerminalEvent, Finish: FinishStop, Failed: No,
			Text: Counted(1), CallIDs: calls, ToolCalls: Counted(len(calls)), HistoryCalls: []string{}, HistoryOutputs: []string{},
		}
	}
	for _, tt := range []struct {
		name     string
		requests []Request
		id       string
		delivery semconv.OutputDelivery
		want     bool
	}{
		{"nothing else", []Request{answer(0, 100*us, "a")}, "a", semconv.OutputDeliveryPending, false},
		{"sent, and nothing else", []Request{answer(0, 100*us, "a")}, "a", semconv.OutputDeliverySent, false},
		{"its call has no id", []Request{answer(0, 100*us)}, "", semconv.OutputDeliverySent, false},
		{"the request that made the call goes on", []Request{answer(0, 900*us, "a")}, "a", semconv.OutputDeliverySent, false},
		{"a request follows", []Request{answer(0, 100*us, "a"), answer(400*us, 900*us)}, "a", semconv.OutputDeliverySent, true},
		{"a request follows by a coarse clock", []Request{answer(0, 100*us, "a"), answer(0, 900*us)}, "a", semconv.OutputDeliverySent, true},
		{"a request follows, of a call without an id", []Request{answer(0, 100*us), answer(400*us, 900*us)}, "", semconv.OutputDeliverySent, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			run := Run{
				Start: begin, End: begin.Add(time.Second), Ended: Yes, Failed: No, Requests: tt.requests,
				AnnouncedRequests: Counted(len(tt.requests)), AnnouncedTools: Counted(1),
				Tools: []Tool{{
					Start: begin.Add(200 * us), End: begin.Add(300 * us), CallID: tt.id, Name: "f",
					Outcome: semconv.ToolOutcomeFailed, ErrorType: "x", Delivery: tt.delivery,
				}},
			}
			d := Judge(&run).Run
			assert.Equal(t, tt.want, d.Outcome == semconv.RunOutcomeRecovered)
			assert.Equal(t, tt.want, d.Class == semconv.ClassUnset)
		})
	}
}

// TestUnansweredCalls: a call that only the conversation shows, and that has no output at its end.
func TestUnansweredCalls(t *testing.T) {
	begin := time.Unix(1, 0)
	run := Run{
		Start: begin, End: begin.Add(9 * time.Second), Ended: Yes, Failed: No, AnnouncedRequests: Counted(1),
		Requests: []Request{{
			Start: begin, End: begin.Add(time.Second), Ended: semconv.StreamEndTerminalEvent, Finish: FinishToolCalls, Failed: No,
			CallIDs: []string{"a"}, ToolCalls: Counted(1), HistoryCalls: []string{}, HistoryOutputs: []string{},
		}},
		Tools: []Tool{{Start: begin.Add(time.Second), End: begin.Add(8 * time.Second), CallID: "a", Name: "pay", FromHistory: true}},
	}
	d := Judge(&run).Run
	assert.Equal(t, semconv.ClassToolOutputLost, d.Class)
	assert.Equal(t, semconv.CauseNeverAnswered, d.Cause)
	assert.Equal(t, UserConfirmedRetry, d.Retry.Safety)
	assert.Equal(t, "The model asked for the tool pay, and the conversation ended before it got an output. It is not known whether a tool ran. Ask before retrying: a tool could run twice.", d.Summary)
	assert.NotEqual(t, semconv.ConfidenceHigh, d.Confidence)

	run.Partial = true
	assert.NotEqual(t, semconv.CauseNeverAnswered, Judge(&run).Run.Cause, "the output may be elsewhere")
	run.Partial = false
	run.Tools[0].FromHistory = false // one that the application recorded, and that may be the last
	assert.Equal(t, semconv.ClassUnset, Judge(&run).Run.Class)
}
