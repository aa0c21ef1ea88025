package property

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/harness"
	"github.com/otelllm/otelllm-go/semconv"
)

// whereHeld is how many LLM spans are in each place.
type whereHeld struct{ inbox, buffer, pending, queue int }

func (w *whereHeld) sum() int { return w.inbox + w.buffer + w.pending + w.queue }

// countHeld looks for all spans of traces that the processor has. Nothing may work meanwhile.
func countHeld(p *harness.Processor, spans map[harness.SpanKey]bool) (n whereHeld) {
	for _, s := range p.Shards {
		for l := range s.All {
			for _, d := range l.Inbox.List {
				for _, a := range d.Arrivals {
					n.inbox += len(a.Items)
				}
				if d.Parcel != nil {
					n.inbox += d.Parcel.Spans - d.Parcel.Added
				}
			}
			for key := range spans {
				if t := l.Buffer.Trace(key.Trace); t != nil {
					if it := t.Item(key.ID); it != nil && it.Held() {
						n.buffer++
					}
				}
			}
			for _, t := range l.Pending.Turns {
				for i := range t.List {
					for j := range t.List[i].Members {
						if m := &t.List[i].Members[j]; m.Out && !m.Foreign {
							n.pending++
						}
					}
				}
			}
			for i := range l.Forwarder.Queue {
				n.queue += l.Forwarder.Queue[i].Spans - l.Forwarder.Queue[i].Added
			}
		}
	}
	return n
}

// agent sends spans of runs in any order. What is refused it sends again later.
type agent struct {
	id      uint64
	random  *rand.Rand
	runs    byte
	waiting []harness.Span
	taken   map[harness.SpanKey]bool
}

// send makes some calls.
func (a *agent) send(t *testing.T, h *harness.Harness) {
	for range 10 {
		a.runs++
		a.waiting = append(a.waiting,
			harness.RequestSpan(2, 1, 0.1, 0.4).Refused(429, semconv.ProviderErrorKindRateLimited, "rate_limit_exceeded").Of(a.runs),
			harness.RequestSpan(3, 1, 0.5, 1).Answered("stop", harness.Answer).Of(a.runs), harness.RunSpan(1, 0, 3, 2, 0).Of(a.runs))
		if a.random.IntN(2) == 0 { // else the newest run comes in one call
			a.random.Shuffle(len(a.waiting), func(i, j int) { a.waiting[i], a.waiting[j] = a.waiting[j], a.waiting[i] })
		}
		_ = h.Processor.ConsumeTraces(t.Context(), harness.TracesOf(t, harness.OtherSpan(9, 1, 0.1, 0.2).Of(a.runs)))
		n := min(a.random.IntN(6)+1, len(a.waiting))
		call := a.waiting[len(a.waiting)-n:]
		td := harness.TracesOf(t, call...)
		var keys []harness.SpanKey
		for _, span := range td.ResourceSpans().At(0).ScopeSpans().At(0).Spans().All() {
			id := span.TraceID()
			binary.BigEndian.PutUint64(id[4:], a.id+1)
			span.SetTraceID(id)
			keys = append(keys, harness.SpanKey{Trace: id, ID: span.SpanID()})
		}
		_ = h.Processor.ConsumeTraces(t.Context(), td) // after an error some are held, and none come again
		a.waiting = a.waiting[:len(a.waiting)-n]
		for _, key := range keys {
			a.taken[key] = true
		}
	}
}

// What the counters say is held is what is there, found span by span, whenever nothing moves:
// while agents send, shards work, the next consumer fails, and memory is short.
func TestHeldCountersMatchHeldSpans(t *testing.T) {
	for name, tt := range map[string]struct {
		shards, bytes int
		storage       bool
	}{
		"one shard":             {1, 1 << 28, false},
		"three shards":          {3, 1 << 28, false},
		"little memory":         {3, 60_000, false},
		"little memory, a disk": {2, 60_000, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := harness.DefaultConfig()
			cfg.Shards, cfg.MaxHeldBytes = tt.shards, tt.bytes
			next := &tally{random: rand.New(rand.NewPCG(1, 2)), spans: map[harness.SpanKey]int{}, verdicts: map[pcommon.TraceID]int{}} //nolint:gosec // repeatable
			h := harness.New(t, cfg, next)
			if tt.storage {
				h.OpenOn(t, harness.NewDisk())
			}
			var agents []*agent
			for id := range uint64(4) {
				agents = append(agents, &agent{id: id, random: rand.New(rand.NewPCG(id, 4)), taken: map[harness.SpanKey]bool{}}) //nolint:gosec // repeatable
			}
			var most whereHeld
			for range 10 {
				work(h, func() {
					var sending sync.WaitGroup
					for _, a := range agents {
						sending.Go(func() { a.send(t, h) })
					}
					sending.Wait()
				})
				spans := map[harness.SpanKey]bool{}
				for _, a := range agents {
					for key := range a.taken {
						spans[key] = true
					}
				}
				found := countHeld(h.Processor, spans)
				require.Equal(t, found.sum(), h.Processor.Telemetry.Flow.Now().Held, "%+v", found)
				require.Equal(t, int64(found.sum()), harness.AddsUp(t, h.Metrics)["held"])
				most = whereHeld{max(most.inbox, found.inbox), max(most.buffer, found.buffer), max(most.pending, found.pending), max(most.queue, found.queue)}
				h.Clock.Advance(3 * time.Second)
			}
			t.Logf("%+v", most)
			assert.Positive(t, most.buffer)
			assert.Positive(t, most.queue)
			next.works = true
			require.NoError(t, h.Shutdown(t.Context()))
			assert.Zero(t, h.Processor.Telemetry.Flow.Now().Held)
		})
	}
}

// work lets the shards work while something is done, each in its own goroutine.
func work(h *harness.Harness, do func()) {
	stop := make(chan struct{})
	var shards sync.WaitGroup
	for _, s := range h.Shards {
		shards.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					if !s.Turn(context.Background()) {
						runtime.Gosched()
					}
				}
			}
		})
	}
	do()
	close(stop)
	shards.Wait()
}
