package hold

import (
	"cmp"
	"slices"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
)

// expirySlack is the share of Config.MaxHold by which spans may go early, together with
// one that must go: a long run goes out in a few batches, not span by span.
const expirySlack = 8

// group is the items of a trace that belong to one run.
type group[F any] struct {
	place  Place
	run    *Item[F]
	items  []*Item[F]
	above  []pcommon.SpanID  // by item
	due    int               // held items that are due
	end    bool              // the run span is one of them
	named  bool              // an item names the run
	yields bool              // an item says that the run yields
	part   bool              // see Buffer.isPart
	start  pcommon.Timestamp // when the first of them began
	until  pcommon.Timestamp // when the last of them ended
	last   age               // when the last of them arrived

	joined []pcommon.SpanID // what represented the spans of the same session before they were joined

	unexplained bool
	upstream    bool
	gaps        bool        // runs within it may be here whose spans are not
	lacks       bool        // what is here of other runs may be its own
	others      []Member[F] // of other groups, where unexplained or upstream
	cut         bool        // there are more than these
}

// isRun reports whether they belong to a run, and are not just spans under one parent: the
// run's span is here, or one of them names it.
func (g *group[F]) isRun() bool { return g.run != nil || g.named }

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

// sweepReady releases the runs and roots of t that are complete, and the runs that are too
// large.
func (b *Buffer[F]) sweepReady(t *Trace[F], now age, releases []Release[F]) []Release[F] {
	var complete, ended, large runSet
	for _, r := range t.changed {
		if r.held > b.cfg.MaxSpansPerRun {
			large = append(large, r.id)
		}
	}
	if large != nil {
		has := large.lookup()
		releases = b.sweep(t, now, SpanLimit, releases, func(it *Item[F], _ Place) bool { return it.Role != Run && has(it.owner()) })
	}
	n := min(len(t.changed), b.cfg.Limits.Sweep)
	for _, r := range t.changed[:n] {
		r.changed = false
		b.work++
		switch why, ready := b.ready(t, r); {
		case ready && why == Complete:
			complete = append(complete, r.id)
		case ready:
			if a := b.awaits(t); b.waitsFor(&a, r.span, now) { // it has settled before
				r.settled = false
				t.settle(r.span, now+age(b.cfg.Settle), why)
				continue
			}
			ended = append(ended, r.id)
		}
	}
	t.changed = slices.Delete(t.changed, 0, n)
	n = min(len(t.roots), b.cfg.Limits.Sweep)
	for _, it := range t.roots[:n] {
		if it.Held() {
			complete = append(complete, b.locate(t, it).Run)
		}
	}
	t.roots = slices.Delete(t.roots, 0, n)
	t.pending = t.pending || len(t.changed)+len(t.roots) > 0
	if len(t.settling) > 0 {
		b.work += len(t.settling) / stepsPerWork
		has := complete.lookup()
		for _, s := range t.settling { // what arrived may explain it
			if s.why == Complete && s.span.Role == Run && !s.span.Gone() && !has(s.span.ID) {
				complete = append(complete, s.span.ID)
			}
		}
	}
	return b.sweepRuns(t, now, releases, complete, ended)
}

// sweepRuns releases the runs that are complete or have ended, except those around one
// that goes later.
func (b *Buffer[F]) sweepRuns(t *Trace[F], now age, releases []Release[F], complete, ended runSet) []Release[F] {
	left := b.innermost(t, slices.Concat(complete, ended))
	defer func() { t.untested = false }()
	goes := left.lookup()
	waits := func(id pcommon.SpanID) bool { return !goes(id) }
	complete, ended = slices.DeleteFunc(complete, waits), slices.DeleteFunc(ended, waits)
	if len(complete) > 0 {
		has := complete.lookup()
		releases = b.sweep(t, now, Complete, releases, func(_ *Item[F], p Place) bool { return has(p.Run) })
	}
	if len(ended) > 0 {
		has := ended.lookup()
		releases = b.sweep(t, now, RunEnded, releases, func(_ *Item[F], p Place) bool { return has(p.Run) })
	}
	return releases
}

