package hold

import (
	"slices"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// Whether a run is complete is decided in this file alone (whether a complete run then
// waits for other spans, such as those of a gateway: explain.go): its span is here and
// announces how many requests and tools began under it, and as many are here. A
// [Buffer] asks that whenever spans of the run arrive; [CompleteRuns] asks it once, for
// runs all of whose spans came in one call.
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
func begunAfter[F any](at pcommon.Timestamp, run *Item[F]) bool { return run.End != 0 && at > run.End }

// ready reports whether the run may be released because its span is here with as many
// members as it announced, and the reason. A run span that announces no tools has to
// have settled.
func (b *Buffer[F]) ready(t *Trace[F], r *run[F]) (Reason, bool) {
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
func (b *Buffer[F]) yields(t *Trace[F], r *run[F]) bool {
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
			t.awaited = make(map[pcommon.SpanID][]*run[F])
		}
		r.awaits = place.Unseen
		t.awaited[r.awaits] = append(t.awaited[r.awaits], r)
	}
	return place.Open || place.Run != r.id
}

// arrived lets the next sweep test the runs that waited for this span. It reports whether
// there are any.
func (t *Trace[F]) arrived(id pcommon.SpanID) bool {
	waited := t.awaited[id]
	for _, r := range waited {
		t.markChanged(r)
	}
	delete(t.awaited, id)
	return waited != nil
}

// Root reports whether the item is a request that can belong to no run: it names none,
// and no span is above it.
func (it *Item[F]) Root() bool {
	return it.Role == Request && it.Run.IsEmpty() && it.Parent.IsEmpty()
}

// rootWaits reports whether a root waits for Config.Settle from now: spans of other
// services may explain how it ended, or what is beneath it. It waits once.
func (b *Buffer[F]) rootWaits(t *Trace[F], g *group[F], now age) bool {
	if !g.unexplained && !g.upstream {
		return false
	}
	at := slices.IndexFunc(g.items, (*Item[F]).Root)
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
func (b *Buffer[F]) void(t *Trace[F], r *run[F]) {
	announced := &r.span.Announced
	announced.Void = true
	if announced.Known && r.span.Held() {
		now := t.items[len(t.items)-1].arrived
		t.settle(r.span, now+age(b.cfg.Settle), RunEnded)
	}
}

// named counts the members that name the run and count as announced.
func (b *Buffer[F]) named(t *Trace[F], r *run[F]) tally {
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
func (b *Buffer[F]) announcedHere(t *Trace[F], r *run[F]) bool {
	here := b.named(t, r)
	if b.cfg.Inner != nil && !here.meets(r.span.Announced) {
		requests, tools := b.cfg.Inner(t, r.span)
		here.requests, here.tools = here.requests+requests, here.tools+tools
	}
	return here.meets(r.span.Announced)
}

// membersOf are the items of a trace that name a run, until the trace's next
// [Buffer.schedule].
func (b *Buffer[F]) membersOf(t *Trace[F], run pcommon.SpanID) []*Item[F] {
	if t.byRun == nil {
		b.work += len(t.items)
		t.byRun = make(map[pcommon.SpanID][]*Item[F])
		for _, it := range t.items {
			if owner := it.owner(); !owner.IsEmpty() {
				t.byRun[owner] = append(t.byRun[owner], it)
			}
		}
	}
	b.work += len(t.byRun[run])
	return t.byRun[run]
}

// maxCompared is how many spans of a trace [CompleteRuns] takes: they are compared
// with one another.
const maxCompared = 64

// CompleteRuns releases the runs of a trace where all of their spans came at once, all
// of them are complete, and nothing else of the trace is here or was judged. It
// releases what [Buffer.Add] would, without a buffer. It appends to the releases, whose
// members are in room, and returns false where a buffer is needed. Spans are the
// items'; alone means that no span came with these that is not among them.
//
// Each item names its run or is one, and its parent is among them, so that its place
// depends on nothing else. The items are only read.
func CompleteRuns[F any](a Arrival[F], spans []ptrace.Span, alone bool, releases []Release[F], room []Member[F]) ([]Release[F], []Member[F], bool) {
	first := len(releases)
	if !selfContained(a.Items, alone) {
		return releases, room, false
	}
	// The runs in the order in which the first span of each came.
	for i, it := range a.Items {
		owner := it.owner()
		if slices.ContainsFunc(releases[first:], func(r Release[F]) bool { return r.RunID == owner }) {
			continue
		}
		at := indexOf(a.Items, owner)
		if at < 0 || a.Items[at].Role != Run {
			return releases[:first], room, false
		}
		release := Release[F]{Reason: Complete, Final: true, Trace: a.Trace, RunID: owner, Named: true, Counts: true, Run: a.Items[at]}
		var here tally
		from := len(room)
		for n, m := range a.Items[i:] {
			if m.owner() != owner {
				continue
			}
			if !begunAfter(m.Start, release.Run) {
				here.add(m.Role)
			}
			member := Member[F]{Item: m, Span: spans[i+n], Out: true}
			if above := indexOf(a.Items, m.Parent); m.Role != Run && above >= 0 && a.Items[above].Role != Run {
				member.Above = m.Parent
			}
			room = append(room, member)
		}
		release.Members = room[from:len(room):len(room)]
		if !here.meets(release.Run.Announced) || here.exceeds(release.Run.Announced) {
			return releases[:first], room, false
		}
		releases = append(releases, release)
	}
	return releases, room, len(releases) > first
}

// selfContained reports whether the runs of these items depend on nothing but them: no
// item was known before or may be explained by what comes later, each one is of a run
// that announces its members, and none has a parent elsewhere, unless no other span
// came with them (alone): the run around one of these may be above another span of the
// call. Items of several runs must not be evidence for one another.
func selfContained[F any](items []*Item[F], alone bool) bool {
	if len(items) > maxCompared {
		return false
	}
	runs, upstream := 0, false
	for i, it := range items {
		upstream = upstream || it.Upstream
		if it.Spent || it.Unexplained || it.owner().IsEmpty() || indexOf(items, it.ID) != i {
			return false
		}
		if it.Role == Run {
			if !it.Announced.Known || it.Yields {
				return false
			}
			runs++
		}
		if !alone && !it.Parent.IsEmpty() && indexOf(items, it.Parent) < 0 {
			return false
		}
	}
	return !upstream || runs <= 1
}

// indexOf is the index of the first item with this id, or -1.
func indexOf[F any](items []*Item[F], id pcommon.SpanID) int {
	if id.IsEmpty() {
		return -1
	}
	for i, it := range items {
		if it.ID == id {
			return i
		}
	}
	return -1
}
