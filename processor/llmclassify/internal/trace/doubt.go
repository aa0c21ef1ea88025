package trace

import (
	"cmp"
	"slices"

	"go.opentelemetry.io/collector/pdata/pcommon"
)

// Doubt is why a run may have done more than its release shows. The verdict on a run with doubt is never that a retry is
// safe.
type Doubt uint8

// The doubts.
const (
	// Forgotten: facts of the trace were forgotten.
	Forgotten Doubt = 1 << iota
	// BeforeStart: the run began before this process, which may not have received all of its parts.
	BeforeStart
	// TooMany: more spans or runs may belong to the run than are tested, or released together.
	TooMany
	// Elsewhere: a part that another run has, or a run that is released later, may belong to the run by its time.
	Elsewhere

	// OpenRun: another run began during the run, and its span is not buffered.
	OpenRun
	// Refused: a call with spans of the trace was refused.
	Refused
	// LinksLost: there was no room for links of the trace, or an earlier process received them.
	LinksLost
	// Crowded: there was no room to remember which traces were forgotten.
	Crowded

	// Uncounted are the doubts that do not count for a run that announced how many parts it has: a missing one shows.
	Uncounted = OpenRun | Refused | LinksLost | Crowded
)

// doubtNames are the names of the doubts, by their bit.
var doubtNames = [...]string{
	"doubt.forgotten", "doubt.before_start", "doubt.too_many", "doubt.placed_by_time",
	"doubt.open_run", "doubt.refused", "doubt.links_lost", "doubt.too_many_traces",
}

// Names returns the names of these doubts, as the missing evidence of verdicts has them.
func (d Doubt) Names() (names []string) {
	for i, name := range doubtNames {
		if d.Has(1 << i) {
			names = append(names, name)
		}
	}
	return names
}

// Has reports whether one of these doubts is among them.
func (d Doubt) Has(some Doubt) bool { return d&some != 0 }

// isOpenRun reports whether the items name a run whose span is not buffered, and may never come.
func (g *group) isOpenRun() bool { return g.place.Open && g.named && g.run == nil }

// maxTested bounds the items that are tested for belonging to a run.
const maxTested = 64

// stray is a part that may belong to a run which is due: it was placed by time in another run, or its own run is open.
type stray struct {
	*Item
	open  bool
	began pcommon.Timestamp // start of the part, or of its open run, as far as that is buffered
}

// strays returns the stray parts, by their start: of an open run one for each role and service.
func strays(groups []*group) (list []stray) {
	for _, g := range groups {
		open, stays := g.isOpenRun(), !g.end || g.part
		var last *Item
		for _, it := range g.items {
			if open && it.Role != Run && (last == nil || it.Role != last.Role || !SameService(it, last)) {
				last = it
				list = append(list, stray{it, true, g.start})
			}
			if stays && it.ByTime {
				list = append(list, stray{it, false, it.Start})
			}
		}
	}
	slices.SortStableFunc(list, func(a, b stray) int { return cmp.Compare(a.began, b.began) })
	return list
}

// setDoubts finds the runs that are due and may lack buffered parts of other runs.
func setDoubts(groups []*group) {
	list := strays(groups)
	if len(list) == 0 {
		return
	}
	for _, g := range groups {
		if !g.end {
			continue
		}
		from := g.run.Start - min(g.run.Start, MaxSkew)
		at, _ := slices.BinarySearchFunc(list, from, func(s stray, from pcommon.Timestamp) int { return cmp.Compare(s.began, from) })
		for n, s := range list[at:] {
			if g.run.End >= g.run.Start && s.began > g.run.End+MaxSkew {
				break
			}
			if n == maxTested {
				g.doubt |= TooMany
				break
			}
			g.doubt |= s.doubtFor(g.run)
		}
	}
}

// doubtFor is the doubt that a stray part causes for a run. The numbers that the run announces do not include the parts of an
// open run of another service. A request during the run may be a gateway's for the run itself, but not a tool. A part that
// began just after the end belongs to an open run that outlasts the run around it.
func (s *stray) doubtFor(run *Item) (d Doubt) {
	switch {
	case !s.open:
		if During(s.Item, run) {
			d = Elsewhere
		}
	case s.began >= run.Start:
		after := run.End != 0 && s.began > run.End+ClockGrain
		if !after {
			d = OpenRun
		}
		if (s.Role == Tool || after) && !SameService(s.Item, run) {
			d |= Elsewhere
		}
	}
	return d
}
