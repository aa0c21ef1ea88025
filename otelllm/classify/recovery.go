package classify

import (
	"slices"
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
	for pos, i := range j.order {
		switch s := j.states[i]; {
		case s == stateOK || s == stateUnknown || s == stateWaiting:
		case s == stateAborted && j.superseded(pos):
		case !carriesAny(&j.run.Requests[i], lost) && j.recoveredLater(pos):
			if s == stateFailed {
				recovered++
			}
		case request < 0 || !j.cancelledAfter(i, request):
			request = i
		}
	}
	return request, recovered
}

// superseded reports whether the application stopped the request at a position because
// another one, which ran in parallel, was answered, and the run succeeded. A request that
// a person, a shutdown or a deadline stopped is never superseded.
func (j *judge) superseded(pos int) bool {
	r := j.requestAt(int32(pos))
	switch r.Abort.Source {
	case semconv.AbortSourceUser, semconv.AbortSourceShutdown, semconv.AbortSourceDeadline:
		return false
	default:
		return j.run.Failed == No && j.run.Abort.Source == semconv.AbortSourceUnset && j.overview().lastAnswer.After(r.Start)
	}
}

func carriesAny(r *Request, ids []string) bool {
	return slices.ContainsFunc(ids, func(id string) bool { return hasID(r.HistoryOutputs, id) })
}

// recoveredLater reports whether a later request continued the work of the request at a
// position.
func (j *judge) recoveredLater(pos int) bool {
	f := j.requestAt(int32(pos))
	follows := func(at int) bool { return at > pos && !j.requestAt(int32(at)).Start.Before(f.End) }
	o := j.overview()
	if !follows(o.lastAnswered) {
		return false
	}
	if j.run.Failed == No || j.states[j.order[pos]] != stateFailed || f.HistoryCalls == nil || len(f.HistoryOutputs) == 0 ||
		follows(o.lastAnsweredPartial) {
		return true
	}
	for _, u := range slices.Backward(j.uses(roleCarried, f.HistoryOutputs[len(f.HistoryOutputs)-1])) {
		if !follows(int(u)) {
			return false
		}
		if j.states[j.order[u]].answered() && sameThread(j.requestAt(u), f) {
			return true
		}
	}
	return false
}

// sameThread reports whether r continues the conversation of f: it carries every output
// that f carried, as far as both were observed.
func sameThread(r, f *Request) bool {
	if !r.fullHistory() || f.HistoryCalls == nil {
		return true
	}
	for _, id := range f.HistoryOutputs {
		if !hasID(r.HistoryOutputs, id) {
			return false
		}
	}
	return true
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

// clockGrain is how much too early the start of a span may be: the OpenTelemetry SDK for
// JavaScript rounds starts to whole milliseconds, but not ends.
const clockGrain = time.Millisecond

// toolRecovered reports whether the model received the tool's output or error, or the run
// continued successfully without it.
func (j *judge) toolRecovered(t *Tool) bool {
	if j.answered(t, nil) {
		return true
	}
	if j.run.Failed == Yes {
		return false
	}
	last := j.overview().lastAnswered
	return last >= 0 && !j.requestAt(int32(last)).Start.Add(clockGrain).Before(t.End)
}
