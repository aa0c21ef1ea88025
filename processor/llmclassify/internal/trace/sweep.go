package trace

import (
	"slices"
	"sync"

	"go.opentelemetry.io/collector/pdata/pcommon"
)

// expirySlack is the divisor of Config.MaxHold by which spans may be released early, together with a span that must be: a
// long run leaves in a few batches, not span by span.
const expirySlack = 8

// sweepReady releases the complete runs and roots of t, and the runs that are too large.
func (b *Buffer) sweepReady(t *Trace, now age, releases []Release) []Release {
	var complete, ended, large runSet
	for _, r := range t.changed {
		if r.held > b.cfg.MaxSpansPerRun {
			large = append(large, r.id)
		}
	}
	if large != nil {
		has := large.lookup()
		releases = b.sweep(t, now, SpanLimit, releases, func(it *Item, _ Place) bool { return it.Role != Run && has(it.owner()) })
	}
	n := min(len(t.changed), b.cfg.Limits.Sweep)
	for _, r := range t.changed[:n] {
		r.changed = false
		b.work++
		switch why, ready := b.ready(t, r); {
		case ready && why == Complete:
			complete = append(complete, r.id)
		case ready:
			if now < t.patient { // it settled before
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
		for _, s := range t.settling { // a new span may explain it
			if s.why == Complete && s.span.Role == Run && !s.span.Gone() && !has(s.span.ID) {
				complete = append(complete, s.span.ID)
			}
		}
	}
	return b.sweepRuns(t, now, releases, complete, ended)
}

// sweepRuns releases the runs that are complete or have ended, except runs around one that is released later.
func (b *Buffer) sweepRuns(t *Trace, now age, releases []Release, complete, ended runSet) []Release {
	left := b.notAround(t, slices.Concat(complete, ended))
	defer func() { t.tooMany = false }()
	goes := left.lookup()
	waits := func(id pcommon.SpanID) bool { return !goes(id) }
	complete, ended = slices.DeleteFunc(complete, waits), slices.DeleteFunc(ended, waits)
	if len(complete) > 0 {
		has := complete.lookup()
		releases = b.sweep(t, now, Complete, releases, func(_ *Item, p Place) bool { return has(p.Run) })
	}
	if len(ended) > 0 {
		has := ended.lookup()
		releases = b.sweep(t, now, RunEnded, releases, func(_ *Item, p Place) bool { return has(p.Run) })
	}
	return releases
}

// sweepDue releases the settled runs and roots of t, the spans that were held for Config.MaxHold, and the runs without a
// new span for Config.RunTimeout.
func (b *Buffer) sweepDue(t *Trace, now age, releases []Release) []Release {
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
	if b.holdExpired(t, now) {
		slack := b.cfg.MaxHold / expirySlack
		if t.live > 4*b.cfg.Limits.Early { // searching the trace is much work
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
		goes := b.notAround(t, slices.Clone(runs)).lookup()
		for _, id := range runs {
			if !goes(id) {
				t.runs.get(id).doubt |= Elsewhere
			}
		}
		releases = b.sweep(t, now, HoldExpired, releases, func(it *Item, _ Place) bool { return it.expired })
		t.tooMany = false
	}
	if t.kept > 0 && t.expires <= now && !b.holdExpired(t, now) { // held spans are released first
		releases = b.sweepExpired(t, now, releases)
	}
	return releases
}

// holdExpired reports whether a span has been held for Config.MaxHold.
func (b *Buffer) holdExpired(t *Trace, now age) bool {
	oldest := t.oldestHeld()
	return oldest != nil && oldest.arrived+age(b.cfg.MaxHold) <= now
}

// sweep releases the due spans of t. The release of a run is final if its span is due, or if its span will not come and any
// of its spans is due.
func (b *Buffer) sweep(t *Trace, now age, why Reason, releases []Release,
	due func(*Item, Place) bool,
) []Release {
	groups := b.grouped(t, due)
	defer b.scratch.clear()
	foreign := sync.OnceValue(func() foreignRequests { return foreignOf(groups) })
	for _, g := range groups { // before any group is released
		if g.due > 0 && why == Complete && g.run == nil && b.rootWaits(t, g, now) {
			g.due = 0
		}
		if g.due > 0 && (g.unexplained || g.upstream) {
			b.addForeign(g, foreign())
		}
		g.part = b.isPart(t, g)
	}
	setDoubts(groups)
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

// isPart reports whether a yielding run with a broken chain is a part of something: a judged run of its trace ran when it
// began, or another span is above one of its requests.
func (b *Buffer) isPart(t *Trace, g *group) bool {
	if g.run == nil || !g.run.Yields || !g.place.Open {
		return false
	}
	return t.past.ran(g.run.Start) || slices.ContainsFunc(g.above, func(id pcommon.SpanID) bool {
		above := t.Item(id)
		return above != nil && above.Run != g.run.ID
	})
}

// sweepExpired releases the runs with kept facts and without a new span for Config.RunTimeout: their run spans will not
// come.
func (b *Buffer) sweepExpired(t *Trace, now age, releases []Release) []Release {
	groups := b.grouped(t, everything)
	defer b.scratch.clear()
	foreign := sync.OnceValue(func() foreignRequests { return foreignOf(groups) })
	t.expires = 0
	first := true
	agents := t.judged || slices.ContainsFunc(groups, (*group).isRun)
	for _, g := range groups { // before any group is released
		if g.last+age(b.cfg.RunTimeout) <= now && !g.place.Known && (g.unexplained || g.upstream) {
			b.addForeign(g, foreign())
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
		isPart := g.run != nil && !g.run.Held() // released early, as a part of something that is not buffered any more
		if expires <= now && (isPart || agents && (!g.isRun() || g.yields && g.run == nil)) {
			releases = append(releases, b.discardGroup(t, g))
			continue
		}
		if expires <= now && !g.place.Known {
			releases = append(releases, b.releaseGroup(t, g, now, RunExpired))
			continue
		}
		if expires <= now { // its span is buffered, and is released soon
			expires = now + age(b.cfg.Settle)
		}
		if first || expires < t.expires {
			t.expires, first = expires, false
		}
	}
	t.compact()
	return releases
}

// schedule sets the next deadline of t. Without buffered spans t leaves, once its releases are judged.
func (b *Buffer) schedule(t *Trace) {
	if t.live == 0 {
		t.removeDue()
		if t.judging == 0 {
			b.leave(t)
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
		t.deadline = min(t.deadline, t.expires)
	}
	if t.pending {
		t.deadline = min(t.deadline, t.rests)
	}
	t.deadline = max(t.deadline, t.rests)
	if oldest := t.oldestHeld(); oldest != nil {
		t.deadline = min(t.deadline, oldest.arrived+age(b.cfg.MaxHold))
		b.due.set(t)
		return
	}
	b.dueFacts.set(t)
}

// leave removes a trace without buffered spans, and hands its past to the history.
func (b *Buffer) leave(t *Trace) {
	if b.traces[t.id] == t {
		delete(b.traces, t.id)
		b.factBytes -= t.links.size() * linkSize
		b.watch(t.id, -1)
	}
	if t.doubt.Has(Forgotten) {
		b.judged.Forgot(t.id)
	}
	b.rememberLinks(t)
	b.history.leave(b.judged.now, t)
}

// rememberLinks remembers the links of a trace: they may be above late spans.
func (b *Buffer) rememberLinks(t *Trace) {
	for id := range t.links.passed {
		b.judged.span(t.id, id)
	}
}
