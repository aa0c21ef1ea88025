package classify

import (
	"slices"
	"time"

	"github.com/otelllm/otelllm-go/semconv"
)

// endedOn finds the request that the run ended on, -1 when its last request
// answered, and counts the failures before it that a later request made good.
// A request that this side stopped, or that a limit cut, is not a failure to be
// made good: when the run went on after it, it is forgotten. A request that
// carried an output which was then lost is not made good by an answer that never
// saw the output.
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

// outrun reports whether the application let go of the request at a position because
// another one, which ran beside it, had answered: the run went well. What a person, a
// shutdown or a deadline stopped is not of this kind.
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

// wentOn reports whether the request at a position was followed by one that took up
// what it left.
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

// continues reports whether r goes on in the thread of f: it carries every
// output that f carried, as far as that can be seen.
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

// cleanedUpAfter reports whether request i was in flight when another one failed,
// and was only then stopped: cleanup never overwrites the cause.
func (j *judge) cancelledAfter(i, failed int) bool {
	a, f := &j.run.Requests[i], &j.run.Requests[failed]
	return j.states[i] == stateAborted && j.states[failed] == stateFailed &&
		a.Abort.Source != semconv.AbortSourceUser && a.Start.Before(f.End) && !a.End.Before(f.End)
}

// clockGrain is how much too early a span may say that it began: the OpenTelemetry SDK
// for JavaScript begins spans on whole milliseconds, and ends them on finer ones.
const clockGrain = time.Millisecond

// toolMadeGood reports whether the model got the tool's output or its error, or the run
// went on well without it.
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
