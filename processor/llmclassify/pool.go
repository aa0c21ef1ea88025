package llmclassify

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/origin"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/trace"
)

// poolConfig is what of the processor's configuration the shards need to know.
type poolConfig struct {
	shards         int
	maxHold        time.Duration
	settle         time.Duration
	runTimeout     time.Duration
	maxHeldBytes   int
	maxFactBytes   int
	maxSpansPerRun int
	markStatus     bool // spans that failed get a status
	embedded       bool // no sender outlives the processor
}

// pool shares the traces among shards, and has what these have in common.
type pool struct {
	poolConfig
	next      consumer.Traces
	clock     clock
	telemetry *telemetry
	store     *store
	tenants   *tenants
	budget    *budget
	origins   *origin.Table
	live      liveTraces
	lifetime  trace.Lifetime
	limits    trace.Limits // zero but in tests
	shards    []*shard
}

// newPool makes the shards. They do nothing before run.
func newPool(cfg poolConfig, next consumer.Traces, c clock, t *telemetry, tenants *tenants, origins *origin.Table) *pool {
	p := &pool{
		poolConfig: cfg, next: next, clock: c, telemetry: t, tenants: tenants, budget: tenants.budget, origins: origins,
		store:    &store{telemetry: t},
		lifetime: trace.Lifetime{Embedded: cfg.embedded, Period: cfg.runTimeout},
	}
	for range cfg.shards {
		p.shards = append(p.shards, newShard(p, cfg.shards))
	}
	return p
}

// index is the index of the shard that a trace belongs to.
func (p *pool) index(id pcommon.TraceID) int {
	if len(p.shards) == 1 {
		return 0
	}
	return int(hash(id) % uint64(len(p.shards))) //nolint:gosec // less than the number of shards
}

// lane is the lane that a trace of a tenant belongs to.
func (p *pool) lane(t *tenant, id pcommon.TraceID) *lane { return p.shards[p.index(id)].lane(t) }

// lanes yields the lanes of all shards.
func (p *pool) lanes(yield func(*lane) bool) {
	for _, s := range p.shards {
		for l := range s.all {
			if !yield(l) {
				return
			}
		}
	}
}

// run lets the shards work until quit is closed, each in a goroutine of done.
func (p *pool) run(ctx context.Context, quit <-chan struct{}, done *sync.WaitGroup) {
	for _, s := range p.shards {
		done.Go(func() { s.run(ctx, quit) })
	}
}

// drain judges and forwards all that is held, when the shards do not work any more, each shard in a goroutine
// of done. It adds to left how many spans the next consumer does not accept.
func (p *pool) drain(ctx context.Context, done *sync.WaitGroup, left *atomic.Int64) {
	for _, s := range p.shards {
		done.Go(func() {
			for l := range s.all {
				l.drain(ctx)
				left.Add(int64(l.forwarder.flush(ctx)))
				l.account()
			}
		})
	}
}

// load is what the shards hold now.
func (p *pool) load() (l load) {
	for lane := range p.lanes {
		l.traces += int(lane.traces.Load())
		l.factBytes += int(lane.factBytes.Load())
		l.evidence += int(lane.evidenceBytes.Load())
	}
	l.bytes = int(p.budget.used.Load())
	return l
}

// tables is what is kept of runs that were judged, and of calls that were refused.
func (p *pool) tables() (sizes tableSizes) {
	for l := range p.lanes {
		sizes[judgedTable] += int(l.judgedBytes.Load())
		sizes[historyTable] += int(l.historyBytes.Load())
	}
	return sizes
}
