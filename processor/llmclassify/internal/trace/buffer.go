// Package trace knows traces: which run a span belongs to, what is beneath what, which runs are complete,
// and what judged runs did. Its [Buffer] is a pure data structure, bounded by age, spans and bytes: it is
// given the time, and returns what to release and why.
//
// The facts of a span stay when the span itself has had to go, so that its run can still be judged on all
// of them. Of a trace whose spans have gone the [History] keeps what later runs and late spans need.
package trace

import (
	"slices"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
)

// Buffer holds live traces. It is not safe for concurrent use.
type Buffer struct {
	cfg     Config
	epoch   time.Time
	traces  map[pcommon.TraceID]*Trace
	judged  *Judged
	history *History
	kept    keptList

	due      deadlines // traces of which spans are held
	dueFacts deadlines // the others

	work      int      // what was looked at so far, about half a microsecond each
	around    []*Trace // those of which a run was released that may be within another one
	touched   []*Trace // scratch memory of Add
	scratch   scratch  // of a sweep
	room      *Room    // of a sweep of what came whole
	held      int      // spans
	bytes     int      // estimated memory of held spans
	factBytes int      // estimated memory of everything else
	forgotten int
	replaying bool // see Replay
	linksLost age  // links of traces that began until then are missing, see LoseLinks
}

// New makes an empty buffer.
func New(now time.Time, cfg Config) *Buffer {
	cfg.Limits.setDefaults()
	if cfg.Lifetime == nil {
		cfg.Lifetime = &Lifetime{Period: cfg.RunTimeout}
	}
	b := &Buffer{
		cfg:       cfg,
		epoch:     now,
		linksLost: -1,
		traces:    make(map[pcommon.TraceID]*Trace),
		judged:    newJudged(now, cfg.RunTimeout, 2*cfg.MaxHold, cfg.MaxFactBytes),
	}
	b.history = newHistory(cfg.RunTimeout, cfg.MaxFactBytes/16, b.judged, cfg.Lifetime)
	return b
}

// traceWork is the work for a trace beside that for its spans, in spans.
const traceWork = 8

// A trace of many spans is looked at as a whole when a run of it is complete. So that many
// such runs do not take a time that grows with the square of their number, it then rests in
// proportion to what it took: no trace takes more than a few percent of the time.
const restPerWork = age(20 * time.Microsecond) // 20 ms for a thousand spans

func (b *Buffer) age(t time.Time) age { return age(t.Sub(b.epoch)) }

func (b *Buffer) time(a age) time.Time { return b.epoch.Add(time.Duration(a)) }

// History is what is known of the traces whose spans have gone.
func (b *Buffer) History() *History { return b.history }

// Judged is what the buffer remembers as judged.
func (b *Buffer) Judged() *Judged { return b.judged }

// Work is what was looked at so far, about half a microsecond each.
func (b *Buffer) Work() int { return b.work }

// Traces is how many traces have anything in the buffer.
func (b *Buffer) Traces() int { return len(b.traces) }

func (b *Buffer) watch(trace pcommon.TraceID, change int32) {
	if b.cfg.Watch != nil {
		b.cfg.Watch(trace, change)
	}
}

// Bytes is the estimated memory of the spans that are held.
func (b *Buffer) Bytes() int { return b.bytes }

// FactBytes is the estimated memory of what is kept beside the held spans.
func (b *Buffer) FactBytes() int {
	if b.cfg.Shared == nil {
		return b.factBytes
	}
	return b.factBytes + b.cfg.Shared()
}

// SetMaxFactBytes changes Config.MaxFactBytes. What was judged is remembered as before.
func (b *Buffer) SetMaxFactBytes(bytes int) { b.cfg.MaxFactBytes = bytes }

// Arrival is spans of one trace that arrive together.
type Arrival struct {
	Trace pcommon.TraceID
	Items []*Item
}

