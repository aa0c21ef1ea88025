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
	RunEnded           // the run span, which does not announce its tools, has been here for Config.Settle, and as many requests as it announced
	HoldExpired        // a span has been here for Config.MaxHold
	RunExpired         // nothing has come of the run for Config.RunTimeout, least of all its span
	SpanLimit          // the run holds more than Config.MaxSpansPerRun
	Memory             // room was asked for
	Shutdown           // the buffer was drained
	Late               // the span's run had been judged before it came
)

// Announced is what a run span says to have begun under it, and under the runs within
// it. Known: it says how many requests and how many tools. Where it only says how many
// requests, Known is false and Tools 0.
type Announced struct {
	Known           bool
	Requests, Tools uint32
}

// Item is one span and its place in its trace. The caller fills it and hands it
// over with [Buffer.Add]; F is what it knows of the span's content.
type Item[F any] struct {
	ID, Parent pcommon.SpanID
	Run        pcommon.SpanID // the run that the span names, empty if none; on run spans, the run around it
	Start, End pcommon.Timestamp
	Announced  Announced // run spans only
	Role       Role
	state      state
	// Unexplained: what came of it may be explained by spans of other services,
	// which come later than those of its run. See Config.Explained.
	Unexplained bool
	// Upstream: the requests of other runs of the trace, as far as they are here, may show
	// what failed of it.
	Upstream bool
	// Spent: the span itself has gone before; what is known of it is all that comes.
	Spent bool

	Size     int32 // estimated memory of the item with its span, bytes; the buffer's from Add on
	factSize int32 // memory of the item while only Known is here, bytes; 0 before Known is read
	Known    F

	arrived    age
	trace      *Trace[F]
	prev, next *Item[F] // in Buffer.kept
}

// state is what the buffer has of an item.
type state uint8

const (
	stateNew  state = iota
	stateHeld       // the span is here
	stateKept       // only what is known of it is here
	stateGone       // forgotten or judged; only lists that are not yet swept still have it
)

// age is a time as the buffer counts it: since it was made.
type age time.Duration

// owner is the run that the item names; a run span names itself.
func (it *Item[F]) owner() pcommon.SpanID {
	if it.Role == Run {
		return it.ID
	}
	return it.Run
}

// Held reports whether the buffer has the item's span.
func (it *Item[F]) Held() bool { return it.state == stateHeld }

// Gone reports whether the buffer has nothing of the item any more.
func (it *Item[F]) Gone() bool { return it.state == stateGone }

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
	// Span is the caller's to use.
	Span ptrace.Span
	// Out: the span is released here. The others have gone out before, or wait on.
	Out bool
	// Held is how long the span was held, where Out is.
	Held time.Duration
	// Above is the nearest request or tool above it, empty if none is known.
	Above pcommon.SpanID
	// Foreign: it is of another run of the trace, and here as evidence alone: where
	// something of this run is Unexplained or has an Upstream.
	Foreign bool
}

// Release is spans to forward, and everything known of the run that they are of.
// It is the caller's; of the items of members that wait on only Known is its.
type Release[F any] struct {
	Reason Reason
	// Final: this is the end of the run, whose verdict is due now and never again.
	// Otherwise the spans that are Out go early, and what is known of them stays.
	Final bool
	Trace pcommon.TraceID
	// RunID is the id of the run, or of the span that stands for it. Named: a member names it.
	RunID pcommon.SpanID
	Named bool
	// Counts: a run that is Final counts as one of its trace, see [Judged]. Again: what
	// is Late has its run remembered for longer.
	Counts, Again bool
	// Run is the run span as far as it is known, nil if it is not.
	Run     *Item[F]
	Members []Member[F] // in order of arrival, the run span among them
}
