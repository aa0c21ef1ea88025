package classify

import "slices"

// missingOutputs returns the ids of the calls whose output the history of the request at a
// position is observed to lack, each once, at most MaxIDs, in the order of their tools.
func (j *judge) missingOutputs(pos int, h historyState) []string {
	tools := h.lacking
	if h.others > 0 && j.requestAt(int32(pos)).fullHistory() {
		j.look(pos)
		j.pending.advance(j, pos)
		for n := j.pending.first; n >= 0 && len(tools) < MaxIDs; n = j.pending.calls[n].next {
			if j.times(n, roleHeld)+j.times(n, roleCarried) == 0 {
				tools = append(tools, j.pending.calls[n].tool)
			}
		}
		j.lacking = tools
	}
	if len(tools) == 0 {
		return nil
	}
	slices.Sort(tools)
	tools = tools[:min(len(tools), MaxIDs)]
	ids := make([]string, 0, len(tools))
	for _, t := range tools {
		ids = append(ids, j.run.Tools[t].CallID)
	}
	return ids
}

// pending holds the calls whose output was pending when a request began, in the order in
// which that began. It moves on from request to request.
type pending struct {
	begun       bool
	pos         int           // of the request
	ended       int           // how many of outputs.byEnd it has taken in
	answered    int           // how many of outputs.answers it has removed
	calls       []pendingCall // by the number of the id
	first, last int32         // -1 for none
}

// pendingCall is a call whose output may be pending.
type pendingCall struct {
	prev, next int32 // -1 for none
	outputs    int32 // of the call that are pending
	tool       int32 // the first tool whose output was pending
}

// advance moves to the request at a position. To go back it starts again.
func (p *pending) advance(j *judge, pos int) {
	if !p.begun || pos < p.pos {
		*p = pending{begun: true, calls: zeroed(p.calls, int(j.index.count)), first: -1, last: -1}
	}
	p.pos = pos
	o, start := j.sumOutputs(), j.starts[pos]
	for ; p.ended < len(o.byEnd) && !o.ends[p.ended].After(start); p.ended++ {
		p.add(j.index.toolID[o.byEnd[p.ended]], o.byEnd[p.ended])
	}
	for ; p.answered < len(o.got) && j.starts[o.got[p.answered]].Before(start); p.answered++ {
		p.remove(j.index.toolID[o.answers[p.answered]])
	}
}

func (p *pending) add(n, tool int32) {
	c := &p.calls[n]
	if c.outputs++; c.outputs > 1 {
		return
	}
	c.prev, c.next, c.tool = p.last, -1, tool
	if p.last >= 0 {
		p.calls[p.last].next = n
	} else {
		p.first = n
	}
	p.last = n
}

func (p *pending) remove(n int32) {
	c := &p.calls[n]
	if c.outputs--; c.outputs > 0 {
		return
	}
	if c.prev >= 0 {
		p.calls[c.prev].next = c.next
	} else {
		p.first = c.next
	}
	if c.next >= 0 {
		p.calls[c.next].prev = c.prev
	} else {
		p.last = c.prev
	}
}

// addUnreturned adds to ids, up to MaxIDs, those of the calls that responses of the run
// made, that no recorded tool executed, and whose output did not come back although the
// conversation continues: the last history with the call lacks its output.
//
// A call that is gone together with its output may have been summarized away. A call of an
// earlier run may have been all that its client wanted.
func (j *judge) addUnreturned(ids []string) []string {
	var known []bool // by the number of the id: it was looked for
	for pos := range j.order {
		maker := j.requestAt(int32(pos))
		for i, n := range j.index.numbersOf(pos, roleMade) {
			if len(ids) >= MaxIDs {
				return ids
			}
			if j.index.executed(n) || len(j.index.uses(n, roleHeld)) == 0 {
				continue
			}
			if known == nil {
				known = make([]bool, j.index.count)
			}
			if known[n] {
				continue
			}
			held := j.index.uses(n, roleHeld)
			if last := held[len(held)-1]; maker.End.After(j.starts[last.pos]) {
				continue // another response may have made it, too
			}
			if known[n] = true; j.unreturned(n) && !hasID(ids, maker.CallIDs[i]) {
				ids = append(ids, maker.CallIDs[i])
			}
		}
	}
	return ids
}

// unreturned reports whether the last history that contains a call lacks its output.
func (j *judge) unreturned(n int32) bool {
	held := j.index.uses(n, roleHeld)
	last := held[len(held)-1]
	r := j.requestAt(last.pos)
	carried := j.index.uses(n, roleCarried)
	due := last.times
	switch {
	case due <= timesAt(carried, last.pos):
		return false
	case len(r.HistoryOutputs) >= MaxIDs && (j.reusesIDs() || !j.listReachesBack(int(last.pos), n)):
		return false // the output may be among those that are not listed
	}
	return !slices.ContainsFunc(carried, func(u use) bool {
		return u.times >= due && (u.pos > last.pos || j.states[j.order[u.pos]].answered())
	})
}
