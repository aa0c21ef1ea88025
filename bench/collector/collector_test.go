package collector

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/bench/internal/cpu"
	"github.com/otelllm/otelllm-go/bench/internal/stats"
)

const (
	// rounds is the minimum number of rounds.
	rounds = 5
	// warmUp is the number of batches per caller that are sent before the measured
	// ones: a Collector that runs for weeks allocates its long-lived structures once.
	warmUp = 3
)

// BenchmarkThroughput sends batches through each processor until every span has come
// out. The processors take turns in random order. The result is the processor time of
// all goroutines, so that waiting costs nothing, minus that of a pass-through.
//
// Batches are made a few at a time, which is not measured, and sent. The garbage
// collector therefore runs several times, and only the runs during the processor's work
// count: over time, a share that matches the processor's share of all allocations. If
// all batches were made in advance, they would take so much memory that the garbage
// collector ran once or not at all, by chance.
//
//	ns/span-…          processor time of one processor
//	x-…                that of another processor divided by llm_classify's, in the same round
func BenchmarkThroughput(b *testing.B) {
	const batches = 96
	for _, m := range mixes {
		b.Run(m.name, func(b *testing.B) {
			data, spans, _ := m.batch(b, false)
			all := peers()
			added := make([][]float64, len(all))
			ratios := make([][]float64, len(all))
			for b.Loop() {
				for range rounds {
					spent := make([]float64, len(all))
					for _, i := range rand.Perm(len(all)) {
						spent[i] = float64(streamed(b, all[i], m, data, batches, spans)) / float64(batches*spans)
					}
					for i := range all {
						added[i] = append(added[i], spent[i]-spent[0])
						ratios[i] = append(ratios[i], spent[i]/spent[1])
					}
				}
			}
			b.ReportMetric(0, "ns/op")
			for i, p := range all {
				if i > 0 {
					b.ReportMetric(stats.Median(added[i]), "ns/span-"+p.name)
				}
				if i > 1 {
					b.ReportMetric(stats.Median(ratios[i]), "x-"+p.name)
				}
			}
		})
	}
}

// streamed sends batches of the given number of spans and returns the processor time
// until all spans are out. The first few batches are not measured.
func streamed(b *testing.B, p peer, m mix, data []byte, batches, spans int) (used time.Duration) {
	b.Helper()
	const atOnce = 24
	out := newSink()
	first, stop := p.start(b, p.soon, out)
	defer stop()
	send := func(batches int) time.Duration {
		calls := m.calls(b, data, batches)
		out.expect(batches * spans)
		start := cpu.Time()
		for _, td := range calls {
			require.NoError(b, first.ConsumeTraces(b.Context(), td))
		}
		out.wait(b, p)
		return cpu.Time() - start
	}
	send(warmUp)
	for ; batches > 0; batches -= atOnce {
		used += send(min(batches, atOnce))
	}
	return used
}

// through sends the calls of a number of batches, each with the given number of spans,
// and returns the processor time and the wall-clock time until all spans are out. The
// calls before the last batches are not measured. The callers share the calls.
func through(b *testing.B, p peer, calls []ptrace.Traces, batches, spans, callers int) (used, took time.Duration) {
	b.Helper()
	out := newSink()
	first, stop := p.start(b, p.soon, out)
	defer stop()
	send := func(calls []ptrace.Traces, batches int) {
		out.expect(batches * spans)
		var wg sync.WaitGroup
		for i := range callers {
			wg.Go(func() {
				for k := i; k < len(calls); k += callers {
					assert.NoError(b, first.ConsumeTraces(b.Context(), calls[k]))
				}
			})
		}
		wg.Wait()
		out.wait(b, p)
	}
	ahead := callers * warmUp
	per := len(calls) / (ahead + batches)
	send(calls[:ahead*per], ahead)
	runtime.GC()
	start, began := cpu.Time(), time.Now()
	send(calls[ahead*per:], batches)
	return cpu.Time() - start, time.Since(began)
}

// BenchmarkCores measures how much faster llm_classify is on two cores than on one,
// with as many callers as cores, in wall-clock time. The result is meaningful only if
// two cores are idle.
func BenchmarkCores(b *testing.B) {
	const batches = 48
	if runtime.NumCPU() < 2 {
		b.Skip("one core only")
	}
	p := peers()[1]
	for _, m := range mixes {
		b.Run(m.name, func(b *testing.B) {
			data, spans, _ := m.batch(b, false)
			before := runtime.GOMAXPROCS(0)
			defer runtime.GOMAXPROCS(before)
			var ratios []float64
			for b.Loop() {
				var spent [3]time.Duration
				for _, i := range rand.Perm(2) {
					cores := i + 1
					runtime.GOMAXPROCS(cores)
					_, spent[cores] = through(b, p, m.calls(b, data, cores*warmUp+batches), batches, spans, cores)
				}
				ratios = append(ratios, float64(spent[1])/float64(spent[2]))
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(stats.Median(ratios), "x-2-cores")
		})
	}
}

// BenchmarkRetained measures the heap that each held span of the batch retains, its own
// data included, averaged over LLM spans and other spans. "At first" is the value
// before llm_classify packs the spans that stay.
func BenchmarkRetained(b *testing.B) {
	const batches = 12
	for _, m := range mixes {
		if m.apart {
			continue // this mix holds every span
		}
		b.Run(m.name, func(b *testing.B) {
			data, spans, llm := m.batch(b, true)
			for b.Loop() {
				for _, p := range peers()[1:] {
					first, then := held(b, p, data, batches)
					b.ReportMetric(then/float64(batches*spans), "B/span-"+p.name)
					if p.name == "llm_classify" && llm > 0 {
						b.ReportMetric(then/float64(batches*llm), "B/llm-span-"+p.name)
						b.ReportMetric(first/float64(batches*spans), "B/span-at-first-"+p.name)
					}
				}
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// held returns how much the heap grows when a processor holds n batches: at first, and
// after it has packed them.
func held(b *testing.B, p peer, data []byte, n int) (first, then float64) {
	b.Helper()
	in, stop := p.start(b, p.never, newSink())
	defer stop()
	before := inUse()
	consume(b, in, data, n)
	first = float64(settled() - before)
	if p.packs == 0 {
		return first, first
	}
	time.Sleep(p.packs)
	return first, float64(settled() - before)
}

func consume(b *testing.B, first consumer.Traces, data []byte, n int) {
	b.Helper()
	for range n {
		require.NoError(b, first.ConsumeTraces(b.Context(), fresh(b, data, 1)[0]))
	}
}

// settled returns the heap in use after a processor's goroutines have taken in all
// spans that were sent, that is, when it no longer changes.
func settled() int64 {
	last := inUse()
	for range 50 {
		time.Sleep(20 * time.Millisecond)
		now := inUse()
		if diff := now - last; diff > -4096 && diff < 4096 {
			return now
		}
		last = now
	}
	return last
}

func inUse() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
