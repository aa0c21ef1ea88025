package trace

import (
	"bytes"
	"cmp"
	"math"
	"slices"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/dialect"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/journal/ticket"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/origin"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/packed"
)

// Known is the processor's knowledge of a span: the reading of its dialect, its origin, and where it is kept.
type Known struct {
	dialect.Reading
	Origin *origin.Scope
	Caller *origin.Caller    // nil if no metadata is kept
	Body   packed.Span       // zero after the span is released
	Names  *dialect.RunNames // read with the facts, when the span is released; nil if there are none
	Ticket ticket.Ticket     // zero without a journal
	Sent   bool              // an earlier process forwarded the span
	Server bool              // the span serves a request of another process
	Part   bool              // the span is a part of the request above it, and no request by itself
	Kept   bool              // the span is released, and Origin is a slim one
	Judged bool              // the span arrived with a verdict, or a part of one, which it may have lost
}

// maxDepth bounds a walk up a parent chain. A span whose chain is longer, or leads in a circle, may belong to any run of
// its trace. It is judged apart, and the runs of the trace may lack it.
const maxDepth = 128

// Locate returns the run that a span belongs to:
//
//  1. the run that it names;
//  2. the first run on its parent chain, as far as that leads through spans that are held
//     or passed;
//  3. if the chain breaks off, the innermost run within which it began, of its own service if
//     there is one;
//  4. else no run: the LLM spans under one parent are then one run.
//
// A run that yields is a run only if no other LLM span is above it. Otherwise it is as if
// there were no such run, and no span named it.
func Locate(t *Trace, it *Item) Place {
	named := it.Run
	if it.Role == Run {
		if !it.Yields {
			return Place{Run: it.ID, Known: true}
		}
		named = it.ID
	} else if !it.Parent.IsEmpty() && (named.IsEmpty() || named == it.Parent) {
		if run := t.Item(it.Parent); run != nil && run.Role == Run && !run.Yields { // the usual case
			return Place{Run: run.ID, Known: true}
		}
	}
	c := climb(t, chain{top: it}, it.Parent)
	place := Place{Above: c.above}
	if named.IsEmpty() || t.Yielded(named) {
		return c.locate(t, place)
	}
	run := yielding(t, named)
	if run == nil {
		if at := c.locate(t, place); it.Yields && (at.Known || !c.above.IsEmpty() && c.run.IsEmpty()) {
			return at // the run's own span never came, or comes later
		}
		return known(t, place, named)
	}
	up := climb(t, chain{top: run, run: run.ID, yields: true}, run.Parent)
	if up.run == run.ID || c.run.IsEmpty() && c.above.IsEmpty() {
		if !c.unseen.IsEmpty() { // the item is beneath the spans above its run
			place.Above = up.above
		}
		at := up.locate(t, place)
		if at.Run == c.run && !c.yields {
			at.ByTime = false // its own parents lead there
		}
		return at
	}
	return c.locate(t, place)
}

// View returns a trace of these spans, by their ids, and links, with their parents, for [Locate] and [Around]. No span is
// placed by time in it.
func View(items map[pcommon.SpanID]*Item, passed map[pcommon.SpanID]pcommon.SpanID) *Trace {
	return &Trace{byID: items, links: links{passed: passed}}
}

// Around returns the run around a run: the one that it names, or else the first one on its parent chain; empty if none is
// known. Endless: the chain is too long to follow.
func Around(t *Trace, run *Item) (outer pcommon.SpanID, endless bool) {
	if !run.Run.IsEmpty() && run.Run != run.ID {
		return run.Run, false
	}
	c := climb(t, chain{top: run}, run.Parent)
	return c.run, c.endless
}

// locate completes the place of an item with this chain.
func (c chain) locate(t *Trace, place Place) Place {
	if !c.run.IsEmpty() && !c.yields {
		return known(t, place, c.run)
	}
	place.Endless = c.endless
	if !c.unseen.IsEmpty() {
		from := c.top
		if c.yields {
			from = t.Item(c.run)
		}
		run, all := innermost(t, from, c.unseen)
		place.Untested = !all
		if run != nil {
			place.Run, place.Known, place.ByTime = run.ID, true, true
			return place
		}
		place.Open, place.Unseen = true, c.unseen
	}
	if c.yields {
		place.Run, place.Known = c.run, true
	} else {
		place.Run = c.representative()
	}
	return place
}

