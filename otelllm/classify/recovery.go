package classify

import (
	"slices"
	"strings"
	"time"

	"github.com/otelllm/otelllm-go/semconv"
)

// endedOn returns the request on which the run ended, -1 if its last request was
// answered, and counts the earlier failures from which a later request recovered. A
// request that this side stopped, or that a limit cut, is not a failure to recover
// from: if the run continued after it, it is ignored. If a request carried an output
// that was lost, no later answer recovers it, because no later answer had the output.
func (j *judge) endedOn(lost []string) (request, recovered int) {
	request = -1
	isLost := make(map[int32]bool, len(lost))
	for _, id := range lost {
		isLost[j.index.number(id)] = true // it has a number: it is a tool's
	}
	for pos, i := range j.order {
		switch s := j.states[i]; {
		case s == stateOK || s == stateUnknown || s == stateWaiting:
		case j.superseded(pos):
		case !j.carriesAny(pos, isLost) && j.recoveredLater(pos):
			if s == stateFailed || j.run.Requests[i].Abort.Source == semconv.AbortSourceDeadline {
				recovered++
			}
		case request < 0 || !j.cancelledAfter(i, request):
			request = i
		}
	}
	return request, recovered
}

// failuresCountedAlone is the number of attempts that failed as the run, or the producer of
// a request, counts them, beyond the requests that are known to have failed.
func (j *judge) failuresCountedAlone() int {
	counted, seen := 0, 0
	for i := range j.run.Requests {
		counted += j.run.Requests[i].FailedBefore
		if j.states[i] == stateFailed {
			seen++
		}
	}
	return max(0, max(counted, j.run.Retries)-seen)
}

// superseded reports whether the request at a position was stopped because another one, which
// ran in parallel, was answered: the loser of a hedge. A request that a person, a shutdown or a
// deadline stopped is never superseded. One whose answer is incomplete for a reason that is not
// recorded may have been: some producers record no more of a stream that was closed.
func (j *judge) superseded(pos int) bool {
	i := j.order[pos]
	r := &j.run.Requests[i]
	if j.run.Failed == Yes || j.run.Abort.Source != semconv.AbortSourceUnset {
		return false
	}
	switch r.Abort.Source {
	case semconv.AbortSourceUser, semconv.AbortSourceShutdown, semconv.AbortSourceDeadline:
		return false
	}
	switch {
	case j.states[i] == stateAborted:
		return j.run.Failed == No && j.overview().lastAnswer.After(r.Start) || j.answeredBeside(r)
	case j.classifications[i].class == semconv.ClassUnclassified && r.Finish == FinishMissing:
		return j.answeredBeside(r)
	default:
		return false
	}
}

// hedgeGrace is how long after the answer of a request the loser of a hedge may still be open:
// the application cancels it then.
const hedgeGrace = time.Second

// answeredBeside reports whether a request that ran at the same time as r was answered, at the
// latest hedgeGrace before r ended. A person who stops a run stops all of it: no answer comes
// after that, and none of the same time just before.
func (j *judge) answeredBeside(r *Request) bool {
	if j.lastEnds == nil {
		j.lastEnds = make([]time.Time, len(j.order)+1)
		for pos, i := range j.order {
			end := j.lastEnds[pos]
			if a := &j.run.Requests[i]; j.states[i].answered() && a.End.After(end) {
				end = a.End
			}
			j.lastEnds[pos+1] = end
		}
	}
	end := j.lastEnds[j.firstFrom(r.End)] // of the requests that began before r ended
	return end.After(r.Start) && !end.Add(hedgeGrace).Before(r.End)
}

func (j *judge) carriesAny(pos int, isLost map[int32]bool) bool {
	return len(isLost) > 0 && slices.ContainsFunc(j.index.numbersOf(pos, roleCarried), func(n int32) bool { return isLost[n] })
}

// maxThreads bounds the answered requests that may be compared with one that failed. Those
// that carry one of its outputs and are not of its conversation are other conversations
// that began as this one did.
const maxThreads = 8

