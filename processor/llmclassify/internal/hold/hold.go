// Package hold buffers the spans of live runs: a pure structure, bounded by
// age, spans and bytes, that is told the time and tells what to release and why.
//
// It knows where a span stands in its trace, and nothing of what it means. What
// its caller knows of a span stays when the span itself has had to go, so that
// the run can still be judged on all of them.
package hold

import (
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// Role is what a span is in a run.
type Role uint8

// The roles of spans.
const (
	Request Role = iota
	Tool
	Run
)

// Reason says why spans are released.
type Reason uint8

// The reasons for a release.
const (
	// Complete: the run span is here, and as many requests and tools as it
	// announced, and they are explained or have waited for that for Config.Settle.
	Complete    Reason = iota
	RunEnded           // the run span, which announced nothing, has been here for Config.Settle
	HoldExpired        // a span has been here for Config.MaxHold
	SpanLimit          // the run holds more than Config.MaxSpansPerRun
	Memory             // room was asked for
	Shutdown           // the buffer was drained
	Late               // the span's run had been judged before it came
	numReasons
)

// Reasons are all of them.
func Reasons() []Reason {
	reasons := make([]Reason, numReasons)
	for i := range reasons {
		reasons[i] = Reason(i)
	}
	return reasons
}

// Announced is what a run span says to have begun under it.
type Announced struct {
	Known           bool
	Requests, Tools int
}

// Item is one span and its place in its trace. The caller fills it and hands it
// over with [Buffer.Add]; F is what it knows of the span's content.
type Item[F any] struct {
	ID, Parent pcommon.SpanID
	Run        pcommon.SpanID // the run that the span names, empty if none; ignored on run spans
	Role       Role
	Start, End pcommon.Timestamp
	Announced  Announced // run spans only
	// Unexplained: what came of it may be explained by spans of other services,
	// which come later than those of its run. See Config.Explained.
	Unexplained bool

	Span  ptrace.Span // the buffer's from Add until it is released in a Member
	Size  int         // estimated memory of Span, bytes
	Known F

	arrived    time.Time
	held       bool // Span is here
	gone       bool // forgotten or judged; only lists that are not yet swept still have it
	read       bool // Known has been read
	factSize   int  // memory of Known, bytes, while only that is here
	trace      *Trace[F]
	prev, next *Item[F] // in Buffer.kept
}

// owner is the run that the item names; a run span names itself.
func (it *Item[F]) owner() pcommon.SpanID {
	if it.Role == Run {
		return it.ID
	}
	return it.Run
}

// Place says whose a span is.
type Place struct {
	// Run is the id of the run, or of the span that stands for one: the parent
	// of LLM spans that no run span is above.
	Run pcommon.SpanID
	// Known: the run span is here.
	Known bool
	// Open: the run span is not here and may still come.
	Open bool
	// Above is the nearest request or tool above it on the parent chain, empty if none.
	Above pcommon.SpanID
}

// Member is one span of a [Release].
type Member[F any] struct {
	*Item[F]
	// Span is set where Out is. It is the receiver's.
	Span ptrace.Span
	// Out: the span is released here. The others have gone out before, or wait on.
	Out bool
	// Held is how long the span was held, where Out is.
	Held time.Duration
	// Above is the nearest request or tool above it, empty if none is known.
	Above pcommon.SpanID
	// Foreign: it is of another run of the trace, and here as evidence alone: where
	// something of this run is Unexplained.
	Foreign bool
}

// Release is spans to forward, and everything known of the run that they are of.
// Nothing in it is touched by the buffer any more; Known of an item that waits on
// has been read and may be shared by several releases.
type Release[F any] struct {
	Reason Reason
	// Whole: this is the end of the run, whose verdict is due now and never again.
	// Otherwise the spans that are Out go early, and what is known of them stays.
	Whole bool
	// Run is the run span as far as it is known, nil if it is not.
	Run     *Item[F]
	Members []Member[F] // in order of arrival, the run span among them
}

// Config configures a [Buffer]. All durations and bounds are positive.
type Config[F any] struct {
	// MaxHold bounds how long a span is held.
	MaxHold time.Duration
	// Settle is how long a run span that announces nothing waits for its children,
	// and one that is complete for what explains its children.
	Settle time.Duration
	// RunTimeout bounds how long what is known of released spans waits for their run.
	RunTimeout time.Duration
	// MaxSpansPerRun bounds the spans that are held of one run, and those of one trace that name no run.
	MaxSpansPerRun int
	// MaxFactBytes bounds what is kept beside the held spans, in estimated bytes. At
	// most an eighth of it more remembers which runs were judged.
	MaxFactBytes int

	// Locate says whose an item is. It must be pure.
	Locate func(*Trace[F], *Item[F]) Place
	// Explained reports whether nothing that may still come would change the
	// verdict on a run that is complete and has items that are Unexplained. It is
	// asked again whenever anything comes, and must not keep the release.
	Explained func(*Release[F]) bool
	// Read reads Known off the item's Span, which is about to go while the item
	// stays, and returns its memory in bytes.
	Read func(*Item[F]) int
}

// Buffer holds live traces. It is not safe for concurrent use.
type Buffer[F any] struct {
	cfg    Config[F]
	traces map[pcommon.TraceID]*Trace[F]
	due    deadlines[F]
	kept   keptList[F]
	judged judged

	bytes     int // estimated memory of held spans
	factBytes int // estimated memory of everything else
	forgotten Forgotten
}

// New makes an empty buffer.
func New[F any](cfg Config[F]) *Buffer[F] {
	return &Buffer[F]{
		cfg:    cfg,
		traces: make(map[pcommon.TraceID]*Trace[F]),
		judged: newJudged(cfg.MaxHold, cfg.MaxFactBytes/16/judgedSize),
	}
}

// Traces is how many traces have anything here.
func (b *Buffer[F]) Traces() int { return len(b.traces) }

// Bytes is the estimated memory of the spans that are held.
func (b *Buffer[F]) Bytes() int { return b.bytes }

// FactBytes is the estimated memory of what is kept beside them.
func (b *Buffer[F]) FactBytes() int { return b.factBytes }

// Arrival is an item and the trace that it belongs to.
type Arrival[F any] struct {
	Trace pcommon.TraceID
	Item  *Item[F]
}

// Add takes over the spans of arrivals and returns what is due because of them.
// Nothing of the slice is kept.
func (b *Buffer[F]) Add(now time.Time, arrivals []Arrival[F]) (releases []Release[F]) {
	b.judged.rotate(now)
	var touched []*Trace[F]
	for _, a := range arrivals {
		if isLate(&b.judged, a.Trace, a.Item) {
			releases = append(releases, late(a.Item))
			continue
		}
		t := b.traces[a.Trace]
		if t == nil {
			t = newTrace[F](a.Trace)
			b.traces[a.Trace] = t
		}
		t.add(a.Item, now, b.cfg.Settle)
		b.bytes += a.Item.Size
		if !t.touched {
			t.touched = true
			touched = append(touched, t)
		}
	}
	for _, t := range touched {
		t.touched = false
		releases = b.sweepReady(t, now, releases)
		b.schedule(t)
	}
	b.trim()
	return releases
}

func late[F any](it *Item[F]) Release[F] {
	return Release[F]{Reason: Late, Members: []Member[F]{{Item: it, Span: it.Span, Out: true}}}
}

// Link says that the span id was seen to have this parent and is not held: it
// completes the parent chains of what is. Links of traces that are not here, more
// than Config.MaxSpansPerRun of one trace, and what Config.MaxFactBytes has no room
// for, are ignored: without a link a run only waits for its span for longer.
func (b *Buffer[F]) Link(trace pcommon.TraceID, id, parent pcommon.SpanID) {
	t := b.traces[trace]
	if t == nil || len(t.links) >= b.cfg.MaxSpansPerRun || b.factBytes+linkSize > b.cfg.MaxFactBytes {
		return
	}
	if t.link(id, parent) {
		b.factBytes += linkSize
	}
}

// Has reports whether anything of the trace is here.
func (b *Buffer[F]) Has(trace pcommon.TraceID) bool {
	return b.traces[trace] != nil
}

// Next is when [Buffer.Due] is to be called next; false when nothing waits.
func (b *Buffer[F]) Next() (time.Time, bool) {
	next, ok := b.due.first()
	if oldest := b.kept.front(); oldest != nil {
		if expires := oldest.arrived.Add(b.cfg.RunTimeout); !ok || expires.Before(next) {
			next, ok = expires, true
		}
	}
	return next, ok
}

// Due releases everything whose time has come.
func (b *Buffer[F]) Due(now time.Time) (releases []Release[F]) {
	b.judged.rotate(now)
	for {
		t := b.due.pop(now)
		if t == nil {
			break
		}
		releases = b.sweepDue(t, now, releases)
		b.schedule(t)
	}
	b.expire(now)
	b.trim()
	return releases
}

// Evict releases traces, the one whose time would come first before others,
// until n bytes of held spans have gone or none is held.
func (b *Buffer[F]) Evict(now time.Time, n int) (releases []Release[F]) {
	for target := b.bytes - n; b.bytes > 0 && b.bytes > target; {
		t := b.due.popFirst()
		if t == nil {
			break
		}
		releases = b.sweep(t, now, Memory, releases, everything[F])
		b.schedule(t)
	}
	b.trim()
	return releases
}

// Drain releases everything that is held.
func (b *Buffer[F]) Drain(now time.Time) (releases []Release[F]) {
	for {
		t := b.due.popFirst()
		if t == nil {
			break
		}
		releases = b.sweep(t, now, Shutdown, releases, everything[F])
		b.schedule(t)
	}
	b.trim()
	return releases
}

func everything[F any](*Item[F], Place) bool { return true }