// yielding returns the span of a run that yields, nil if it is not buffered or does not yield.
func yielding(t *Trace, run pcommon.SpanID) *Item {
	if run.IsEmpty() {
		return nil
	}
	if it := t.Item(run); it != nil && it.Role == Run && it.Yields {
		return it
	}
	return nil
}

// climbOver visits the ids from this one upwards, over buffered spans, links and released spans, until visit returns true.
// It reports where they end, Rooted if visit returned true.
func climbOver(t *Trace, p *past, id pcommon.SpanID, visit func(pcommon.SpanID) bool) Chain {
	for range maxDepth {
		if id.IsEmpty() || visit(id) {
			return Rooted
		}
		next, seen := nextAbove(t, p, id)
		if !seen {
			return Broken
		}
		id = next
	}
	return Endless
}

// nextAbove returns the id above a buffered span, a link or a released span.
func nextAbove(t *Trace, p *past, id pcommon.SpanID) (pcommon.SpanID, bool) {
	if next, seen := above(t, id); seen {
		return next, true
	}
	return p.above(id)
}

// above returns the run that a span names, or else its parent, if the span is buffered or a link.
func above(t *Trace, id pcommon.SpanID) (pcommon.SpanID, bool) {
	if t == nil {
		return id, false
	}
	if it := t.Item(id); it != nil {
		return it.up(), true
	}
	return t.links.parent(id)
}

// known completes the place of an item of this run.
func known(t *Trace, place Place, run pcommon.SpanID) Place {
	span := t.Item(run)
	place.Run = run
	place.Known = span != nil && span.Role == Run
	place.Open = !place.Known
	return place
}

// chain is the result of a walk up the parents of a span.
type chain struct {
	above  pcommon.SpanID // the first request or tool on it, empty if none
	run    pcommon.SpanID // the first run on it that does not yield, else the highest one; empty if none
	yields bool           // run yields
	unseen pcommon.SpanID // the id at which it breaks off, empty if it reaches a root or a run, or is too long
	top    *Item          // the highest LLM span on it

	endless bool // too long to follow
}

// representative is the id of the span that represents the run of spans without one: their parent, or the span itself if it
// has none.
func (c chain) representative() pcommon.SpanID {
	if c.top.Parent.IsEmpty() {
		return c.top.ID
	}
	return c.top.Parent
}

// climb continues a chain upwards from the span with this id. A span beneath one that names a yielding run belongs to the
// same run as that one, see [Locate]: its parents count, and the yielding run only if no other LLM span is above it.
func climb(t *Trace, c chain, id pcommon.SpanID) chain {
	var named *Item // the yielding run that the last LLM span names
	passed := 0     // links in a row
	for n := 0; n < maxDepth; n++ {
		above := t.Item(id)
		if above == nil {
			parent, ok := t.Parent(id)
			switch ends := id.IsEmpty() || !ok; {
			case ends && named != nil:
				c.run, c.yields, id, named = named.ID, true, named.Parent, nil
			case ends:
				c.unseen = id
				return c
			default:
				id = parent
			}
			if passed++; passed == fewPassed {
				skipped := t.skipLinks(id)
				n, id = n+skipped.steps, skipped.to
			}
			continue
		}
		named, passed = nil, 0
		if above.Role == Run {
			c.run, c.yields = above.ID, above.Yields
			if !c.yields {
				return c
			}
			id = above.Parent
			continue
		}
		if c.above.IsEmpty() {
			c.above = above.ID
		}
		named = yielding(t, above.Run)
		if named == nil && !above.Run.IsEmpty() && !t.Yielded(above.Run) {
			c.run, c.yields = above.Run, false
			return c
		}
		c.run, c.yields = pcommon.SpanID{}, false
		c.top, id = above, above.Parent
	}
	c.endless = true
	return c
}

// jump leads from a link over others to the id above them.
type jump struct {
	to    pcommon.SpanID
	steps int
}

