package llmclassify

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/processor"
	"go.uber.org/zap"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/dialect"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/journal"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/origin"
)

// classifier is the processor. ConsumeTraces recognises and takes the LLM spans, and
// hands them to the shards of their traces, which do the rest.
type classifier struct {
	cfg       *Config
	id        component.ID
	registry  *dialect.Registry
	origins   *origin.Table
	callers   *origin.Callers
	shards    []*shard
	interest  *interest
	suspects  *interest // the traces of which there is evidence
	budget    *budget
	journal   *journal.Journal // nil without storage; set by Start
	health    health
	telemetry *telemetry
	next      consumer.Traces
	clock     clock
	logger    *zap.Logger

	calls gate // the calls of ConsumeTraces that are in their shards' way
	stop  context.CancelFunc
	quit  chan struct{}
	done  sync.WaitGroup
	once  sync.Once
}

var _ processor.Traces = (*classifier)(nil)

// maxOrigins bounds the scopes that are shared at a time.
const maxOrigins = 1 << 14

func newClassifier(set processor.Settings, cfg *Config, next consumer.Traces, c clock) (*classifier, error) {
	t, err := newTelemetry(set.TelemetrySettings)
	if err != nil {
		return nil, err
	}
	registry, err := dialect.NewSet(cfg.Dialects...)
	if err != nil {
		return nil, fmt.Errorf("dialects: %w", err)
	}
	p := &classifier{
		cfg:       cfg,
		id:        set.ID,
		registry:  registry,
		origins:   origin.NewTable(cfg.MaxHold, maxOrigins),
		callers:   origin.NewCallers(cfg.MetadataKeys),
		interest:  new(interest),
		suspects:  new(interest),
		budget:    &budget{limit: int64(cfg.MaxHeldBytes)},
		telemetry: t,
		next:      next,
		clock:     c,
		logger:    set.Logger,
		quit:      make(chan struct{}),
	}
	shards := cfg.Shards
	if shards == 0 {
		shards = runtime.GOMAXPROCS(0)
	}
	for range shards {
		p.shards = append(p.shards, newShard(p, cfg, shards))
	}
	return p, t.observe(p.load)
}

// load is what the processor holds.
type load struct{ traces, bytes, factBytes, evidence int }

func (p *classifier) load() (l load) {
	for _, s := range p.shards {
		l.traces += int(s.traces.Load())
		l.factBytes += int(s.factBytes.Load())
		l.evidence += int(s.evidenced.Load())
	}
	l.bytes = int(p.budget.used.Load())
	return l
}

// Capabilities implements consumer.Traces.
func (*classifier) Capabilities() consumer.Capabilities {
	return consumer.Capabilities{MutatesData: true}
}

// Start implements component.Component. It takes up what an earlier process had
// left in the storage.
func (p *classifier) Start(ctx context.Context, host component.Host) error {
	p.health.start(host)
	if p.cfg.Storage != nil {
		var err error
		if p.journal, err = openJournal(ctx, host, *p.cfg.Storage, p.id, p.logger); err != nil {
			return err
		}
	}
	work, stop := context.WithCancel(context.WithoutCancel(ctx)) // that one is for starting
	p.stop = stop
	for _, s := range p.shards {
		p.done.Go(func() { s.run(work, p.quit) })
	}
	if p.journal != nil {
		return p.replay(ctx)
	}
	return nil
}

// Shutdown implements component.Component. It judges and forwards everything
// that is held, within ctx.
func (p *classifier) Shutdown(ctx context.Context) (err error) {
	p.once.Do(func() {
		p.calls.close(ctx)
		defer p.telemetry.shutdown()
		if p.stop != nil {
			close(p.quit)
			stop := context.AfterFunc(ctx, p.stop) // what is stuck in the next consumer is to come back
			defer stop()
			if !p.returns(ctx, &p.done) {
				err = errStuck
				return
			}
			p.stop()
		}
		err = p.drain(ctx)
		if p.journal != nil {
			err = errors.Join(err, p.journal.Close(ctx))
		}
	})
	return err
}

var errStuck = errors.New("the next consumer does not return: what is held is lost, unless there is a storage")

// grace is how long after the end of a shutdown's context the next consumer may
// take to notice it.
const grace = time.Second

// returns waits for work, for little longer than ctx. It reports whether it ended.
func (p *classifier) returns(ctx context.Context, work *sync.WaitGroup) bool {
	ended := make(chan struct{})
	go func() {
		work.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return true
	case <-ctx.Done():
	}
	late := p.clock.NewTimer(grace)
	defer late.Stop()
	select {
	case <-ended:
		return true
	case <-late.C():
		return false
	}
}

// drain judges and forwards all that is held.
func (p *classifier) drain(ctx context.Context) error {
	var left atomic.Int64
	var done sync.WaitGroup
	for _, s := range p.shards {
		done.Go(func() {
			s.drain(ctx)
			left.Add(int64(s.forwarder.flush(ctx)))
			s.account()
		})
	}
	if !p.returns(ctx, &done) {
		return errStuck
	}
	spans := int(left.Load())
	switch {
	case spans == 0:
		return nil
	case p.journal != nil:
		p.logger.Warn("The next consumer did not take classified spans before the end of the shutdown; they are in the storage for the next start",
			zap.Int("spans", spans))
		return nil
	default:
		return fmt.Errorf("%d classified spans are lost: the next consumer did not take them before the end of the shutdown", spans)
	}
}
