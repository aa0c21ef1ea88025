package llmclassify_test

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/harness"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/telemetry"
	"github.com/otelllm/otelllm-go/semconv"
)

// traceShape is a trace of any number of spans, in the order in which they come.
type traceShape struct {
	name  string
	batch int // spans a call
	// span is the span of this number, 1 to n, and how it refers to others: 0 for none.
	span func(i, n int) (s harness.Span, id, parent, run int)
}

// traceShapes are traces that take long to judge where a rule looks at a whole trace again
// and again.
var traceShapes = []traceShape{
	{"requests without a run", 512, func(i, n int) (harness.Span, int, int, int) {
		return harness.ChatSpan(1, 0, float64(i)/1e3, float64(i)/1e3+1).Finished("stop"), i, n + i, 0
	}},
	{"failed requests without a run", 512, func(i, n int) (harness.Span, int, int, int) {
		return harness.ChatSpan(1, 0, float64(i)/1e3, float64(i)/1e3+1).Failed("ECONNRESET"), i, n + i, 0
	}},
	{"one run", 512, oneRun},
	{"one run by its parents", 512, func(i, n int) (harness.Span, int, int, int) {
		s, id, parent, _ := oneRun(i, n)
		return s, id, parent, 0
	}},
	{"open runs, one by one", 1, openRun},
	{"open runs", 512, openRun},
	{"runs without end", 512, func(i, n int) (harness.Span, int, int, int) {
		at := float64(i) / 1e3
		return harness.RequestSpan(1, 1, at, at+0.4).Answered("stop", harness.Answer), i, n + i/8, n + i/8
	}},
	{"a run without end", 512, func(i, n int) (harness.Span, int, int, int) {
		s, id, _, _ := oneRun(i, n+1)
		return s, id, n + 1, n + 1
	}},
	{"a chain", 512, func(i, _ int) (harness.Span, int, int, int) {
		return harness.ChatSpan(1, 0, float64(i)/1e3, 1e3-float64(i)/1e3).Finished("stop"), i, i + 1, 0
	}},
	{"no run, after whole runs", 512, func(i, n int) (harness.Span, int, int, int) {
		const size = 256 // of each run
		run := (i + size - 1) / size * size
		switch {
		case i > n/2/size*size:
			return harness.ChatSpan(1, 0, float64(i)/1e3, float64(i)/1e3+1).Finished("stop"), i, n + i, 0
		case i == run:
			return harness.RunSpan(1, 0, float64(n), size-1, 0), i, 0, 0
		default:
			return harness.RequestSpan(1, 1, float64(i)/1e3, float64(i)/1e3+0.4).Answered("stop", harness.Answer), i, run, run
		}
	}},
	{"runs within one another", 512, func(i, _ int) (harness.Span, int, int, int) {
		return harness.RunSpan(1, float64(i)/1e3, 1e3-float64(i)/1e3, 1, 1), i, i + 1, 0
	}},
	{"requests beneath a chain", 512, func(i, n int) (harness.Span, int, int, int) { return beneathAChain(i, n, 0) }},
	{"requests beside runs beneath a chain", 512, func(i, n int) (harness.Span, int, int, int) { return beneathAChain(i, n, 256) }},
}

// beneathAChain is one of the spans that pass, which are above all others, one of these runs,
// which wait for a request, or a request beside them. The first one is a request, too.
func beneathAChain(i, n, runs int) (harness.Span, int, int, int) {
	const passed = 120
	at := 1 + float64(i)/1e3
	switch {
	case i > 1 && i <= passed:
		return harness.OtherSpan(1, 0, 0, 1000), i, i + 1, 0
	case i == passed+1:
		return harness.OtherSpan(1, 0, 0, 1000), i, n + 1, 0
	case i > 1 && i <= passed+1+runs:
		return harness.RunSpan(1, float64(i)/1e6, 1000, 1, 0), i, 2, 0
	default:
		return harness.ChatSpan(1, 0, at, at+1).Finished("stop"), i, 2, 0
	}
}

