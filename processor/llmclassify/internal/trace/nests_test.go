package trace

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
)

// chainOfPast is a past of n spans above one another. The last one is beneath end.
func chainOfPast(n int, end pcommon.SpanID) *past {
	p := new(past)
	for i := range n {
		above := numbered(1001 + i)
		if i == n-1 {
			above = end
		}
		p.link(numbered(1000+i), above, false)
	}
	return p
}

// A run is within another one as if its own chain was climbed alone, whatever was climbed before.
func TestEachRunIsNestedAsIfAlone(t *testing.T) {
	found := map[chainEnd]int{}
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 5))
		n := []int{2, 6, 40, 126, 127}[r.IntN(5)]
		end := []pcommon.SpanID{{}, numbered(1000 + r.IntN(n)), numbered(1000 + n)}[r.IntN(3)]
		run := &Item{ID: numbered(1000 + r.IntN(n+3)), Start: 10, End: 30}
		many := outer{run: run, past: chainOfPast(n, end), member: func(pcommon.SpanID) bool { return false }}
		for range 60 {
			from := numbered(1000 + r.IntN(n+2))
			alone := outer{run: run, past: many.past, member: many.member}
			want, got := alone.end(from), many.end(from)
			require.Equal(t, want, got, "seed %d", seed)
			found[got]++
		}
	}
	for end := range endless + 1 {
		assert.Greater(t, found[end], 500, "%v", found)
	}
}

// Runs beneath one long chain cost a few steps each, and those beneath many chains no more than a
// bound: they may then be within any run.
func TestStepsAboveManyRunsAreBounded(t *testing.T) {
	const runs, depth = 500, 100
	for name, chains := range map[string]int{"one chain": 1, "a chain each": runs} {
		p := &past{at: make(map[pcommon.SpanID]int32)}
		for c := range chains {
			for i := range depth {
				id := numbered(1 + c*(depth+1) + i)
				p.spans = append(p.spans, pastSpan{id: id, above: numbered(2 + c*(depth+1) + i)})
				p.at[id] = int32(len(p.spans) - 1) //nolint:gosec // few
			}
		}
		o := outer{run: &Item{ID: numbered(1 << 30), End: 10}, past: p, member: func(pcommon.SpanID) bool { return false }}
		for n := range runs {
			nests := o.nests(&pastRun{Position: Position{Parent: numbered(1 + n%chains*(depth+1)), End: 1}})
			assert.True(t, nests || p.lost == anyTime, "%s, %d", name, n)
		}
		assert.Equal(t, chains > 1, p.lost == anyTime, name)
		assert.LessOrEqual(t, o.steps, maxOuterSteps, name)
	}
}
