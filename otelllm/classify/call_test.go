package classify

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/otelllm/otelllm-go/semconv"
)

// TestJudgeCall checks over all pairs of attempts that the verdict on the call is that on the
// last attempt, and as careful as that on every attempt and on the run of all of them.
func TestJudgeCall(t *testing.T) {
	begin := time.Unix(1, 0)
	reset := func(change func(*Request)) Request {
		r := Request{
			Basis: Typed, Status: 200, Ended: semconv.StreamEndReadError, Phase: semconv.PhaseResponseStarted, Failed: Yes,
			Transport:     Transport{Cause: semconv.TransportCauseConnectionReset},
			ProviderTools: []string{}, HistoryCalls: []string{}, HistoryOutputs: []string{},
			Text: Counted(0), Reasoning: Counted(0), ToolInputsStarted: Counted(0), ToolInputsCompleted: Counted(0), ToolCalls: Counted(0), ProviderToolsStarted: Counted(0),
		}
		change(&r)
		return r
	}
	status := func(code int) func(*Request) {
		return func(r *Request) {
			r.Status, r.Ended, r.Transport = code, semconv.StreamEndHTTPError, Transport{}
		}
	}
	kinds := map[string]func(*Request){
		"nothing":       func(*Request) {},
		"text":          func(r *Request) { r.Text = Counted(3) },
		"text unknown":  func(r *Request) { r.Text = 0 },
		"a call":        func(r *Request) { r.ToolCalls, r.ToolInputsStarted, r.CallIDs = Counted(1), Counted(1), []string{"a"} },
		"provider tool": func(r *Request) { r.ProviderToolsStarted, r.ProviderTools = Counted(1), []string{"mcp"} },
		"background":    func(r *Request) { r.Background = true },
		"open":          func(r *Request) { *r = Request{Open: true, Phase: semconv.PhaseAwaitingResponse} },
		"healthy": func(r *Request) {
			r.Ended, r.Transport, r.Failed, r.Finish, r.Text = semconv.StreamEndTerminalEvent, Transport{}, No, FinishStop, Counted(1)
		},
		"overloaded": status(503),
		"refused":    status(401),
		"user": func(r *Request) {
			r.Ended, r.Transport, r.Abort = semconv.StreamEndCancelled, Transport{}, Abort{Source: semconv.AbortSourceUser}
		},
		"deadline": func(r *Request) {
			r.Ended, r.Transport, r.Abort = semconv.StreamEndCancelled, Transport{}, Abort{Source: semconv.AbortSourceDeadline}
		},
	}
	asked := 0
	for firstName, first := range kinds {
		for lastName, last := range kinds {
			for _, recorded := range []Fact{NotObserved, Yes} {
				a, b := reset(first), reset(last)
				a.Start, b.Start = begin, begin.Add(time.Second)
				if !a.Open {
					a.End = begin.Add(time.Second / 2)
				}
				if !b.Open {
					b.End = begin.Add(2 * time.Second)
				}
				name := firstName + ", " + lastName
				run := Run{Requests: []Request{a, b}, ToolsRecorded: recorded}
				d, v := JudgeCall(&run, []int{0, 1}), Judge(&run)
				assert.Equal(t, v.Requests[1].Class, d.Class, name)
				assert.Equal(t, v.Requests[1].Cause, d.Cause, name)
				if !d.Failed() {
					assert.Zero(t, d, name)
					continue
				}
				for i := range v.Requests {
					assert.GreaterOrEqual(t, d.Retry.Safety, v.Requests[i].Retry.Safety, name)
				}
				alone := JudgeCall(&run, []int{1})
				assert.Equal(t, v.Requests[1], alone, name)
				if firstName == "nothing" || firstName == "overloaded" {
					assert.Equal(t, alone.Retry, d.Retry, name)
				}
				switch firstName {
				case "text", "text unknown", "provider tool", "background", "open", "healthy":
					assert.NotEqual(t, SafeAutoRetry, d.Retry.Safety, name)
					asked++
				case "a call":
					assert.Equal(t, recorded == Yes && alone.Retry.Safety == SafeAutoRetry, d.Retry.Safety == SafeAutoRetry, name)
				}
			}
		}
	}
	assert.Positive(t, asked)
}
