package llmclassify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/processor"
	"go.uber.org/zap"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/clock"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/dialect"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/intake"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/origin"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/telemetry"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/tenant"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/worker"
)

// classifier is the processor. Its calls read which spans are LLM spans and hand them over to the
// shards of their traces, which do the rest.
type classifier struct {
	*worker.Pool
	cfg       *Config
	id        component.ID
	instances *instances // this one among them
	callers   *origin.Callers
	reader    *intake.Reader

	calls gate // the calls of ConsumeTraces that hand something over to shards
	stop  context.CancelFunc
	quit  chan struct{}
	work  sync.WaitGroup // of the shards
	once  sync.Once
}

var _ processor.Traces = (*classifier)(nil)

func newClassifier(set processor.Settings, cfg *Config, next consumer.Traces, c clock.Clock) (*classifier, error) {
	t, err := telemetry.New(set.TelemetrySettings)
	if err != nil {
		return nil, err
	}
	registry, err := dialect.NewSet(cfg.Dialects...)
	if err != nil {
		return nil, fmt.Errorf("dialects: %w", err)
	}
	tenants := tenant.NewSet(cfg.TenantFrom, tenant.NewBudget(cfg.MaxHeldBytes, cfg.hasTenants()))
	origins := origin.NewTable(cfg.MaxHold, cfg.MaxHeldBytes/16)
	p := &classifier{
		cfg:     cfg,
		id:      set.ID,
		callers: origin.NewCallers(cfg.MetadataKeys),
		reader:  intake.NewReader(registry, origins, tenants, cfg.IncomingVerdicts),
		quit:    make(chan struct{}),
		Pool: worker.New(worker.Config{
			Shards:         cmp.Or(cfg.Shards, runtime.GOMAXPROCS(0)),
			MaxHold:        cfg.MaxHold,
			Settle:         cfg.Settle,
			RunTimeout:     cfg.RunTimeout,
			MaxHeldBytes:   cfg.MaxHeldBytes,
			MaxFactBytes:   cfg.MaxFactBytes,
			MaxSpansPerRun: cfg.MaxSpansPerRun,
			MarkStatus:     cfg.marks(),
			Embedded:       cfg.Embedded,
		}, next, c, t, tenants, origins),
	}
	p.reader.OneSource = cfg.OneSource
	return p, t.Observe(set.TelemetrySettings, p.Load, p.Tables, origins.Bytes)
}

// Capabilities implements consumer.Traces.
func (*classifier) Capabilities() consumer.Capabilities {
	return consumer.Capabilities{MutatesData: true}
}

// Start implements component.Component. It replays what an earlier process left in the
// storage.
func (p *classifier) Start(ctx context.Context, host component.Host) error {
	p.Telemetry.Health.Start(host)
	if p.cfg.Storage != nil {
		if err := p.instances.openJournal(ctx, p, host); err != nil {
			return err
		}
	}
	work, stop := context.WithCancel(context.WithoutCancel(ctx)) // that one is for starting
	p.stop = stop
	p.Run(work, p.quit, &p.work)
	return p.Begin(ctx, p.reader, p.callers)
}

// instances counts the processors of each name that one factory made: a processor that several pipelines
// name has an instance in each. It is safe for concurrent use.
type instances struct {
	mu   sync.Mutex
	made map[component.ID]int
}

func newInstances() *instances { return &instances{made: map[component.ID]int{}} }

func (i *instances) add(p *classifier) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.made[p.id]++
	p.instances = i
}

func (i *instances) remove(p *classifier) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.made[p.id]--
}

// openJournal opens the journal of a processor in the storage extension of its configuration. The spans of
// one pipeline must not go out by another, and no API of the Collector tells an instance its pipeline: of
// several instances of one name none starts.
func (i *instances) openJournal(ctx context.Context, p *classifier, host component.Host) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.made[p.id] > 1 {
		return fmt.Errorf("%q is in several pipelines and has a storage: name it differently in each pipeline, as in %[1]s/a and %[1]s/b", p.id)
	}
	return p.Store.Open(ctx, host, *p.cfg.Storage, p.id)
}

// errShutdown is returned for spans that arrive after the shutdown began.
var errShutdown = errors.New("llm_classify is shut down and does not accept spans")

// ConsumeTraces implements consumer.Traces. It judges the runs that come whole in the call, owns the
// LLM spans that are to be held, and forwards the others with the whole runs. What the next consumer
// refuses of these waits with the held spans. After an error the sender repeats the call. Nothing of it is held
// then, unless the next consumer mutates spans, or refuses for good, or there is no memory for what it
// refused: held spans that come again are forwarded twice, and count once.
func (p *classifier) ConsumeTraces(ctx context.Context, td ptrace.Traces) error {
	caller := p.callers.Of(ctx)
	b := p.reader.Read(p.Clock.Now(), caller, td)
	defer b.Free()
	p.Telemetry.Cleaned(ctx, b.Cleaned)
	call := p.HandOver(caller, b)
	defer call.Free()
	open := p.calls.enter()
	if b.Held() == 0 {
		if open {
			call.Pass()
			p.calls.leave()
		}
		return call.Forward(ctx)
	}
	err := errShutdown
	if open {
		defer p.calls.leave()
		if err = call.Own(ctx); err == nil {
			err = call.Forward(ctx)
			if err == nil && p.calls.leftBehind() { // what it handed over may have come after the last turn
				return errShutdown
			}
			return err
		}
		call.Refuse()
	}
	p.Telemetry.Flow.Add(telemetry.Counts{In: b.Spans, Refused: b.Spans})
	return err
}

// Shutdown implements component.Component. It judges and forwards everything
// that is held, within ctx.
func (p *classifier) Shutdown(ctx context.Context) (err error) {
	p.once.Do(func() {
		p.calls.close(ctx)
		defer p.instances.remove(p)
		defer p.Telemetry.Shutdown()
		if p.stop != nil {
			close(p.quit)
			stop := context.AfterFunc(ctx, p.stop) // calls that block in the next consumer are to return
			defer stop()
			if !p.returns(ctx, &p.work) {
				err = errStuck
				return
			}
			p.stop()
		}
		err = p.drain(ctx)
		err = errors.Join(err, p.Store.Close(ctx))
	})
	return err
}

var errStuck = errors.New("the next consumer does not return: held spans are lost, unless storage is configured")

// grace is how long after the end of a shutdown's context the next consumer may take to
// return.
const grace = time.Second

// returns waits for work, until grace after the end of ctx. It reports whether it ended.
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
	late := p.Clock.NewTimer(grace)
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
	p.Pool.Drain(ctx, &done, &left)
	if !p.returns(ctx, &done) {
		return errStuck
	}
	spans := int(left.Load())
	switch {
	case spans == 0:
		return nil
	case p.Store.Enabled():
		p.Telemetry.Warn("The next consumer did not accept classified spans before the end of the shutdown; they are in the storage for the next start",
			zap.Int("spans", spans))
		return nil
	default:
		return fmt.Errorf("%d classified spans are lost: the next consumer did not accept them before the end of the shutdown", spans)
	}
}
