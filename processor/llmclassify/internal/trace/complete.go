package trace

import (
	"slices"

	"go.opentelemetry.io/collector/pdata/pcommon"
)

// Whether a run is complete is decided in this file alone (whether a complete run then
// waits for other spans, such as those of a gateway: explain.go): its span is here and
// announces how many requests and tools began under it, and as many are here. A [Buffer]
// asks that whenever spans of the run arrive.
//
// A run with more than it announced announced nothing that holds: it waits, and is judged,
// as one that announces nothing.
//
// A request at the root of its trace that names no run is complete with what is here
// beneath it: no run can be above it, and nothing announces that more will come. Its
// process exported what is beneath it earlier, as that ended earlier; what still comes is
// late.

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

// meets reports whether there are as many as a run span announced.
func (c tally) meets(a Announced) bool { return c.requests >= a.Requests && c.tools >= a.Tools }

// exceeds reports whether there are more than a run span announced.
func (c tally) exceeds(a Announced) bool {
	return c.requests > a.Requests && (a.Known || a.Requests > 0) || c.tools > a.Tools && a.Known
}

// begunAfter reports whether a time is after the end of a run, where that is known.
// What began when the run had ended was not announced: it must not count as a member
// that is still on its way. Both times are of one clock, that of the run's process.
func begunAfter(at pcommon.Timestamp, run *Item) bool { return run.End != 0 && at > run.End }

// ready reports whether the run may be released because its span is here with as many
// members as it announced, and the reason. A run span that announces no tools has to
// have settled.
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

// yields reports whether a run is a part of another one, or may be: then it is tested
// again when the span arrives at which its parent chain breaks off.
func (b *Buffer) yields(t *Trace, r *run) bool {
	if !r.span.Yields {
		return false
	}
	place := b.locate(t, r.span)
	if place.Open {
		joined := b.joinResponses(t)
		if b.joinRun(t, r.id) || joined {
			place = b.locate(t, r.span)
		}
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

// arrived lets the next sweep test the runs that waited for this span. It reports whether
// there are any.
func (t *Trace) arrived(id pcommon.SpanID) bool {
	waited := t.awaited[id]
	for _, r := range waited {
		t.markChanged(r)
	}
	delete(t.awaited, id)
	return waited != nil
}

// Root reports whether the item is a request that can belong to no run: it names none,
// and no span is above it.
func (it *Item) Root() bool {
	return it.Role == Request && it.Run.IsEmpty() && it.Parent.IsEmpty()
}

// rootWaits reports whether a root waits for Config.Settle from now: spans of other
// services may explain how it ended, or what is beneath it. It waits once.
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

// void lets what a run announced count no more. A run that announced all of its members
// waits for Config.Settle from now, when what contradicts that arrived.
func (b *Buffer) void(t *Trace, r *run) {
	announced := &r.span.Announced
	announced.Void = true
	if announced.Known && r.span.Held() {
		now := t.items[len(t.items)-1].arrived
		t.settle(r.span, now+age(b.cfg.Settle), RunEnded)
	}
}

// named counts the members that name the run and count as announced.
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

// announcedHere reports whether as many members are here as the run announced: those that
// name it, and those of the runs within it that were judged.
func (b *Buffer) announcedHere(t *Trace, r *run) bool {
	here := b.named(t, r)
	if !here.meets(r.span.Announced) {
		requests, tools := parts(t, r.span)
		here.requests, here.tools = here.requests+requests, here.tools+tools
	}
	return here.meets(r.span.Announced)
}

// membersOf are the items of a trace that name a run, until the trace's next
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
