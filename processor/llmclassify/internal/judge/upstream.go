package judge

import (
	"cmp"
	"math"
	"slices"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/trace"
)

// A release may have 10⁵ spans, and all of them may have failed. The failures behind requests are therefore found for all
// of them together, in the order of their depth and time.

// maxDepth bounds a walk up the requests and tools above one: parents may form a circle.
const maxDepth = 128

// maxDuring bounds the spans whose times are compared with the time of one.
const maxDuring = 256

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
// failed has the failures, the lowest ones first. Cut: there were too many to compare them all.
func lowestBehind(members []trace.Member, s []relation, depths []int32, failed, during []int) (behind []int32, cut bool) {
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
	slices.SortFunc(byStart, func(a, b int) int { return compareStarts(&members[a], &members[b]) })
	for _, request := range during {
		r := &members[request]
		from := r.Start - min(r.Start, trace.MaxSkew)
		at, _ := slices.BinarySearchFunc(byStart, from, func(i int, from pcommon.Timestamp) int { return cmp.Compare(members[i].Start, from) })
		for n, i := range byStart[at:] {
			m := &members[i]
			if m.Start > r.End+trace.MaxSkew {
				break
			}
			if n == maxDuring {
				cut = true
				break
			}
			if m.End <= r.End+trace.MaxSkew && !trace.SameService(m.Item, r.Item) {
				behind[request] = min(behind[request], own[i])
			}
		}
	}
	for i := range members {
		if members[i].Role != trace.Request {
			behind[i] = noRank
		}
	}
	return behind, cut
}

// spanTimes are spans, by their start.
type spanTimes []*trace.Item

func (s *spanTimes) add(it *trace.Item) {
	*s = slices.Insert(*s, s.from(it.Start+1), it)
}

// from returns the index of the first span that started at this time or later.
func (s *spanTimes) from(start pcommon.Timestamp) int {
	at, _ := slices.BinarySearchFunc(*s, start, func(it *trace.Item, start pcommon.Timestamp) int { return cmp.Compare(it.Start, start) })
	return at
}

// during reports whether one of the spans was within the time of it, as far as their clocks agree. Of many it tests
// maxDuring. A nil s has none.
func (s *spanTimes) during(it *trace.Item) bool {
	if s == nil {
		return false
	}
	list := (*s)[s.from(it.Start-min(it.Start, trace.MaxSkew)):]
	return slices.ContainsFunc(list[:min(len(list), maxDuring)], func(o *trace.Item) bool {
		return o.End <= it.End+trace.MaxSkew
	})
}
