package trace

import (
	"math"
	"slices"

	"go.opentelemetry.io/collector/pdata/pcommon"
)

// Within summarizes the runs within the run of a release. If the release is its last, the run includes their effects from
// here on.
func (h *History) Within(release *Release) (inner Inner) {
	run := release.Run
	if run == nil {
		return inner
	}
	p := h.pastOf(release)
	if len(p.runs) == 0 {
		return inner
	}
	find := Finder(release.Members)
	o := outer{run: run, of: release.Of, past: p, member: func(id pcommon.SpanID) bool {
		i := find(id)
		return i >= 0 && !release.Members[i].Foreign
	}}
	p.round++
	for _, r := range slices.Backward(p.runs) { // a later run may include the effects of an earlier one
		if r.id == run.ID {
			continue
		}
		if by := p.run(r.takenBy); r.taken && by != nil && by.round == p.round {
			r.round = p.round
			continue
		}
		if !o.nests(r) {
			continue
		}
		r.round = p.round
		inner.Ended(r.well)
		effects := r.effects
		if !r.countsFor(run) {
			effects.Requests, effects.Tools = 0, 0
		}
		inner.Effects = inner.Effects.Join(effects)
		if release.Final {
			r.taken, r.takenBy = true, run.ID
		}
	}
	return inner
}

// parts returns how many requests and tools of the runs within a run count as its own.
func parts(t *Trace, run *Item) (requests, tools uint32) {
	p := t.past
	if p == nil {
		return 0, 0
	}
	o := outer{run: run, of: t, past: p, member: func(pcommon.SpanID) bool { return false }}
	for _, r := range p.runs {
		if r.countsFor(run) && o.nests(r) {
			requests += uint32(max(r.effects.Requests, 0)) //nolint:gosec // no run has that many
			tools += uint32(max(r.effects.Tools, 0))       //nolint:gosec // likewise
		}
	}
	return requests, tools
}

// countsFor reports whether the numbers of the run around it include its own, and no other judged run includes it.
func (r *pastRun) countsFor(run *Item) bool { return r.counts && !r.taken && r.CountsFor(run) }

// Finder returns a function that finds members by id: the first of several, or -1.
func Finder(members []Member) func(pcommon.SpanID) int {
	const few = 32 // up to this number, members are searched one by one
	if len(members) <= few {
		return func(id pcommon.SpanID) int {
			if id.IsEmpty() {
				return -1
			}
			for i := range members {
				if members[i].ID == id {
					return i
				}
			}
			return -1
		}
	}
	byID := make(map[pcommon.SpanID]int, len(members))
	for i := range members {
		if _, ok := byID[members[i].ID]; !ok {
			byID[members[i].ID] = i
		}
	}
	return func(id pcommon.SpanID) int {
		if i, ok := byID[id]; ok {
			return i
		}
		return -1
	}
}

// outer is a run that others may be within.
type outer struct {
	run    *Item
	of     *Trace
	past   *past
	member func(pcommon.SpanID) bool
	steps  int
}

// maxOuterSteps bounds the spans above all runs that are tested for being within one.
const maxOuterSteps = 1 << 13

// nests reports whether a run is within the outer one: the chain of parents leads there, or breaks off and the run began
// during the outer one. If there are too many spans to follow, the run may be within any run of its trace.
func (o *outer) nests(r *pastRun) (within bool) {
	to := climbOver(o.of, o.past, r.Above(), func(id pcommon.SpanID) bool {
		o.steps++
		within = id == o.run.ID || o.member(id)
		return within || o.steps > maxOuterSteps
	})
	switch {
	case within:
	case to == Endless || o.steps > maxOuterSteps:
		o.past.lost = anyTime
	case to == Broken:
		within = r.BegunDuring(o.run)
	}
	return within
}

// Position is where and when a run, or a part of one, was in its trace.
type Position struct {
	Parent     pcommon.SpanID
	Around     pcommon.SpanID // the run around it, if its producer names it; else empty
	Start, End pcommon.Timestamp
	Service    Service
}

// PositionOf returns the position of a span.
func PositionOf(it *Item) Position {
	return Position{Parent: it.Parent, Around: it.Run, Start: it.Start, End: it.End, Service: ServiceOf(it)}
}

// Above is the run around it that its producer names, or else its parent.
func (s *Position) Above() pcommon.SpanID {
	if !s.Around.IsEmpty() {
		return s.Around
	}
	return s.Parent
}

// CountsFor reports whether the numbers of the run around it include the parts of a run here: both are of one process, which
// counts the requests and tools that begin under its runs. A run that names the run around it counts for that one alone. A
// run that outlasts the one around it began parts that no number includes.
func (s *Position) CountsFor(run *Item) bool {
	return (s.Around.IsEmpty() || s.Around == run.ID) && s.Service == ServiceOf(run) && run.Start <= s.Start && s.End <= run.End+ClockGrain
}

// BegunDuring reports whether a run whose chain breaks off began within the time of another run, by their clocks, and is
// not beside it. The run may outlast the other one: a background run does. An end before the start means that the other run
// did not end.
func (s *Position) BegunDuring(outer *Item) bool {
	from, to := timeOf(outer, s.Service == ServiceOf(outer))
	if outer.End < outer.Start {
		to = math.MaxUint64
	}
	return s.Parent != outer.Parent && from <= s.Start && s.Start <= to
}

// During reports whether a run whose chain breaks off is placed by time within a longer run. If links were lost, it may
// outlast that run.
func During(inner, outer *Item) bool {
	s := PositionOf(inner)
	if !s.BegunDuring(outer) || inner.LinksLost() {
		return s.BegunDuring(outer)
	}
	if outer.End < outer.Start {
		return true
	}
	_, to := timeOf(outer, s.Service == ServiceOf(outer))
	lasted, outerLasted := max(s.End, s.Start)-s.Start, outer.End-outer.Start
	return s.End <= to && (outerLasted > lasted || outerLasted == lasted && outer.Parent.IsEmpty())
}

// EndedBefore reports whether an item began after the run had ended, by their clocks.
func (s *Position) EndedBefore(it *Item) bool {
	end := s.End
	if s.Service != ServiceOf(it) {
		end += MaxSkew
	}
	return s.End != 0 && it.Start > end
}