// recoveredLater reports whether a later request continued the work of the request at a
// position. Of those that may have, it looks at the last ones.
func (j *judge) recoveredLater(pos int) bool {
	f := j.requestAt(int32(pos))
	first := max(pos+1, j.firstFrom(f.End)) // of those that follow
	early := j.answeredEarly(pos, first)
	o := j.overview()
	if o.lastAnswered < first && len(early) == 0 {
		return false
	}
	if j.run.Failed == No || j.states[j.order[pos]] != stateFailed || f.HistoryCalls == nil || len(f.HistoryOutputs) == 0 ||
		o.lastAnsweredPartial >= first {
		return true
	}
	if slices.ContainsFunc(early, func(at int) bool { return j.sameThread(at, pos) }) {
		return true
	}
	if j.tooLong(pos) && slices.ContainsFunc(j.order[first:min(len(j.order), first+maxThreads)], func(i int) bool {
		return j.states[i].answered() && j.run.Requests[i].Attempt > f.Attempt
	}) {
		return true // with a summary in place of the history
	}
	// A request of the same conversation carries all of the outputs, so the one that the
	// fewest answered requests carry is enough.
	var few []int32
	found := false
	for i, n := range j.index.numbersOf(pos, roleCarried) {
		if f.HistoryOutputs[i] == "" {
			continue
		}
		if list := j.answeredCarriers(n); !found || len(list) < len(few) {
			few, found = list, true
		}
	}
	for _, at := range few[max(0, len(few)-maxThreads):] {
		if int(at) >= first && j.sameThread(int(at), pos) {
			return true
		}
	}
	return false
}

// tooLong reports whether the request at a position was refused because its history is too long.
func (j *judge) tooLong(pos int) bool {
	return j.classifications[j.order[pos]].cause == semconv.CauseContextLengthExceeded
}

// maxEarly bounds the requests that [judge.answeredEarly] looks at.
const maxEarly = 32

// answeredEarly returns the positions of the answered requests that follow the one at a
// position although they began before its end, by the grain of a clock: those that are further
// attempts, and those whose clock has that grain. An independent request that began so shortly
// before another one failed does not follow it. First is the first one that began after its
// end.
func (j *judge) answeredEarly(pos, first int) (early []int) {
	f := j.requestAt(int32(pos))
	for at := first - 1; at > pos && first-at <= maxEarly && !j.starts[at].Add(clockGrain).Before(f.End); at-- {
		if r := j.requestAt(int32(at)); j.states[j.order[at]].answered() && r.followsEarly(f) {
			early = append(early, at)
		}
	}
	return early
}

// followsEarly reports whether r, which began less than clockGrain before the end of another
// request, may nevertheless have begun after it.
func (r *Request) followsEarly(failed *Request) bool {
	return r.Attempt > failed.Attempt || r.Start.Nanosecond()%int(clockGrain) == 0
}

// answeredCarriers returns the positions of the requests that were answered and carried an
// output, in order.
func (j *judge) answeredCarriers(n int32) []int32 {
	if j.carriersFrom == nil {
		j.carriersFrom = make([]int32, 1, j.index.count+1)
		for n := range j.index.count {
			for _, u := range j.index.uses(n, roleCarried) {
				if j.states[j.order[u.pos]].answered() {
					j.carriers = append(j.carriers, u.pos)
				}
			}
			j.carriersFrom = append(j.carriersFrom, int32(len(j.carriers)))
		}
	}
	return j.carriers[j.carriersFrom[n]:j.carriersFrom[n+1]]
}

// sameThread reports whether the request at a position continues the conversation of one
// that failed: it carries every output that that one carried, as far as both were observed.
func (j *judge) sameThread(pos, failed int) bool {
	if !j.requestAt(int32(pos)).fullHistory() || j.requestAt(int32(failed)).HistoryCalls == nil {
		return true
	}
	j.look(pos)
	return !slices.ContainsFunc(j.index.numbersOf(failed, roleCarried), func(n int32) bool { return j.times(n, roleCarried) == 0 })
}

// cancelledAfter reports whether request i was in flight when another request failed, and
// was stopped only then. Such a cancellation is cleanup and does not replace the cause.
func (j *judge) cancelledAfter(i, failed int) bool {
	a, f := &j.run.Requests[i], &j.run.Requests[failed]
	return j.states[i] == stateAborted && j.states[failed] == stateFailed &&
		a.Abort.Source != semconv.AbortSourceUser && a.Start.Before(f.End) && !a.End.Before(f.End)
}

