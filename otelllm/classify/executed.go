package classify

import (
	"slices"
	"sort"
	"time"
)

// toolsRecorded reports whether every tool that ran is recorded here: the producer says so,
// no part of the run may be missing, and nothing contradicts it. A contradiction is the
// output of a call that the run's own model made and that no recorded tool executed: that
// agent executes tools without recording them.
func (j *judge) toolsRecorded() bool {
	if j.recorded == NotObserved {
		announced := j.run.AnnouncedTools
		full := announced.Observed() && len(j.run.Tools)+j.run.Inner.Tools >= announced.N()
		j.recorded = FactOf((full || j.run.ToolsRecorded == Yes) && !j.run.Partial && !j.toolsUnrecorded())
	}
	return j.recorded == Yes
}

func (j *judge) toolsUnrecorded() bool {
	nameless := int32(0)
	for _, n := range j.index.toolID {
		if n < 0 {
			nameless++
		}
	}
	orphans := int32(0)
	for n := range j.index.count {
		if orphans += j.orphans(n); orphans > nameless {
			return true
		}
	}
	for pos := range j.order {
		maker := j.requestAt(int32(pos))
		if j.index.blank {
			if blank := countID(maker.CallIDs, ""); blank > 0 && j.unobservedAfter(pos) {
				orphans += int32(blank)
			}
		}
		calls, known := maker.readyCalls()
		if (!known || calls > len(maker.CallIDs)) && (j.unobservedAfter(pos) || j.foreignOutputAfter(pos)) {
			orphans++
		}
		if orphans > nameless {
			return true
		}
	}
	return false
}

// orphans returns how many of the calls with an id requests after them show, or may show,
// to have been executed without a record.
func (j *judge) orphans(n int32) (orphans int32) {
	made := j.index.uses(n, roleMade)
	if len(made) == 0 {
		return 0
	}
	carried := j.index.uses(n, roleCarried)
	if !j.index.executed(n) {
		for _, u := range made {
			if j.unobservedAfter(int(u.pos)) || j.carriedAfter(carried, int(u.pos)) {
				orphans += u.times
			}
		}
		return orphans
	}
	if len(carried) == 0 || !j.reusesIDs() {
		return 0
	}
	// Some models use an id again for each answer. The history then grows by one output for
	// each execution: the requests up to the next answer with the id tell them apart.
	tools := j.index.executions(n)
	began := func(from time.Time, inclusive bool) int32 {
		return int32(sort.Search(len(tools), func(i int) bool {
			start := j.run.Tools[tools[i]].Start
			return start.After(from) || !inclusive && start.Equal(from)
		}))
	}
	// For each request with an output, by how much the outputs outnumber the executions, at
	// most, from there up to the next answer with the id; and where that answer is.
	type excess struct{ most, answer int32 }
	list := make([]excess, len(carried)+1)
	list[len(carried)] = excess{-1 << 31, int32(len(carried))}
	for i, u := range slices.Backward(carried) {
		e := list[i+1]
		if timesAt(made, u.pos) > 0 {
			e = excess{-1 << 31, int32(i)}
		}
		e.most = max(e.most, u.times-began(j.starts[u.pos], true))
		list[i] = e
	}
	for _, u := range made {
		maker := j.requestAt(u.pos)
		if maker.HistoryCalls == nil {
			continue
		}
		own := timesAt(carried, u.pos) - began(maker.Start, false)
		e := list[usesBefore(carried, int32(j.firstFrom(maker.End)))]
		if int(e.answer) < len(carried) && carried[e.answer].pos == u.pos { // an answer without duration does not follow itself
			e.most = max(e.most, list[e.answer+1].most)
		}
		if e.most > own {
			orphans += u.times
		}
	}
	return orphans
}

// unobservedAfter reports whether the history of a request after the one at a position was
// not observed, so that it may contain any output.
func (j *judge) unobservedAfter(pos int) bool {
	unobserved := j.overview().unobserved
	if len(unobserved) == 0 {
		return false
	}
	maker := j.requestAt(int32(pos))
	first := j.firstFrom(maker.End)
	after := len(unobserved) - sort.Search(len(unobserved), func(i int) bool { return int(unobserved[i]) >= first })
	if maker.HistoryCalls == nil && pos >= first { // it has no duration, and does not follow itself
		after--
	}
	return after > 0
}

// carriedAfter reports whether a request after the one at a position contains the output
// of a call, which these requests contain.
func (j *judge) carriedAfter(carried []use, pos int) bool {
	first := j.firstFrom(j.requestAt(int32(pos)).End)
	after := len(carried) - usesBefore(carried, int32(first))
	if pos >= first && timesAt(carried, int32(pos)) > 0 {
		after--
	}
	return after > 0
}

