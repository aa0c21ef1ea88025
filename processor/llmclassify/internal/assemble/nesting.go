package assemble

import (
	"math"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/hold"
)

// Position is where a run, or a part of one, is in its trace.
type Position struct {
	Parent     pcommon.SpanID
	Around     pcommon.SpanID // the run around it, if its producer names it; else empty
	Start, End pcommon.Timestamp
	Service    Service

	// Above is the first id above it of which it is not known that the span passed. So what
	// passed need not be known any more when the run around it is judged.
	Above pcommon.SpanID
	// judged is the furthest run that the chain leads to and that was judged: its spans may go.
	judged *Position
	asked  pcommon.SpanID // the last Above for which it was searched
	// Endless: the chain of parents is too long to follow, or leads to a span of which it is not
	// known what it is beneath.
	Endless bool
	// Cut: spans above it that passed may not be known any more. Where its chain breaks off, it
	// may be within any run within which it began, also if it outlasts that.
	Cut bool
}

// Judged finds where a run is that was judged and may have gone: the one whose span, or a part of
// which, has this id. It is nil if no such run is known. If the run had that part by its time alone,
// the end is Endless.
type Judged func(id pcommon.SpanID) (run *Position, to hold.Chain)

// PositionOf is where a span, mostly that of a run, is. If nothing of the trace is here, t is nil.
func PositionOf(t *Trace, run *Item, judged Judged) Position {
	s := Position{
		Parent: run.Parent, Around: run.Run, Start: run.Start, End: run.End, Service: ServiceOf(run),
		Above: run.Parent, Cut: run.LinksLost(),
	}
	if !run.Run.IsEmpty() {
		s.Above = run.Run
	}
	s.follow(t)
	s.find(judged)
	return s
}

// furthest is the last run of the chain that was judged, or the run itself.
func (s *Position) furthest() *Position {
	if s.judged != nil {
		return s.judged
	}
	return s
}

// follow follows the chain upwards over spans that passed.
func (s *Position) follow(t *Trace) {
	if s.Endless {
		return
	}
	above, ok := AbovePassed(t, s.Above)
	s.Above, s.Endless = above, !ok
}

// AbovePassed is the first of an id and those above it of which it is not known that the span
// passed. It is false if these are too many to follow. The trace may be nil.
func AbovePassed(t *Trace, id pcommon.SpanID) (above pcommon.SpanID, ok bool) {
	if t == nil {
		return id, true
	}
	for range maxDepth {
		above, ok := passedOver(t, id)
		if !ok {
			return id, true
		}
		id = above
	}
	return id, false
}

// maxJudged bounds the judged runs that one chain goes on beyond.
const maxJudged = 8

// find finds the runs that were judged to which the chain leads. Judged may be nil.
func (s *Position) find(judged Judged) {
	for range maxJudged {
		above := s.furthest().Above
		if judged == nil || s.Endless || above == s.asked {
			return
		}
		s.asked = above
		run, to := judged(above)
		s.Endless = to == hold.Endless
		if run == nil {
			return
		}
		s.judged = run.furthest()
	}
}

// Rooted reports whether the run is within no other one: its parents lead to a root.
func (s *Position) Rooted() bool { return s.furthest().Above.IsEmpty() && !s.Endless }

// passedOver is the parent of a span that passed and is not held.
func passedOver(t *Trace, id pcommon.SpanID) (above pcommon.SpanID, ok bool) {
	if t.Item(id) != nil {
		return above, false
	}
	return t.Passed(id)
}

// during reports whether the run, whose chain breaks off, began and ended within the time
// of a longer one, as their clocks show, and is not beside it. An end before the start is
// none: such a run within another one did not last, and one around others did not end.
func (s *Position) during(outer *Item) bool {
	from, to := timeOf(outer, s.Service == ServiceOf(outer))
	lasted, outerLasted := max(s.End, s.Start)-s.Start, outer.End-outer.Start
	if outer.End < outer.Start {
		to, outerLasted = math.MaxUint64, math.MaxUint64
	}
	if s.Cut {
		return s.Parent != outer.Parent && from <= s.Start && s.Start <= to
	}
	longer := outerLasted > lasted || outerLasted == lasted && outer.Parent.IsEmpty()
	return longer && s.Parent != outer.Parent && from <= s.Start && s.End <= to
}

