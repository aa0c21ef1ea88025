package trace

import (
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// Role is the role of a span in a run.
type Role uint8

// The roles of spans.
const (
	Request Role = iota
	Tool
	Run
)

// Reason is why spans are released.
type Reason uint8

// The reasons for a release.
const (
	// Complete: the run span is buffered with as many requests and tools as it announced, and their failures are explained
	// or have waited for that for Config.Settle. Or the root is a request, and no run is above the spans beneath it.
	Complete    Reason = iota
	RunEnded           // the run span, which does not announce its tools, waited for Config.Settle, with as many requests as it announced
	HoldExpired        // a span was held for Config.MaxHold
	RunExpired         // no span of the run arrived for Config.RunTimeout, and its run span never did
	SpanLimit          // more spans of the run are held than Config.MaxSpansPerRun
	Memory             // Evict was called
	Shutdown           // Drain was called
	Late               // the span arrived after its run was judged
)

// Announced is how many requests and tools began under a run span and the runs within it, as the span announces. Known: it
// announces both numbers. If it announces the requests alone, Known is false and Tools 0. Void, set by the buffer: more
// parts are buffered than announced, so that nothing follows from the numbers.
type Announced struct {
	Known, Void     bool
	Requests, Tools uint32
}

// Item is one span and its place in its trace. The caller fills it and hands it over with [Buffer.Add]. Known has the facts
// that the caller reads.
type Item struct {
	ID, Parent pcommon.SpanID
	Run        pcommon.SpanID // the run that the span names, empty if none; for a run span, the run around it
	Start, End pcommon.Timestamp
	Announced  Announced // run spans only
	// Session is the conversation or session that the span names, 0 if none. Spans of one session that belong to no run are
	// one run.
	Session uint64
	// Response is the response that a request got, 0 if unknown. Of two requests with the same response, one is a gateway's
	// on behalf of the other.
	Response uint64
	Role     Role
	state    state
	// Yields: the run that the span is or names counts as a run only if no other LLM span is above it. Otherwise that run
	// is a part, and its requests and tools belong to the run above.
	Yields bool
	// Last: the span is that of a run, and nothing of the run comes after it but requests that it announces.
	Last bool
	// Unexplained: spans of other services, which arrive later than the run's own, may explain the outcome. See
	// Config.Explained.
	Unexplained bool
	// Upstream: buffered requests of other runs of the trace may be evidence of why this one failed.
	Upstream bool
	// ByTime, set by the buffer: the span was placed by time in its run.
	ByTime bool

	waited   bool // it is a root or yields, and was in Trace.settling
	settling bool // it is in Trace.settling
	expired  bool // it is due for its age

	Size     int32 // estimated memory of the item with its span, bytes; the buffer's after Add
	factSize int32 // memory of the item without its span, bytes; 0 before Known is read
	Known    Known

	arrived    age
	trace      *Trace
	prev, next *Item // in Buffer.kept
}

// state is how much of an item is buffered.
type state uint8

const (
	stateNew  state = iota
	stateHeld       // the span is buffered
	stateKept       // the facts alone are buffered
	stateGone       // forgotten or judged; lists that are not compacted yet still have it
)

// age is a time since the buffer was made.
type age time.Duration

// owner is the run that the item names; a run span names itself.
func (it *Item) owner() pcommon.SpanID {
	if it.Role == Run {
		return it.ID
	}
	return it.Run
}

// up is the run that the item names (for a run span, the run around it), or else its parent.
func (it *Item) up() pcommon.SpanID {
	if !it.Run.IsEmpty() {
		return it.Run
	}
	return it.Parent
}

// Held reports whether the item's span is buffered.
func (it *Item) Held() bool { return it.state == stateHeld }

// LinksLost reports whether links above the item may be missing: there was no room for them, or an earlier process received
// them.
func (it *Item) LinksLost() bool {
	return it.trace != nil && it.trace.doubt.Has(LinksLost)
}

// Gone reports whether neither the span nor its facts are buffered any more.
func (it *Item) Gone() bool { return it.state == stateGone }

// Place is the run that a span belongs to.
type Place struct {
	// Run is the id of the run, or of the span that represents one: the parent of LLM spans without a run span above.
	Run pcommon.SpanID
	// Known: the run span is buffered.
	Known bool
	// Open: the run span is not buffered and may still come. Or it yields, and a run above it may still come.
	Open bool
	// ByTime: the chain of parents leads to no run, and the span was placed by time.
	ByTime bool
	// Unseen is the first span above that is neither buffered nor a link, if Open.
	Unseen pcommon.SpanID
	// Untested: the span may belong to another run of its trace, as there are too many to test.
	Untested bool
	// Endless: the chain of parents is too long to follow, and the span may belong to any run of its trace.
	Endless bool
	// Above is the nearest request or tool above it on the parent chain, empty if none.
	Above pcommon.SpanID
}

// OfRun reports whether the span names a run, or one is above it.
func (p *Place) OfRun() bool { return p.Known || p.Open && p.Unseen.IsEmpty() }

// Member is one span of a [Release].
type Member struct {
	*Item
	// Span is for the caller.
	Span ptrace.Span
	// Out: this release releases the span. The others were released before, or are still held.
	Out bool
	// Held is how long the span was held, if Out.
	Held time.Duration
	// Above is the nearest request or tool above it, empty if none is known.
	Above pcommon.SpanID
	// Foreign: the member belongs to another run of the trace, and is evidence only, for Unexplained and Upstream items of
	// this run.
	Foreign bool
}

// Release is a set of spans to forward, and all facts of their run. The caller owns it; of members whose spans are still
// held, the caller may use Known alone.
type Release struct {
	Reason Reason
	// Final: the verdict on the run is due now, and never again. Otherwise the Out spans are released early, and their
	// facts stay.
	Final bool
	Trace pcommon.TraceID
	// Of has the links above the members, and the judged runs of the trace. It stays valid until [Buffer.Done]. Nil for a
	// late span whose trace is not buffered.
	Of *Trace
	// RunID is the id of the run, or of the span that represents it. Named: a member names it.
	RunID pcommon.SpanID
	Named bool
	// Beneath: the Late span is not one of the run's own, but beneath one of them, as a gateway's is.
	Beneath bool
	// Run is the run span, nil if unknown.
	Run     *Item
	Members []Member // in order of arrival, the run span among them
	// Parts are the runs among the members that yielded, and the spans that represented some members before their session
	// joined them.
	Parts []pcommon.SpanID
	Doubt Doubt
	// Settled: the run does not announce its tools, and waited for Config.Settle.
	Settled bool

	waits bool // its trace does not leave before it is judged, see [Buffer.Done]
}
