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

	due      deadlines // traces with held spans
	dueFacts deadlines // the other traces

	work      int      // work done so far, in steps of about half a microsecond
	around    []*Trace // traces with a released run that may be within another run
	touched   []*Trace // scratch memory of Add
	scratch   scratch  // scratch memory of a sweep
	room      *Room    // memory for the releases of Whole, nil in any other sweep
	held      int      // spans
	bytes     int      // estimated memory of held spans, bytes
	factBytes int      // estimated memory of everything else, bytes
	forgotten int
	replaying bool // see Replay
	linksLost age  // traces that began until then lack links, see LoseLinks
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
		judged:    newJudged(now, cfg.Lifetime.Period, cfg.MaxFactBytes),
	}
	b.history = newHistory(cfg.Lifetime.Period, cfg.MaxFactBytes/16, b.judged, cfg.Lifetime)
	return b
}

// traceWork is the work for a trace, in spans, on top of the work for its spans.
const traceWork = 8

// When a run of a large trace is complete, the whole trace is searched. The trace then rests for a time in proportion to
// that work, so that many such runs do not take a time that grows with the square of their number: no trace takes more than
// a few percent of the time.
const restPerWork = age(20 * time.Microsecond) // 20 ms for a thousand spans

func (b *Buffer) age(t time.Time) age { return age(t.Sub(b.epoch)) }

func (b *Buffer) time(a age) time.Time { return b.epoch.Add(time.Duration(a)) }

// History returns the facts of traces whose spans are all released.
func (b *Buffer) History() *History { return b.history }

// Judged returns the buffer's memory of judged runs.
func (b *Buffer) Judged() *Judged { return b.judged }

// Work returns the work done so far, in steps of about half a microsecond.
func (b *Buffer) Work() int { return b.work }

// Traces returns the number of buffered traces.
func (b *Buffer) Traces() int { return len(b.traces) }

func (b *Buffer) watch(trace pcommon.TraceID, change int32) {
	if b.cfg.Watch != nil {
		b.cfg.Watch(trace, change)
	}
}

// Bytes is the estimated memory of the held spans.
func (b *Buffer) Bytes() int { return b.bytes }

// FactBytes is the estimated memory of everything but the held spans.
func (b *Buffer) FactBytes() int {
	if b.cfg.Shared == nil {
		return b.factBytes
	}
	return b.factBytes + b.cfg.Shared()
}

// SetMaxFactBytes changes Config.MaxFactBytes. The memory of judged runs keeps its size.
func (b *Buffer) SetMaxFactBytes(bytes int) { b.cfg.MaxFactBytes = bytes }

// Arrival is a group of spans of one trace that arrive together.
type Arrival struct {
	Trace pcommon.TraceID
	Items []*Item
}

// Add takes over spans that arrived now, with the links that arrived with them, and returns the releases that became due.
// It does not keep the slices.
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

// arrive takes over spans of a trace, and releases late ones at once.
func (b *Buffer) arrive(now time.Time, a Arrival, releases []Release) []Release {
	at, settled := b.age(now), b.age(now.Add(b.cfg.Settle))
	t := b.traces[a.Trace]
	if t != nil {
		t.items = slices.Grow(t.items, len(a.Items))
	}
	var late []pcommon.SpanID
	for _, it := range a.Items {
		if b.isLate(a.Trace, it) {
			late = append(late, it.ID)
			releases = append(releases, b.releaseLate(a.Trace, it))
			continue
		}
		if t == nil {
			t = b.begin(now, a.Trace)
			t.items = make([]*Item, 0, len(a.Items))
		}
		if b.replaying {
			t.doubt |= LinksLost
		}
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

// begin makes a trace without buffered spans.
func (b *Buffer) begin(now time.Time, id pcommon.TraceID) *Trace {
	t := newTrace(id, b.age(now))
	t.judged = b.judged.hasRuns(id)
	if b.judged.Forgotten(id) {
		t.doubt |= Forgotten
	}
	if b.judged.isRefused(id) {
		t.patient = b.age(now.Add(b.cfg.MaxHold))
		t.doubt |= Refused
	}
	b.history.enter(t)
	b.traces[id] = t
	b.watch(id, 1)
	return t
}

// touch marks a trace for Add, which sweeps it. The trace may be nil.
func (b *Buffer) touch(t *Trace) {
	if t != nil && !t.touched {
		t.touched = true
		b.touched = append(b.touched, t)
	}
}

// releaseLate releases a span whose run was judged. From now on the spans beneath it are late, too.
func (b *Buffer) releaseLate(trace pcommon.TraceID, it *Item) Release {
	b.judged.span(trace, it.ID)
	if owner := it.owner(); !owner.IsEmpty() {
		b.judged.again(trace, owner)
	}
	release := lateRelease(trace, it, true)
	release.Beneath = b.isBeneath(trace, it)
	return release
}

// isLate reports whether the run of an item was judged. A run that yields is also late if the run around it was judged.
func (b *Buffer) isLate(trace pcommon.TraceID, it *Item) bool {
	return b.judged.late(trace, it.owner(), it.Parent, it.ID) ||
		it.Role == Run && it.Yields && !it.Parent.IsEmpty() && b.judged.late(trace, pcommon.SpanID{}, it.Parent, it.ID)
}

// isBeneath reports whether a late item is beneath a span of the judged run, and is not the run's own: for instance the
// span of another service that the run called.
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

// Resize sets the memory of a held item and its span, in bytes.
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

// sweepPending releases the runs that became due by spans which arrived since the last sweep.
func (b *Buffer) sweepPending(t *Trace, now age, releases []Release) []Release {
	before := b.work
	t.pending = false
	releases = b.sweepLate(t, now, releases)
	releases = b.sweepReady(t, now, releases)
	b.rest(t, now, before)
	return releases
}

// rest lets a trace rest in proportion to its work since before.
func (b *Buffer) rest(t *Trace, now age, before int) {
	if work := b.work - before; work > b.cfg.Limits.FreeWork {
		t.rests = max(t.rests, now+age(work)*restPerWork)
	}
}

// Trace returns the buffered trace with this id, or nil.
func (b *Buffer) Trace(trace pcommon.TraceID) *Trace { return b.traces[trace] }

// Next returns the time of the next call of [Buffer.Due], false if nothing waits.
func (b *Buffer) Next() (time.Time, bool) {
	if b.replaying {
		return time.Time{}, false
	}
	next := b.firstDue()
	at, ok := next.first()
	return b.time(at), ok
}

// firstDue returns the heap with the earliest deadline.
func (b *Buffer) firstDue() *deadlines {
	held, ok := b.due.first()
	if facts, kept := b.dueFacts.first(); kept && (!ok || facts < held) {
		return &b.dueFacts
	}
	return &b.due
}

// Due releases the spans that are due, the earliest trace first, until the work exceeds about limit spans. If more is due,
// Next returns a time that is not after now. Nothing is due during a replay.
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

// Evict releases traces, the one with the earliest deadline first, until n bytes of held spans are released or no span is
// held.
func (b *Buffer) Evict(now time.Time, n int) (releases []Release) {
	target := b.bytes - n
	return b.releaseEarliest(now, Memory, func() bool { return b.held > 0 && b.bytes > target })
}

// Drain releases all held spans of at most limit traces. Call it until it returns nothing.
func (b *Buffer) Drain(now time.Time, limit int) (releases []Release) {
	return b.releaseEarliest(now, Shutdown, func() bool { limit--; return b.held > 0 && limit >= 0 })
}

// releaseEarliest releases all held spans of the traces with the earliest deadlines, for as long as more returns true.
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
