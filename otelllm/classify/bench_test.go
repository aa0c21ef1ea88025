package classify

import (
	"runtime"
	"strconv"
	"testing"

	"github.com/otelllm/otelllm-go/internal/sample"

	"github.com/stretchr/testify/assert"
)

// TestMemoryOfLongRuns checks that judging a run of any shape allocates about as much for
// each of its requests and tools, however long the run is.
func TestMemoryOfLongRuns(t *testing.T) {
	for _, shape := range runShapes {
		perSpan := func(n int) uint64 {
			r := shape.run(n)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			Judge(r)
			runtime.ReadMemStats(&after)
			return (after.TotalAlloc - before.TotalAlloc) / uint64(n) //nolint:gosec // positive
		}
		short, long := perSpan(1_000), perSpan(8_000/sample.Every(4))
		assert.LessOrEqual(t, long, 2*short, shape.name)
		assert.LessOrEqual(t, long, uint64(12<<10), shape.name)
	}
}

// BenchmarkJudgeLongRun shows what a run costs for each of its requests and tools, by its shape.
// The cost stays nearly the same, however long the run is.
func BenchmarkJudgeLongRun(b *testing.B) {
	for _, shape := range runShapes {
		for _, n := range []int{10, 1_000, 10_000, 100_000} {
			b.Run(shape.name+"/"+strconv.Itoa(n), func(b *testing.B) {
				r := shape.run(n)
				var v Verdicts
				b.ReportAllocs()
				for b.Loop() {
					JudgeInto(&v, r)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/span")
			})
		}
	}
}
