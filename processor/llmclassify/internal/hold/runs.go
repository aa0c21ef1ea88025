package hold

import "go.opentelemetry.io/collector/pdata/pcommon"

// run counts what is here of one run.
type run[F any] struct {
	id              pcommon.SpanID
	span            *Item[F]
	requests, tools uint32 // members that name the run, also those whose spans have gone
	items, held     int
	changed         bool // it is in Trace.changed
	waits           bool // it is complete, and was in Trace.settling to be Explained
}

// complete: the run span is here, and as many members as it announced.
func (r *run[F]) complete() bool {
	return r.span != nil && r.span.Announced.Known &&
		r.requests >= r.span.Announced.Requests && r.tools >= r.span.Announced.Tools
}

// runs are the runs of a trace by their id; the empty id is for items that name
// no run. Most traces have one or two: a list is searched, and indexed when it
// is long.
type runs[F any] struct {
	list []*run[F]
	byID map[pcommon.SpanID]*run[F] // of all, when there are more than smallTrace
}

// get finds a run, nil if there is none.
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
