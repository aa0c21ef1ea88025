package classify

import (
	"slices"
	"time"
)

// toolsRecorded reports whether every tool that ran is recorded: the producer says so, and
// nothing contradicts it. A contradiction is the output of a call that the run's own model
// made and that no recorded tool executed: that agent executes tools without recording
// them.
func (j *judge) toolsRecorded() bool {
	if j.recorded == NotObserved {
		announced := j.run.AnnouncedTools
		full := announced.Observed() && len(j.run.Tools)+j.run.Inner.Tools >= announced.N()
		j.recorded = FactOf((full || j.run.ToolsRecorded == Yes) && !j.toolsUnrecorded())
	}
	return j.recorded == Yes
}

func (j *judge) toolsUnrecorded() bool {
	nameless := 0
	for t := range j.run.Tools {
		if j.run.Tools[t].CallID == "" {
			nameless++
		}
	}
	orphans := 0
	for i := range j.run.Requests {
		maker := &j.run.Requests[i]
		for _, id := range maker.CallIDs {
			if j.ranUnrecorded(id, maker) {
				orphans++
			}
		}
		calls, known := maker.readyCalls()
		if (!known || calls > len(maker.CallIDs)) && (j.unobservedAfter(maker) || j.foreignOutputAfter(maker)) {
			orphans++
		}
	}
	return orphans > nameless
}

// ranUnrecorded reports whether requests after maker show, or may show, that the call with
// this id, which maker's response made, was executed without a record.
func (j *judge) ranUnrecorded(id string, maker *Request) bool {
	if j.toolOf(id) == nil {
		return j.unobservedAfter(maker) || j.carriedAfter(id, maker)
	}
	if !j.reusesIDs() || maker.HistoryCalls == nil {
		return false
	}
	// Some models use an id again for each answer. The history then grows by one output for
	// each execution: the requests up to the next answer with the id tell them apart.
	starts := j.executions(id)
	carried := j.uses(roleCarried, id)
	first, _ := slices.BinarySearch(carried, int32(j.firstFrom(maker.End)))
	for _, u := range carried[first:] {
		r := j.requestAt(u)
		if r == maker {
			continue
		}
		grown := countID(r.HistoryOutputs, id) - countID(maker.HistoryOutputs, id)
		executed := timesUntil(starts, r.Start) - timesBefore(starts, maker.Start)
		if grown > executed {
			return true
		}
		if hasID(r.CallIDs, id) {
			break
		}
	}
	return false
}

// executions returns when the recorded tools with this call id began, sorted.
func (j *judge) executions(id string) []time.Time {
	if starts, known := j.starts[id]; known {
		return starts
	}
	uses := j.uses(roleExecuted, id)
	starts := make([]time.Time, 0, len(uses))
	for _, u := range uses {
		starts = append(starts, j.run.Tools[u].Start)
	}
	slices.SortFunc(starts, time.Time.Compare)
	if j.starts == nil {
		j.starts = map[string][]time.Time{}
	}
	j.starts[id] = starts
	return starts
}

// unobservedAfter reports whether the history of a request after maker was not observed,
// so that it may contain any output.
func (j *judge) unobservedAfter(maker *Request) bool {
	o := j.overview()
	if !o.anyUnobserved || o.lastUnobserved.Before(maker.End) {
		return false
	}
	// That request may be maker itself, if it has no duration.
	return maker.HistoryCalls != nil || maker.End.After(maker.Start) || slices.ContainsFunc(j.order[j.firstFrom(maker.End):], func(i int) bool {
		r := &j.run.Requests[i]
		return r != maker && r.HistoryCalls == nil
	})
}

// carriedAfter reports whether a request after maker contains the output of a call.
func (j *judge) carriedAfter(id string, maker *Request) bool {
	for _, u := range slices.Backward(j.uses(roleCarried, id)) {
		r := j.requestAt(u)
		if r.Start.Before(maker.End) {
			return false
		}
		if r != maker {
			return true
		}
	}
	return false
}

