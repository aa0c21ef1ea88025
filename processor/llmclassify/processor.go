package llmclassify

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/processor"
	"go.uber.org/zap"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/dialect"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/origin"
)

// traces is the processor. ConsumeTraces recognises and takes; the shard says
// what is due; what is due is judged and forwarded by whoever made it due: the
// caller that brought the last span, or the goroutine of the timer.
type traces struct {
	registry  *dialect.Registry
	origins   *origin.Table
	shard     *shard
	forwarder *forwarder
	telemetry *telemetry
	next      consumer.Traces
	clock     clock
	logger    *zap.Logger

	wake chan struct{} // the timer may be set too late
	stop context.CancelFunc
	done sync.WaitGroup
	once sync.Once
}

var _ processor.Traces = (*traces)(nil)

// maxOrigins bounds the scopes that are shared at a time.
const maxOrigins = 1 << 14

func newTraces(set processor.Settings, cfg *Config, next consumer.Traces, c clock) (*traces, error) {
	t, err := newTelemetry(set.TelemetrySettings)
	if err != nil {
		return nil, err
	}
	p := &traces{
		registry:  dialect.Default(),
		origins:   origin.NewTable(cfg.MaxHold, maxOrigins),
		shard:     newShard(cfg),
		forwarder: newForwarder(next, c, set.Logger, t),
		telemetry: t,
		next:      next,
		clock:     c,
		logger:    set.Logger,
		wake:      make(chan struct{}, 1),
	}
	return p, t.observe(p.load)
}

func (p *traces) load() load {
	l := p.shard.load()
	l.bytes += p.forwarder.pending()
	return l
}

// Capabilities implements consumer.Traces.
func (*traces) Capabilities() consumer.Capabilities {
	return consumer.Capabilities{MutatesData: true}
}

// Start implements component.Component.
func (p *traces) Start(ctx context.Context, _ component.Host) error {
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx)) // that one is for starting
	p.stop = stop
	p.done.Go(func() { p.run(ctx) })
	return nil
}

// Shutdown implements component.Component. It judges and forwards everything
// that is held, within ctx.
func (p *traces) Shutdown(ctx context.Context) (err error) {
	p.once.Do(func() {
		if p.stop != nil {
			p.stop()
			p.done.Wait()
		}
		p.deliver(ctx, p.shard.close(p.clock.Now()))
		err = p.flush(ctx)
		p.telemetry.shutdown()
	})
	return err
}

// lastTries bounds how often a failing next consumer is tried at a shutdown whose
// context has no deadline.
const lastTries = 5

// flush sends what waits to be sent again, until ctx is done.
func (p *traces) flush(ctx context.Context) error {
	for try := 1; ; try++ {
		if p.forwarder.retry(ctx) {
			return nil
		}
		if try == lastTries {
			break
		}
		at, _ := p.forwarder.due()
		wait := p.clock.NewTimer(at.Sub(p.clock.Now()))
		select {
		case <-wait.C():
		case <-ctx.Done():
		}
		wait.Stop()
		if ctx.Err() != nil {
			break
		}
	}
	if lost := p.forwarder.abandon(); lost > 0 {
		return fmt.Errorf("%d classified spans are lost: the next consumer did not take them before the end of the shutdown", lost)
	}
	return nil
}

// ConsumeTraces implements consumer.Traces. Other spans are forwarded before the
// LLM spans are taken over: an error means that none was.
func (p *traces) ConsumeTraces(ctx context.Context, td ptrace.Traces) error {
	spans := td.SpanCount()
	p.telemetry.came(ctx, spans)
	now := p.clock.Now()
	b := recognise(p.registry, p.origins, now, td)
	if len(b.arrivals) == 0 {
		return p.pass(ctx, td, spans)
	}
	if err := p.shard.admit(b.size, p.forwarder.pending()); err != nil {
		p.telemetry.refused(ctx, spans)
		return err
	}
	b.take(td)
	rest := spans - len(b.arrivals)
	var seen []link
	if rest > 0 {
		seen = p.shard.links(td, b.arrivals)
		if err := p.next.ConsumeTraces(ctx, td); err != nil {
			p.shard.withdraw(b.size)
			p.telemetry.refused(ctx, spans)
			return whole(err)
		}
		p.telemetry.passed(ctx, rest)
	}
	p.telemetry.held(ctx, len(b.arrivals))
	p.deliver(ctx, p.shard.own(now, &b, seen))
	p.nudge()
	return nil
}

// pass forwards a call without LLM spans.
func (p *traces) pass(ctx context.Context, td ptrace.Traces, spans int) error {
	seen := p.shard.links(td, nil)
	if err := p.next.ConsumeTraces(ctx, td); err != nil {
		p.telemetry.refused(ctx, spans)
		return err
	}
	p.telemetry.passed(ctx, spans)
	if len(seen) > 0 {
		p.shard.see(seen)
	}
	return nil
}

// nudge makes the timer be set anew.
func (p *traces) nudge() {
	select {
	case p.wake <- struct{}{}:
	default: // it is on its way
	}
}

// run does what the time has come for, until ctx is done.
func (p *traces) run(ctx context.Context) {
	const idle = time.Hour
	t := p.clock.NewTimer(idle)
	defer t.Stop()
	for {
		wait := idle
		if at, ok := p.nextDue(); ok {
			wait = max(at.Sub(p.clock.Now()), 0)
		}
		t.Reset(wait)
		select {
		case <-ctx.Done():
			return
		case <-p.wake:
		case <-t.C():
			p.tick(ctx, p.clock.Now())
		}
	}
}

// nextDue is when tick is to be called next; false when nothing waits.
func (p *traces) nextDue() (time.Time, bool) {
	next, ok := p.shard.next()
	if retry, waits := p.forwarder.due(); waits && (!ok || retry.Before(next)) {
		return retry, true
	}
	return next, ok
}

// tick judges and forwards what is due, and sends again what was refused.
func (p *traces) tick(ctx context.Context, now time.Time) {
	p.deliver(ctx, p.shard.due(now))
	if at, ok := p.forwarder.due(); ok && !at.After(now) {
		p.forwarder.retry(ctx)
	}
}

// whole hides from the sender that only a part of the call may have failed: the
// LLM spans were not taken either, so that it has to send all of it again.
func whole(err error) error {
	var partial consumererror.Traces
	if !errors.As(err, &partial) {
		return err
	}
	all := fmt.Errorf("the next consumer refused a part of the call, so that none of its LLM spans was taken: %s", err) //nolint:errorlint // the type is what is to be hidden
	if consumererror.IsPermanent(err) {
		return consumererror.NewPermanent(all)
	}
	return all
}
