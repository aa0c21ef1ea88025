package judge

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/origin"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/trace"
)

// scopes are those of three services, and of one that is not known.
func scopes() (list []*origin.Scope) {
	for n := range byte(3) {
		list = append(list, &origin.Scope{Resource: &origin.Resource{Key: [16]byte{n + 1}}})
	}
	return append(list, nil)
}

// TestLowestBehind compares what is found behind requests with its definition.
func TestLowestBehind(t *testing.T) {
	services := scopes()
	for seed := range uint64(3_000) {
		r := rand.New(rand.NewPCG(seed, 5)) //nolint:gosec // repeatable on purpose
		n := 1 + r.IntN(30)
		members, s := make([]trace.Member, n), make([]relation, n)
		order := r.Perm(n)
		var failed, during []int
		for at, i := range order {
			start := r.IntN(12)
			members[i] = trace.Member{Item: &trace.Item{
				Role: trace.Role(r.IntN(2)), Start: pcommon.Timestamp(start) * trace.MaxSkew / 2, End: pcommon.Timestamp(start+r.IntN(8)) * trace.MaxSkew / 2,
				Known: trace.Known{Origin: services[r.IntN(len(services))], Server: r.IntN(2) == 0},
			}}
			s[i].above = -1
			if at > 0 && r.IntN(3) > 0 {
				s[i].above = order[r.IntN(at)]
			}
			if r.IntN(2) == 0 {
				failed = append(failed, i)
			} else if members[i].Role == trace.Request {
				during = append(during, i)
			}
		}
		slices.SortStableFunc(during, func(a, b int) int { return int(members[a].Start) - int(members[b].Start) })
		depths := depthsOf(s)
		for i := range members {
			depth := int32(0)
			for above := s[i].above; above >= 0; above = s[above].above {
				depth++
			}
			require.Equal(t, depth, depths[i])
		}
		got, cut := lowestBehind(members, s, depths, failed, during)
		require.False(t, cut)
		for i := range members {
			want := int32(noRank)
			for rank, f := range failed {
				beneath := false
				for above := s[f].above; above >= 0; above = s[above].above {
					beneath = beneath || above == i
				}
				request, it := members[i].Item, members[f].Item
				meanwhile := slices.Contains(during, i) && !trace.SameService(request, it) && request.Start <= it.Start+trace.MaxSkew && it.End <= request.End+trace.MaxSkew
				if beneath || meanwhile {
					want = min(want, int32(rank))
				}
			}
			if members[i].Role != trace.Request {
				want = noRank
			}
			require.Equal(t, want, got[i], "seed %d, member %d", seed, i)
		}
	}
}

// Members that are above one another, in a circle, have some depth.
func TestDepthsOfACircle(t *testing.T) {
	s := []relation{{above: 1}, {above: 2}, {above: 0}, {above: 1}, {above: -1}}
	depths := depthsOf(s)
	require.Len(t, depths, 5)
	require.Zero(t, depths[4])
	for _, depth := range depths[:4] {
		require.GreaterOrEqual(t, depth, int32(maxDepth))
	}
}

// TestSpanTimes compares what is found within some time with its definition.
func TestSpanTimes(t *testing.T) {
	for seed := range uint64(3_000) {
		r := rand.New(rand.NewPCG(seed, 6)) //nolint:gosec // repeatable on purpose
		var times spanTimes
		items, added := make([]*trace.Item, r.IntN(20)), []*trace.Item{}
		for i := range items {
			start := r.IntN(12)
			items[i] = &trace.Item{Start: pcommon.Timestamp(start) * trace.MaxSkew / 2, End: pcommon.Timestamp(start+r.IntN(8)) * trace.MaxSkew / 2}
		}
		for _, it := range items {
			want := slices.ContainsFunc(added, func(o *trace.Item) bool { return it.Start <= o.Start+trace.MaxSkew && o.End <= it.End+trace.MaxSkew })
			require.Equal(t, want, times.during(it), "seed %d", seed)
			if r.IntN(2) == 0 {
				times.add(it)
				added = append(added, it)
			}
		}
	}
	require.False(t, (*spanTimes)(nil).during(&trace.Item{}))
}
