package collector

import (
	"context"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/processor/llmclassify"
)

// BenchmarkLatency measures how long the run of one producer waits in llm_classify
// while another producer sends traces of 20,000 spans as fast as they are taken. The
// wait is from the first call until the run's span is out: nothing else is due. A run of
// six spans begins every 10 ms, however long the others wait. Every second one comes in
// one call, the others in two. There is one shard, so that nothing but the processor
// keeps the two producers apart. The bar is 50 ms.
//
//	ms-p50, ms-p99, ms-max    the waits
//	ms-shutdown               how long a shutdown takes that follows at once
func BenchmarkLatency(b *testing.B) {
	b.Run("alone", func(b *testing.B) { latency(b, shape{}) })
	for _, sh := range shapes {
		b.Run(sh.name, func(b *testing.B) { latency(b, sh) })
	}
}

func latency(b *testing.B, attack shape) {
	const (
		lasts = 3 * time.Second
		every = 10 * time.Millisecond
		spans = 20_000
		// patience bounds the wait of a run, and the shutdown.
		patience = 30 * time.Second
	)
	p := peer{factory: llmclassify.NewFactory()}
	config := map[string]any{"shards": 1}
	maps.Copy(config, attack.config)
	var mu sync.Mutex // guards waits
	var waits []time.Duration
	shutdown := time.Duration(0)
	for b.Loop() {
		out := &runs{waiting: make(map[pcommon.TraceID]chan<- time.Time)}
		in := p.create(b, config, out)
		ctx, cancel := context.WithCancel(b.Context())
		var attacker sync.WaitGroup
		if attack.write != nil {
			attacker.Go(func() {
				for ctx.Err() == nil {
					w := newWriter()
					attack.write(w, spans)
					for _, td := range w.calls {
						if in.ConsumeTraces(ctx, td) != nil {
							break // refused, or the end
						}
					}
				}
			})
		}
		var honest sync.WaitGroup
		tick := time.NewTicker(every)
		for i := range int(lasts / every) {
			<-tick.C
			w := newWriter()
			run := w.id()
			for range 5 {
				w.request(w.id(), run, run)
			}
			if i%2 == 1 {
				w.next()
			}
			w.run(run, w.root, 5, 0)
			came := out.expect(w.trace)
			began := time.Now()
			honest.Go(func() {
				call, done := context.WithTimeout(b.Context(), patience)
				defer done()
				for _, td := range w.calls {
					if err := in.ConsumeTraces(call, td); err != nil {
						b.Errorf("an honest call failed: %v", err)
					}
				}
				wait := patience
				select {
				case at := <-came:
					wait = at.Sub(began)
				case <-call.Done():
				}
				mu.Lock()
				defer mu.Unlock()
				waits = append(waits, wait)
			})
		}
		tick.Stop()
		honest.Wait()
		cancel()
		attacker.Wait()
		began := time.Now()
		stop, done := context.WithTimeout(b.Context(), patience)
		_ = in.Shutdown(stop) // its time is what counts
		done()
		shutdown = max(shutdown, time.Since(began))
	}
	slices.Sort(waits)
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(ms(waits[len(waits)/2]), "ms-p50")
	b.ReportMetric(ms(waits[len(waits)*99/100]), "ms-p99")
	b.ReportMetric(ms(waits[len(waits)-1]), "ms-max")
	b.ReportMetric(ms(shutdown), "ms-shutdown")
}

// runs notes when the span of a run comes out.
type runs struct {
	mu      sync.Mutex
	waiting map[pcommon.TraceID]chan<- time.Time
}

// expect returns a channel with the time at which the run of a trace comes out.
func (r *runs) expect(trace pcommon.TraceID) <-chan time.Time {
	came := make(chan time.Time, 1)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting[trace] = came
	return came
}

func (*runs) Capabilities() consumer.Capabilities { return consumer.Capabilities{} }

func (r *runs) ConsumeTraces(_ context.Context, td ptrace.Traces) error {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, rs := range td.ResourceSpans().All() {
		for _, ss := range rs.ScopeSpans().All() {
			for _, s := range ss.Spans().All() {
				if came, ok := r.waiting[s.TraceID()]; ok && s.Name() == "invoke_agent coder" {
					came <- now
					delete(r.waiting, s.TraceID())
				}
			}
		}
	}
	return nil
}
