// Package hold buffers the spans of live runs. It is a pure data structure, bounded by
// age, spans and bytes: it is given the time, and returns what to release and why.
//
// It knows the place of a span in its trace, and neither what the span means nor where
// it is kept. The caller's facts about a span stay when the span itself has had to go,
// so that the run can still be judged on all of them.
package hold

import (
	"slices"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
)

// Config configures a [Buffer]. All durations and bounds are positive.
type Config[F any] struct {
	// MaxHold bounds how long a span is held.
	MaxHold time.Duration
	// Settle is how long a run span that does not announce its requests and tools waits
	// for them, and how long a complete run, or a request without one, waits for what
	// explains it.
	Settle time.Duration
	// RunTimeout bounds how long the facts of released spans wait for their run, from
	// the arrival of the run's last span.
	RunTimeout time.Duration
	// MaxSpansPerRun bounds the spans that are held of one run, and those of one trace that name no run.
	MaxSpansPerRun int
	// MaxFactBytes bounds what is kept beside the held spans, in estimated bytes. What
	// was judged is remembered in at most an eighth of it, on top.
	MaxFactBytes int

	// Locate returns the run that an item belongs to. It must be pure.
	Locate func(*Trace[F], *Item[F]) Place
	// Around appends the ids of the spans above a run whose span is here, and reports where
	// that chain ends. A run among them is released after it, unless it is for
	// its age. May be nil; else During is set, too.
	Around func(t *Trace[F], inner *Item[F], ids []pcommon.SpanID) (around []pcommon.SpanID, to Chain)
	// During reports whether a run whose chain leads to no root is within the run of the span
	// outer, by their time.
	During func(inner, outer *Item[F]) bool
	// Inner returns how many requests and tools of runs that were judged count as the
	// run's: of those within it whose numbers its own include. May be nil.
	Inner func(t *Trace[F], run *Item[F]) (requests, tools uint32)
	// SameService reports whether two items are of one service: none of them is then what a
	// gateway did for the other. May be nil.
	SameService func(a, b *Item[F]) bool
	// Awaits returns the spans of a trace that are known to be on their way, in memory that is
	// the buffer's then. What waits for Settle goes on waiting for those that may be of it, and
	// lacks parts without them. May be nil.
	Awaits func(pcommon.TraceID) Awaited
	// Explained reports whether nothing that may still arrive would change the verdict
	// on a complete run with items that are Unexplained. It is called again whenever
	// something arrives, and must not keep the release.
	Explained func(*Release[F]) bool
	// Read reads the facts of the item's span into Known, and returns their memory in bytes.
	// It is called for evidence, which may go before what it explains. The facts of a span
	// that goes early are for the owner of its release to read, see [Buffer.SetFacts].
	Read func(*Item[F]) int
	// GuessedFacts is the memory of facts that are not read yet, in bytes.
	GuessedFacts int
	// Shared is the memory that items whose spans have gone share, in bytes. It counts toward
	// MaxFactBytes. May be nil.
	Shared func() int
	// Forget is called for items that are forgotten before their run was judged. May be nil.
	Forget func(*Item[F])
	// Remember is called for spans of a trace that is gone now that were linked and never
	// held; they are remembered with its runs. May be nil.
	Remember func(pcommon.TraceID, pcommon.SpanID)
	// Left is called with a trace that is gone, before its links go. May be nil.
	Left func(*Trace[F])
	// Watch is called when there is something of a trace (1), and when there is nothing
	// any more (-1). May be nil.
	Watch func(pcommon.TraceID, int32)

	// Limits bound the work for one trace at a time. Zero ones have their default.
	Limits Limits
}

// Buffer holds live traces. It is not safe for concurrent use.
type Buffer[F any] struct {
	cfg    Config[F]
	epoch  time.Time
	traces map[pcommon.TraceID]*Trace[F]
	judged *Judged
	kept   keptList[F]

	due      deadlines[F] // traces of which spans are held
	dueFacts deadlines[F] // the others

	work      int         // what was looked at so far, about half a microsecond each
	around    []*Trace[F] // those of which a run was released that may be within another one
	left      []*Trace[F] // those that have left, with links that releases still have
	touched   []*Trace[F] // scratch memory of Add
	scratch   scratch[F]  // of a sweep
	held      int         // spans
	bytes     int         // estimated memory of held spans
	factBytes int         // estimated memory of everything else
	forgotten int
	replaying bool // see Replay
	linksLost age  // links of traces that began until then are missing, see LoseLinks
}

// New makes an empty buffer.
func New[F any](now time.Time, cfg Config[F]) *Buffer[F] {
	cfg.Limits.setDefaults()
	return &Buffer[F]{
		cfg:       cfg,
		epoch:     now,
		linksLost: -1,
		traces:    make(map[pcommon.TraceID]*Trace[F]),
		judged:    newJudged(now, cfg.RunTimeout, 2*cfg.MaxHold, cfg.MaxFactBytes),
	}
}

