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
	// rounds is how many rounds are measured at least.
	rounds = 5
	// warmUp is how many batches of each caller go ahead of those that are measured:
	// what a processor makes once, a Collector that runs for weeks makes once.
	warmUp = 3
)

// BenchmarkThroughput sends batches through each processor until every span has
// come out again. The processors take turns in random order. What counts is the
// processor time of all goroutines, so that waiting costs nothing, less that of a
// pass-through.
//
// Batches are made some at a time, which is not counted, and sent. So the garbage
// collector has several turns, of which those count that come while a processor works:
// in the long run as many as what it allocates is of all that is allocated. Made ahead,
// all batches are so much memory that there is one turn or none, by chance.
//
//	ns/span-…          of a processor
//	x-…                a peer's over llm_classify's, within a round
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

// streamed sends batches of so many spans, and is the processor time of that until all
// are out. A few ahead of them are not measured.
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

// through sends the calls of a number of batches, so many spans each, and is the
// processor time and the time by the clock on the wall until all spans are out. The
// calls ahead of the last batches are not measured. Callers share the calls.
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

// BenchmarkCores is how much faster two cores are than one: llm_classify, as many
// callers as cores, by the clock on the wall. It says something only on a machine
// that has two cores to give.
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

// BenchmarkRetained is the heap that each span of the batch retains while it is
// held, its own data included: of all spans, whether they are LLM spans or not.
// At first is what llm_classify retains before it packs what stays.
func BenchmarkRetained(b *testing.B) {
	const batches = 12
	for _, m := range mixes {
		if m.apart {
			continue // here all are held
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

// held is how much the heap grows by n batches that a processor holds: at first, and
// once it has made small what stays.
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

// settled is the heap in use once the goroutines of a processor have taken in
// what they were sent: when it does not change any more.
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
