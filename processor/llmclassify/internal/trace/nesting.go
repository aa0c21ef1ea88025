package trace

import (
	"math"

	"go.opentelemetry.io/collector/pdata/pcommon"
)

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