// fewPassed links in a row are visited again for each item, more only once.
const fewPassed = 4

// skipLinks follows the links from this id upwards to the first id that is not one, or over at least maxDepth of them.
func (t *Trace) skipLinks(id pcommon.SpanID) jump {
	var path []pcommon.SpanID
	end := jump{to: id}
	for len(path) < maxDepth {
		known, ok := t.jumps[end.to]
		if ok {
			end = known
			break
		}
		parent, ok := t.Parent(end.to)
		if !ok || t.Item(end.to) != nil {
			break
		}
		path = append(path, end.to)
		end.to = parent
	}
	if len(path) > 0 && t.jumps == nil {
		t.jumps = make(map[pcommon.SpanID]jump)
	}
	for _, passed := range slices.Backward(path) {
		end.steps++
		t.jumps[passed] = end
	}
	return end
}

// maxRuns bounds the runs of a trace that are searched for one by time, the newest first.
const maxRuns = 256

// ClockGrain is by how much the end of a span may be too early: the OpenTelemetry SDK for JavaScript begins spans on whole
// milliseconds, and adds a finer duration to that. A span that began or ended in the same millisecond may seem to have done
// so after the end.
const ClockGrain = pcommon.Timestamp(time.Millisecond)

// Clock returns a time of a span as an item has it: capped at the year 2262, so that adding a difference between clocks
// does not overflow into an early time.
func Clock(t pcommon.Timestamp) pcommon.Timestamp { return min(t, math.MaxInt64) }

// openRun is a run that does not yield, with the span at which its chain breaks off, if it does.
type openRun struct {
	*Item
	unseen pcommon.SpanID
}

// openRuns returns the newest runs of the trace, the innermost first, and whether these are all.
func (t *Trace) openRuns() (runs []openRun, all bool) {
	all = len(t.spans) <= maxRuns
	if t.inward != nil {
		return t.inward, all
	}
	t.inward = make([]openRun, 0, min(len(t.spans), maxRuns))
	for _, run := range t.spans[max(0, len(t.spans)-maxRuns):] {
		if !run.Yields && !run.Gone() {
			t.inward = append(t.inward, openRun{run, climb(t, chain{top: run}, run.Parent).unseen})
		}
	}
	slices.SortFunc(t.inward, func(a, b openRun) int { return compareInner(b.Item, a.Item) })
	return t.inward, all
}

// innermost finds the innermost run within which an item began, of its own service if there is one, and reports whether all
// runs were searched. A run whose own chain breaks off at the same span is beside the item, not above it. A run that yields
// does not count: its members name it.
func innermost(t *Trace, it *Item, unseen pcommon.SpanID) (found *Item, all bool) {
	runs, all := t.openRuns()
	for _, run := range runs {
		own := SameService(it, run.Item)
		if run.unseen == unseen || run.Item == it || found != nil && !own || !began(it, run.Item) {
			continue
		}
		if found = run.Item; own {
			break
		}
	}
	return found, all
}

// compareInner orders runs by how far in they are, as far as their times show: the later start, and at the same start the
// earlier end, is further in.
func compareInner(a, b *Item) int {
	return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(b.End, a.End), bytes.Compare(a.ID[:], b.ID[:]))
}

// began reports whether an item began within a run, by their clocks.
func began(it, run *Item) bool {
	from, to := timeOf(run, SameService(it, run))
	return from <= it.Start && it.Start <= to
}

// timeOf is the time of a run, by the clock of its own service or of another one.
func timeOf(run *Item, sameService bool) (from, to pcommon.Timestamp) {
	from, to = run.Start, run.End+ClockGrain
	if !sameService {
		from, to = from-min(from, MaxSkew), to+MaxSkew
	}
	return from, to
}

// SameService reports whether two spans came from one service.
func SameService(a, b *Item) bool {
	return a.Known.Origin == b.Known.Origin || ServiceOf(a) == ServiceOf(b)
}

// Service identifies the resource that a span came from. The zero value: unknown.
type Service [16]byte

// ServiceOf returns the service that a span came from.
func ServiceOf(it *Item) Service {
	if it.Known.Origin == nil {
		return Service{}
	}
	return it.Known.Origin.Resource.Key
}
