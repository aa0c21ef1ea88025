// Package worker owns the LLM spans of batches until they are forwarded. A pool has a shard for each
// goroutine, and a shard a lane for each tenant: a lane holds, judges and forwards the runs of its traces.
//
//	batch ─► handover ─ delivery ─► inbox ─► lane ─► trace.Buffer ─► pending ─► release ─► forward
package worker

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/clock"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/journal"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/origin"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/telemetry"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/tenant"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/trace"
)

// Config is the processor's configuration, as far as the shards need it.
type Config struct {
	Shards         int
	MaxHold        time.Duration
	Settle         time.Duration
	RunTimeout     time.Duration
	MaxHeldBytes   int
	MaxFactBytes   int
	MaxSpansPerRun int
	MarkStatus     bool // spans that failed get a status
	Embedded       bool // no sender outlives the processor
}

// Pool shares the traces among shards, and has the parts that these share.
type Pool struct {
	Config
	next      consumer.Traces
	Clock     clock.Clock
	Telemetry *telemetry.Telemetry
	Store     *journal.Store
	Tenants   *tenant.Set
	Budget    *tenant.Budget
	Origins   *origin.Table
	Live      trace.Live
	Lifetime  trace.Lifetime
	Limits    trace.Limits // zero but in tests
	Shards    []*shard
}

// New makes the shards. They do nothing before Run.
func New(cfg Config, next consumer.Traces, c clock.Clock, t *telemetry.Telemetry, tenants *tenant.Set, origins *origin.Table) *Pool {
	p := &Pool{
		Config: cfg, next: next, Clock: c, Telemetry: t, Tenants: tenants, Budget: tenants.Budget, Origins: origins,
		Store:    &journal.Store{Telemetry: t},
		Lifetime: trace.Lifetime{Embedded: cfg.Embedded, Period: max(cfg.RunTimeout, time.Hour)},
	}
	for range cfg.Shards {
		p.Shards = append(p.Shards, newShard(p, cfg.Shards))
	}
	return p
}

// index returns the index of the shard of a trace.
func (p *Pool) index(id pcommon.TraceID) int {
	if len(p.Shards) == 1 {
		return 0
	}
	return int(trace.Hash(id) % uint64(len(p.Shards))) //nolint:gosec // less than the number of shards
}

// Lane returns the lane of a trace of a tenant.
func (p *Pool) Lane(t *tenant.Tenant, id pcommon.TraceID) *Lane { return p.Shards[p.index(id)].Lane(t) }

// lanes yields the lanes of all shards.
func (p *Pool) lanes(yield func(*Lane) bool) {
	for _, s := range p.Shards {
		for l := range s.All {
			if !yield(l) {
				return
			}
		}
	}
}

// Run lets the shards work until quit is closed, each in a goroutine of done.
func (p *Pool) Run(ctx context.Context, quit <-chan struct{}, done *sync.WaitGroup) {
	for _, s := range p.Shards {
		done.Go(func() { s.Run(ctx, quit) })
	}
}

// Drain judges and forwards all held spans, when the shards do not work any more, each shard in a goroutine of done. It
// adds to left how many spans the next consumer does not accept.
func (p *Pool) Drain(ctx context.Context, done *sync.WaitGroup, left *atomic.Int64) {
	for _, s := range p.Shards {
		done.Go(func() {
			for l := range s.All {
				l.drain(ctx)
				left.Add(int64(l.Forwarder.Flush(ctx)))
				l.Account()
			}
		})
	}
}

// Load returns the content of the shards' buffers.
func (p *Pool) Load() (l telemetry.Load) {
	for lane := range p.lanes {
		l.Traces += int(lane.traces.Load())
		l.FactBytes += int(lane.factBytes.Load())
		l.Evidence += int(lane.evidenceBytes.Load())
	}
	l.Bytes = int(p.Budget.Used.Load())
	return l
}

// Tables returns the sizes of the memory of judged runs and refused calls, and of the history.
func (p *Pool) Tables() (sizes telemetry.TableSizes) {
	for l := range p.lanes {
		sizes[telemetry.JudgedTable] += int(l.judgedBytes.Load())
		sizes[telemetry.HistoryTable] += int(l.historyBytes.Load())
	}
	return sizes
}
