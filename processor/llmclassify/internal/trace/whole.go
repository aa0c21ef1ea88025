package trace

import (
	"slices"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
)

// Whole releases the runs of a trace that arrives whole in one call: no span of it was buffered before, each span names
// a run of the call, and each run has as many parts as it announces. The spans are not held: the caller judges the releases
// before anything else of the trace arrives, and then calls [Buffer.Done] for each. Other traces are for [Buffer.Add].
func (b *Buffer) Whole(now time.Time, a Arrival, links []Link, room *Room) (releases []Release, whole bool) {
	if !b.mayBeWhole(now, a) {
		return nil, false
	}
	t := room.trace(a.Trace, b.age(now), len(a.Items))
	size, why := 0, Complete
	for _, it := range a.Items {
		t.add(it, t.began, t.began)
		size += int(it.Size)
		if it.Role == Run && !it.Announced.Known {
			why = RunEnded
		}
	}
	for _, r := range t.changed {
		if r.span == nil || r.members.exceeds(r.span.Announced) || !b.named(t, r).meets(r.span.Announced) {
			return nil, false
		}
	}
	if len(links) > 0 {
		t.links.add(links)
	}
	t.over = len(t.spans) == 1 && t.spans[0].Last && t.spans[0].Parent.IsEmpty() // the run is all of its trace
	b.history.enter(t)
	b.held += len(t.items)
	b.bytes += size
	around, from := len(b.around), len(room.releases)
	b.room = room
	room.releases = b.sweep(t, t.began, why, room.releases, everything)
	b.room = nil
	b.around = b.around[:around] // all runs of the trace are released
	return room.releases[from:], true
}

// mayBeWhole reports whether a trace may be whole, without testing whether its runs have all of their parts.
func (b *Buffer) mayBeWhole(now time.Time, a Arrival) bool {
	if b.replaying || b.traces[a.Trace] != nil || b.age(now) <= b.linksLost || len(a.Items) > b.cfg.MaxSpansPerRun ||
		b.judged.hasRuns(a.Trace) || b.judged.Forgotten(a.Trace) {
		return false
	}
	last, served := false, false
	for _, it := range a.Items {
		if it.owner().IsEmpty() || it.Yields || it.Unexplained || it.Role == Run && !it.Announced.Known && !it.Last || b.isLate(a.Trace, it) {
			return false
		}
		last, served = last || it.Last, served || it.Known.Server
	}
	return !last || !served // what a gateway asks upstream for a request may end after it
}

// TakeBack forgets that a run of a whole trace was judged: its sender sends it again.
func (b *Buffer) TakeBack(release *Release) {
	b.judged.takeBack(release.Trace, release.RunID)
	for i := range release.Members {
		b.judged.takeBackSpan(release.Trace, release.Members[i].ID)
	}
	for id := range release.Of.links.passed {
		b.judged.takeBackSpan(release.Trace, id)
	}
	b.history.takeBack(release.Trace, b.traces[release.Trace], release.RunID)
}

// takeBack forgets a judged run.
func (j *Judged) takeBack(trace pcommon.TraceID, run pcommon.SpanID) {
	key := j.key(trace, run)
	j.runs.Now.remove(key)
	j.runs.Previous.remove(key)
}

// takeBackSpan forgets a span of a judged run.
func (j *Judged) takeBackSpan(trace pcommon.TraceID, span pcommon.SpanID) {
	key := j.key(trace, span)
	j.spans.Now.remove(key)
	j.spans.Previous.remove(key)
}

// takeBack forgets a judged run of the trace, which may be buffered again.
func (h *History) takeBack(trace pcommon.TraceID, t *Trace, run pcommon.SpanID) {
	again := t == nil
	if again {
		t = &Trace{id: trace}
		h.enter(t)
	}
	h.live -= t.past.size()
	t.past.remove(run)
	h.live += t.past.size()
	if again {
		h.leave(h.now, t)
	}
}

// Room is reusable memory for the traces of a call that arrive whole. Its zero value is ready to use.
type Room struct {
	traces   []Trace
	items    []*Item
	members  []Member
	releases []Release
}

// Clear forgets the traces of a call.
func (r *Room) Clear() {
	clear(r.traces)
	clear(r.items)
	clear(r.members)
	clear(r.releases)
	*r = Room{r.traces[:0], r.items[:0], r.members[:0], r.releases[:0]}
}

// Cap returns the number of spans that there is room for.
func (r *Room) Cap() int { return cap(r.items) }

// Grow makes room for this many traces with this many spans in all.
func (r *Room) Grow(traces, spans int) {
	r.traces, r.items = slices.Grow(r.traces, traces), slices.Grow(r.items, spans)
	r.members, r.releases = slices.Grow(r.members, spans), slices.Grow(r.releases, traces)
}

// trace makes a trace with room for n spans.
func (r *Room) trace(id pcommon.TraceID, now age, n int) *Trace {
	r.traces = append(r.traces, Trace{id: id, began: now, rests: now})
	t, from := &r.traces[len(r.traces)-1], len(r.items)
	r.items = r.items[:from+n]
	t.items = r.items[from : from : from+n]
	return t
}
