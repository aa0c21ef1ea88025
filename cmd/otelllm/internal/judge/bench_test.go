package judge

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// BenchmarkVerdict measures a line of facts and its answer, for a run of 100 spans: 60
// requests and 40 tools.
func BenchmarkVerdict(b *testing.B) {
	j := New(Options{})
	j.Line([]byte(`{"run":"r","kind":"run","state":"begun"}`), 1)
	var history []string
	for i := range 60 {
		j.Line([]byte(cut("r", fmt.Sprintf("q%d", i), 0, history...)), 1)
		if i < 40 {
			j.Line(fmt.Appendf(nil, `{"run":"r","kind":"tool","id":"t%d","gen_ai.tool.call.id":"c%d","llm.tool.effect":"idempotent","llm.tool.outcome":"succeeded"}`, i, i), 1)
			history = append(history, fmt.Sprintf("c%d", i))
		}
	}
	line := []byte(cut("r", "q59", 0, history...))
	var took []time.Duration
	b.ReportAllocs()
	for b.Loop() {
		begin := time.Now()
		j.Line(line, 1)
		took = append(took, time.Since(begin))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
}
