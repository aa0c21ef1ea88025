package trace

import (
	"slices"

	"go.opentelemetry.io/collector/pdata/pcommon"
)

// This file decides whether a run is complete: its span is buffered and announces how many requests and tools began under
// the run, and as many are buffered. A [Buffer] tests that whenever spans of the run arrive.
//
// A run with more parts than it announced cannot be trusted to have counted: it waits and is judged like a run that
// announces nothing.
//
// A request at the root of its trace that names no run is complete with the buffered spans beneath it: no run can be above
// it, and nothing announces more. Spans beneath it ended earlier, so that its process exported them earlier; spans that
// arrive afterwards are late.

// tally counts the requests and tools of a run.
type tally struct{ requests, tools uint32 }

func (c *tally) add(role Role) { c.change(role, 1) }

func (c *tally) remove(role Role) { c.change(role, ^uint32(0)) }

func (c *tally) change(role Role, by uint32) {
	switch role {
	case Request:
		c.requests += by
	case Tool:
		c.tools += by
	case Run:
	}
}

// meets reports whether the counts reach the numbers that a run span announced.
func (c tally) meets(a Announced) bool { return c.requests >= a.Requests && c.tools >= a.Tools }

// exceeds reports whether a count is above the number that a run span announced.
func (c tally) exceeds(a Announced) bool {
	return c.requests > a.Requests && (a.Known || a.Requests > 0) || c.tools > a.Tools && a.Known
}

// begunAfter reports whether a time is after the end of a run, if that end is known. A span that began after the end was
// not announced: it must not stand in for a member that is still on its way. Both times are of the clock of the run's
// process.
func begunAfter(at pcommon.Timestamp, run *Item) bool { return run.End != 0 && at > run.End }

// ready reports whether the run may be released, and the reason: its span is buffered with as many members as it announced.
// A run span that announces no tools must also have settled.
func (b *Buffer) ready(t *Trace, r *run) (Reason, bool) {
	if r.span == nil || r.span.Gone() {
		return 0, false
	}
	announced := &r.span.Announced
	if !announced.Void && r.members.exceeds(*announced) && b.named(t, r).exceeds(*announced) {
		b.void(t, r)
	}
	switch {
	case announced.Known && !announced.Void:
		return Complete, b.announcedHere(t, r)
	case r.settled && r.span.Held():
		return RunEnded, (announced.Void || b.announcedHere(t, r)) && !b.yields(t, r)
	}
	return 0, false
}

// yields reports whether a run is a part of another run, or may be. If it may be, the run is tested again when the span
// arrives at which its parent chain breaks off.
func (b *Buffer) yields(t *Trace, r *run) bool {
	if !r.span.Yields {
		return false
	}
	place := b.locate(t, r.span)
	if place.Open && b.joinResponses(t) {
		place = b.locate(t, r.span)
	}
	if place.Open && r.awaits != place.Unseen {
		if t.awaited == nil {
			t.awaited = make(map[pcommon.SpanID][]*run)
		}
		r.awaits = place.Unseen
		t.awaited[r.awaits] = append(t.awaited[r.awaits], r)
	}
	return place.Open || place.Run != r.id
}

// arrived marks the runs that waited for this span for the next sweep. It reports whether any did.
func (t *Trace) arrived(id pcommon.SpanID) bool {
	waited := t.awaited[id]
	for _, r := range waited {
		t.markChanged(r)
	}
	delete(t.awaited, id)
	return waited != nil
}

// Root reports whether the item is a request that can belong to no run: it names none, and no span is above it.
func (it *Item) Root() bool { return it.Role == Request && it.Run.IsEmpty() && it.Parent.IsEmpty() }

// rootWaits reports whether a root waits for Config.Settle from now: spans of other services may explain how the root, or a
// request beneath it, ended. A root waits once.
func (b *Buffer) rootWaits(t *Trace, g *group, now age) bool {
	if !g.unexplained && !g.upstream {
		return false
	}
	at := slices.IndexFunc(g.items, (*Item).Root)
	if at < 0 || g.items[at].waited {
		return false
	}
	root := g.items[at]
	root.waited = true
	t.settle(root, now+age(b.cfg.Settle), Complete)
	return true
}

// void discards the numbers that a run announced. A run that announced all of its members waits for Config.Settle from now,
// the arrival of the contradicting span.
func (b *Buffer) void(t *Trace, r *run) {
	announced := &r.span.Announced
	announced.Void = true
	if announced.Known && r.span.Held() {
		now := t.items[len(t.items)-1].arrived
		t.settle(r.span, now+age(b.cfg.Settle), RunEnded)
	}
}

// named counts the members that name the run and that its announced numbers include.
func (b *Buffer) named(t *Trace, r *run) tally {
	here := r.members
	if begunAfter(r.latest, r.span) {
		for _, it := range b.membersOf(t, r.id) {
			if !it.Gone() && begunAfter(it.Start, r.span) && t.Item(it.ID) == it {
				here.remove(it.Role)
			}
		}
	}
	return here
}

// announcedHere reports whether as many members are buffered as the run announced: spans that name the run, and parts of
// judged runs within it.
func (b *Buffer) announcedHere(t *Trace, r *run) bool {
	here := b.named(t, r)
	if !here.meets(r.span.Announced) {
		requests, tools := parts(t, r.span)
		here.requests, here.tools = here.requests+requests, here.tools+tools
	}
	return here.meets(r.span.Announced)
}

// membersOf returns the items of a trace that name a run. The index behind it lasts until the trace's next
// [Buffer.schedule].
func (b *Buffer) membersOf(t *Trace, run pcommon.SpanID) []*Item {
	if t.byRun == nil {
		b.work += len(t.items)
		t.byRun = make(map[pcommon.SpanID][]*Item)
		for _, it := range t.items {
			if owner := it.owner(); !owner.IsEmpty() {
				t.byRun[owner] = append(t.byRun[owner], it)
			}
		}
	}
	b.work += len(t.byRun[run])
	return t.byRun[run]
}
