package assemble

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/hold"
)

// What is remembered of the chains above many runs changes nothing: each run is within another
// one as if its own chain was climbed alone, over spans that are held, that passed, or both.
func TestNesting(t *testing.T) {
	found := map[Nesting]int{}
	endless := 0
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 5)) //nolint:gosec // repeatable on purpose
		n := []int{2, 6, 40, 127, 128, 129, 300}[r.IntN(7)]
		var items []*Item
		var links []hold.Link
		end := numbered(1000 + n)
		switch r.IntN(4) {
		case 0:
			end = pcommon.SpanID{}
		case 1:
			end = numbered(1000 + r.IntN(n))
		}
		passed := r.IntN(3) // none, some, all
		for i := range n {
			id, parent := numbered(1000+i), numbered(1001+i)
			if i == n-1 {
				parent = end
			}
			if passed == 2 || passed == 1 && r.IntN(2) == 0 {
				links = append(links, hold.Link{Trace: traceID, ID: id, Parent: parent})
			} else {
				items = append(items, &Item{ID: id, Parent: parent, Role: hold.Request, Size: 1})
			}
		}
		b := bufferOf(Locate)
		b.Add(t0, []Arrival{{Trace: traceID, Items: items}}, links)
		trace := b.Trace(traceID)
		outer := NewOuter(trace, &Item{ID: numbered(1000 + r.IntN(n+3)), Start: 10, End: 30}, nil, nil)
		for range 60 {
			s := PositionOf(nil, &Item{Parent: numbered(1000 + r.IntN(n+2)), Start: pcommon.Timestamp(5 + r.IntN(20))}, nil)
			s.End = s.Start + pcommon.Timestamp(r.IntN(15))
			want, far := climbAlone(trace, &s, outer.run)
			got := outer.Nests(&s)
			require.Equal(t, want, got, "seed %d", seed)
			if far {
				require.True(t, s.Endless, "seed %d", seed)
				endless++
			}
			found[got]++
		}
		require.LessOrEqual(t, outer.steps, maxOuterSteps+maxDepth)
	}
	assert.Greater(t, min(found[Outside], found[WithinByTime], found[WithinByChain], endless), 500, "%v, %d", found, endless)
}

// climbAlone is [Outer.Nests] for one run. Far: its chain is too long, or a circle.
func climbAlone(t *Trace, s *Position, outer *Item) (nesting Nesting, far bool) {
	id := s.Above
	for range maxDepth {
		switch {
		case id.IsEmpty():
			return Outside, false
		case id == outer.ID:
			return WithinByChain, false
		}
		above, seen := above(t, id)
		if !seen {
			if s.during(outer) {
				nesting = WithinByTime
			}
			return nesting, false
		}
		id = above
	}
	return Outside, true
}

// Runs beneath one long chain of spans that are held cost a few steps each, and those beneath
// many chains no more than a bound.
func TestNestingSteps(t *testing.T) {
	const runs, depth = 500, maxDepth - 2
	for name, chains := range map[string]int{"one chain": 1, "a chain each": runs} {
		b := bufferOf(Locate)
		var items []*Item
		for c := range chains {
			for i := range depth {
				items = append(items, &Item{ID: numbered(1 + c*(depth+1) + i), Parent: numbered(2 + c*(depth+1) + i), Role: hold.Request, Size: 1})
			}
		}
		b.Add(t0, []Arrival{{Trace: traceID, Items: items}}, nil)
		outer := NewOuter(b.Trace(traceID), &Item{ID: numbered(1 << 30), End: pcommon.Timestamp(time.Second)}, nil, nil)
		for n := range runs {
			s := PositionOf(nil, &Item{Parent: numbered(1 + n%chains*(depth+1)), End: 1}, nil)
			nesting := outer.Nests(&s)
			assert.True(t, outer.Unknown || nesting == WithinByTime, "%s, %d", name, n)
		}
		assert.Equal(t, chains > 1, outer.Unknown, name)
		assert.LessOrEqual(t, outer.steps, maxOuterSteps+maxDepth, name)
		if chains == 1 {
			assert.Equal(t, depth+1, outer.steps)
		}
	}
}
