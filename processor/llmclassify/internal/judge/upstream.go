package judge

import (
	"cmp"
	"math"
	"slices"
	"sort"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/trace"
)

// A release may have 10⁵ spans, and all of them may have failed. The failures behind requests are therefore found for all
// of them together, in the order of their depth and time.

// maxDepth bounds a walk up the requests and tools above one: parents may form a circle.
const maxDepth = 128

// noRank is more than any rank.
const noRank = math.MaxInt32

// depthsOf returns how many requests and tools are above each member. For members that are above one another, in a circle,
// the number is arbitrary.
func depthsOf(s []relation) []int32 {
	const unknown, underway = -1, -2
	depths := make([]int32, len(s))
	for i := range depths {
		depths[i] = unknown
	}
	var path []int
	for i := range s {
		at := i
		for path = path[:0]; at >= 0 && depths[at] == unknown; at = s[at].above {
			depths[at] = underway
			path = append(path, at)
		}
		depth := int32(-1)
		switch {
		case at < 0:
		case depths[at] == underway:
			depth = maxDepth
		default:
			depth = depths[at]
		}
		for _, at := range slices.Backward(path) {
			depth++
			depths[at] = depth
		}
	}
	return depths
}

// lowestBehind returns, for each member that is a request, the rank of the lowest failure behind it: a failure beneath it,
// and for requests in during, which are ordered by start, also a failure of another service within its time. The list
// failed has the failures, the lowest ones first.
func lowestBehind(members []trace.Member, s []relation, depths []int32, failed, during []int) []int32 {
	behind, own := make([]int32, len(members)), make([]int32, len(members))
	order := make([]int, len(members))
	for i := range members {
		behind[i], own[i], order[i] = noRank, noRank, i
	}
	for rank, i := range failed {
		own[i] = int32(rank)
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(depths[b], depths[a]) })
	for _, i := range order {
		if above := s[i].above; above >= 0 {
			behind[above] = min(behind[above], behind[i], own[i])
		}
	}
	byStart := slices.Clone(failed)
	slices.SortFunc(byStart, func(a, b int) int { return cmp.Compare(members[b].Start, members[a].Start) })
	lowest := newLowestByEnd(members, failed)
	for _, request := range slices.Backward(during) {
		r := &members[request]
		for len(byStart) > 0 && r.Start <= members[byStart[0]].Start+trace.MaxSkew {
			lowest.add(members[byStart[0]].Item, own[byStart[0]])
			byStart = byStart[1:]
		}
		behind[request] = min(behind[request], lowest.until(r.End+trace.MaxSkew, trace.ServiceOf(r.Item)))
	}
	for i := range members {
		if members[i].Role != trace.Request {
			behind[i] = noRank
		}
	}
	return behind
}

// lowestByEnd finds the lowest rank among spans that ended by some time and are not of some service. It is a Fenwick tree
// over their ends.
type lowestByEnd struct {
	ends []pcommon.Timestamp // sorted
	tree []lowestTwo
}

// lowestTwo are the lowest ranks of two services.
type lowestTwo struct {
	first, second int32
	service       trace.Service // of the first one
}

func newLowestByEnd(members []trace.Member, spans []int) *lowestByEnd {
	l := &lowestByEnd{tree: make([]lowestTwo, len(spans)+1)}
	for _, i := range spans {
		l.ends = append(l.ends, members[i].End)
	}
	slices.Sort(l.ends)
	for i := range l.tree {
		l.tree[i] = lowestTwo{first: noRank, second: noRank}
	}
	return l
}

func (l *lowestByEnd) add(it *trace.Item, rank int32) {
	service := trace.ServiceOf(it)
	at, _ := slices.BinarySearch(l.ends, it.End)
	for at++; at < len(l.tree); at += at & -at {
		switch t := &l.tree[at]; {
		case service == t.service && t.first != noRank:
			t.first = min(t.first, rank)
		case rank < t.first:
			t.first, t.second, t.service = rank, t.first, service
		default:
			t.second = min(t.second, rank)
		}
	}
}

// until returns the lowest rank of the spans that ended by then, except the spans of one service; noRank if there are none.
func (l *lowestByEnd) until(end pcommon.Timestamp, not trace.Service) int32 {
	rank := int32(noRank)
	for at := sort.Search(len(l.ends), func(i int) bool { return l.ends[i] > end }); at > 0; at -= at & -at {
		if t := &l.tree[at]; t.service != not {
			rank = min(rank, t.first)
		} else {
			rank = min(rank, t.second)
		}
	}
	return rank
}

// spanTimes finds out whether one of several spans was within some time. It is a Fenwick tree over their starts, with the
// earliest end among the spans that started last.
type spanTimes struct {
	starts []pcommon.Timestamp // of all spans that may be added; sorted
	tree   []pcommon.Timestamp
}

// addStart announces a span.
func (s *spanTimes) addStart(start pcommon.Timestamp) { s.starts = append(s.starts, start) }

func (s *spanTimes) add(it *trace.Item) {
	if s.tree == nil {
		slices.Sort(s.starts)
		s.tree = make([]pcommon.Timestamp, len(s.starts)+1)
		for i := range s.tree {
			s.tree[i] = math.MaxUint64
		}
	}
	before, _ := slices.BinarySearch(s.starts, it.Start)
	for at := len(s.starts) - before; at < len(s.tree); at += at & -at {
		s.tree[at] = min(s.tree[at], it.End)
	}
}

// during reports whether one of the spans was within the time of it, as far as their clocks agree. A nil s has none.
func (s *spanTimes) during(it *trace.Item) bool {
	if s == nil || s.tree == nil {
		return false
	}
	before := sort.Search(len(s.starts), func(i int) bool { return it.Start <= s.starts[i]+trace.MaxSkew })
	for at := len(s.starts) - before; at > 0; at -= at & -at {
		if s.tree[at] <= it.End+trace.MaxSkew {
			return true
		}
	}
	return false
}
