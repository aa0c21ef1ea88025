package llmclassify

import (
	"bytes"
	"cmp"
	"slices"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/assemble"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/hold"
)

// judgingOrder is the order in which releases are to be judged: of the runs of a trace,
// those that may be within others first. The releases of a trace are together.
func judgingOrder(releases []assemble.Release, judged func(pcommon.TraceID) assemble.Judged) []int {
	order := make([]int, len(releases))
	for i := range order {
		order[i] = i
	}
	for from := 0; from < len(order); {
		to, runs := from, 0
		for ; to < len(order) && releases[to].Trace == releases[from].Trace; to++ {
			if isRun(&releases[to]) {
				runs++
			}
		}
		if runs > 1 {
			innermostFirst(releases, order[from:to], judged(releases[from].Trace))
		}
		from = to
	}
	return order
}

// isRun reports whether a release is the last of a run whose span is here.
func isRun(r *assemble.Release) bool { return r.Run != nil && r.Final }

// innermostFirst sorts the releases of a trace: those of no run, then the runs above which
// something is missing and those within them, then the others; of both the shorter ones first,
// but none before those within it.
func innermostFirst(releases []assemble.Release, order []int, judged assemble.Judged) {
	around, broken := runsAround(releases, order, judged)
	depths := nestingDepths(order, around, broken)
	lasts := longestWithin(releases, order, around, depths)
	rooted := func(i int) int { // 1 if nothing is missing above
		if depths[i] >= len(order) {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(order, func(a, b int) int {
		x, y := &releases[a], &releases[b]
		if isRun(x) != isRun(y) {
			if isRun(y) {
				return -1
			}
			return 1
		}
		if !isRun(x) {
			return 0
		}
		return cmp.Or(
			cmp.Compare(rooted(a), rooted(b)), cmp.Compare(lasts[a], lasts[b]), cmp.Compare(depths[b], depths[a]),
			cmp.Compare(y.Run.Start, x.Run.Start), bytes.Compare(x.RunID[:], y.RunID[:]),
		)
	})
	setMissing(releases, order, broken, lasts)
}

// setMissing notes in the runs that go before one that may be within them by its time that they
// lack it. It goes later because a run within it lasts longer than they do, or because what passed
// above it is not known any more. They may also lack what a later one has by its time alone.
func setMissing(releases []assemble.Release, order, broken []int, lasts map[int]pcommon.Timestamp) {
	const maxLater = 64 // of more it is not tested whose they may be
	late := make(map[int]bool)
	for _, i := range broken {
		late[i] = lasts[i] > lasted(releases[i].Run) || releases[i].Run.LinksLost()
	}
	var later []*assemble.Item
	for _, i := range slices.Backward(order) {
		run := releases[i].Run
		if !isRun(&releases[i]) {
			continue
		}
		if len(later) > maxLater || slices.ContainsFunc(later, func(inner *assemble.Item) bool { return assemble.During(inner, run) }) {
			releases[i].Missing = true
		}
		if late[i] {
			later = append(later, run)
		}
		for n := range releases[i].Members {
			if m := &releases[i].Members[n]; m.ByTime && !m.Foreign && len(later) <= maxLater {
				later = append(later, m.Item)
			}
		}
	}
}

// lasted is for how long a run lasted; 0 where it did not end.
func lasted(run *assemble.Item) pcommon.Timestamp { return run.End - min(run.Start, run.End) }

// runsAround finds the nearest run around each one, and the runs without one above which
// something is missing. If the parents of one are too many to follow, all may lack it.
func runsAround(releases []assemble.Release, order []int, judged assemble.Judged) (around map[int]int, broken []int) {
	of := make(map[pcommon.SpanID]int, 4*len(order)) // the run of a span
	for _, i := range order {
		if !isRun(&releases[i]) {
			continue
		}
		for n := range releases[i].Members {
			if m := &releases[i].Members[n]; !m.Foreign {
				of[m.ID] = i
			}
		}
	}
	around = make(map[int]int, len(order))
	var ids []pcommon.SpanID
	tooFar := false
	for _, i := range order {
		if !isRun(&releases[i]) {
			continue
		}
		var to hold.Chain
		ids, to = assemble.Around(releases[i].Of, releases[i].Run, ids[:0], judged)
		for _, id := range append(ids, releases[i].Run.Parent) {
			if outer, ok := of[id]; ok && outer != i {
				around[i] = outer
				break
			}
		}
		if _, within := around[i]; to != hold.Rooted && !within {
			broken = append(broken, i)
		}
		tooFar = tooFar || to == hold.Endless
	}
	for _, i := range order {
		releases[i].Missing = releases[i].Missing || tooFar && isRun(&releases[i])
	}
	return around, append(broken, inCircles(order, around)...)
}

// inCircles are the runs that are around themselves, as far as the times of their parts show.
// Nothing shows what is around all of them.
func inCircles(order []int, around map[int]int) (list []int) {
	seen := make(map[int]int, len(around)) // from which run it was reached first
	for _, from := range order {
		at, ok := from, true
		for ; ok; at, ok = around[at] {
			if first, again := seen[at]; again {
				ok = first == from
				break
			}
			seen[at] = from
		}
		for first := at; ok; ok = at != first {
			list = append(list, at)
			at = around[at]
		}
	}
	return list
}

// nestingDepths is how many runs are around each release. A run above which something is
// missing may be within one of any depth: it is as deep as there are releases.
func nestingDepths(order []int, around map[int]int, broken []int) map[int]int {
	depths := make(map[int]int, len(order))
	for _, i := range broken {
		depths[i] = len(order)
	}
	var path []int
	for _, i := range order {
		depth := 0
		path = path[:0]
		for at, ok := i, true; ok; at, ok = around[at] {
			if known, ok := depths[at]; ok {
				depth = known + 1
				break
			}
			depths[at] = 0 // it may be around itself
			path = append(path, at)
		}
		for _, at := range slices.Backward(path) {
			depths[at] = depth
			depth++
		}
	}
	return depths
}

// longestWithin is for how long each run lasted, or the longest of those within it.
func longestWithin(releases []assemble.Release, order []int, around, depths map[int]int) map[int]pcommon.Timestamp {
	inward := slices.Clone(order)
	slices.SortStableFunc(inward, func(a, b int) int { return cmp.Compare(depths[b], depths[a]) })
	lasts := make(map[int]pcommon.Timestamp, len(order))
	for _, i := range inward {
		if isRun(&releases[i]) {
			lasts[i] = max(lasts[i], lasted(releases[i].Run))
			if outer, ok := around[i]; ok {
				lasts[outer] = max(lasts[outer], lasts[i])
			}
		}
	}
	return lasts
}