// sweepDue releases the runs and roots of t that have settled, the spans that were held for
// Config.MaxHold, and the runs of which nothing arrived for Config.RunTimeout.
func (b *Buffer[F]) sweepDue(t *Trace[F], now age, releases []Release[F]) []Release[F] {
	var ended, complete runSet
	b.waitLonger(t, now)
	for n := 0; n < b.cfg.Limits.Sweep && len(t.settling) > 0 && t.settling[0].until <= now; n++ {
		s := t.settling[0]
		s.span.settling = false
		b.work++
		switch {
		case !s.span.Held():
		case s.why == Complete:
			complete = append(complete, b.locate(t, s.span).Run)
		default:
			r := t.runs.get(s.span.ID)
			r.settled = true
			if _, ready := b.ready(t, r); ready {
				ended = append(ended, r.id)
			}
		}
		t.settling = t.settling[1:]
	}
	releases = b.sweepRuns(t, now, releases, complete, ended)
	if b.holdExpired(t, now) && !b.waitsForCalls(t, now) {
		slack := b.cfg.MaxHold / expirySlack
		if t.live > b.cfg.Limits.Early { // it is a lot of work to look at it
			slack = b.cfg.MaxHold / 2
		}
		since := now + age(slack-b.cfg.MaxHold)
		n := 0
		var runs runSet
		for _, it := range t.items[t.oldest:] {
			if it.Held() && it.arrived <= since {
				it.expired = true
				if it.Role == Run {
					runs = append(runs, it.ID)
				}
				if n++; n == b.cfg.Limits.Sweep {
					break
				}
			}
		}
		complete := b.innermost(t, slices.Clone(runs)).lookup()
		if runs = slices.DeleteFunc(runs, complete); len(runs) > 0 {
			t.incomplete = runs.lookup()
		}
		releases = b.sweep(t, now, HoldExpired, releases, func(it *Item[F], _ Place) bool { return it.expired })
		t.incomplete, t.untested = nil, false
	}
	if t.kept > 0 && t.expires <= now && !b.holdExpired(t, now) { // what is held goes first
		releases = b.sweepExpired(t, now, releases)
	}
	return releases
}

// holdExpired reports whether a span has been held for Config.MaxHold.
func (b *Buffer[F]) holdExpired(t *Trace[F], now age) bool {
	oldest := t.oldestHeld()
	return oldest != nil && oldest.arrived+age(b.cfg.MaxHold) <= now
}

// grouped are the items of t by their run.
func (b *Buffer[F]) grouped(t *Trace[F], due func(*Item[F], Place) bool) []*group[F] {
	groups := b.group(t, due)
	isOpen := func(g *group[F]) bool { return g.place.Open }
	if len(groups) > 1 && slices.ContainsFunc(groups, isOpen) && b.joinResponses(t) {
		groups = b.group(t, due)
	}
	return joinSessions(groups)
}

// stepsPerWork is how many spans that passed are looked up in the time of one item, or how
// many that settle.
const stepsPerWork = 8

// locate is Config.Locate. Long chains of parents count as work.
func (b *Buffer[F]) locate(t *Trace[F], it *Item[F]) Place {
	place := b.cfg.Locate(t, it)
	b.work += t.steps / stepsPerWork
	t.steps = 0
	return place
}