// foreignOutput is an output that no recorded tool of the run produced, with the start of
// the last request that contains it.
type foreignOutput struct {
	id   string
	last time.Time
}

// foreignOutputAfter reports whether a request after maker contains an output of no
// recorded tool that is neither in maker's own history nor of one of maker's calls.
func (j *judge) foreignOutputAfter(maker *Request) bool {
	if j.foreignOutputs == nil {
		last := map[string]time.Time{}
		for _, i := range j.order {
			r := &j.run.Requests[i]
			for _, id := range r.HistoryOutputs {
				if j.toolOf(id) == nil {
					last[id] = r.Start
				}
			}
		}
		j.foreignOutputs = make([]foreignOutput, 0, len(last))
		for id, at := range last {
			j.foreignOutputs = append(j.foreignOutputs, foreignOutput{id, at})
		}
		slices.SortFunc(j.foreignOutputs, func(a, b foreignOutput) int { return b.last.Compare(a.last) })
	}
	for _, s := range j.foreignOutputs { // skips at most as many entries as maker has ids
		if s.last.Before(maker.End) {
			return false
		}
		if !hasID(maker.HistoryOutputs, s.id) && !hasID(maker.CallIDs, s.id) {
			return true
		}
	}
	return false
}

// madeCalls summarizes the calls that requests made, by the end of those requests.
type madeCalls struct {
	ends    []time.Time // one entry for each call that no recorded tool executed: the end of the request that made it; sorted
	unnamed []time.Time // the ends of requests that may have made calls that are not named; sorted
}

// unaccountedCalls reports whether a call that precedes request i may have run unrecorded.
// Such a call is in the request's history, or an earlier request of the run made it or may
// have made it; its output is not in the history, and no tool is known to have executed
// it.
func (j *judge) unaccountedCalls(i int) bool {
	if j.toolsRecorded() {
		return false
	}
	r := &j.run.Requests[i]
	for _, id := range r.HistoryCalls {
		if !hasID(r.HistoryOutputs, id) && j.toolOf(id) == nil {
			return true
		}
	}
	if j.madeCalls == nil {
		j.sumCalls()
	}
	instant := !r.End.After(r.Start) // it is then one of the requests that had ended when it began
	unnamed := timesUntil(j.madeCalls.unnamed, r.Start)
	if instant && r.mayHaveUnnamedCalls() {
		unnamed--
	}
	if unnamed > 0 {
		return true
	}
	open := timesUntil(j.madeCalls.ends, r.Start)
	for n, id := range r.HistoryOutputs {
		if hasID(r.HistoryOutputs[:n], id) || j.toolOf(id) != nil {
			continue
		}
		for _, u := range j.uses(roleMade, id) {
			if !j.requestAt(u).End.After(r.Start) {
				open--
			}
		}
	}
	if instant {
		for n, id := range r.CallIDs {
			if !hasID(r.CallIDs[:n], id) && j.toolOf(id) == nil && !hasID(r.HistoryOutputs, id) {
				open--
			}
		}
	}
	return open > 0
}

// mayHaveUnnamedCalls reports whether the response may have made calls whose ids are not
// listed.
func (r *Request) mayHaveUnnamedCalls() bool {
	calls, known := r.readyCalls()
	return !known || calls > len(r.CallIDs)
}

func (j *judge) sumCalls() {
	j.madeCalls = &madeCalls{}
	for i := range j.run.Requests {
		r := &j.run.Requests[i]
		if r.mayHaveUnnamedCalls() {
			j.madeCalls.unnamed = append(j.madeCalls.unnamed, r.End)
		}
		for n, id := range r.CallIDs {
			if !hasID(r.CallIDs[:n], id) && j.toolOf(id) == nil {
				j.madeCalls.ends = append(j.madeCalls.ends, r.End)
			}
		}
	}
	slices.SortFunc(j.madeCalls.ends, time.Time.Compare)
	slices.SortFunc(j.madeCalls.unnamed, time.Time.Compare)
}
