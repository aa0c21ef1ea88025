package trace

import (
	"bytes"
	"cmp"
	"slices"

	"go.opentelemetry.io/collector/pdata/pcommon"
)

// EndsRun reports whether a release is the last of a run whose span is buffered.
func (r *Release) EndsRun() bool { return r.Run != nil && r.Final }

// onlyOne is the order of one release.
var onlyOne = []int{0}

// JudgingOrder is the order in which releases are to be judged: inner runs of a trace before the runs around them. The
// releases of a trace stay together.
func JudgingOrder(releases []Release) []int {
	if len(releases) == 1 {
		return onlyOne
	}
	order := make([]int, len(releases))
	for i := range order {
		order[i] = i
	}
	for from := 0; from < len(order); {
		to, runs := from, 0
		for ; to < len(order) && releases[to].Trace == releases[from].Trace; to++ {
			if releases[to].EndsRun() {
				runs++
			}
		}
		if runs > 1 {
			innermostFirst(releases, order[from:to])
		}
		from = to
	}
	return order
}

// innermostFirst sorts the releases of a trace: first the releases without a run, then the runs, shorter ones first, but
// none before a run within it.
func innermostFirst(releases []Release, order []int) {
	slices.SortStableFunc(order, func(a, b int) int {
		x, y := &releases[a], &releases[b]
		switch {
		case !x.EndsRun() && !y.EndsRun():
			return 0
		case !x.EndsRun():
			return -1
		case !y.EndsRun():
			return 1
		}
		lasted := func(it *Item) pcommon.Timestamp { return it.End - min(it.Start, it.End) }
		return cmp.Or(cmp.Compare(lasted(x.Run), lasted(y.Run)), cmp.Compare(y.Run.Start, x.Run.Start), bytes.Compare(x.RunID[:], y.RunID[:]))
	})
	runs := order[slices.IndexFunc(order, func(i int) bool { return releases[i].EndsRun() }):]
	n := nestingOf(releases, runs)
	inner := make(map[int]int) // the number of runs within a run that are not judged yet
	for _, outer := range n.around {
		inner[outer]++
	}
	waits, sorted := make(map[int]bool), make([]int, 0, len(runs))
	for _, i := range runs {
		waits[i] = true
		for waits[i] && inner[i] == 0 {
			delete(waits, i)
			sorted = append(sorted, i)
			outer, ok := n.around[i]
			if !ok {
				break
			}
			inner[outer]--
			i = outer
		}
	}
	for _, i := range runs { // these are around themselves
		if waits[i] {
			sorted = append(sorted, i)
		}
	}
	copy(runs, sorted)
	setElsewhere(releases, runs, n)
}

// nesting is how runs of a trace that are released together are within one another.
type nesting struct {
	around  map[int]int  // by release, the one of the nearest run around it
	loose   map[int]bool // it may be within any run
	endless bool         // too many spans are above a run to follow
}

func nestingOf(releases []Release, runs []int) nesting {
	n := nesting{around: make(map[int]int), loose: make(map[int]bool)}
	of := make(map[pcommon.SpanID]int, len(runs))
	for _, i := range runs {
		of[releases[i].RunID] = i
	}
	for _, i := range runs {
		r, nested := &releases[i], false
		to := climbOver(r.Of, r.Of.past, r.Run.up(), func(id pcommon.SpanID) bool {
			outer, ok := of[id]
			if nested = ok && outer != i; nested {
				n.around[i] = outer
			}
			return nested
		})
		n.loose[i], n.endless = !nested && to != Rooted, n.endless || to == Endless
	}
	return n
}

// setElsewhere sets that doubt for each run that is judged before a run which its time places within it, or before a run with parts
// placed by time that may be its own.
func setElsewhere(releases []Release, runs []int, nests nesting) {
	const maxLater = 64 // beyond that, no part is tested, and the run counts as lacking some
	var later []*Item
	for _, i := range slices.Backward(runs) {
		r := &releases[i]
		if nests.endless || len(later) > maxLater || slices.ContainsFunc(later, func(it *Item) bool { return During(it, r.Run) }) {
			r.Doubt |= Elsewhere
		}
		if nests.loose[i] {
			later = append(later, r.Run)
		}
		for n := range r.Members {
			if m := &r.Members[n]; m.ByTime && !m.Foreign && len(later) <= maxLater {
				later = append(later, m.Item)
			}
		}
	}
}
