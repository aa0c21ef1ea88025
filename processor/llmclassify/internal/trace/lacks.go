package trace

import (
	"cmp"
	"slices"

	"go.opentelemetry.io/collector/pdata/pcommon"
)

// setGaps finds the runs that are due and during which another run began whose span is not buffered yet: that run may be
// within them.
func setGaps(groups []*group) {
	var starts []pcommon.Timestamp // starts of the open runs
	for _, g := range groups {
		if g.isOpenRun() {
			starts = append(starts, g.start)
		}
	}
	if len(starts) == 0 {
		return
	}
	slices.Sort(starts)
	for _, g := range groups {
		if g.end {
			at, _ := slices.BinarySearch(starts, g.run.Start)
			g.gaps = at < len(starts) && (g.run.End == 0 || starts[at] <= g.run.End+ClockGrain)
		}
	}
}

// isOpenRun reports whether the items name a run whose span is not buffered, and may never come.
func (g *group) isOpenRun() bool { return g.place.Open && g.named && g.run == nil }

// maxTested bounds the items that are tested for belonging to a run.
const maxTested = 64

// setOpenParts finds the runs that are due and around an open run of another service: the numbers that they announce do not
// include the parts of that one. A request during a run may be a gateway's for the run itself, but not a tool. A part that
// began just after the end belongs to an open run that outlasts the run around it.
func (b *Buffer) setOpenParts(groups []*group) {
	type openPart struct {
		*Item
		began pcommon.Timestamp // start of its run, as far as the run is buffered
	}
	var parts []openPart
	for _, g := range groups {
		if !g.isOpenRun() {
			continue
		}
		var last *Item
		for _, it := range g.items {
			if it.Role != Run && (last == nil || it.Role != last.Role || !SameService(it, last)) {
				last = it
				parts = append(parts, openPart{it, g.start})
			}
		}
	}
	if len(parts) == 0 {
		return
	}
	slices.SortStableFunc(parts, func(a, b openPart) int { return cmp.Compare(a.began, b.began) })
	for _, g := range groups {
		if !g.end {
			continue
		}
		at, _ := slices.BinarySearchFunc(parts, g.run.Start, func(p openPart, start pcommon.Timestamp) int { return cmp.Compare(p.began, start) })
		for n, p := range parts[at:] {
			if g.run.End != 0 && p.began > g.run.End+MaxSkew {
				break
			}
			after := g.run.End != 0 && p.began > g.run.End+ClockGrain
			if n == maxTested || (p.Role == Tool || after) && !SameService(p.Item, g.run) {
				g.lacks = true
				break
			}
		}
	}
}

// setLacks finds the runs that are due and may lack buffered parts: parts that were placed by time in another run, which
// stays.
func (b *Buffer) setLacks(groups []*group) {
	goes := func(g *group) bool { return g.end && !g.part }
	var parts []*Item
	for _, g := range groups {
		for _, it := range g.items {
			if it.ByTime && !goes(g) {
				parts = append(parts, it)
			}
		}
	}
	if len(parts) == 0 {
		return
	}
	byStart := func(a, b *Item) int { return cmp.Compare(a.Start, b.Start) }
	slices.SortFunc(parts, byStart)
	for _, g := range groups {
		if !goes(g) {
			continue
		}
		earliest := Item{Start: g.run.Start - min(g.run.Start, MaxSkew)}
		at, _ := slices.BinarySearchFunc(parts, &earliest, byStart)
		for n, part := range parts[at:] {
			if g.run.End >= g.run.Start && part.Start > g.run.End+MaxSkew {
				break
			}
			if n == maxTested || During(part, g.run) {
				g.lacks = true
				break
			}
		}
	}
}
