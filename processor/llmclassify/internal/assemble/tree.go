// Package assemble turns the spans of a trace into runs: whose a span is, which
// spans are attempts of the run's requests, and what else in the trace explains
// them.
package assemble

import (
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/dialect"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/hold"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/journal"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/origin"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/packed"
)

// Known is what the processor knows of a span: how its dialect reads it, where
// it came from, and where it is kept.
type Known struct {
	dialect.Reading
	Origin *origin.Scope
	Caller *origin.Caller // nil for no caller
	Body   packed.Span    // none when the span has gone
	Ticket journal.Ticket // none without a journal
	Server bool           // the span serves a request of another process
}

// What hold is generic over, as the processor uses it.
type (
	// Arrival is spans of one trace that come together.
	Arrival = hold.Arrival[Known]
	// Item is a span and its place in its trace.
	Item = hold.Item[Known]
	// Trace is what is here of one trace.
	Trace = hold.Trace[Known]
	// Member is one span of a release.
	Member = hold.Member[Known]
	// Release is spans to forward, and everything known of their run.
	Release = hold.Release[Known]
)

// maxDepth bounds a walk up a parent chain, against cycles.
const maxDepth = 128

// Locate says whose a span is:
//
//  1. the run that it names;
//  2. the first run on its parent chain, as far as that leads through spans that
//     are here or were seen;
//  3. where the chain breaks off, the innermost run that it began within;
//  4. else no run's: then the LLM spans under one parent are one run.
func Locate(t *Trace, it *Item) hold.Place {
	if it.Role == hold.Run {
		return hold.Place{Run: it.ID, Known: true}
	}
	c := climb(t, it)
	place := hold.Place{Above: c.above}
	switch {
	case !it.Run.IsEmpty():
		return known(t, place, it.Run)
	case !c.run.IsEmpty():
		return known(t, place, c.run)
	case !c.unseen.IsEmpty():
		if run := innermost(t, it, c.unseen); run != nil {
			place.Run, place.Known = run.ID, true
			return place
		}
		place.Open = true
	}
	place.Run = c.standsFor()
	return place
}

// Position is where a run is in its trace.
type Position struct {
	Parent     pcommon.SpanID
	Around     pcommon.SpanID // the run around it, which its producer names; empty where it names none
	Start, End pcommon.Timestamp
}

// PositionOf is where the run of a run span is.
func PositionOf(run *Item) Position {
	return Position{Parent: run.Parent, Around: run.Run, Start: run.Start, End: run.End}
}

// Within reports whether a run is within the run outer: its parents, or the runs that
// it and they name, lead to outer or to a member of outer. Where that chain breaks off,
// it is within if it began and ended within outer's time, and not beside it. There may
// be nothing here of the trace: t is nil.
func (s Position) Within(t *Trace, outer *Item, member func(pcommon.SpanID) bool) bool {
	id := s.Parent
	if !s.Around.IsEmpty() {
		id = s.Around
	}
	for range maxDepth {
		switch {
		case id.IsEmpty():
			return false
		case id == outer.ID || member != nil && member(id):
			return true
		}
		above, seen := above(t, id)
		if !seen {
			return s.Parent != outer.Parent && s.during(outer)
		}
		id = above
	}
	return false
}

// during reports whether the run began and ended within the time of a longer one.
func (s Position) during(outer *Item) bool {
	return outer.Start <= s.Start && s.End <= outer.End+ClockGrain && s.End-s.Start < outer.End-outer.Start
}

// above is the run that a span names, or else its parent, where the span was seen.
func above(t *Trace, id pcommon.SpanID) (pcommon.SpanID, bool) {
	if t == nil {
		return id, false
	}
	it := t.Item(id)
	switch {
	case it == nil:
		return t.Parent(id)
	case !it.Run.IsEmpty():
		return it.Run, true
	default:
		return it.Parent, true
	}
}

// known completes the place of an item of this run.
func known(t *Trace, place hold.Place, run pcommon.SpanID) hold.Place {
	span := t.Item(run)
	place.Run = run
	place.Known = span != nil && span.Role == hold.Run
	place.Open = !place.Known
	return place
}

// chain is what a walk up the parents of a span found.
type chain struct {
	above  pcommon.SpanID // the first request or tool on it, empty if none
	run    pcommon.SpanID // the first run on it, empty if none
	unseen pcommon.SpanID // the id at which it breaks off, empty where it reaches a root or a run
	top    *Item          // the highest LLM span on it
}

// standsFor is the id under which spans without a run are one: their parent's,
// or the span's own where it has none.
func (c chain) standsFor() pcommon.SpanID {
	if c.top.Parent.IsEmpty() {
		return c.top.ID
	}
	return c.top.Parent
}

func climb(t *Trace, it *Item) chain {
	c := chain{top: it}
	id := it.Parent
	for range maxDepth {
		if id.IsEmpty() {
			return c
		}
		above := t.Item(id)
		if above == nil {
			parent, ok := t.Parent(id)
			if !ok {
				c.unseen = id
				return c
			}
			id = parent
			continue
		}
		if above.Role == hold.Run {
			c.run = above.ID
			return c
		}
		if c.above.IsEmpty() {
			c.above = above.ID
		}
		if !above.Run.IsEmpty() {
			c.run = above.Run
			return c
		}
		c.top = above
		id = above.Parent
	}
	return c
}

const (
	// maxRuns bounds how many runs of a trace are looked at, the newest first.
	maxRuns = 256
	// maxSkew is how far the clocks of two services may be apart.
	maxSkew = pcommon.Timestamp(time.Second)
)

// ClockGrain is how much too early a span may say that it ended: the OpenTelemetry SDK
// for JavaScript begins spans on whole milliseconds, and adds a finer duration to that.
// What began or ended in the same millisecond may seem to have done so after the end.
const ClockGrain = pcommon.Timestamp(time.Millisecond)

// innermost finds the innermost run within which it began. A run whose own chain
// breaks off at the same span is beside it, not above it.
func innermost(t *Trace, it *Item, unseen pcommon.SpanID) *Item {
	var found *Item
	runs := t.Runs()
	for _, run := range runs[max(0, len(runs)-maxRuns):] {
		if found != nil && run.Start <= found.Start {
			continue
		}
		if began(it, run) && climb(t, run).unseen != unseen {
			found = run
		}
	}
	return found
}

// began reports whether it began within run, by their clocks.
func began(it, run *Item) bool {
	from, to := run.Start, run.End+ClockGrain
	if !sameService(it, run) {
		from, to = from-min(from, maxSkew), to+maxSkew
	}
	return from <= it.Start && it.Start <= to
}

func sameService(a, b *Item) bool {
	return a.Known.Origin == b.Known.Origin || ServiceOf(a) == ServiceOf(b)
}

// Service tells the resources apart that spans came from. The zero value: not known.
type Service [16]byte

// ServiceOf is where a span came from.
func ServiceOf(it *Item) Service {
	if it.Known.Origin == nil {
		return Service{}
	}
	return it.Known.Origin.Resource.Key
}
