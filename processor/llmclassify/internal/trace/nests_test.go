package trace

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/collector/pdata/pcommon"
)

// The steps above many runs are bounded: beyond the bound the runs may be within any run.
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
		assert.Equal(t, anyTime, p.lost, name)
		assert.LessOrEqual(t, o.steps, maxOuterSteps+runs, name)
	}
}
