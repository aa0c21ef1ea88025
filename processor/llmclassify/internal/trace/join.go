package trace

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
)

// Spans of one run may be in a trace without a chain of parents that shows it. The sessions and responses that they name
// show it, too.

// MaxSkew is the largest difference between the clocks of two services.
const MaxSkew = pcommon.Timestamp(time.Second)

// joinResponses adds the missing links between requests with the same response: a gateway's request is beneath the request
// that the gateway served. It reports whether it added any.
func (b *Buffer) joinResponses(t *Trace) (added bool) {
	if t.joined {
		return false
	}
	t.joined = true
	b.work += len(t.items) / stepsPerWork
	var longest map[uint64]*Item // by response
	for _, it := range t.items {
		if it.Response == 0 || it.Role != Request || it.Gone() {
			continue
		}
		if longest == nil {
			longest = make(map[uint64]*Item)
		}
		if outer := longest[it.Response]; outer == nil || lastedLonger(it, outer) {
			longest[it.Response] = it
		}
	}
	if longest == nil {
		return false
	}
	for _, it := range t.items {
		if outer := longest[it.Response]; outer != nil && it.Role == Request && !it.Gone() && contains(outer, it) {
			added = b.joinResponse(t, it, outer) || added
		}
	}
	return added
}

// contains reports whether one request took place within the time of another one, as far as their clocks agree.
func contains(outer, inner *Item) bool {
	return lastedLonger(outer, inner) && outer.Start <= inner.Start+MaxSkew && inner.End <= outer.End+MaxSkew
}

// lastedLonger reports whether a request lasted longer than another one. Of two with the same duration, exactly one did.
func lastedLonger(a, b *Item) bool {
	return cmp.Or(cmp.Compare(a.End-a.Start, b.End-b.Start), bytes.Compare(b.ID[:], a.ID[:])) > 0
}

// joinResponse links the parent of one request, and the parent of the run that this request names, to a request of another
// service that contains it. It reports whether it linked any. Within one service the same response is no evidence: some
// servers repeat the ids of their responses.
func (b *Buffer) joinResponse(t *Trace, inner, outer *Item) (linked bool) {
	if SameService(inner, outer) {
		return false
	}
	if inner.Parent != inner.Run {
		linked = b.joinParent(t, inner.Parent, outer)
	}
	if inner.Run.IsEmpty() {
		return linked
	}
	if run := t.Item(inner.Run); run != nil {
		return (run.Yields || inner.Parent == run.ID) && b.joinParent(t, run.Parent, outer) || linked
	}
	return linked // until its run arrives
}

// joinParent links a missing parent to a request. Of several requests, the one that began first counts. It reports whether
// it added or changed the link.
func (b *Buffer) joinParent(t *Trace, parent pcommon.SpanID, to *Item) bool {
	if parent.IsEmpty() || parent == to.Parent || parent == to.ID || t.Item(parent) != nil {
		return false
	}
	if at, ok := t.links.parent(parent); ok {
		_, passed := t.links.passed[parent]
		if other := t.Item(at); passed || other == nil || other.Start <= to.Start {
			return false
		}
		t.links.joined[parent] = to.ID
		t.changedPlaces()
		return true
	}
	if b.linkRoom(t) == 0 {
		return false
	}
	t.changedPlaces()
	if t.links.joined == nil {
		t.links.joined = make(map[pcommon.SpanID]pcommon.SpanID)
	}
	t.links.joined[parent] = to.ID
	b.factBytes += linkSize
	return true
}

// joinSessions joins groups that belong to no run and whose spans name one session, if each group began after the one
// before had ended: groups at the same time may be of different agents, and then so may all others of that session. A group
// whose run may still come is not joined with one that does not wait for a run.
func joinSessions(groups []*group) []*group {
	type key struct {
		session uint64
		open    bool
	}
	var bySession map[key][]*group
	for _, g := range groups {
		session := g.session()
		if session == 0 {
			continue
		}
		if bySession == nil {
			bySession = make(map[key][]*group)
		}
		k := key{session, g.place.Open}
		bySession[k] = append(bySession[k], g)
	}
	if bySession == nil {
		return groups
	}
	joined := make(map[*group]bool)
	for _, list := range bySession {
		slices.SortFunc(list, func(a, b *group) int {
			return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.until, b.until), bytes.Compare(a.place.Run[:], b.place.Run[:]))
		})
		if !oneAfterTheOther(list) {
			continue
		}
		for _, g := range list[1:] {
			list[0].join(g)
			joined[g] = true
		}
	}
	return slices.DeleteFunc(groups, func(g *group) bool { return joined[g] })
}

// oneAfterTheOther reports whether each of these groups, ordered by start, began after all groups before it had ended.
func oneAfterTheOther(list []*group) bool {
	var until pcommon.Timestamp
	for _, g := range list {
		if g.start < until {
			return false
		}
		until = max(until, g.until)
	}
	return true
}

// session returns the session of spans that belong to no run, 0 if they name none or several.
func (g *group) session() (session uint64) {
	if g.isRun() {
		return 0
	}
	for _, it := range g.items {
		switch {
		case it.Session == 0 || it.Session == session:
		case session != 0:
			return 0
		default:
			session = it.Session
		}
	}
	return session
}

// join adds the items of another group.
func (g *group) join(other *group) {
	g.items, g.above = append(g.items, other.items...), append(g.above, other.above...)
	g.due += other.due
	g.start, g.until, g.last = min(g.start, other.start), max(g.until, other.until), max(g.last, other.last)
	g.unexplained = g.unexplained || other.unexplained
	g.upstream = g.upstream || other.upstream
	g.joined = append(g.joined, other.place.Run)
}
