package trace

import (
	"bytes"
	"cmp"
	"slices"

	"go.opentelemetry.io/collector/pdata/pcommon"
)

// maxForeign bounds the items of other runs that are evidence for one run, and maxLooked the ones that are tested for that.
const (
	maxForeign = 128
	maxLooked  = 4 * maxForeign
)

// foreignRequests are the requests of a trace with the request or tool above each, by their start.
type foreignRequests []foreignRequest

type foreignRequest struct {
	*Item
	of    *group
	above pcommon.SpanID
}

// foreignOf returns the requests of groups that may be evidence for another one: if all are of one service, these are the
// requests beneath others. It returns none for a single group.
func foreignOf(groups []*group) (list foreignRequests) {
	if len(groups) < 2 {
		return nil
	}
	several := false
	for _, g := range groups {
		for i, it := range g.items {
			if it.Role == Request && !it.Gone() {
				list = append(list, foreignRequest{it, g, g.above[i]})
				several = several || !SameService(list[0].Item, it)
			}
		}
	}
	if !several {
		list = slices.DeleteFunc(list, func(r foreignRequest) bool { return r.above.IsEmpty() })
	}
	slices.SortFunc(list, func(a, b foreignRequest) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), bytes.Compare(a.ID[:], b.ID[:]))
	})
	return list
}

// addForeign adds requests of other groups to g as evidence for its Unexplained and Upstream items: requests at their time
// that are beneath one of these, or of another service, in the order of their start. If there are more than the bound, g
// lacks parts.
func (b *Buffer) addForeign(g *group, requests foreignRequests) {
	if len(requests) == 0 {
		return
	}
	ids, from, to, one := g.toExplain()
	explains := ids.lookup()
	at, _ := slices.BinarySearchFunc(requests, from-min(from, MaxSkew), func(r foreignRequest, at pcommon.Timestamp) int {
		return cmp.Compare(r.Start, at)
	})
	looked := 0
	for i := at; i < len(requests) && requests[i].Start <= to+MaxSkew; i++ {
		looked++
		r := &requests[i]
		another := r.End <= to+MaxSkew && (one == nil || !SameService(one, r.Item))
		foreign := r.of != g && !r.Gone() && (another || explains(r.above))
		if looked == maxLooked || foreign && len(g.others) == maxForeign {
			g.doubt |= TooMany
			break
		}
		if !foreign {
			continue
		}
		b.read(r.Item) // it may be released before g is
		g.others = append(g.others, Member{Item: r.Item, Above: r.above, Foreign: true})
	}
	b.work += looked/4 + len(g.others)
}

// toExplain returns the Unexplained and Upstream items, their time, and one of them; nil if they are of several services.
func (g *group) toExplain() (ids runSet, from, to pcommon.Timestamp, one *Item) {
	for _, it := range g.items {
		if it.Gone() || !it.Unexplained && !it.Upstream {
			continue
		}
		if ids = append(ids, it.ID); len(ids) == 1 {
			one, from, to = it, it.Start, it.End
			continue
		}
		from, to = min(from, it.Start), max(to, it.End)
		if one != nil && !SameService(one, it) {
			one = nil
		}
	}
	return ids, from, to, one
}

// waitsForEvidence reports whether a complete run waits for spans that explain its failure: for Config.Settle, from now or
// from when it began to wait.
func (b *Buffer) waitsForEvidence(t *Trace, g *group, now age) bool {
	r := t.runs.get(g.place.Run)
	if r == nil || g.run == nil || r.waited && !g.run.settling {
		return false
	}
	b.work += 4 * len(g.items)
	release := b.release(t, g, Complete, len(g.items))
	release.Final = true
	for i, it := range g.items {
		release.Members = append(release.Members, Member{Item: it, Out: it.Held(), Above: g.above[i]})
	}
	release.Members = append(release.Members, g.others...)
	if b.cfg.Explained(&release) {
		return false
	}
	if !r.waited {
		r.waited = true
		t.settle(g.run, now+age(b.cfg.Settle), Complete)
	}
	return true
}
