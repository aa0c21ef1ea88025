package trace

import (
	"slices"

	"go.opentelemetry.io/collector/pdata/pcommon"
)

// group is the items of a trace that belong to one run.
type group struct {
	place  Place
	run    *Item
	items  []*Item
	above  []pcommon.SpanID  // by item
	due    int               // held items that are due
	end    bool              // the run span is one of the due items
	named  bool              // an item names the run
	yields bool              // an item says that the run yields
	part   bool              // see Buffer.isPart
	start  pcommon.Timestamp // start of the first item
	until  pcommon.Timestamp // end of the last item
	last   age               // arrival of the last item

	joined []pcommon.SpanID // the ids that represented parts of the same session before they were joined

	unexplained bool
	upstream    bool
	doubt       Doubt
	others      []Member // evidence of other groups, if unexplained or upstream
}

// isRun reports whether the items belong to a run, and are not just spans under one parent: the run's span is buffered, or
// an item names the run.
func (g *group) isRun() bool { return g.run != nil || g.named }

// runSet is a small set of runs.
type runSet []pcommon.SpanID

func (s runSet) has(id pcommon.SpanID) bool { return slices.Contains(s, id) }

// lookup returns has, for a set that may be large.
func (s runSet) lookup() func(pcommon.SpanID) bool {
	if len(s) <= smallTrace {
		return s.has
	}
	ids := make(map[pcommon.SpanID]struct{}, len(s))
	for _, id := range s {
		ids[id] = struct{}{}
	}
	return func(id pcommon.SpanID) bool { _, ok := ids[id]; return ok }
}

// grouped returns the items of t by their run.
func (b *Buffer) grouped(t *Trace, due func(*Item, Place) bool) []*group {
	groups := b.group(t, due)
	isOpen := func(g *group) bool { return g.place.Open }
	if len(groups) > 1 && slices.ContainsFunc(groups, isOpen) && b.joinResponses(t) {
		groups = b.group(t, due)
	}
	return joinSessions(groups)
}

// stepsPerWork is how many links can be looked up, or how many spans can settle, in the time of one item.
const stepsPerWork = 8

// locate is [Locate]. Long chains of parents count as work.
func (b *Buffer) locate(t *Trace, it *Item) Place {
	place := Locate(t, it)
	b.work += t.steps / stepsPerWork
	t.steps = 0
	return place
}

func (b *Buffer) group(t *Trace, due func(*Item, Place) bool) []*group {
	groups := b.scratch.groups[:0]
	var byRun map[pcommon.SpanID]*group // nil while there are few groups
	find := func(run pcommon.SpanID) *group {
		if byRun != nil {
			return byRun[run]
		}
		for _, g := range groups {
			if g.place.Run == run {
				return g
			}
		}
		return nil
	}
	b.work += len(t.items)
	for _, it := range t.items {
		if it.Gone() {
			continue
		}
		place := b.locate(t, it)
		it.ByTime = place.ByTime
		t.tooMany = t.tooMany || place.Untested
		if place.Endless {
			b.forgot(t)
		}
		g := find(place.Run)
		if g == nil {
			if len(groups) == 0 {
				g = &b.scratch.first
				*g = group{place: place, start: it.Start}
				g.items, g.above = b.scratch.lists(t.live)
			} else {
				g = &group{place: place, start: it.Start}
			}
			groups = append(groups, g)
			if byRun == nil && len(groups) > smallTrace {
				byRun = make(map[pcommon.SpanID]*group, 2*len(groups))
				for _, g := range groups {
					byRun[g.place.Run] = g
				}
			} else if byRun != nil {
				byRun[place.Run] = g
			}
		}
		g.add(it, place)
		if it.Held() && due(it, place) {
			g.due++
			g.end = g.end || it.Role == Run && it.ID == place.Run
		}
	}
	for _, g := range groups { // runs that yield to one another, in a circle, are no runs
		g.place.Known = g.place.Known && g.run != nil
	}
	return groups
}

// add adds an item with its place, which is in the group.
func (g *group) add(it *Item, place Place) {
	g.items = append(g.items, it)
	g.above = append(g.above, place.Above)
	g.place.Open = g.place.Open || place.Open
	g.start, g.until, g.last = min(g.start, it.Start), max(g.until, it.End), max(g.last, it.arrived)
	g.named = g.named || it.owner() == place.Run
	g.yields = g.yields || it.Yields
	if it.ID == place.Run && it.Role == Run && g.run == nil {
		g.run = it
	}
	g.unexplained = g.unexplained || it.Unexplained
	g.upstream = g.upstream || it.Upstream
}

// scratch is reusable memory for one group and its items. The memory of a large group is not kept.
type scratch struct {
	groups [2]*group
	first  group
	items  []*Item
	above  []pcommon.SpanID
}

// maxScratch bounds the items of the reusable memory.
const maxScratch = 1 << 10

// lists makes empty lists for n items. The lists of the previous call must not be used any more.
func (s *scratch) lists(n int) (items []*Item, above []pcommon.SpanID) {
	if n > maxScratch {
		return make([]*Item, 0, n), make([]pcommon.SpanID, 0, n)
	}
	s.items, s.above = slices.Grow(s.items[:0], n)[:n], slices.Grow(s.above[:0], n)[:n]
	return s.items[:0], s.above[:0]
}

// clear forgets the items.
func (s *scratch) clear() {
	clear(s.items)
	clear(s.groups[:])
	s.first = group{}
}
