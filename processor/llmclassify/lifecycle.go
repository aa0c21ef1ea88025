package llmclassify

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.uber.org/zap"
)

// Start implements component.Component. It replays what an earlier process left in the
// storage.
func (p *classifier) Start(ctx context.Context, host component.Host) error {
	p.health.start(host)
	if p.cfg.Storage != nil {
		var err error
		if p.store.journal, err = p.instances.openJournal(ctx, p, host); err != nil {
			return err
		}
	}
	work, stop := context.WithCancel(context.WithoutCancel(ctx)) // that one is for starting
	p.stop = stop
	for _, s := range p.shards {
		p.done.Go(func() { s.run(work, p.quit) })
	}
	if p.store.enabled() {
		return p.replay(ctx)
	}
	p.lifetime.Begin(p.clock.Now())
	return nil
}

// Shutdown implements component.Component. It judges and forwards everything
// that is held, within ctx.
func (p *classifier) Shutdown(ctx context.Context) (err error) {
	p.once.Do(func() {
		p.calls.close(ctx)
		defer p.instances.remove(p)
		defer p.telemetry.shutdown()
		if p.stop != nil {
			close(p.quit)
			stop := context.AfterFunc(ctx, p.stop) // calls that block in the next consumer are to return
			defer stop()
			if !p.returns(ctx, &p.done) {
				err = errStuck
				return
			}
			p.stop()
		}
		err = p.drain(ctx)
		if p.store.enabled() {
			err = errors.Join(err, p.store.journal.Close(ctx))
		}
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
			for l := range s.all {
				l.drain(ctx)
				left.Add(int64(l.forwarder.flush(ctx)))
				l.account()
			}
		})
	}
	if !p.returns(ctx, &done) {
		return errStuck
	}
	spans := int(left.Load())
	switch {
	case spans == 0:
		return nil
	case p.store.enabled():
		p.logger.Warn("The next consumer did not accept classified spans before the end of the shutdown; they are in the storage for the next start",
			zap.Int("spans", spans))
		return nil
	default:
		return fmt.Errorf("%d classified spans are lost: the next consumer did not accept them before the end of the shutdown", spans)
	}
}