func (b *Buffer[F]) group(t *Trace[F], due func(*Item[F], Place) bool) []*group[F] {
	groups := make([]*group[F], 0, 2)
	var byRun map[pcommon.SpanID]*group[F] // when there are many
	find := func(run pcommon.SpanID) *group[F] {
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
	t.still, t.unplaced = true, false
	defer func() { t.still, t.memo = false, nil }()
	for _, it := range t.items {
		if it.Gone() {
			continue
		}
		place := b.locate(t, it)
		it.ByTime = place.ByTime
		t.unplaced = t.unplaced || place.Untested
		if place.Endless {
			b.forgot(t)
		}
		g := find(place.Run)
		if g == nil {
			g = &group[F]{place: place, start: it.Start}
			if len(groups) == 0 {
				g.items, g.above = b.scratch.lists(t.live)
			}
			groups = append(groups, g)
			if byRun == nil && len(groups) > smallTrace {
				byRun = make(map[pcommon.SpanID]*group[F], 2*len(groups))
				for _, g := range groups {
					byRun[g.place.Run] = g
				}
			} else if byRun != nil {
				byRun[place.Run] = g
			}
		}
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
		if it.Held() && due(it, place) {
			g.due++
			g.end = g.end || it.Role == Run && it.ID == place.Run
		}
	}
	for _, g := range groups { // runs that yield to one another, in a circle, are none
		g.place.Known = g.place.Known && g.run != nil
	}
	return groups
}

// scratch is memory for the items of one group, which is used again. Those of a large one are
// not kept.
type scratch[F any] struct {
	items []*Item[F]
	above []pcommon.SpanID
}

// maxScratch is how many items there is memory for.
const maxScratch = 1 << 10

// lists makes empty lists for n items. Those that it made before are not used any more.
func (s *scratch[F]) lists(n int) (items []*Item[F], above []pcommon.SpanID) {
	if n > maxScratch {
		return make([]*Item[F], 0, n), make([]pcommon.SpanID, 0, n)
	}
	s.items, s.above = slices.Grow(s.items[:0], n)[:n], slices.Grow(s.above[:0], n)[:n]
	return s.items[:0], s.above[:0]
}

// clear forgets the items.
func (s *scratch[F]) clear() { clear(s.items) }

// sweep releases the held spans of t that are due. The release of a run is final if its
// span is due, or if its span will not come and any of its spans is due.
func (b *Buffer[F]) sweep(t *Trace[F], now age, why Reason, releases []Release[F],
	due func(*Item[F], Place) bool,
) []Release[F] {
	groups := b.grouped(t, due)
	defer b.scratch.clear()
	var foreign foreignRequests[F]
	for _, g := range groups { // before any of them goes
		if g.due > 0 && why == Complete && g.run == nil && b.rootWaits(t, g, now) {
			g.due = 0
		}
		if g.due > 0 && (g.unexplained || g.upstream) {
			b.addForeign(g, groups, &foreign)
		}
		g.part = b.isPart(t, g, now)
	}
	setGaps(groups)
	b.setOpenTools(groups)
	b.setLacks(groups)
	for _, g := range groups {
		if g.due == 0 {
			continue
		}
		if g.unexplained && why == Complete && b.waitsForEvidence(t, g, now) {
			continue
		}
		if g.end && !g.part || !g.place.Known && !g.place.Open {
			releases = append(releases, b.releaseGroup(t, g, now, why))
			continue
		}
		releases = b.releaseEarly(t, g, now, why, due, releases)
	}
	t.compact()
	return releases
}

// setGaps finds the runs that go and during which another one began whose span is not here
// yet: that may be within them.
func setGaps[F any](groups []*group[F]) {
	var starts []pcommon.Timestamp // of these
	for _, g := range groups {
		if g.isOpenRun() {
			starts = append(starts, g.start)
		}
	}
	if len(starts) == 0 {
		return
	}
	slices.Sort(starts)
	for _, g := range groups {
		if g.end {
			at, _ := slices.BinarySearch(starts, g.run.Start)
			g.gaps = at < len(starts) && (g.run.End == 0 || starts[at] <= g.run.End+clockGrain)
		}
	}
}

// isOpenRun reports whether they name a run whose span is not here, and may never come.
func (g *group[F]) isOpenRun() bool { return g.place.Open && g.named && g.run == nil }

// maxTested bounds the spans of which it is tested whether they may be a run's.
const maxTested = 64

// setOpenTools finds the runs that go and during which a run of another service began whose span
// is not here, and of which a tool is. The numbers that they announce do not include that.
func (b *Buffer[F]) setOpenTools(groups []*group[F]) {
	if b.cfg.SameService == nil {
		return
	}
	type openTool struct {
		*Item[F]
		began pcommon.Timestamp // its run, as far as that is here
	}
	var tools []openTool
	for _, g := range groups {
		if !g.isOpenRun() {
			continue
		}
		var last *Item[F]
		for _, it := range g.items {
			if it.Role == Tool && (last == nil || !b.cfg.SameService(it, last)) {
				last = it
				tools = append(tools, openTool{it, g.start})
			}
		}
	}
	if len(tools) == 0 {
		return
	}
	slices.SortStableFunc(tools, func(a, b openTool) int { return cmp.Compare(a.began, b.began) })
	for _, g := range groups {
		if !g.end {
			continue
		}
		at, _ := slices.BinarySearchFunc(tools, g.run.Start, func(t openTool, start pcommon.Timestamp) int { return cmp.Compare(t.began, start) })
		for n, t := range tools[at:] {
			if g.run.End != 0 && t.began > g.run.End+clockGrain {
				break
			}
			if n == maxTested || !b.cfg.SameService(t.Item, g.run) {
				g.lacks = true
				break
			}
		}
	}
}

// setLacks finds the runs that go and that may lack what is here: another run, which stays, has it
// by its time alone.
func (b *Buffer[F]) setLacks(groups []*group[F]) {
	goes := func(g *group[F]) bool { return g.end && !g.part }
	var parts []*Item[F]
	for _, g := range groups {
		for _, it := range g.items {
			if it.ByTime && !goes(g) {
				parts = append(parts, it)
			}
		}
	}
	if len(parts) == 0 || b.cfg.During == nil {
		return
	}
	byStart := func(a, b *Item[F]) int { return cmp.Compare(a.Start, b.Start) }
	slices.SortFunc(parts, byStart)
	for _, g := range groups {
		if !goes(g) {
			continue
		}
		earliest := Item[F]{Start: g.run.Start - min(g.run.Start, maxSkew)}
		at, _ := slices.BinarySearchFunc(parts, &earliest, byStart)
		for n, part := range parts[at:] {
			if g.run.End >= g.run.Start && part.Start > g.run.End+maxSkew {
				break
			}
			if n == maxTested || b.cfg.During(part, g.run) {
				g.lacks = true
				break
			}
		}
	}
}

// clockGrain is by how much the end of a span may be too early.
const clockGrain = pcommon.Timestamp(time.Millisecond)

// isPart reports whether a run that yields, and of which it is not known what is above it,
// is a part of something: a run of its trace that was judged ran when it began, or another
// span is above one of its requests.
func (b *Buffer[F]) isPart(t *Trace[F], g *group[F], now age) bool {
	if g.run == nil || !g.run.Yields || !g.place.Open {
		return false
	}
	return b.judged.ran(b.time(now), t.id, g.run.Start) || slices.ContainsFunc(g.above, func(id pcommon.SpanID) bool {
		above := t.Item(id)
		return above != nil && above.Run != g.run.ID
	})
}

// sweepExpired releases the runs of which facts are kept and nothing arrived for
// Config.RunTimeout: their spans will not come.
func (b *Buffer[F]) sweepExpired(t *Trace[F], now age, releases []Release[F]) []Release[F] {
	groups := b.grouped(t, everything[F])
	defer b.scratch.clear()
	var foreign foreignRequests[F]
	t.expires = 0
	first := true
	agents := t.judged || slices.ContainsFunc(groups, (*group[F]).isRun)
	for _, g := range groups { // before any of them goes
		if g.last+age(b.cfg.RunTimeout) <= now && !g.place.Known && (g.unexplained || g.upstream) {
			b.addForeign(g, groups, &foreign)
		}
	}
	released := 0
	for _, g := range groups {
		expires := g.last + age(b.cfg.RunTimeout)
		if expires <= now {
			if released += len(g.items); released > b.cfg.Limits.Sweep && released > len(g.items) {
				t.expires = now
				break
			}
		}
		isPart := g.run != nil && !g.run.Held() // it went early, as a part of what is not here any more
		if expires <= now && (isPart || agents && (!g.isRun() || g.yields && g.run == nil)) {
			releases = append(releases, b.discardGroup(t, g))
			continue
		}
		if expires <= now && !g.place.Known {
			releases = append(releases, b.releaseGroup(t, g, now, RunExpired))
			continue
		}
		if expires <= now { // its span is here, and goes soon
			expires = now + age(b.cfg.Settle)
		}
		if first || expires < t.expires {
			t.expires, first = expires, false
		}
	}
	t.compact()
	return releases
}

// release makes a release of a group, for this number of its items. Lacks: parts of what goes
// may be awaited.
func (b *Buffer[F]) release(t *Trace[F], g *group[F], why Reason, items int, lacks bool) Release[F] {
	r, linksLost := t.runs.get(g.place.Run), b.lacksLinks(t)
	return Release[F]{
		Reason: why, Trace: t.id, Of: t, RunID: g.place.Run, Named: g.named, Run: g.run, Settled: r != nil && r.settled,
		Missing:   t.missing || t.untested || t.unplaced || g.cut || g.lacks || t.incomplete != nil && t.incomplete(g.place.Run),
		LinksLost: linksLost, Gaps: linksLost || t.replayed || g.gaps || lacks,
		Members: make([]Member[F], 0, items+len(g.others)),
	}
}

// releaseGroup makes the last release of a run, and removes its items from t.
func (b *Buffer[F]) releaseGroup(t *Trace[F], g *group[F], now age, why Reason) Release[F] {
	lacks := b.lacks(t, g)
	release := b.release(t, g, why, len(g.items), lacks)
	release.Final = true
	release.Missing = release.Missing || lacks && g.run == nil // nothing announces what there is of it
	for i, it := range g.items {
		m := Member[F]{Item: it, Above: g.above[i], Out: it.Held()}
		if m.Out {
			m.Held = time.Duration(now - it.arrived)
			b.releaseSpan(t, it)
		}
		b.drop(it)
		if it.Role == Run && it.ID != g.place.Run {
			release.Parts = append(release.Parts, it.ID)
			t.setYielded(it.ID)
		}
		release.Members = append(release.Members, m)
	}
	release.Members = append(release.Members, g.others...)
	release.Parts = append(release.Parts, g.joined...)
	for _, part := range release.Parts {
		b.judged.run(t.id, part, false)
	}
	counts := why != RunExpired || g.isRun()
	t.judged = t.judged || counts
	release.Counts = counts
	if g.run != nil && !g.run.Yields {
		b.judged.Ran(b.time(now), t.id, g.run.Start, g.run.End)
	}
	b.judged.remember(t.id, len(g.items), func(i int) pcommon.SpanID { return g.items[i].ID })
	b.judged.run(t.id, g.place.Run, counts)
	b.noteOuter(t, g)
	return release
}

// noteOuter notes the run around one that is released: [Buffer.Ready] tests it. Those around
// that one wait for it.
func (b *Buffer[F]) noteOuter(t *Trace[F], g *group[F]) {
	if g.run == nil || len(t.spans) < 2 {
		return
	}
	if !t.around {
		t.around = true
		b.around = append(b.around, t)
	}
	if len(t.spans) <= maxNewest {
		return
	}
	id, it := pcommon.SpanID{}, g.run
	for range maxLinks {
		switch {
		case it == nil:
			id, _ = t.links.parent(id)
		case it.Run.IsEmpty():
			id = it.Parent
		default:
			id = it.Run
		}
		if id.IsEmpty() {
			return
		}
		if it = t.Item(id); it != nil && it.Role == Run {
			t.outer = append(t.outer, id)
			if !it.Yields {
				return
			}
		}
	}
}

// releaseEarly releases the spans of a group that are due, and keeps their facts.
func (b *Buffer[F]) releaseEarly(t *Trace[F], g *group[F], now age, why Reason, due func(*Item[F], Place) bool, releases []Release[F]) []Release[F] {
	out := make([]bool, len(g.items))
	for i, it := range g.items {
		out[i] = it.Held() && due(it, g.place)
	}
	lacks := b.lacks(t, g)
	for from := slices.Index(out, true); from >= 0; {
		to, n := from, 0
		for ; to < len(out) && n < b.cfg.Limits.Early; to++ {
			if out[to] {
				n++
			}
		}
		first, last := max(from-b.cfg.Limits.Context, 0), min(to+b.cfg.Limits.Context, len(out))
		release := b.release(t, g, why, last-first, lacks)
		release.Missing = release.Missing || first > 0 || last < len(out)
		for i := first; i < last; i++ {
			it := g.items[i]
			m := Member[F]{Item: it, Above: g.above[i], Out: out[i] && from <= i && i < to}
			switch {
			case m.Out:
				m.Held = time.Duration(now - it.arrived)
				b.keep(it)
				b.releaseSpan(t, it)
			case it.Held():
				b.read(it) // it is still held, and its facts are evidence now
			}
			if it.Role == Run && it.ID != g.place.Run {
				release.Parts = append(release.Parts, it.ID)
			}
			release.Members = append(release.Members, m)
		}
		release.Members = append(release.Members, g.others...)
		release.Parts = append(release.Parts, g.joined...)
		releases = append(releases, release)
		b.work += 4 * len(release.Members)
		next := slices.Index(out[to:], true)
		if from = to + next; next < 0 {
			break
		}
	}
	kept := 0
	for _, it := range g.items {
		if it.state == stateKept {
			kept++
		}
	}
	for _, it := range g.items {
		if kept <= b.cfg.Limits.Kept {
			break
		}
		if it.state == stateKept && it.Role != Run {
			b.drop(it)
			b.forget(it)
			b.forgot(t)
			kept--
		}
	}
	return releases
}

// releaseSpan counts the span of an item as gone.
func (b *Buffer[F]) releaseSpan(t *Trace[F], it *Item[F]) {
	it.state = stateKept
	b.held--
	b.bytes -= int(it.Size)
	if r := t.runs.get(it.owner()); r != nil {
		r.held--
	}
}

// schedule sets the next deadline of t, and removes t if nothing is left of it.
func (b *Buffer[F]) schedule(t *Trace[F]) {
	if t.live == 0 {
		t.removeDue()
		if b.traces[t.id] == t {
			delete(b.traces, t.id)
			if t.missing {
				b.judged.Forgot(t.id)
			}
			b.watch(t.id, -1)
			if t.links.size() > 0 { // its last releases have them
				b.left = append(b.left, t)
			}
			b.rememberLinks(t)
		}
		return
	}
	t.byRun = nil
	const never = 1<<63 - 1
	t.deadline = never
	if len(t.settling) > 0 {
		t.deadline = min(t.deadline, t.settling[0].until)
	}
	if t.kept > 0 {
		t.deadline = min(t.deadline, max(t.expires, t.patient))
	}
	if t.pending {
		t.deadline = min(t.deadline, t.rests)
	}
	t.deadline = max(t.deadline, t.rests)
	if oldest := t.oldestHeld(); oldest != nil {
		t.deadline = min(t.deadline, max(oldest.arrived+age(b.cfg.MaxHold), t.patient))
		b.due.set(t)
		return
	}
	b.dueFacts.set(t)
}

// rememberLinks remembers the links of a trace: they may be above late spans.
func (b *Buffer[F]) rememberLinks(t *Trace[F]) {
	for _, list := range t.links.lists {
		b.judged.remember(t.id, len(list), func(i int) pcommon.SpanID { return list[i][0] })
		for i := 0; b.cfg.Remember != nil && i < len(list); i++ {
			b.cfg.Remember(t.id, list[i][0])
		}
	}
}
