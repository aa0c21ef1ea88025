package trace

import (
	"bytes"
	"cmp"
	"slices"

	"go.opentelemetry.io/collector/pdata/pcommon"
)

// maxForeign bounds the items of other runs that are evidence for one run. Four times as many are tested for that.
const maxForeign = 128

// foreignRequests are the requests of a trace, by their start. The zero value is not filled yet.
type foreignRequests struct {
	byStart []foreignRequest
	beneath map[pcommon.SpanID][]int // indices in byStart, by the request or tool above
	one     bool                     // all are of one service
}

type foreignRequest struct {
	*Item
	of    *group
	above pcommon.SpanID
}

func (f *foreignRequests) fill(groups []*group, same func(a, b *Item) bool) {
	f.beneath = make(map[pcommon.SpanID][]int)
	for _, g := range groups {
		for i, it := range g.items {
			if it.Role == Request && !it.Gone() {
				f.byStart = append(f.byStart, foreignRequest{it, g, g.above[i]})
			}
		}
	}
	slices.SortFunc(f.byStart, func(a, b foreignRequest) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), bytes.Compare(a.ID[:], b.ID[:]))
	})
	f.one = true
	for i, r := range f.byStart {
		f.one = f.one && same(f.byStart[0].Item, r.Item)
		if !r.above.IsEmpty() {
			f.beneath[r.above] = append(f.beneath[r.above], i)
		}
	}
}

// addForeign adds requests of other groups to g as evidence for its Unexplained and Upstream items: requests beneath one of
// these, and requests of other services at their time, in the order of their start. If there are more than the bound, g
// lacks parts.
func (b *Buffer) addForeign(g *group, groups []*group, requests *foreignRequests) {
	if len(groups) < 2 {
		return
	}
	if requests.beneath == nil {
		requests.fill(groups, SameService)
	}
	var taken []int
	take := func(i int) {
		switch r := &requests.byStart[i]; {
		case r.of == g || r.Gone():
		case len(taken) < maxForeign:
			taken = append(taken, i)
		default:
			g.doubt |= TooMany
		}
	}
	from, to, one := g.toExplain(func(it *Item) {
		for _, i := range requests.beneath[it.ID] {
			if take(i); g.doubt.Has(TooMany) {
				break
			}
		}
	})
	begin, _ := slices.BinarySearchFunc(requests.byStart, from-min(from, MaxSkew), func(r foreignRequest, at pcommon.Timestamp) int {
		return cmp.Compare(r.Start, at)
	})
	slices.Sort(taken)
	beneath, looked := taken, 0
	for i := begin; !requests.one && !g.doubt.Has(TooMany) && i < len(requests.byStart); i++ {
		r := &requests.byStart[i]
		if r.Start > to+MaxSkew {
			break
		}
		if looked++; looked > 4*maxForeign {
			g.doubt |= TooMany
			break
		}
		if r.End > to+MaxSkew || one != nil && SameService(one, r.Item) {
			continue
		}
		if _, found := slices.BinarySearch(beneath, i); !found {
			take(i)
		}
	}
	slices.Sort(taken)
	for _, i := range taken {
		r := &requests.byStart[i]
		b.read(r.Item) // it may be released before g is
		g.others = append(g.others, Member{Item: r.Item, Above: r.above, Foreign: true})
	}
	b.work += looked/4 + len(taken)
}

// toExplain visits the Unexplained and Upstream items. It returns their time, and one of them; nil if they are of several
// services.
func (g *group) toExplain(visit func(*Item)) (from, to pcommon.Timestamp, one *Item) {
	several := false
	for _, it := range g.items {
		if it.Gone() || !it.Unexplained && !it.Upstream {
			continue
		}
		visit(it)
		if one == nil && !several {
			one, from, to = it, it.Start, it.End
			continue
		}
		from, to = min(from, it.Start), max(to, it.End)
		if one != nil && !SameService(one, it) {
			one, several = nil, true
		}
	}
	return from, to, one
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
