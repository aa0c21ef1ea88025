package classify

import (
	"strconv"
	"testing"
)

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
