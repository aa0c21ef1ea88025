package trace

import (
	"cmp"
	"slices"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
)

// release makes a release of a group, with room for this number of its items.
func (b *Buffer) release(t *Trace, g *group, why Reason, items int) Release {
	release := Release{
		Reason: why, Trace: t.id, Of: t, RunID: g.place.Run, Named: g.named, Run: g.run, Doubt: t.doubt | g.doubt,
		Members: b.membersFor(items + len(g.others)),
	}
	if r := t.runs.get(g.place.Run); r != nil {
		release.Settled = r.settled
		release.Doubt |= r.doubt
	}
	if t.tooMany {
		release.Doubt |= TooMany
	}
	if t.began <= b.linksLost {
		release.Doubt |= LinksLost
	}
	return release
}

// membersFor returns an empty list with room for n members.
func (b *Buffer) membersFor(n int) []Member {
	if r := b.room; r != nil && cap(r.members)-len(r.members) >= n {
		from := len(r.members)
		r.members = r.members[:from+n]
		return r.members[from : from : from+n]
	}
	return make([]Member, 0, n)
}

// releaseGroup makes the last release of a run, and removes its items from t.
func (b *Buffer) releaseGroup(t *Trace, g *group, now age, why Reason) Release {
	release := b.release(t, g, why, len(g.items))
	release.Final, release.waits = true, true
	t.judging++
	if g.run == nil && release.Doubt.Has(Refused) { // nothing announces its parts
		release.Doubt |= Forgotten
	}
	for i, it := range g.items {
		m := Member{Item: it, Above: g.above[i], Out: it.Held()}
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
	counts := why != RunExpired || g.isRun()
	t.judged = t.judged || counts
	if t.over {
		return release
	}
	for _, part := range release.Parts {
		b.judged.run(t.id, part, false)
	}
	for _, it := range g.items {
		b.judged.span(t.id, it.ID)
	}
	b.judged.run(t.id, g.place.Run, counts)
	b.noteOuter(t, g)
	before := t.past.size()
	t.ownPast().leave(&release)
	if g.run != nil && !g.run.Yields {
		t.past.from, t.past.to = min(cmp.Or(t.past.from, g.run.Start), g.run.Start), max(t.past.to, g.run.End)
	}
	b.history.live += t.past.size() - before
	return release
}

// noteOuter notes the run around a released run, for [Buffer.Ready]. The runs further out wait for that one.
func (b *Buffer) noteOuter(t *Trace, g *group) {
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

// releaseEarly releases the due spans of a group, and keeps their facts.
func (b *Buffer) releaseEarly(t *Trace, g *group, now age, why Reason, due func(*Item, Place) bool, releases []Release) []Release {
	isDue := func(it *Item) bool { return it.Held() && due(it, g.place) }
	from := 0
	for items := range slices.Chunk(g.items, b.cfg.Limits.Early) {
		above := g.above[from:]
		from += len(items)
		if !slices.ContainsFunc(items, isDue) {
			continue
		}
		release := b.release(t, g, why, len(items))
		if len(items) < len(g.items) {
			release.Doubt |= TooMany
		}
		for i, it := range items {
			m := Member{Item: it, Above: above[i], Out: isDue(it)}
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
		release.waits = true
		t.judging++
		releases = append(releases, release)
		b.work += 4 * len(release.Members)
	}
	b.limitKept(t, g)
	return releases
}

// limitKept forgets the oldest facts of a run that goes early, where they are more than Limits.Kept.
func (b *Buffer) limitKept(t *Trace, g *group) {
	kept := 0
	for _, it := range g.items {
		if it.state == stateKept {
			kept++
		}
	}
	for _, it := range g.items {
		if kept <= b.cfg.Limits.Kept {
			return
		}
		if it.state == stateKept && it.Role != Run {
			b.drop(it)
			b.forget(it)
			b.forgot(t)
			kept--
		}
	}
}

// releaseSpan counts the span of an item as released.
func (b *Buffer) releaseSpan(t *Trace, it *Item) {
	it.state = stateKept
	b.held--
	b.bytes -= int(it.Size)
	if r := t.runs.get(it.owner()); r != nil {
		r.held--
	}
}
