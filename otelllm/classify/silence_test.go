package classify

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/otelllm/otelllm-go/semconv"
)

// A caller that closes a silent stream and sends the request again was waiting. One that
// does not send it again, or closes a stream that goes on, wanted no more.
func TestSilence(t *testing.T) {
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	closed := Request{
		Start: start, End: start.Add(45 * time.Second), Attempt: 1, Basis: Typed, Status: 200, Phase: semconv.PhaseText, Finish: FinishMissing,
		Ended: semconv.StreamEndConsumerClosed, Abort: Abort{Source: semconv.AbortSourceConsumer}, Events: Counted(3), LastProgress: 5 * time.Second,
		Text: Counted(3), ToolInputsStarted: Counted(0), ToolCalls: Counted(0), HistoryCalls: []string{}, HistoryOutputs: []string{}, ProviderTools: []string{},
	}
	with := func(change func(*Request)) Request {
		r := closed
		change(&r)
		return r
	}
	waiting := func(r *Request) {
		r.Status, r.Events, r.LastProgress, r.Text = 0, Counted(0), 0, Counted(0)
		r.Ended, r.Phase = semconv.StreamEndCancelled, semconv.PhaseAwaitingResponse
	}
	next := Request{
		Start: start.Add(46 * time.Second), End: start.Add(50 * time.Second), Attempt: 2, Basis: Typed, Status: 200, Failed: No,
		Ended: semconv.StreamEndTerminalEvent, Finish: FinishStop, HistoryCalls: []string{}, HistoryOutputs: []string{},
	}
	other := next
	other.Attempt = 1
	for _, tt := range []struct {
		name    string
		request Request
		next    []Request
		origin  semconv.Origin
		summary string
	}{
		{"sent again", closed, []Request{next}, semconv.OriginCallerTimer, "The caller closed the stream after 40 seconds without progress, and sent the request again"},
		{"not sent again", closed, nil, semconv.OriginLocal, "The client side stopped reading (it did not say why), after 40 seconds without progress"},
		{"another request", closed, []Request{other}, semconv.OriginLocal, "after 40 seconds without progress"},
		{"progress until the end", with(func(r *Request) { r.LastProgress = 44 * time.Second }), []Request{next}, semconv.OriginLocal, "The client side stopped reading (it did not say why)"},
		{"progress not observed", with(func(r *Request) { r.LastProgress, r.Events = 0, 0 }), []Request{next}, semconv.OriginLocal, "The client side stopped reading (it did not say why)"},
		{"nothing after the headers", with(func(r *Request) { r.LastProgress, r.Events, r.TimeToHeaders = 0, Counted(0), 15*time.Second }), []Request{next}, semconv.OriginCallerTimer, "after 30 seconds without progress"},
		{"no response", with(waiting), []Request{next}, semconv.OriginLocal, "The client side stopped reading (it did not say why), after 45 seconds without progress before the model began to respond."},
		{"no response for a short time", with(func(r *Request) { waiting(r); r.End = start.Add(9 * time.Second) }), nil, semconv.OriginLocal, "The client side stopped reading (it did not say why) before the model began to respond."},
		{"a person's stop", with(func(r *Request) { r.Abort.Source = semconv.AbortSourceUser }), []Request{next}, semconv.OriginLocal, "after 40 seconds without progress"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			run := Run{Requests: append([]Request{tt.request}, tt.next...)}
			v := Judge(&run)
			d := v.Requests[0]
			assert.Equal(t, tt.origin, d.Origin)
			assert.Contains(t, d.Summary, tt.summary)
			if tt.origin == semconv.OriginCallerTimer {
				assert.Equal(t, semconv.ClassWatchdogTimeout, d.Class)
				assert.Equal(t, semconv.CauseIdle, d.Cause)
				assert.Equal(t, semconv.RunOutcomeRecovered, v.Run.Outcome)
			}
		})
	}
}

// The last attempt is not sent again: the caller has given up. It met the same timer as those
// before it, if it was as silent for as long.
func TestCallerGivesUpByItsOwnTimer(t *testing.T) {
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	attempt := func(n int, silence time.Duration) Request {
		begin := start.Add(time.Duration(n) * time.Hour)
		return Request{
			Start: begin, End: begin.Add(5*time.Second + silence), Attempt: n, Basis: Typed, Status: 200, Phase: semconv.PhaseReasoning, Finish: FinishMissing,
			Ended: semconv.StreamEndConsumerClosed, Abort: Abort{Source: semconv.AbortSourceConsumer}, Events: Counted(3), LastProgress: 5 * time.Second,
			Text: Counted(0), ToolInputsStarted: Counted(0), ToolCalls: Counted(0), HistoryCalls: []string{}, HistoryOutputs: []string{}, ProviderTools: []string{},
		}
	}
	for _, tt := range []struct {
		name    string
		last    time.Duration
		outcome semconv.RunOutcome
		origin  semconv.Origin
	}{
		{"as long", 30 * time.Second, semconv.RunOutcomeFailed, semconv.OriginCallerTimer},
		{"nearly as long", 31 * time.Second, semconv.RunOutcomeFailed, semconv.OriginCallerTimer},
		{"longer", 40 * time.Second, semconv.RunOutcomeAborted, semconv.OriginLocal},
		{"shorter", 12 * time.Second, semconv.RunOutcomeAborted, semconv.OriginLocal},
	} {
		t.Run(tt.name, func(t *testing.T) {
			run := Run{Requests: []Request{attempt(1, 30*time.Second), attempt(2, 30*time.Second), attempt(3, tt.last)}}
			v := Judge(&run)
			assert.Equal(t, tt.outcome, v.Run.Outcome)
			assert.Equal(t, tt.origin, v.Requests[2].Origin)
		})
	}
}
