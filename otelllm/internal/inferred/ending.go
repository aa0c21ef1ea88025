package inferred

import (
	"time"

	"github.com/otelllm/otelllm-go/otelllm/internal/agentrun"
	"github.com/otelllm/otelllm-go/otelllm/internal/kinship"
	"github.com/otelllm/otelllm-go/otelllm/internal/telemetry"
	"github.com/otelllm/otelllm-go/semconv"
)

// ending is a run that has to be ended when mu is free.
type ending struct {
	run  *run
	how  agentrun.InferredEnd
	idle bool // it waited for the outputs of its last answer's calls
}

var endedBy = [...]semconv.RunEnd{
	kinship.Finished: semconv.RunEndAnswer,
	kinship.Broken:   semconv.RunEndFailure,
	kinship.Idle:     semconv.RunEndUnclear, // the agent may have wanted the calls alone, or wait for a person
	kinship.Unclear:  semconv.RunEndUnclear,
	kinship.Evicted:  semconv.RunEndEvicted,
}

// endings returns how the runs that are over ended, with mu held.
func (r *Runs) endings(over []kinship.Ended) (list []ending) {
	for _, e := range over {
		o, ok := e.Run.Data.(*run)
		if !ok {
			continue
		}
		e.Run.Data = nil // the tracker may remember the run for long, but no request joins it
		at, by := o.last.end, endedBy[e.Reason]
		if o.pending > 0 {
			at = time.Now()
		}
		if by == semconv.RunEndFailure && o.last.facts == nil {
			by = semconv.RunEndUnclear // no failure of the request was recorded
		}
		list = append(list, ending{run: o, idle: e.Reason == kinship.Idle, how: agentrun.InferredEnd{
			At: at, By: by, Last: o.last.facts, ErrorType: o.last.errorType, Repeated: e.Run.Repeated(),
		}})
	}
	return list
}

// end ends runs. A run that has not started yet never does.
func end(list []ending) {
	for _, e := range list {
		e.run.start.Do(func() {})
		if e.run.Run != nil {
			e.run.EndInferred(e.how)
		}
	}
}

// maxTimer bounds how far ahead a timer is set.
const maxTimer = time.Minute

// schedule sets a timer, with mu held, to the next deadline of a run. It never stops or resets a timer: that is a fatal
// error for a timer of another testing/synctest bubble. A timer that fires too early changes nothing.
func (r *Runs) schedule() {
	at, ok := r.tracker.Deadline()
	if !ok {
		return
	}
	now := time.Now()
	if latest := now.Add(maxTimer); at.After(latest) {
		at = latest
	}
	// A timer in the past fires now, or its bubble is gone.
	if r.timerAt.After(now) && !at.Before(r.timerAt) {
		return
	}
	r.timerAt = at
	time.AfterFunc(at.Sub(now), func() { r.expire(at) })
}

// expire ends the runs that have waited for too long, when the timer of this time fires.
func (r *Runs) expire(timer time.Time) {
	defer telemetry.Recover()
	now := time.Now()
	r.mu.Lock()
	if r.timerAt.Equal(timer) {
		r.timerAt = time.Time{}
	}
	ended := r.endings(r.tracker.Expire(now))
	r.schedule()
	r.mu.Unlock()
	end(ended)
}

// EndWaiting ends the runs that wait for their next request, as if they had waited for long enough. If idle is set, it is by
// what those ended that wait for the outputs of their tools.
func (r *Runs) EndWaiting(idle semconv.RunEnd) {
	defer telemetry.Recover()
	over := r.endWaiting()
	for i := range over {
		if over[i].idle && idle != semconv.RunEndUnset {
			over[i].how.By = idle
		}
	}
	end(over)
}

func (r *Runs) endWaiting() []ending {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.tracker == nil {
		return nil
	}
	var over []ending
	for {
		at, ok := r.tracker.Deadline()
		if !ok {
			return over
		}
		over = append(over, r.endings(r.tracker.Expire(at))...)
	}
}

// Shutdown ends all runs and forgets all requests. Requests that begin later begin new runs.
func (r *Runs) Shutdown() {
	defer telemetry.Recover()
	end(r.shutdown())
}

func (r *Runs) shutdown() []ending {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.tracker == nil {
		return nil
	}
	over := r.endings(r.tracker.Shutdown())
	for i := range over {
		if over[i].how.By != semconv.RunEndAnswer { // it waited for a repetition
			over[i].how.By = semconv.RunEndShutdown
		}
	}
	return over
}
