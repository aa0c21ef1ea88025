package hold

import (
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// expirySlack is the share of Config.MaxHold by which spans may go before it, in
// the company of one that must: a long run goes out in a few batches, not span
// by span.
const expirySlack = 8

// group is the items of a trace that are one run's.
type group[F any] struct {
	place Place
	run   *Item[F]
	items []*Item[F]
	above []pcommon.SpanID // by item
	due   int              // held items that are due
	end   bool             // the run span is one of them

	unexplained bool
	others      []Member[F] // of other groups, where unexplained
}

// sweepReady releases the runs of t that are complete or too large.
func (b *Buffer[F]) sweepReady(t *Trace[F], now time.Time, releases []Release[F]) []Release[F] {
	var complete, large map[pcommon.SpanID]bool
	for _, r := range t.changed {
		r.changed = false
		switch {
		case r.complete():
			complete = with(complete, r.id)
		case r.held > b.cfg.MaxSpansPerRun:
			large = with(large, r.id)
		}
	}
	t.changed = t.changed[:0]
	for _, s := range t.settling { // what came may explain it
		if s.why == Complete {
			complete = with(complete, s.span.ID)
		}
	}
	if complete != nil {
		releases = b.sweep(t, now, Complete, releases, func(_ *Item[F], p Place) bool { return complete[p.Run] })
	}
	if large != nil {
		releases = b.sweep(t, now, SpanLimit, releases, func(it *Item[F], _ Place) bool { return large[it.owner()] })
	}
	return releases
}

func with(set map[pcommon.SpanID]bool, id pcommon.SpanID) map[pcommon.SpanID]bool {
	if set == nil {
		set = make(map[pcommon.SpanID]bool, 1)
	}
	set[id] = true
	return set
}

// sweepDue releases the runs of t that have settled and the spans that have been
// held for long enough.
func (b *Buffer[F]) sweepDue(t *Trace[F], now time.Time, releases []Release[F]) []Release[F] {
	var ended, complete map[pcommon.SpanID]bool
	for len(t.settling) > 0 && !t.settling[0].until.After(now) {
		switch s := t.settling[0]; {
		case !s.span.held || s.span.gone:
		case s.why == Complete:
			complete = with(complete, s.span.ID)
		default:
			ended = with(ended, s.span.ID)
		}
		t.settling = t.settling[1:]
	}
	if complete != nil {
		releases = b.sweep(t, now, Complete, releases, func(_ *Item[F], p Place) bool { return complete[p.Run] })
	}
	if ended != nil {
		releases = b.sweep(t, now, RunEnded, releases, func(_ *Item[F], p Place) bool { return ended[p.Run] })
	}
	if oldest := t.oldestHeld(); oldest != nil && !oldest.arrived.Add(b.cfg.MaxHold).After(now) {
		since := now.Add(b.cfg.MaxHold/expirySlack - b.cfg.MaxHold)
		releases = b.sweep(t, now, HoldExpired, releases, func(it *Item[F], _ Place) bool { return !it.arrived.After(since) })
	}
	return releases
}

// sweep releases the held spans of t that are due, and whole runs with them: a
// run whose span is due, and one whose span will not come and of which any span
// is due.
func (b *Buffer[F]) sweep(t *Trace[F], now time.Time, why Reason, releases []Release[F],
	due func(*Item[F], Place) bool,
) []Release[F] {
	groups := make([]*group[F], 0, 2)
	byRun := make(map[pcommon.SpanID]*group[F], 2)
	for _, it := range t.items {
		if it.gone {
			continue
		}
		place := b.cfg.Locate(t, it)
		g := byRun[place.Run]
		if g == nil {
			g = &group[F]{place: place}
			byRun[place.Run] = g
			groups = append(groups, g)
		}
		g.items = append(g.items, it)
		g.above = append(g.above, place.Above)
		g.place.Open = g.place.Open || place.Open
		if it.Role == Run && g.run == nil {
			g.run = it
		}
		g.unexplained = g.unexplained || it.Unexplained
		if it.held && due(it, place) {
			g.due++
			g.end = g.end || it.Role == Run
		}
	}
	for _, g := range groups {
		if g.due == 0 {
			continue
		}
		if g.unexplained {
			b.foreign(g, groups)
			if why == Complete && b.waits(t, g, now) {
				continue
			}
		}
		whole := g.end || !g.place.Known && !g.place.Open
		releases = append(releases, b.cut(t, g, now, why, whole, due))
	}
	t.compact()
	return releases
}

// cut makes the release of one group and takes out of t what goes with it.
func (b *Buffer[F]) cut(t *Trace[F], g *group[F], now time.Time, why Reason, whole bool,
	due func(*Item[F], Place) bool,
) Release[F] {
	release := Release[F]{Reason: why, Whole: whole, Run: g.run, Members: make([]Member[F], 0, len(g.items)+len(g.others))}
	for i, it := range g.items {
		m := Member[F]{Item: it, Above: g.above[i], Out: it.held && (whole || due(it, g.place))}
		switch {
		case m.Out:
			m.Span, m.Held = it.Span, now.Sub(it.arrived)
			if !whole {
				b.keep(it)
			}
			b.letGo(t, it)
		case it.held:
			b.read(it) // it waits on, and is evidence already
		}
		if whole {
			b.drop(it)
		}
		release.Members = append(release.Members, m)
	}
	release.Members = append(release.Members, g.others...)
	if whole {
		delete(t.runs, g.place.Run)
		b.judged.add(t.id, g.place.Run)
	}
	return release
}

// read reads what is known off the span, once.
func (b *Buffer[F]) read(it *Item[F]) {
	if !it.read {
		it.read = true
		it.factSize = ItemSize + b.cfg.Read(it)
	}
}

// keep reads what is known of a span that goes, and counts it.
func (b *Buffer[F]) keep(it *Item[F]) {
	b.read(it)
	b.kept.push(it)
	b.factBytes += it.factSize
}

// letGo takes the span out of the item.
func (b *Buffer[F]) letGo(t *Trace[F], it *Item[F]) {
	it.held = false
	it.Span = ptrace.Span{}
	b.bytes -= it.Size
	if r := t.runs[it.owner()]; r != nil {
		r.held--
	}
}

// schedule puts t where its next deadline belongs, and lets go of it when
// nothing is left of it.
func (b *Buffer[F]) schedule(t *Trace[F]) {
	oldest := t.oldestHeld()
	if oldest == nil {
		b.due.remove(t)
		if t.live == 0 && b.traces[t.id] == t {
			delete(b.traces, t.id)
			b.factBytes -= len(t.links) * linkSize
		}
		return
	}
	t.deadline = oldest.arrived.Add(b.cfg.MaxHold)
	if len(t.settling) > 0 && t.settling[0].until.Before(t.deadline) {
		t.deadline = t.settling[0].until
	}
	b.due.set(t)
}