// Add takes over spans that arrived at this time, with links of others that arrived
// with them, and returns what is due because of them. It does not keep the slices.
func (b *Buffer) Add(now time.Time, arrivals []Arrival, links []Link) (releases []Release) {
	at := b.age(now)
	b.judged.Rotate(now)
	for _, a := range arrivals {
		releases = b.arrive(now, a, releases)
	}
	for len(links) > 0 {
		n, waited := b.link(links)
		links = links[n:]
		b.touch(waited)
	}
	for i, t := range b.touched {
		t.touched = false
		if t.pending = true; t.rests <= at {
			releases = b.sweepPending(t, at, releases)
		}
		b.schedule(t)
		b.touched[i] = nil
	}
	b.touched = b.touched[:0]
	b.Trim()
	return releases
}

// arrive takes over spans of a trace. Late ones go at once.
func (b *Buffer) arrive(now time.Time, a Arrival, releases []Release) []Release {
	at, settled := b.age(now), b.age(now.Add(b.cfg.Settle))
	t := b.traces[a.Trace]
	if t != nil {
		t.items = slices.Grow(t.items, len(a.Items))
	}
	var late []pcommon.SpanID
	judged := b.judgedOnce(a.Trace)
	for _, it := range a.Items {
		if judged(it) {
			late = append(late, it.ID)
			releases = append(releases, b.goesLate(a.Trace, it))
			continue
		}
		if t == nil {
			t = b.begin(now, a.Trace)
			t.items = make([]*Item, 0, len(a.Items))
		}
		t.replayed = t.replayed || b.replaying
		t.add(it, at, settled)
		b.held++
		b.bytes += int(it.Size)
		b.touch(t)
	}
	if t != nil && len(late) > 0 {
		t.late = append(t.late, late...)
		b.touch(t)
	}
	return releases
}

// begin makes a trace of which nothing is here.
func (b *Buffer) begin(now time.Time, id pcommon.TraceID) *Trace {
	t := newTrace(id, b.age(now))
	t.judged, t.missing = b.judged.any(id), b.judged.Forgotten(id)
	if b.judged.isRefused(id) {
		t.patient = b.age(now.Add(b.cfg.MaxHold))
	}
	b.history.enter(t)
	b.traces[id] = t
	b.watch(id, 1)
	return t
}

// touch lets Add look at a trace. It may be nil.
func (b *Buffer) touch(t *Trace) {
	if t != nil && !t.touched {
		t.touched = true
		b.touched = append(b.touched, t)
	}
}

// goesLate releases a span whose run was judged. Spans beneath it are late, too.
func (b *Buffer) goesLate(trace pcommon.TraceID, it *Item) Release {
	b.judged.span(trace, it.ID)
	if owner := it.owner(); !owner.IsEmpty() {
		b.judged.again(trace, owner)
	}
	release := lateRelease(trace, it, true)
	release.Beneath = b.isBeneath(trace, it)
	return release
}

// judgedOnce is isLate for the items of a trace, asked once for those of one run that follow
// one another.
func (b *Buffer) judgedOnce(trace pcommon.TraceID) func(*Item) bool {
	var last pcommon.SpanID
	var late bool
	return func(it *Item) bool {
		owner := it.owner()
		if owner.IsEmpty() || it.Yields {
			return b.isLate(trace, it)
		}
		if owner != last {
			last, late = owner, b.isLate(trace, it)
		}
		return late
	}
}

// isLate reports whether the run of an item was judged. A run that yields is also late if
// the run was that it is a part of.
func (b *Buffer) isLate(trace pcommon.TraceID, it *Item) bool {
	return b.judged.late(trace, it.owner(), it.Parent, it.ID) ||
		it.Role == Run && it.Yields && !it.Parent.IsEmpty() && b.judged.late(trace, pcommon.SpanID{}, it.Parent, it.ID)
}

// isBeneath reports whether a late item is not one of the judged run's own, but beneath one
// of those, as what another service did for the run is.
func (b *Buffer) isBeneath(trace pcommon.TraceID, it *Item) bool {
	switch {
	case it.Yields:
		return true
	case !it.owner().IsEmpty():
		return false
	default:
		return !b.judged.judgedRun(trace, it.Parent) && !b.judged.judgedRun(trace, it.ID)
	}
}

