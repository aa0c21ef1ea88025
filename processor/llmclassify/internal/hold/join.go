package hold

import (
	"slices"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
)

// Spans of one run may be in a trace without a chain of parents that shows it. Sessions
// and responses that they name show it, too.

// maxSkew is the largest difference between the clocks of two services.
const maxSkew = pcommon.Timestamp(time.Second)

// joinResponses adds the links that are missing between requests that had the same
// response: what a gateway did is beneath the request for which it did it. It reports
// whether it has added any.
func (b *Buffer[F]) joinResponses(t *Trace[F]) (added bool) {
	for ; t.joined < len(t.items); t.joined++ {
		it := t.items[t.joined]
		if it.Response == 0 || it.Role != Request || it.Gone() {
			continue
		}
		other, known := t.responses[it.Response]
		switch {
		case !known:
			if t.responses == nil {
				t.responses = make(map[uint64]*Item[F])
			}
			t.responses[it.Response] = it
		case b.joinResponse(t, it, other), b.joinResponse(t, other, it):
			added = true
		}
	}
	return added
}

// joinResponse links the parent of one request to another request, if that parent is not
// here and the other request contains the first one. It reports whether it does. If the
// first request is beneath its own run, that run's parent is linked.
func (b *Buffer[F]) joinResponse(t *Trace[F], inner, outer *Item[F]) bool {
	if inner.End-inner.Start > outer.End-outer.Start || inner.Start+maxSkew < outer.Start || inner.End > outer.End+maxSkew {
		return false
	}
	parent := inner.Parent
	if !parent.IsEmpty() && parent == inner.Run {
		run := t.Item(parent)
		if run == nil {
			if t.unjoined == nil {
				t.unjoined = make(map[pcommon.SpanID][2]*Item[F])
			}
			t.unjoined[parent] = [2]*Item[F]{inner, outer}
			return false
		}
		parent = run.Parent
	}
	if parent.IsEmpty() || parent == outer.Parent || parent == outer.ID {
		return false
	}
	if _, passed := t.links.parent(parent); passed || t.Item(parent) != nil {
		return false
	}
	return b.addLinks(t, []Link{{ID: parent, Parent: outer.ID}}) == 1
}

// joinRun links what is above a run to what one of its requests was joined with, before
// the run was here. It reports whether it does.
func (b *Buffer[F]) joinRun(t *Trace[F], run pcommon.SpanID) bool {
	pair, ok := t.unjoined[run]
	delete(t.unjoined, run)
	return ok && b.joinResponse(t, pair[0], pair[1])
}

// joinSessions makes one group of those that belong to no run and have spans of the same
// session.
func joinSessions[F any](groups []*group[F]) []*group[F] {
	if len(groups) < 2 {
		return groups
	}
	var bySession map[uint64]*group[F]
	var into map[*group[F]]*group[F]
	final := func(g *group[F]) *group[F] {
		for into[g] != nil {
			g = into[g]
		}
		return g
	}
	for _, g := range groups {
		if g.isRun() {
			continue
		}
		for _, it := range g.items {
			if it.Session == 0 {
				continue
			}
			if bySession == nil {
				bySession, into = make(map[uint64]*group[F]), make(map[*group[F]]*group[F])
			}
			a, known := bySession[it.Session]
			if !known {
				bySession[it.Session] = g
				continue
			}
			if a, b := final(a), final(g); a != b {
				if b.start < a.start {
					a, b = b, a
				}
				a.join(b)
				into[b] = a
			}
		}
	}
	if len(into) == 0 {
		return groups
	}
	return slices.DeleteFunc(groups, func(g *group[F]) bool { return into[g] != nil })
}

// join adds the items of another group.
func (g *group[F]) join(other *group[F]) {
	g.items, g.above = append(g.items, other.items...), append(g.above, other.above...)
	g.due += other.due
	g.place.Open = g.place.Open || other.place.Open
	g.start, g.last = min(g.start, other.start), max(g.last, other.last)
	g.unexplained = g.unexplained || other.unexplained
	g.upstream = g.upstream || other.upstream
	g.joined = append(append(g.joined, other.place.Run), other.joined...)
}
