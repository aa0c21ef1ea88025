package classify

import (
	"slices"

	"github.com/otelllm/otelllm-go/semconv"
)

// OutcomeOf returns the outcome of a run whose failure has this class. An unclassified run has
// failed, too, if it was itself marked as failed.
func OutcomeOf(c semconv.Class) semconv.RunOutcome {
	switch c {
	case semconv.ClassOutputLimited:
		return semconv.RunOutcomeLimited
	case semconv.ClassLocalAbort:
		return semconv.RunOutcomeAborted
	case semconv.ClassRunAbandoned, semconv.ClassUnclassified:
		return semconv.RunOutcomeIncomplete
	default:
		return semconv.RunOutcomeFailed
	}
}

// partsMissing reports whether the run announced more parts than are present.
func (j *judge) partsMissing() bool {
	return j.run.AnnouncedRequests.N() > len(j.run.Requests)+j.run.Inner.Requests || j.toolsMissing()
}

// toolsMissing reports whether the run announced more tools than are present. What those
// did is not known, nor for which request's call they ran.
func (j *judge) toolsMissing() bool {
	return j.run.AnnouncedTools.N() > len(j.run.Tools)+j.run.Inner.Tools
}

// allPartsPresent reports whether the run announced its parts and all of them are present.
// Tools that are not declared as recorded belong to the application, as does the run
// itself.
func (j *judge) allPartsPresent() bool {
	return j.run.AnnouncedRequests.Observed() && !j.partsMissing() && !j.run.Partial
}

// waits reports whether the run waits for a person or a background job: it says so, or its
// last answer, or a tool after which nothing else was sent or done.
func (j *judge) waits() bool {
	n := len(j.order)
	return j.run.Waits || n > 0 && j.states[j.order[n-1]] == stateWaiting || j.toolWaits()
}

// toolWaits reports whether the last tool that ended to wait still does: no request, and no
// other execution of its call, began after it.
func (j *judge) toolWaits() bool {
	last := -1
	for t := range j.run.Tools {
		if tool := &j.run.Tools[t]; tool.Waits && !tool.End.IsZero() {
			last = j.later(last, t)
		}
	}
	if last < 0 || j.run.Partial {
		return false
	}
	waiting, n := &j.run.Tools[last], len(j.order)
	return (n == 0 || !j.starts[n-1].After(waiting.End)) && !slices.ContainsFunc(j.run.Tools, func(t Tool) bool {
		return !t.Waits && t.CallID == waiting.CallID && t.Start.After(waiting.End)
	})
}

// mayHaveGoneWell reports whether nothing but what its producer does not record speaks against a
// run: that it returned the calls that were not answered, or how its last request ended.
func (j *judge) mayHaveGoneWell() bool {
	if j.run.Partial && !j.run.OKUnproven || j.run.Failed != NotObserved {
		return false
	}
	n := len(j.order)
	if n == 0 {
		return j.run.OKUnproven
	}
	switch j.states[j.order[n-1]] {
	case stateOK:
		return j.run.ReturnsCalls || j.run.OKUnproven
	case stateUnknown:
		return j.run.OKUnproven
	default:
		return false
	}
}

// outcomeUnknown reports whether nothing shows how the run went: not the run itself, not
// its last request and, for a run without requests, not the runs within it. If the last
// request asked for tool calls, another request was due; whether it was sent is not known,
// unless the run counts its requests. A run span without any observed request has lost
// some, unless it announces that it made none.
func (j *judge) outcomeUnknown() bool {
	n := len(j.order)
	switch {
	case j.run.Failed == No, j.waits():
		return false
	case n > 0:
		last := j.order[n-1]
		if j.run.Requests[last].Open {
			return false // nothing has failed so far
		}
		return j.states[last] == stateUnknown || j.run.Requests[last].Finish == FinishToolCalls &&
			!j.run.AnnouncedRequests.Observed() && !j.run.AnnouncedTools.Observed() && !j.handedOver(last)
	default:
		return j.run.Ended == Yes && !j.run.AnnouncedRequests.Observed() && j.run.Within != Yes
	}
}