// traceWork is the work for a trace beside that for its spans, in spans.
const traceWork = 8

// A trace of many spans is looked at as a whole when a run of it is complete. So that many
// such runs do not take a time that grows with the square of their number, it then rests in
// proportion to what it took: no trace takes more than a few percent of the time.
const restPerWork = age(20 * time.Microsecond) // 20 ms for a thousand spans

func (b *Buffer[F]) age(t time.Time) age { return age(t.Sub(b.epoch)) }

func (b *Buffer[F]) time(a age) time.Time { return b.epoch.Add(time.Duration(a)) }

// Judged is what the buffer remembers as judged.
func (b *Buffer[F]) Judged() *Judged { return b.judged }

// Work is what was looked at so far, about half a microsecond each.
func (b *Buffer[F]) Work() int { return b.work }

// Traces is how many traces have anything in the buffer.
func (b *Buffer[F]) Traces() int { return len(b.traces) }

func (b *Buffer[F]) watch(trace pcommon.TraceID, change int32) {
	if b.cfg.Watch != nil {
		b.cfg.Watch(trace, change)
	}
}

// Bytes is the estimated memory of the spans that are held.
func (b *Buffer[F]) Bytes() int { return b.bytes }

// FactBytes is the estimated memory of what is kept beside the held spans.
func (b *Buffer[F]) FactBytes() int {
	if b.cfg.Shared == nil {
		return b.factBytes
	}
	return b.factBytes + b.cfg.Shared()
}

// SetMaxFactBytes changes Config.MaxFactBytes. What was judged is remembered as before.
func (b *Buffer[F]) SetMaxFactBytes(bytes int) { b.cfg.MaxFactBytes = bytes }

// Arrival is spans of one trace that arrive together.
type Arrival[F any] struct {
	Trace pcommon.TraceID
	Items []*Item[F]
}

// Add takes over spans that arrived at this time, with links of others that arrived
// with them, and returns what is due because of them. It does not keep the slices.
func (b *Buffer[F]) Add(now time.Time, arrivals []Arrival[F], links []Link) (releases []Release[F]) {
	at := b.age(now)
	b.judged.Rotate(now)
	touched := b.touched[:0]
	for _, a := range arrivals {
		t := b.traces[a.Trace]
		var late []pcommon.SpanID
		judged := b.judgedOnce(a.Trace)
		if t != nil {
			t.items = slices.Grow(t.items, len(a.Items))
		}
		for _, it := range a.Items {
			if judged(it) {
				b.judged.span(a.Trace, it.ID) // what is beneath it is late, too
				owner := it.owner()
				again := !owner.IsEmpty() && b.judged.again(a.Trace, owner)
				late = append(late, it.ID)
				if !it.Spent {
					release := lateRelease(a.Trace, it, true)
					release.Again, release.Beneath = again, b.isBeneath(a.Trace, it)
					releases = append(releases, release)
				} else {
					b.forget(it)
				}
				continue
			}
			if t == nil {
				t = newTrace[F](a.Trace, at)
				t.items = make([]*Item[F], 0, len(a.Items))
				t.judged, t.missing = b.judged.any(a.Trace), b.judged.Forgotten(a.Trace)
				b.traces[a.Trace] = t
				b.watch(a.Trace, 1)
			}
			t.replayed = t.replayed || b.replaying
			t.add(it, at, b.age(now.Add(b.cfg.Settle)))
			if it.Spent {
				b.read(it)
				b.keep(it)
			} else {
				b.held++
				b.bytes += int(it.Size)
			}
			if !t.touched {
				t.touched = true
				touched = append(touched, t)
			}
		}
		if t == nil || len(late) == 0 {
			continue
		}
		t.late = append(t.late, late...)
		if !t.touched {
			t.touched = true
			touched = append(touched, t)
		}
	}
	for len(links) > 0 {
		n, t := b.link(links)
		links = links[n:]
		if t != nil && !t.touched {
			t.touched = true
			touched = append(touched, t)
		}
	}
	for i, t := range touched {
		t.touched = false
		if t.pending = true; t.rests <= at {
			releases = b.sweepPending(t, at, releases)
		}
		b.schedule(t)
		touched[i] = nil
	}
	b.touched = touched[:0]
	b.Trim()
	return releases
}