// Resize sets the memory of a held item with its span, in bytes.
func (b *Buffer) Resize(it *Item, size int) {
	if it.Held() {
		b.bytes += size - int(it.Size)
		it.Size = int32(size) //nolint:gosec // no message is that large
	}
}

// Fresh visits the held items of a trace that arrived since the last call for it.
func (b *Buffer) Fresh(trace pcommon.TraceID, visit func(*Item)) {
	t := b.traces[trace]
	if t == nil {
		return
	}
	for ; t.fresh < len(t.items); t.fresh++ {
		if it := t.items[t.fresh]; it.Held() {
			visit(it)
		}
	}
}

// sweepPending releases what is due because of what has arrived since the last sweep.
func (b *Buffer) sweepPending(t *Trace, now age, releases []Release) []Release {
	before := b.work
	t.pending = false
	releases = b.sweepLate(t, now, releases)
	releases = b.sweepReady(t, now, releases)
	b.rest(t, now, before)
	return releases
}

// rest lets a trace rest for the work that was done for it since before.
func (b *Buffer) rest(t *Trace, now age, before int) {
	if work := b.work - before; work > b.cfg.Limits.FreeWork {
		t.rests = max(t.rests, now+age(work)*restPerWork)
	}
}

// Trace returns what is here of a trace, nil if nothing is.
func (b *Buffer) Trace(trace pcommon.TraceID) *Trace { return b.traces[trace] }

// Next is when [Buffer.Due] is to be called next; false when nothing waits.
func (b *Buffer) Next() (time.Time, bool) {
	if b.replaying {
		return time.Time{}, false
	}
	next := b.firstDue()
	at, ok := next.first()
	return b.time(at), ok
}

// firstDue is where the trace is that is due next.
func (b *Buffer) firstDue() *deadlines {
	held, ok := b.due.first()
	if facts, kept := b.dueFacts.first(); kept && (!ok || facts < held) {
		return &b.dueFacts
	}
	return &b.due
}

// Due releases what is due, the earliest trace first, until that is work for about limit
// spans. If more is due, Next returns a time that is not after now. Nothing is due during a
// replay.
func (b *Buffer) Due(now time.Time, limit int) (releases []Release) {
	at := b.age(now)
	b.judged.Rotate(now)
	if b.replaying {
		return nil
	}
	for limit > 0 {
		next := b.firstDue()
		if first, ok := next.first(); !ok || first > at {
			break
		}
		t := next.popFirst()
		before := b.work
		if t.pending {
			releases = b.sweepPending(t, at, releases)
		}
		releases = b.sweepDue(t, at, releases)
		b.rest(t, at, before)
		limit -= traceWork + b.work - before
		b.schedule(t)
	}
	b.Trim()
	return releases
}

// Evict releases traces, the one with the earliest deadline first, until n bytes of held
// spans are released or no span is held.
func (b *Buffer) Evict(now time.Time, n int) (releases []Release) {
	target := b.bytes - n
	return b.releaseEarliest(now, Memory, func() bool { return b.held > 0 && b.bytes > target })
}

// Drain releases everything that is held of at most limit traces. Call it until it
// returns nothing.
func (b *Buffer) Drain(now time.Time, limit int) (releases []Release) {
	return b.releaseEarliest(now, Shutdown, func() bool { limit--; return b.held > 0 && limit >= 0 })
}

// releaseEarliest releases all that is held of the traces with the earliest deadlines,
// for as long as more returns true.
func (b *Buffer) releaseEarliest(now time.Time, why Reason, more func() bool) (releases []Release) {
	at := b.age(now)
	for more() {
		t := b.due.popFirst()
		if t == nil {
			break
		}
		if t.pending {
			releases = b.sweepPending(t, at, releases)
		}
		if t.oldestHeld() != nil {
			releases = b.sweep(t, at, why, releases, everything)
		}
		b.schedule(t)
	}
	b.Trim()
	return releases
}

func everything(*Item, Place) bool { return true }
