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

// nest is the place of a release among the runs of its trace that are released together.
type nest struct {
	around int               // the release of the nearest run around it, -1 if none is among them
	loose  bool              // it may be within an unknown run
	depth  int               // number of runs around it
	lasts  pcommon.Timestamp // the duration of the run, or of the longest run within it
	seen   bool
}

// innermostFirst sorts the releases of a trace: first the releases without a run, then the runs, shorter ones first, but
// none before a run within it.
func innermostFirst(releases []Release, order []int) {
	nests, endless := nestsOf(releases, order)
	setDepths(order, nests)
	inward := slices.Clone(order)
	slices.SortStableFunc(inward, func(a, b int) int { return cmp.Compare(nests[b].depth, nests[a].depth) })
	for _, i := range inward {
		if r := &releases[i]; r.EndsRun() {
			n := nests[i]
			n.lasts = max(n.lasts, r.Run.End-min(r.Run.Start, r.Run.End))
			if n.around >= 0 {
				around := nests[n.around]
				around.lasts = max(around.lasts, n.lasts)
			}
		}
	}
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
		return cmp.Or(
			cmp.Compare(nests[a].lasts, nests[b].lasts), cmp.Compare(nests[b].depth, nests[a].depth),
			cmp.Compare(y.Run.Start, x.Run.Start), bytes.Compare(x.RunID[:], y.RunID[:]),
		)
	})
	setElsewhere(releases, order, nests, endless)
}

// nestsOf finds the nearest run around each run, and reports whether too many spans are above a run to follow.
func nestsOf(releases []Release, order []int) (nests map[int]*nest, endless bool) {
	of := make(map[pcommon.SpanID]int, len(order)) // the run, or its part that yielded, by id
	for _, i := range order {
		if r := &releases[i]; r.EndsRun() {
			of[r.RunID] = i
		}
	}
	nests = make(map[int]*nest, len(order))
	for _, i := range order {
		n := &nest{around: -1}
		nests[i] = n
		if r := &releases[i]; r.EndsRun() {
			to := climbOver(r.Of, r.Of.past, r.Run.up(), func(id pcommon.SpanID) bool {
				if outer, ok := of[id]; ok && outer != i {
					n.around = outer
				}
				return n.around >= 0
			})
			n.loose, endless = n.around < 0 && to != Rooted, endless || to == Endless
		}
	}
	return nests, endless
}

// setDepths counts the runs around each release. Some may be around themselves.
func setDepths(order []int, nests map[int]*nest) {
	var path []*nest
	for _, i := range order {
		depth := 0
		path = path[:0]
		for at := i; at >= 0; at = nests[at].around {
			n := nests[at]
			if n.seen {
				depth = n.depth + 1
				break
			}
			n.seen = true
			path = append(path, n)
		}
		for _, n := range slices.Backward(path) {
			n.depth = depth
			depth++
		}
	}
}

// setElsewhere sets that doubt for each run that is judged before a run which its time places within it, or before a run with parts
// placed by time that may be its own.
func setElsewhere(releases []Release, order []int, nests map[int]*nest, endless bool) {
	const maxLater = 64 // beyond that, no part is tested, and the run counts as lacking some
	var later []*Item
	for _, i := range slices.Backward(order) {
		r := &releases[i]
		if !r.EndsRun() {
			continue
		}
		if endless || len(later) > maxLater || slices.ContainsFunc(later, func(it *Item) bool { return During(it, r.Run) }) {
			r.Doubt |= Elsewhere
		}
		if nests[i].loose {
			later = append(later, r.Run)
		}
		for n := range r.Members {
			if m := &r.Members[n]; m.ByTime && !m.Foreign && len(later) <= maxLater {
				later = append(later, m.Item)
			}
		}
	}
}