// judgedOnce is isLate for the items of a trace, asked once for those of one run that follow
// one another.
func (b *Buffer[F]) judgedOnce(trace pcommon.TraceID) func(*Item[F]) bool {
	var last pcommon.SpanID
	var late bool
	return func(it *Item[F]) bool {
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
func (b *Buffer[F]) isLate(trace pcommon.TraceID, it *Item[F]) bool {
	return b.judged.late(trace, it.owner(), it.Parent, it.ID) ||
		it.Role == Run && it.Yields && !it.Parent.IsEmpty() && b.judged.late(trace, pcommon.SpanID{}, it.Parent, it.ID)
}

// isBeneath reports whether a late item is not one of the judged run's own, but beneath one
// of those, as what another service did for the run is.
func (b *Buffer[F]) isBeneath(trace pcommon.TraceID, it *Item[F]) bool {
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
func (b *Buffer[F]) Resize(it *Item[F], size int) {
	if it.Held() {
		b.bytes += size - int(it.Size)
		it.Size = int32(size) //nolint:gosec // no message is that large
	}
}

// Fresh visits the held items of a trace that arrived since the last call for it.
func (b *Buffer[F]) Fresh(trace pcommon.TraceID, visit func(*Item[F])) {
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

// maxNewest is how many run spans of a trace Ready tests, the newest ones, beside those that
// are known to be around a run that was released. Others wait for Config.MaxHold at most.
const maxNewest = 64

// Ready releases the runs that are complete because runs within them were released and
// judged since the last call. Call it until it returns nothing. The traces of which
// releases are still to be judged wait. The links of those that have left go.
func (b *Buffer[F]) Ready(now time.Time, waits func(pcommon.TraceID) bool) (releases []Release[F]) {
	if len(b.left) > 0 {
		b.left = slices.DeleteFunc(b.left, func(t *Trace[F]) bool {
			if waits(t.id) {
				return false
			}
			if b.cfg.Left != nil {
				b.cfg.Left(t)
			}
			b.factBytes -= t.links.size() * linkSize
			return true
		})
	}
	if len(b.around) == 0 { // the usual case
		return nil
	}
	around := b.around
	b.around = nil
	at := b.age(now)
	for _, t := range around {
		if waits(t.id) {
			b.around = append(b.around, t)
			continue
		}
		t.around = false
		if b.traces[t.id] != t {
			continue
		}
		for _, id := range t.outer {
			t.markChanged(t.runs.get(id))
		}
		t.outer = nil
		for _, span := range t.spans[max(0, len(t.spans)-maxNewest):] {
			t.markChanged(t.runs.get(span.ID))
		}
		if t.pending = true; t.rests <= at {
			releases = b.sweepPending(t, at, releases)
		}
		b.schedule(t)
	}
	b.Trim()
	return releases
}

// sweepPending releases what is due because of what has arrived since the last sweep.
func (b *Buffer[F]) sweepPending(t *Trace[F], now age, releases []Release[F]) []Release[F] {
	before := b.work
	t.pending = false
	releases = b.sweepLate(t, now, releases)
	releases = b.sweepReady(t, now, releases)
	b.rest(t, now, before)
	return releases
}

// rest lets a trace rest for the work that was done for it since before.
func (b *Buffer[F]) rest(t *Trace[F], now age, before int) {
	if work := b.work - before; work > b.cfg.Limits.FreeWork {
		t.rests = max(t.rests, now+age(work)*restPerWork)
	}
}

// Trace returns what is here of a trace, nil if nothing is.
func (b *Buffer[F]) Trace(trace pcommon.TraceID) *Trace[F] { return b.traces[trace] }

// Next is when [Buffer.Due] is to be called next; false when nothing waits.
func (b *Buffer[F]) Next() (time.Time, bool) {
	if b.replaying {
		return time.Time{}, false
	}
	next := b.firstDue()
	at, ok := next.first()
	return b.time(at), ok
}

// firstDue is where the trace is that is due next.
func (b *Buffer[F]) firstDue() *deadlines[F] {
	held, ok := b.due.first()
	if facts, kept := b.dueFacts.first(); kept && (!ok || facts < held) {
		return &b.dueFacts
	}
	return &b.due
}

// Due releases what is due, the earliest trace first, until that is work for about limit
// spans. If more is due, Next returns a time that is not after now. Nothing is due during a
// replay.
func (b *Buffer[F]) Due(now time.Time, limit int) (releases []Release[F]) {
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
func (b *Buffer[F]) Evict(now time.Time, n int) (releases []Release[F]) {
	target := b.bytes - n
	return b.releaseEarliest(now, Memory, func() bool { return b.held > 0 && b.bytes > target })
}

// Drain releases everything that is held of at most limit traces. Call it until it
// returns nothing.
func (b *Buffer[F]) Drain(now time.Time, limit int) (releases []Release[F]) {
	return b.releaseEarliest(now, Shutdown, func() bool { limit--; return b.held > 0 && limit >= 0 })
}

// releaseEarliest releases all that is held of the traces with the earliest deadlines,
// for as long as more returns true.
func (b *Buffer[F]) releaseEarliest(now time.Time, why Reason, more func() bool) (releases []Release[F]) {
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
			releases = b.sweep(t, at, why, releases, everything[F])
		}
		b.schedule(t)
	}
	b.Trim()
	return releases
}

func everything[F any](*Item[F], Place) bool { return true }