// During reports whether the run of a run span, whose chain breaks off, is within the run of
// another one by their time.
func During(inner, outer *Item) bool {
	s := PositionOf(nil, inner, nil)
	return s.during(outer)
}

// EndedBefore reports whether an item began after the run had ended, as their clocks show.
func (s *Position) EndedBefore(it *Item) bool {
	end := s.End
	if s.Service != ServiceOf(it) {
		end += maxSkew
	}
	return s.End != 0 && it.Start > end
}

// Nesting is whether a run is within another one.
type Nesting uint8

// The values of Nesting.
const (
	Outside      Nesting = iota
	WithinByTime         // as far as their times show: the chain of its parents breaks off
	WithinByChain
)

// Outer is a run that others may be within.
type Outer struct {
	run    *Item
	of     *Trace // may be nil
	member func(pcommon.SpanID) bool
	judged Judged
	steps  int
	ends   map[pcommon.SpanID]chainEnd // by where a chain begins

	// Unknown: of some runs it is not known whether they are within it, as there were too many
	// spans above them.
	Unknown bool
	// Endless: of one of them the chain of its parents is too long to follow.
	Endless bool
}

// NewOuter is a run of a trace. Its members are known where they have gone from the trace; t,
// member and judged may be nil.
func NewOuter(t *Trace, run *Item, member func(pcommon.SpanID) bool, judged Judged) *Outer {
	return &Outer{run: run, of: t, member: member, judged: judged}
}

// chainEnd is where a chain of parents leads to, in this number of steps.
type chainEnd struct {
	kind  endKind
	steps int
}

type endKind uint8

const (
	endsAtRoot endKind = iota
	endsAtRun          // at the outer run, or a member of it
	endsUnseen         // at a span that is not here, and did not pass
	endless
)

// maxOuterSteps bounds the spans that are looked at above all runs that may be within one.
const maxOuterSteps = 4096

// Nests reports whether a run is within this one: its parents, or the runs that it and they
// name, lead to it or to a member of it. If that chain breaks off, it is within it if it began and
// ended within its time, and is not beside it; for a run beneath others that were judged, if the
// last one of these did. The position remembers what passed above it, and
// whether the chain is too long to follow.
func (o *Outer) Nests(s *Position) Nesting {
	end, top := chainEnd{kind: endless}, s
	switch {
	case s.Endless:
	case o.steps >= maxOuterSteps:
		o.Unknown = true
		return Outside
	default:
		end = o.end(s.Above)
		s.follow(o.of)
		if end.kind != endsUnseen {
			break
		}
		switch s.find(o.judged); {
		case s.Endless:
			end.kind = endless
		case s.judged != nil:
			top = s.judged
			end = o.end(top.Above)
		}
	}
	switch end.kind {
	case endsAtRun:
		return WithinByChain
	case endsUnseen:
		if top.during(o.run) {
			return WithinByTime
		}
	case endless:
		s.Endless, o.Endless = true, true
	case endsAtRoot:
	}
	return Outside
}

// end finds where the chain from this id upwards ends.
func (o *Outer) end(id pcommon.SpanID) (end chainEnd) {
	const few = 8 // steps that are as well made again
	var path []pcommon.SpanID
	steps := 0
climb:
	for {
		if known, ok := o.ends[id]; ok {
			end, steps = known, steps+known.steps
			break
		}
		if steps++; steps > maxDepth {
			break
		}
		o.steps++
		switch {
		case id.IsEmpty():
			end.kind = endsAtRoot
			break climb
		case id == o.run.ID || o.member != nil && o.member(id):
			end.kind = endsAtRun
			break climb
		}
		path = append(path, id)
		above, seen := above(o.of, id)
		if !seen {
			end.kind = endsUnseen
			break
		}
		id = above
	}
	if steps > maxDepth {
		end.kind = endless
	}
	if len(path) < few {
		return end
	}
	if o.ends == nil {
		o.ends = make(map[pcommon.SpanID]chainEnd)
	}
	for i, id := range path {
		if i > 0 && end.kind == endless { // what is further up may be near enough to its end
			break
		}
		o.ends[id] = chainEnd{end.kind, steps - i}
	}
	return end
}
