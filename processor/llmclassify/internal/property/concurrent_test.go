package property

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/processor/processortest"

	"github.com/otelllm/otelllm-go/internal/sample"
	"github.com/otelllm/otelllm-go/processor/llmclassify"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/harness"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/metadata"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/telemetry"
	"github.com/otelllm/otelllm-go/semconv"
)

// tally counts what comes out, and fails three times in ten.
type tally struct {
	mu       sync.Mutex
	random   *rand.Rand
	spans    map[harness.SpanKey]int
	verdicts map[pcommon.TraceID]int
	works    bool // no more failures
}

func (*tally) Capabilities() consumer.Capabilities { return consumer.Capabilities{MutatesData: true} }

func (c *tally) ConsumeTraces(_ context.Context, td ptrace.Traces) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	fails := !c.works && c.random.IntN(10) < 3
	for _, rs := range td.ResourceSpans().All() {
		for _, ss := range rs.ScopeSpans().All() {
			for _, span := range ss.Spans().All() {
				if fails {
					span.SetName("changed by who refused it")
					continue
				}
				c.spans[harness.SpanKey{Trace: span.TraceID(), ID: span.SpanID()}]++
				if harness.VerdictOf(span).Outcome != semconv.RunOutcomeUnset {
					c.verdicts[span.TraceID()]++
				}
			}
		}
	}
	if fails {
		return harness.ErrDown
	}
	return nil
}

// Many send at once, the next consumer fails three times in ten, and there is far
// too little memory: every span that was acknowledged comes out, other spans once, and every
// run has one verdict.
func TestConcurrent(t *testing.T) {
	storage := component.MustNewID("disk")
	for name, tt := range map[string]struct {
		shards  int
		bytes   int
		storage *component.ID
	}{
		"one shard":                    {1, 1 << 28, nil},
		"four shards":                  {4, 1 << 28, nil},
		"four shards, little memory":   {4, 100_000, nil},
		"three shards, with a disk":    {3, 100_000, &storage},
		"one shard, next to no memory": {1, 5_000, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := llmclassify.NewFactory().CreateDefaultConfig().(*llmclassify.Config)
			cfg.Shards, cfg.MaxHeldBytes, cfg.Storage = tt.shards, tt.bytes, tt.storage
			cfg.RunTimeout = 10_000 * time.Hour                                                                                        // however slow this machine is
			next := &tally{random: rand.New(rand.NewPCG(1, 2)), spans: map[harness.SpanKey]int{}, verdicts: map[pcommon.TraceID]int{}} //nolint:gosec // repeatable
			metrics := componenttest.NewTelemetry()
			set := processortest.NewNopSettings(metadata.Type)
			set.TelemetrySettings = metrics.NewTelemetrySettings()
			p := harness.Make(t, set, cfg, next, harness.HurriedClock{Began: time.Now()})
			d := harness.NewDisk()
			require.NoError(t, p.Start(t.Context(), hostWith{storage: d}))

			const senders = 8
			runs := 40 / sample.Every(2)
			var sending sync.WaitGroup
			sent := make([]map[harness.SpanKey]int, senders)
			for sender := range senders {
				sent[sender] = map[harness.SpanKey]int{}
				sending.Go(func() { sendRuns(t, p, uint64(sender), runs, sent[sender]) })
			}
			allSent := make(chan struct{})
			go func() { sending.Wait(); close(allSent) }()
			for waits := true; waits; {
				harness.AddsUp(t, metrics)
				select {
				case <-allSent:
					waits = false
				case <-time.After(time.Millisecond):
				}
			}
			next.mu.Lock()
			next.works = true
			next.mu.Unlock()
			require.NoError(t, p.Shutdown(t.Context()))
			counted := p.Telemetry.Flow.Now()
			require.NoError(t, metrics.Shutdown(t.Context()))

			others := 0
			for _, spans := range sent {
				for key, n := range spans {
					if key.ID == harness.SpanID(8) || key.ID == harness.SpanID(9) {
						others += n
						assert.Equal(t, n, next.spans[key], "span %s of %s", key.ID, key.Trace)
					} else { // its sender repeats it where the others of its call are refused
						assert.GreaterOrEqual(t, next.spans[key], n, "span %s of %s", key.ID, key.Trace)
					}
				}
			}
			got := 0
			for _, n := range next.spans {
				got += n
			}
			assert.Equal(t, others, counted.Passed)
			assert.Equal(t, got, counted.In-counted.Refused)
			assert.Equal(t, got, counted.Passed+counted.Forwarded-counted.Added)
			assert.Zero(t, counted.Held)
			assert.Zero(t, counted.Lost)
			assert.Len(t, next.verdicts, senders*runs)
			for trace, n := range next.verdicts {
				assert.Equal(t, 1, n, "verdicts on the run of %s", trace)
			}
			held := p.Load()
			held.Evidence = 0 // of no request that is still to come
			assert.Equal(t, telemetry.Load{}, held)
			assert.Empty(t, d.Entries())
		})
	}
}

// sendRuns sends runs in calls of some spans each, again as long as a call is
// refused, and counts what was acknowledged.
func sendRuns(t *testing.T, p *harness.Processor, sender uint64, runs int, sent map[harness.SpanKey]int) {
	r := rand.New(rand.NewPCG(sender, 3)) //nolint:gosec // repeatable
	var waiting []harness.Span
	traceOf := func(run int) byte { return byte(run + 1) }
	for run := range runs {
		trace := traceOf(run)
		specs := []harness.Span{
			harness.RequestSpan(2, 1, 0.1, 0.4).Refused(429, semconv.ProviderErrorKindRateLimited, "rate_limit_exceeded").Of(trace),
			harness.RequestSpan(3, 1, 0.5, 1).With(semconv.RequestAttempt(2)).Answered("stop", harness.Answer).Of(trace),
			harness.RunSpan(1, 0, 3, 2, 0).Of(trace), harness.OtherSpan(9, 1, 0.1, 0.2).Of(trace), harness.HTTPSpan(8, 0.4).Failed("429").Of(trace),
		}
		r.Shuffle(len(specs), func(i, j int) { specs[i], specs[j] = specs[j], specs[i] })
		waiting = append(waiting, specs...)
		for len(waiting) > 10 || run == runs-1 && len(waiting) > 0 {
			n := min(r.IntN(5)+1, len(waiting))
			td := harness.TracesOf(t, waiting[:n]...)
			waiting = waiting[n:]
			for _, span := range td.ResourceSpans().At(0).ScopeSpans().At(0).Spans().All() {
				id := span.TraceID()
				binary.BigEndian.PutUint64(id[4:], sender+1)
				span.SetTraceID(id)
				sent[harness.SpanKey{Trace: id, ID: span.SpanID()}]++
			}
			for {
				again := ptrace.NewTraces()
				td.CopyTo(again)
				err := p.ConsumeTraces(t.Context(), again)
				if err == nil {
					break
				}
				time.Sleep(time.Millisecond)
				if consumererror.IsPermanent(err) {
					t.Errorf("refused for good: %v", err)
					return
				}
			}
		}
	}
}
