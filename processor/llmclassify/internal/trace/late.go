package trace

import (
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
)

func lateRelease(trace pcommon.TraceID, it *Item, out bool) Release {
	it.state = stateGone
	return Release{Reason: Late, Trace: trace, RunID: it.owner(), Members: []Member{{Item: it, Out: out}}}
}

// sweepLate releases spans that are beneath late spans and arrived before them: another service's spans arrive in any
// order.
func (b *Buffer) sweepLate(t *Trace, now age, releases []Release) []Release {
	if len(t.late) == 0 { // the usual case
		return releases
	}
	late := t.late
	t.late = nil
	b.work += len(t.items)
	beneath := make(map[pcommon.SpanID][]*Item)
	for _, it := range t.items {
		if it.Gone() || it.Role == Run {
			continue
		}
		above := it.Run // a run that yields may be late itself
		if above.IsEmpty() {
			above = t.above(it)
		}
		beneath[above] = append(beneath[above], it)
	}
	for len(late) > 0 {
		id := late[len(late)-1]
		late = late[:len(late)-1]
		for _, it := range beneath[id] {
			late = append(late, it.ID)
			b.judged.span(t.id, it.ID)
			out, held := it.Held(), time.Duration(now-it.arrived)
			if out {
				b.releaseSpan(t, it)
			}
			b.drop(it)
			release := lateRelease(t.id, it, out)
			release.Beneath = true
			if out {
				release.Members[0].Held = held
			}
			releases = append(releases, release)
		}
		delete(beneath, id) // parents may form a cycle
	}
	t.compact()
	return releases
}

// maxLinks bounds a walk up spans that are not held, against cycles.
const maxLinks = 128

// above is the parent of an item, or if that is a link, the first span above it that is not.
func (t *Trace) above(it *Item) pcommon.SpanID {
	id := it.Parent
	for range maxLinks {
		parent, seen := t.links.parent(id)
		if !seen || parent.IsEmpty() {
			break
		}
		id = parent
	}
	return id
}

// discardGroup releases the facts of spans that are no run, but the work of another service for one: no run was found for
// them in a trace with another run, or theirs yielded.
func (b *Buffer) discardGroup(t *Trace, g *group) Release {
	release := Release{
		Reason: RunExpired, Trace: t.id, RunID: g.place.Run, Members: make([]Member, 0, len(g.items)),
	}
	for i, it := range g.items {
		b.drop(it)
		b.judged.span(t.id, it.ID)
		if it.Role == Run {
			b.judged.run(t.id, it.ID, false)
			t.setYielded(it.ID)
		}
		release.Members = append(release.Members, Member{Item: it, Above: g.above[i]})
	}
	return release
}
