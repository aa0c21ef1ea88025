package trace

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

// Reason is why spans are released.
type Reason uint8

// The reasons for a release.
const (
	// Complete: the run span is here with as many requests and tools as it announced,
	// and they are explained, or have waited for that for Config.Settle. Or the root is a
	// request, and no run is above what is beneath it.
	Complete    Reason = iota
	RunEnded           // the run span, which does not announce its tools, has been here for Config.Settle, with as many requests as it announced
	HoldExpired        // a span has been here for Config.MaxHold
	RunExpired         // nothing of the run has arrived for Config.RunTimeout, and its span never
	SpanLimit          // more spans of the run are held than Config.MaxSpansPerRun
	Memory             // Evict was called
	Shutdown           // Drain was called
	Late               // the span's run had been judged before the span arrived
)

// Announced is how many requests and tools began under a run span, and under the runs
// within it, as the span announces. Known: it announces both. Where it announces the
// requests alone, Known is false and Tools 0. Void: more are here than it announced, so that
// nothing follows from it; the buffer sets that.
type Announced struct {
	Known, Void     bool
	Requests, Tools uint32
}

// Item is one span and its place in its trace. The caller fills it and hands it over
// with [Buffer.Add]; F is what the caller knows about the span.
type Item struct {
	ID, Parent pcommon.SpanID
	Run        pcommon.SpanID // the run that the span names, empty if none; on run spans, the run around it
	Start, End pcommon.Timestamp
	Announced  Announced // run spans only
	// Session is the conversation or session that the span names, 0 if none. The spans of
	// one session that belong to no run are one run.
	Session uint64
	// Response is the response that a request got, 0 if it is not known. Where two requests
	// had the same, one is what a gateway did for the other.
	Response uint64
	Role     Role
	state    state
	// Yields: the run that it is or names is a run only where no other LLM span is above
	// that. Otherwise it is a part, and its requests and tools belong to what is above it.
	Yields bool
	// Last: it is a run's, and nothing of the run comes after it but requests that it announces.
	Last bool
	// Unexplained: its result may be explained by spans of other services, which arrive
	// later than those of its run. See Config.Explained.
	Unexplained bool
	// Upstream: requests of other runs of the trace, as far as they are here, may be
	// evidence of why it failed.
	Upstream bool
	// ByTime: only its time shows that it belongs to its run; the buffer sets that.
	ByTime bool

	waited   bool // it is a root, or it yields, and was in Trace.settling
	settling bool // it is in Trace.settling
	expired  bool // it is to go for its age

	Size     int32 // estimated memory of the item with its span, bytes; the buffer's after Add
	factSize int32 // memory of the item without its span, bytes; 0 before Known is read
	Known    Known

	arrived    age
	trace      *Trace
	prev, next *Item // in Buffer.kept
}

// state is how much of an item the buffer has.
type state uint8

const (
	stateNew  state = iota
	stateHeld       // the span is here
	stateKept       // its facts alone are here
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

// up is the run that the item names, on a run span the run around it, or else its parent.
func (it *Item) up() pcommon.SpanID {
	if !it.Run.IsEmpty() {
		return it.Run
	}
	return it.Parent
}

// Held reports whether the buffer has the item's span.
func (it *Item) Held() bool { return it.state == stateHeld }

// LinksLost reports whether spans that passed may be missing above the item: there was no room for
// them, or an earlier process received them.
func (it *Item) LinksLost() bool {
	return it.trace != nil && (it.trace.linksLost || it.trace.replayed)
}

// Gone reports whether the buffer has nothing of the item any more.
func (it *Item) Gone() bool { return it.state == stateGone }

// Place is the run that a span belongs to.
type Place struct {
	// Run is the id of the run, or of the span that represents one: the parent of LLM
	// spans that no run span is above.
	Run pcommon.SpanID
	// Known: the run span is here.
	Known bool
	// Open: the run span is not here and may still come. Or it is one that yields, and a
	// run above it may still come.
	Open bool
	// ByTime: the chain of parents does not lead to the run, which is the one at its time.
	ByTime bool
	// Unseen is the first span above that is not here and did not pass, where Open is.
	Unseen pcommon.SpanID
	// Untested: it may be of one of the other runs of its trace, which are too many to test.
	Untested bool
	// Endless: it may be of any run of its trace, as the chain of parents is too long to follow.
	Endless bool
	// Above is the nearest request or tool above it on the parent chain, empty if none.
	Above pcommon.SpanID
}

// Member is one span of a [Release].
type Member struct {
	*Item
	// Span is the caller's to use.
	Span ptrace.Span
	// Out: the span is released here. The others were released before, or are still held.
	Out bool
	// Held is how long the span was held, where Out is.
	Held time.Duration
	// Above is the nearest request or tool above it, empty if none is known.
	Above pcommon.SpanID
	// Foreign: it belongs to another run of the trace, and is evidence only: for items of
	// this run that are Unexplained or Upstream.
	Foreign bool
}

// Release is spans to forward, and everything known of the run that they belong to. The
// caller owns it, but of members whose spans are still held only Known.
type Release struct {
	Reason Reason
	// Final: the verdict on the run is due now, and never again. Otherwise the spans that
	// are Out go early, and their facts stay.
	Final bool
	Trace pcommon.TraceID
	// Of is what is known of the trace beside its members: what leads upwards from them, and the runs that
	// were judged. It stays until [Buffer.Done] was called. Nil if nothing else is here of a late span's trace.
	Of *Trace
	// RunID is the id of the run, or of the span that represents it. Named: a member names it.
	RunID pcommon.SpanID
	Named bool
	// Beneath: what is Late is not one of the run's own spans, but beneath one of those, as a
	// gateway's are.
	Beneath bool
	// Run is the run span, nil if it is not known.
	Run     *Item
	Members []Member // in order of arrival, the run span among them
	// Parts are the runs among the members that yielded, and the spans that represented
	// some of the members before they were joined by their session.
	Parts []pcommon.SpanID
	// Missing: parts of the run, or of another one of its trace, have been forgotten, or are
	// too many to be members of this release.
	Missing bool
	// Settled: its run does not announce its tools, and has waited for Config.Settle.
	Settled bool
	// LinksLost: chains of parents in its trace break off as there was no room for links.
	LinksLost bool
	// Gaps: parts of the run may be missing or may have gone to another run, which does not
	// matter if it announced how many it has and they are here.
	Gaps bool

	waits bool // its trace does not leave before it is judged, see [Buffer.Done]
}
