package classify

import (
	"slices"
	"time"

	"github.com/otelllm/otelllm-go/semconv"
)

// minSilence is the shortest silence at the end of a stream that is worth mentioning.
// Models that stream pause for less.
const minSilence = 10 * time.Second

// silence returns how long a stream had been without progress when this side closed it. It
// is zero if that was shorter than minSilence, or was not observed.
func (r *Request) silence() time.Duration {
	progress := r.LastProgress
	if progress == 0 && r.Events.Fact() == No {
		progress = r.TimeToHeaders // the answer had begun, and nothing came
	}
	d := r.End.Sub(r.Start) - progress
	if progress <= 0 || d < minSilence || r.Ended != semconv.StreamEndConsumerClosed && r.Ended != semconv.StreamEndCancelled {
		return 0
	}
	return d
}

// waited returns how long this side had waited without progress when it ended a request: for
// a response that never began, or as long as [Request.silence].
func (r *Request) waited() time.Duration {
	if d := r.End.Sub(r.Start); r.Ended == semconv.StreamEndCancelled && r.Phase == semconv.PhaseAwaitingResponse && d >= minSilence {
		return d
	}
	return r.silence()
}

// findStalls classifies again the requests that their caller closed after silence and then
// sent once more: it was waiting for the answer, and its own timer ended that. If parts of
// the run may be missing, the next request is not known. A request that was not sent again, but
// was closed after as long a silence as one before it that was, met the same timer: its caller
// has given up.
func (j *judge) findStalls() {
	if j.run.Partial {
		return
	}
	var timers []time.Duration
	for pos, i := range j.order {
		r := &j.run.Requests[i]
		if c := j.classifications[i]; c.class != semconv.ClassLocalAbort || c.cause != semconv.CauseConsumerClosed && c.cause != semconv.CauseUnknown {
			continue
		}
		silence := r.silence()
		repeated := silence > 0 && j.repeatedAfter(pos)
		if repeated {
			timers = append(timers, silence)
		}
		if repeated || silence > 0 && slices.ContainsFunc(timers, func(t time.Duration) bool { return sameTimer(t, silence) }) {
			j.classifications[i] = classification{semconv.ClassWatchdogTimeout, semconv.CauseIdle, semconv.OriginCallerTimer}
			j.states[i] = stateFailed
		}
	}
}

// sameTimer reports whether two silences are as long as one timer makes them: within a
// twentieth of each other.
func sameTimer(a, b time.Duration) bool { return (a - b).Abs() <= max(a, b)/20 }

// repeatedAfter reports whether the first request that began after the one at this position
// had ended is a further attempt of it.
func (j *judge) repeatedAfter(pos int) bool {
	r := &j.run.Requests[j.order[pos]]
	next := j.firstFrom(r.End.Add(-clockGrain))
	for ; next < len(j.order); next++ {
		if next != pos {
			return r.Attempt > 0 && j.run.Requests[j.order[next]].Attempt == r.Attempt+1
		}
	}
	return false
}
