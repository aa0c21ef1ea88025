package collector

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/bench/internal/cpu"
)

const (
	// spansPerSize is the minimum number of spans of a measurement: of small traces it
	// takes several, one after the other.
	spansPerSize = 10_000
	// tooLong is the processor time above which a size is not measured, as estimated from
	// the previous one with a cost that grows with the square of the size.
	tooLong = time.Minute
)

// BenchmarkLinear measures the processor time for a trace that is large in one respect,
// from its first call until the processor is shut down, with all goroutines. The bar is
// 20 µs a span at every size, and at most twice as much at the largest size as at the
// smallest. With -short the largest sizes are left out.
//
//	us/span-N          processor time of llm_classify with N spans a trace
//	x-growth           the largest measured size's, divided by the smallest size's
//	x-tail_sampling    that of tail_sampling at the largest measured size, divided by llm_classify's
func BenchmarkLinear(b *testing.B) {
	all := peers()
	for _, sh := range shapes {
		b.Run(sh.name, func(b *testing.B) {
			ours := all[1]
			ours.soon = sh.config
			for b.Loop() {
				var first, last time.Duration // a span
				largest := 0
				for _, n := range sh.sizes() {
					if largest > 0 && last*time.Duration(n)*time.Duration(n/largest) > tooLong {
						b.Logf("%d spans: not measured, it would take minutes", n)
						break
					}
					last, largest = spent(b, ours, sh, n), n
					if first == 0 {
						first = last
					}
					b.ReportMetric(float64(last)/1e3, fmt.Sprintf("us/span-%d", n))
				}
				b.ReportMetric(float64(last)/float64(first), "x-growth")
				b.ReportMetric(float64(spent(b, all[2], sh, largest))/float64(last), "x-tail_sampling")
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// sizes returns the sizes to measure, in spans.
func (sh shape) sizes() []int {
	sizes := []int{1_000, 10_000}
	if testing.Short() {
		return sizes
	}
	if sh.largest > 0 {
		return append(sizes, sh.largest)
	}
	return append(sizes, 100_000)
}

// calls returns traces of about n spans each as the calls that bring them, and the
// number of their spans.
func (sh shape) calls(n int) (calls []ptrace.Traces, spans int) {
	for range max(1, spansPerSize/n) {
		w := newWriter()
		sh.write(w, n)
		calls, spans = append(calls, w.calls...), spans+w.spans
	}
	return calls, spans
}

// spent returns the processor time a span.
func spent(b *testing.B, p peer, sh shape, n int) time.Duration {
	b.Helper()
	calls, spans := sh.calls(n)
	out := newSink()
	out.expect(spans)
	in, stop := p.start(b, p.soon, out)
	start := cpu.Time()
	for _, td := range calls {
		require.NoError(b, in.ConsumeTraces(b.Context(), td))
		time.Sleep(sh.pause)
	}
	out.wait(b, p)
	stop()
	return (cpu.Time() - start) / time.Duration(spans)
}