// cancelledByFailure reports whether request i was cancelled as cleanup after another one
// had failed, and for no reason of its own. That is not why the run should not be repeated.
func (j *judge) cancelledByFailure(i int) bool {
	a := &j.run.Requests[i]
	if j.states[i] != stateAborted || a.Abort.Source != semconv.AbortSourceUnknown && a.Abort.Source != semconv.AbortSourceConsumer {
		return false
	}
	if j.failures == nil {
		j.failures = []time.Time{}
		for f := range j.run.Requests {
			if j.states[f] == stateFailed {
				j.failures = append(j.failures, j.run.Requests[f].End)
			}
		}
		slices.SortFunc(j.failures, time.Time.Compare)
	}
	first := timesUntil(j.failures, a.Start)
	return first < len(j.failures) && !j.failures[first].After(a.End)
}

// stoppedByFailure reports whether request i was stopped for no reason of its own, in a run that
// reports a failure which is not a cancellation: the application stopped it because it failed.
func (j *judge) stoppedByFailure(i int) bool {
	a := &j.run.Requests[i]
	return j.states[i] == stateAborted && (a.Abort.Source == semconv.AbortSourceUnknown || a.Abort.Source == semconv.AbortSourceConsumer) &&
		j.run.Failed == Yes && j.run.Abort.Source == semconv.AbortSourceUnset && !namesCancellation(j.run.ErrorType) && j.allPartsPresent()
}

// namesCancellation reports whether an error.type may be that of a cancellation, of any
// language. Without a type it may.
func namesCancellation(errorType string) bool {
	if errorType == "" {
		return true
	}
	name := strings.ToLower(errorType)
	return slices.ContainsFunc([]string{"cancel", "abort", "exit", "interrupt", "timeout", "deadline", "closed", "_other"}, func(part string) bool {
		return strings.Contains(name, part)
	})
}

// clockGrain is how much too early the start of a span may be: the OpenTelemetry SDK for
// JavaScript rounds starts to whole milliseconds, but not ends.
const clockGrain = time.Millisecond

// toolRecovered reports whether the model got the tool's output or error and answered, or the run
// continued successfully without it. An output that was sent is no answer by itself.
func (j *judge) toolRecovered(t int) bool {
	switch {
	case j.answeredBy(t) >= 0:
		return true
	case j.delivered(t):
		return len(j.order) == 0 || j.wentOn(t) || j.askedAgain(t)
	default:
		return j.failed() != Yes && (j.wentOn(t) || j.askedAgain(t))
	}
}

// wentOn reports whether the last request that was answered follows the tool.
func (j *judge) wentOn(t int) bool {
	last := j.overview().lastAnswered
	return last >= 0 && j.follows(last, t)
}

// follows reports whether the request at a position may have begun after the tool had ended, by
// the grain of a clock. One that had ended by then, or that made the tool's call, did not.
func (j *judge) follows(pos, t int) bool {
	r, end := j.requestAt(int32(pos)), j.run.Tools[t].End
	if r.Start.Before(end) && (r.Start.Add(clockGrain).Before(end) || r.End.Before(end)) {
		return false
	}
	n := j.index.toolID[t]
	return !r.Start.Before(end) || n < 0 || timesAt(j.index.uses(n, roleMaker), int32(pos)) == 0
}

// failed returns whether the run itself failed, as far as its producer says so. Some producers
// mark a run with the error of a request although a later request recovered from it: the run
// then has nothing of its own to say. What an application reports is its own error.
func (j *judge) failed() Fact {
	if j.run.Failed == Yes && !j.run.AnnouncedRequests.Observed() && !j.run.AnnouncedTools.Observed() && j.errorCopied() {
		return NotObserved
	}
	return j.run.Failed
}

// errorCopied reports whether the error of the run is that of a request from which a later
// one recovered, and the run ended with a complete answer.
func (j *judge) errorCopied() bool {
	n := len(j.order)
	if n == 0 || j.states[j.order[n-1]] != stateOK || j.requestAt(int32(n-1)).Finish == FinishToolCalls {
		return false
	}
	for pos, i := range j.order {
		if s := j.states[i]; (s == stateFailed || s == stateAborted) && j.sameError(i) && j.recoveredLater(pos) {
			return true
		}
	}
	return false
}

// sameError reports whether a request and the run have the same error: the same message, or the
// same type, if that is of a known failure. A type such as ValueError says too little.
func (j *judge) sameError(i int) bool {
	a, b := j.run.Requests[i].Error, j.run.Error
	return a.message != 0 && a.message == b.message ||
		a.class != 0 && a.class == b.class && j.classifications[i].class != semconv.ClassUnclassified
}
