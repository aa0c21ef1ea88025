package trace

import (
	"slices"

	"go.opentelemetry.io/collector/pdata/pcommon"
)

// run counts the items of one run.
type run struct {
	id          pcommon.SpanID
	span        *Item
	members     tally             // the items that name the run, also after their spans were released
	latest      pcommon.Timestamp // start of the last of these
	items, held int
	awaits      pcommon.SpanID // the key in Trace.awaited that lists it, see [Buffer.yields]
	changed     bool           // it is in Trace.changed
	waited      bool           // it is complete, and was in Trace.settling to be explained
	doubt       Doubt
	settled     bool // it does not announce its tools, and was in Trace.settling for Config.Settle
}

// Chain is how far the parents of a run could be followed.
type Chain uint8

// The ends of chains.
const (
	Rooted  Chain = iota // they lead to a root
	Broken               // one of them is neither buffered nor a link
	Endless              // they are too many, or lead in a circle
)

// brokenWork is the work for a chain that breaks off, in items: its end is searched among the judged runs.
const brokenWork = 4

// notAround removes from the set each run around a buffered run that is not in the set: it includes the effects of that
// inner run, which are not known yet. If the search exceeds Limits.Within, [Trace.tooMany] is set.
func (b *Buffer) notAround(t *Trace, set runSet) runSet {
	if len(t.spans) < 2 || len(set) == 0 {
		return set
	}
	has := set.lookup()
	b.work += len(t.spans) / 8
	waiting, inner := t.waitingRuns(has)
	if len(waiting) == 0 {
		return set
	}
	removed := make(map[pcommon.SpanID]struct{})
	remove := func(run pcommon.SpanID) {
		removed[run] = struct{}{}
		if span := inner[run]; span != nil { // a run that waits keeps the run around it waiting
			waiting = append(waiting, span)
			delete(inner, run)
		}
	}
	remains := func(run pcommon.SpanID) bool {
		_, gone := removed[run]
		return !gone && has(run)
	}
	isHere := func(run pcommon.SpanID) *Item {
		if r := t.runs.get(run); r != nil {
			return r.span
		}
		return nil
	}
	var ids []pcommon.SpanID
	steps := 0
	for i := 0; i < len(waiting); i++ {
		if steps > b.cfg.Limits.Within {
			t.tooMany = true
			break
		}
		var to Chain
		ids, to = b.climbAll(t, waiting[i], ids[:0])
		steps += 1 + len(ids)
		for _, id := range ids {
			if remains(id) && isHere(id) != nil {
				remove(id)
			}
		}
		if to == Rooted {
			continue
		}
		if to == Endless { // it may be within any run, and outlast it
			b.forgot(t)
		}
		steps += len(set)
		b.work += len(set) / 64
		for _, id := range set {
			if outer := isHere(id); outer != nil && remains(id) && During(waiting[i], outer) {
				remove(id)
			}
		}
	}
	return slices.DeleteFunc(set, func(id pcommon.SpanID) bool { return !remains(id) })
}

// climbAll appends the ids above an item to ids, and returns where the chain ends.
func (b *Buffer) climbAll(t *Trace, it *Item, ids []pcommon.SpanID) ([]pcommon.SpanID, Chain) {
	to := climbOver(t, t.past, it.up(), func(id pcommon.SpanID) bool {
		ids = append(ids, id)
		return false
	})
	b.work += 1 + len(ids)/8
	if to != Rooted {
		b.work += brokenWork
	}
	return ids, to
}

// waitingRuns returns the runs with a buffered span: the ones outside of a set, and the ones in it, by id, which may be
// within one of the others.
func (t *Trace) waitingRuns(has func(pcommon.SpanID) bool) (waiting []*Item, inner map[pcommon.SpanID]*Item) {
	for _, span := range t.spans {
		switch {
		case span.Gone() || span.Yields:
		case !has(span.ID):
			waiting = append(waiting, span)
		default:
			if inner == nil {
				inner = make(map[pcommon.SpanID]*Item)
			}
			inner[span.ID] = span
		}
	}
	return waiting, inner
}

// runs are the runs of a trace by id; the empty id is for items that name no run. Most traces have one or two: they are a
// list that is searched, and a map beyond smallTrace.
type runs struct {
	list []*run
	byID map[pcommon.SpanID]*run // all runs beyond smallTrace, else nil
}

// get returns the run with this id, or nil.
func (rs *runs) get(id pcommon.SpanID) *run {
	if rs.byID != nil {
		return rs.byID[id]
	}
	for _, r := range rs.list {
		if r.id == id {
			return r
		}
	}
	return nil
}

// getOrAdd returns the run with this id, and adds one if it is missing.
func (rs *runs) getOrAdd(id pcommon.SpanID) *run {
	if r := rs.get(id); r != nil {
		return r
	}
	r := &run{id: id}
	if rs.byID == nil && len(rs.list) < smallTrace {
		rs.list = append(rs.list, r)
		return r
	}
	if rs.byID == nil {
		rs.byID = make(map[pcommon.SpanID]*run, 2*smallTrace)
		for _, r := range rs.list {
			rs.byID[r.id] = r
		}
		rs.list = nil
	}
	rs.byID[id] = r
	return r
}

func (rs *runs) remove(id pcommon.SpanID) {
	if rs.byID != nil {
		delete(rs.byID, id)
		return
	}
	rs.list = deleteFunc(rs.list, func(r *run) bool { return r.id == id })
}