// openRun is one of n/2 runs of one request: the requests come first.
func openRun(i, n int) (harness.Span, int, int, int) {
	half := n / 2
	if i <= half {
		at := float64(i) / 1e3
		return harness.RequestSpan(1, 1, at, at+0.4).Answered("stop", harness.Answer), i, half + i, half + i
	}
	at := float64(i-half) / 1e3
	return harness.RunSpan(1, at-0.1, at+0.5, 1, 0), i, 2 * n, 0
}

// oneRun is one run of requests and tools in turn, whose span comes last.
func oneRun(i, n int) (harness.Span, int, int, int) {
	if i == n {
		return harness.RunSpan(1, 0, float64(n), n/2, (n-1)/2), n, 0, 0
	}
	at := float64(i) / 1e3
	if i%2 == 0 {
		s := harness.ToolSpan(1, at, at+0.5, fmt.Sprintf("call_%d", i), semconv.ToolEffectReadOnly, semconv.ToolOutcomeSucceeded)
		return s, i, n, n
	}
	s := harness.RequestSpan(1, 1, at, at+0.4).
		Answered("tool_calls", harness.Counts{Inputs: 1, Completed: 1, Calls: 1, CallIDs: []string{fmt.Sprintf("call_%d", i+1)}})
	return s, i, n, n
}

// numberedSpan is the id of a span, empty for 0.
func numberedSpan(i int) (id pcommon.SpanID) {
	binary.BigEndian.PutUint64(id[:], uint64(i)) //nolint:gosec // not negative
	return id
}

// calls are the calls that bring n spans of the shape.
func (s *traceShape) calls(tb testing.TB, n int) (calls []ptrace.Traces) {
	tb.Helper()
	for i := 1; i <= n; {
		td := harness.TracesOf(tb, harness.Span{})
		spans := td.ResourceSpans().At(0).ScopeSpans().At(0).Spans()
		spans.RemoveIf(func(ptrace.Span) bool { return true })
		for ; i <= n && spans.Len() < s.batch; i++ {
			spec, id, parent, run := s.span(i, n)
			span := spans.AppendEmpty()
			spec.Write(tb, span)
			span.SetSpanID(numberedSpan(id))
			span.SetParentSpanID(numberedSpan(parent))
			span.Attributes().Remove(string(semconv.RunIDKey))
			if run > 0 {
				span.Attributes().PutStr(string(semconv.RunIDKey), numberedSpan(run).String())
			}
		}
		calls = append(calls, td)
	}
	return calls
}

// BenchmarkOneTrace brings one trace of many spans, and lets time pass until nothing of it
// is left. What a span costs must not depend on how many there are.
func BenchmarkOneTrace(b *testing.B) {
	for _, shape := range traceShapes {
		for _, n := range []int{1_000, 10_000, 100_000} {
			b.Run(fmt.Sprintf("%s/%d", shape.name, n), func(b *testing.B) {
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
				var spent, longest time.Duration
				for b.Loop() {
					b.StopTimer()
					h := harness.New(b, harness.DefaultConfig(), consumertest.NewNop())
					calls := shape.calls(b, n)
					b.StartTimer()
					begin, _ := threadTime()
					work := func(pass time.Duration) {
						h.Clock.Advance(pass)
						for worked := true; worked; {
							before, _ := threadTime()
							worked = h.Shards[0].Turn(b.Context())
							after, _ := threadTime()
							longest = max(longest, after-before)
						}
					}
					for _, td := range calls {
						require.NoError(b, h.Processor.ConsumeTraces(b.Context(), td))
						work(time.Duration(shape.batch) * 20 * time.Microsecond)
					}
					for range 20 {
						work(harness.MaxHold / 10)
					}
					for range 20 { // a large trace rests
						work(harness.RunTimeout / 10)
					}
					end, _ := threadTime()
					spent += end - begin
					require.Equal(b, telemetry.Load{}, h.Load())
				}
				b.ReportMetric(float64(spent.Microseconds())/float64(b.N*n), "µs/span")
				b.ReportMetric(float64(longest.Microseconds())/1e3, "longest-turn-ms")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}