// foreignOutput is an output that no recorded tool of the run produced, with the last
// request that contains it.
type foreignOutput struct{ id, last int32 }

// foreignOutputAfter reports whether a request after the one at a position contains an
// output of no recorded tool that is neither in this one's history nor of one of its calls.
func (j *judge) foreignOutputAfter(pos int) bool {
	if j.foreignOutputs == nil {
		last := make([]int32, j.index.count)
		for at := range j.order {
			for _, n := range j.index.numbersOf(at, roleCarried) {
				last[n] = int32(at) + 1
			}
		}
		j.foreignOutputs = []foreignOutput{}
		for n, at := range last {
			if at > 0 && !j.index.executed(int32(n)) {
				j.foreignOutputs = append(j.foreignOutputs, foreignOutput{int32(n), at - 1})
			}
		}
		slices.SortStableFunc(j.foreignOutputs, func(a, b foreignOutput) int { return int(b.last - a.last) })
	}
	if len(j.foreignOutputs) == 0 {
		return false
	}
	end := j.requestAt(int32(pos)).End
	for _, s := range j.foreignOutputs { // skips at most as many entries as the request has ids
		if j.starts[s.last].Before(end) {
			return false
		}
		j.look(pos)
		if j.times(s.id, roleCarried)+j.times(s.id, roleMade) == 0 {
			return true
		}
	}
	return false
}

// madeCalls summarizes the calls that requests made, by the end of those requests.
type madeCalls struct {
	ends    []time.Time           // one entry for each call that no recorded tool executed: the end of the request that made it; sorted
	unnamed []time.Time           // the ends of requests that may have made calls that are not named; sorted
	ofID    map[int32][]time.Time // the entries of ends for an id that several requests used; sorted
}

// unaccountedCalls reports whether a call that precedes the request at a position may have
// run unrecorded. Such a call is in the request's history, or an earlier request of the run
// made it or may have made it; its output is not in the history, and no tool is known to
// have executed it.
func (j *judge) unaccountedCalls(pos int) bool {
	if j.toolsRecorded() {
		return false
	}
	r := j.requestAt(int32(pos))
	inHistory := j.look(pos)
	for _, n := range inHistory {
		if j.times(n, roleCarried) == 0 && !j.index.executed(n) || !j.carriesAll(n) {
			return true
		}
	}
	calls := j.sumCalls()
	instant := !r.End.After(r.Start) // it is then one of the requests that had ended when it began
	unnamed := timesUntil(calls.unnamed, r.Start)
	if instant && r.mayHaveUnnamedCalls() {
		unnamed--
	}
	if unnamed > 0 {
		return true
	}
	open := timesUntil(calls.ends, r.Start)
	for _, n := range inHistory {
		if open == 0 {
			return false
		}
		if j.times(n, roleCarried) == 0 || j.index.executed(n) {
			continue
		}
		switch made := j.index.uses(n, roleMade); {
		case len(made) > 1:
			open -= timesUntil(j.endsOf(n, made), r.Start)
		case len(made) == 1 && !j.requestAt(made[0].pos).End.After(r.Start):
			open--
		}
	}
	if instant {
		for at, n := range j.index.numbersOf(pos, roleMade) {
			if j.index.executed(n) || j.times(n, roleCarried) > 0 || slices.Contains(j.index.numbersOf(pos, roleMade)[:at], n) {
				continue
			}
			open--
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

// endsOf returns the ends of the requests that made the calls with an id, sorted.
func (j *judge) endsOf(n int32, made []use) []time.Time {
	ends, known := j.madeCalls.ofID[n]
	if known {
		return ends
	}
	for _, u := range made {
		ends = append(ends, j.requestAt(u.pos).End)
	}
	slices.SortFunc(ends, time.Time.Compare)
	if j.madeCalls.ofID == nil {
		j.madeCalls.ofID = map[int32][]time.Time{}
	}
	j.madeCalls.ofID[n] = ends
	return ends
}

func (j *judge) sumCalls() *madeCalls {
	if j.madeCalls != nil {
		return j.madeCalls
	}
	c := &madeCalls{}
	j.madeCalls = c
	for n := range j.index.count {
		if j.index.executed(n) {
			continue
		}
		for _, u := range j.index.uses(n, roleMade) {
			c.ends = append(c.ends, j.requestAt(u.pos).End)
		}
	}
	for i := range j.run.Requests {
		r := &j.run.Requests[i]
		if r.mayHaveUnnamedCalls() {
			c.unnamed = append(c.unnamed, r.End)
		}
		if j.index.blank && hasID(r.CallIDs, "") {
			c.ends = append(c.ends, r.End)
		}
	}
	slices.SortFunc(c.ends, time.Time.Compare)
	slices.SortFunc(c.unnamed, time.Time.Compare)
	return c
}
