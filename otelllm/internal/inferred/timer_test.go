package inferred

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/otelllm/internal/kinship"
	"github.com/otelllm/otelllm-go/otelllm/internal/spanfacts"
	"github.com/otelllm/otelllm-go/otelllm/internal/spantest"
	"github.com/otelllm/otelllm-go/otelllm/internal/wire"
	"github.com/otelllm/otelllm-go/semconv"
)

// The run of a failed request ends when no further attempt has come for the time to
// settle, and that of an answer with calls when it has been idle.
func TestRunsEndByThemselves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil)
		f.answerWithCall(f.send(0, other))
		f.end(f.send(0, question), 0, http.StatusServiceUnavailable)

		sleepUntil(f.at(119))
		assert.Empty(t, f.spans.Ended())
		sleepUntil(f.at(120))
		assert.Equal(t, "failure", spantest.Get(f.only(t), semconv.RunEndKey))
		sleepUntil(f.at(1799))
		assert.Len(t, f.spans.Ended(), 1)
		sleepUntil(f.at(1800))
		spans := f.spans.Ended()
		assert.Len(t, spans, 2)
		assert.Equal(t, "unclear", spantest.Get(spans[1], semconv.RunEndKey))
	})
}

// answerWithCall ends a request at the beginning with an answer that has one call.
func (f *fixture) answerWithCall(q *Request) {
	r := spanfacts.Request{}
	r.End, r.Status, r.Ended, r.Finish = f.begin, http.StatusOK, semconv.StreamEndTerminalEvent, classify.FinishToolCalls
	r.ToolCalls, r.ToolInputsCompleted = classify.Counted(1), classify.Counted(1)
	r.DeriveOutcome()
	q.Ended(&r, []wire.Call{{ID: "call_0f9a8b7c6d5e4f30", Name: "run", Completed: true}})
}

// sleepUntil sleeps in a bubble until what happens at this time has happened.
func sleepUntil(at time.Time) {
	time.Sleep(time.Until(at))
	synctest.Wait()
}

// Tests in bubbles and tests outside of them share the Runs of their process. To stop or
// reset a timer of a bubble from outside of it would end the process.
func TestRunsInBubbles(t *testing.T) {
	var shared Runs
	use := func(t *testing.T) *fixture {
		t.Helper()
		f := newFixture(t, nil)
		f.Source.Runs = &shared
		f.begin = time.Now()
		f.end(f.send(0, question), 0, http.StatusServiceUnavailable)
		return f
	}
	bubble := func(t *testing.T) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			f := use(t)
			sleepUntil(f.at(120 + int(maxTimer.Seconds())))
			assert.Equal(t, "failure", spantest.Get(f.only(t), semconv.RunEndKey))
		})
	}
	bubble(t)
	use(t)
	bubble(t)
	f := use(t)
	shared.Shutdown()
	assert.Len(t, f.spans.Ended(), 1)
}

// A shorter wait than that of an earlier timer needs a timer of its own. Timers that are
// not needed any more do not add up.
func TestTimers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil)
		f.Limits = kinship.Config{Settle: time.Second, Idle: time.Hour, MaxConversations: 10, MaxBytes: 1 << 20}
		f.answerWithCall(f.send(0, other))
		assert.Equal(t, f.begin.Add(maxTimer), f.Runs.timerAt, "no timer is set for an hour")
		f.end(f.send(0, question), 0, http.StatusServiceUnavailable)
		assert.Equal(t, f.at(1), f.Runs.timerAt)
		sleepUntil(f.at(1))
		assert.Len(t, f.spans.Ended(), 1)
		sleepUntil(f.at(3600))
		assert.Len(t, f.spans.Ended(), 2)
		assert.Zero(t, f.Runs.timerAt)
	})
}
