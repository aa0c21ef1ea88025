package hold

import (
	"slices"

	"go.opentelemetry.io/collector/pdata/pcommon"
)

// run counts what is here of one run.
type run[F any] struct {
	id          pcommon.SpanID
	span        *Item[F]
	members     tally             // those that name the run, also those whose spans have gone
	latest      pcommon.Timestamp // when the last of these began
	items, held int
	changed     bool // it is in Trace.changed
	waited      bool // it is complete, and was in Trace.settling to be Explained
	settled     bool // it does not announce its tools, and was in Trace.settling for its time
}

// maxAround bounds how many run spans of a trace are looked at for what is within them,
// the newest first.
const maxAround = 64

// innermost takes those runs off the set, whose spans are here, within which there is a
// run whose span is here and that is not in the set: what it did is a part of theirs, and
// is not known yet.
func (b *Buffer[F]) innermost(t *Trace[F], set runSet) runSet {
	if b.cfg.Within == nil || len(t.spans) < 2 {
		return set
	}
	around := func(id pcommon.SpanID) bool {
		outer := t.runs.get(id)
		if outer == nil || outer.span == nil {
			return false
		}
		return slices.ContainsFunc(t.spans[max(0, len(t.spans)-maxAround):], func(inner *Item[F]) bool {
			return !inner.Gone() && !set.has(inner.ID) && b.cfg.Within(t, inner, outer.span)
		})
	}
	for n := -1; n != len(set); { // what waits, keeps what is around it waiting
		n = len(set)
		set = slices.DeleteFunc(set, around)
	}
	return set
}

// runs are the runs of a trace by their id; the empty id is for items that name
// no run. Most traces have one or two: a list is searched, and indexed when it
// is long.
type runs[F any] struct {
	list []*run[F]
	byID map[pcommon.SpanID]*run[F] // of all, when there are more than smallTrace
}

// get finds a run, or nil.
func (rs *runs[F]) get(id pcommon.SpanID) *run[F] {
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

// of finds a run, or begins to count it.
func (rs *runs[F]) of(id pcommon.SpanID) *run[F] {
	if r := rs.get(id); r != nil {
		return r
	}
	r := &run[F]{id: id}
	if rs.byID == nil && len(rs.list) < smallTrace {
		rs.list = append(rs.list, r)
		return r
	}
	if rs.byID == nil {
		rs.byID = make(map[pcommon.SpanID]*run[F], 2*smallTrace)
		for _, r := range rs.list {
			rs.byID[r.id] = r
		}
		rs.list = nil
	}
	rs.byID[id] = r
	return r
}

func (rs *runs[F]) remove(id pcommon.SpanID) {
	if rs.byID != nil {
		delete(rs.byID, id)
		return
	}
	rs.list = deleteFunc(rs.list, func(r *run[F]) bool { return r.id == id })
}
