package classify

import (
	"strconv"
	"testing"

	"github.com/otelllm/otelllm-go/semconv"
)

// longRun returns a run of n steps, each a failing request and its tool. No answered
// request carries the tool's output. Histories are as long as they are recorded.
func longRun(n int, change func(*Request)) *Run {
	r := &Run{Start: t0, End: at(float64(4 * n)), Ended: Yes, Failed: Yes, AnnouncedRequests: Counted(n), AnnouncedTools: Counted(n)}
	var history []string
	for i := range n {
		id := "call_" + strconv.Itoa(i)
		q := request(float64(4*i), float64(4*i+1), change)
		q.CallIDs, q.ToolInputsStarted, q.ToolInputsCompleted, q.ToolCalls = []string{id}, Counted(1), Counted(1), Counted(1)
		q.HistoryCalls, q.HistoryOutputs = history, history
		r.Requests = append(r.Requests, q)
		r.Tools = append(r.Tools, tool(float64(4*i+2), float64(4*i+3), id, semconv.ToolEffectReadOnly, semconv.ToolOutcomeSucceeded))
		history = append(history[max(0, len(history)-MaxIDs+1):len(history):len(history)], id)
	}
	return r
}

// BenchmarkJudgeLongRun shows that the time for each step stays nearly the same, however
// long the run is and whether or not all of it failed.
func BenchmarkJudgeLongRun(b *testing.B) {
	for _, c := range []struct {
		name   string
		change func(*Request)
	}{{"healthy", answers}, {"broken", reset(semconv.PhaseToolCallReady)}} {
		for _, n := range []int{10, 100, 1_000, 10_000, 100_000} {
			b.Run(c.name+"/"+strconv.Itoa(n), func(b *testing.B) {
				r := longRun(n, c.change)
				var v Verdicts
				b.ReportAllocs()
				for b.Loop() {
					JudgeInto(&v, r)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/step")
			})
		}
	}
}
