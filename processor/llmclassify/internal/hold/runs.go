package hold

import (
	"slices"

	"go.opentelemetry.io/collector/pdata/pcommon"
)

// run counts the items of one run.
type run[F any] struct {
	id          pcommon.SpanID
	span        *Item[F]
	members     tally             // the items that name the run, also those whose spans have gone
	latest      pcommon.Timestamp // when the last of these began
	items, held int
	awaits      pcommon.SpanID // it is in Trace.awaited for this span, see [Buffer.yields]
	changed     bool           // it is in Trace.changed
	waited      bool           // it is complete, and was in Trace.settling to be explained
	settled     bool           // it does not announce its tools, and was in Trace.settling for Config.Settle
}

// maxAround bounds how many run spans of a trace are tested for runs within them, the
// newest first.
const maxAround = 64

// innermost removes runs from the set: those within which there is a run whose span is
// here and which is not in the set. What that run did is a part of theirs, and is not
// known yet.
func (b *Buffer[F]) innermost(t *Trace[F], set runSet) runSet {
	if b.cfg.Within == nil || len(t.spans) < 2 {
		return set
	}
	var has func(pcommon.SpanID) bool
	around := func(id pcommon.SpanID) bool {
		outer := t.runs.get(id)
		if outer == nil || outer.span == nil {
			return false
		}
		return slices.ContainsFunc(t.spans[max(0, len(t.spans)-maxAround):], func(inner *Item[F]) bool {
			return !inner.Gone() && !inner.Yields && !has(inner.ID) && b.cfg.Within(t, inner, outer.span)
		})
	}
	for n := -1; n != len(set); { // a run that waits keeps the run around it waiting
		n, has = len(set), set.lookup()
		set = slices.DeleteFunc(set, around)
	}
	return set
}

// runs are the runs of a trace by id; the empty id is for items that name no run. Most
// traces have one or two: they are a list that is searched, and a map when there are many.
type runs[F any] struct {
	list []*run[F]
	byID map[pcommon.SpanID]*run[F] // of all, when there are more than smallTrace
}

// get returns a run, nil if it is not there.
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

// of returns a run, new if it is not there.
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
