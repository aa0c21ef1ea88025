package llmagentlogs

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/connector"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.uber.org/zap"

	"github.com/otelllm/otelllm-go/connector/llmagentlogs/internal/agentlog"
)

// agentLogs is the connector. Its calls read records and let them wait; one goroutine handles the due records and forwards
// the spans.
type agentLogs struct {
	cfg       *Config
	next      consumer.Traces
	clock     clock
	logger    *zap.Logger
	telemetry *telemetry
	reader    agentlog.Reader

	// mu guards everything declared below, up to the empty line.
	mu      sync.Mutex
	open    *conversations
	made    *batch // spans that wait to be forwarded
	sending int    // bytes of spans that are being forwarded, or were refused
	closed  bool

	unsent []*batch // used by the goroutine alone: batches that the next consumer refused, the oldest first
	wake   chan struct{}
	quit   chan struct{}
	stop   context.CancelFunc
	done   sync.WaitGroup
	once   sync.Once
}

var _ connector.Logs = (*agentLogs)(nil)

func newAgentLogs(set connector.Settings, cfg *Config, next consumer.Traces, c clock) (*agentLogs, error) {
	t, err := newTelemetry(set.TelemetrySettings)
	if err != nil {
		return nil, err
	}
	a := &agentLogs{
		cfg: cfg, next: next, clock: c, logger: set.Logger, telemetry: t,
		reader: agentlog.NewReader(cfg.Agents...),
		open:   newConversations(cfg),
		made:   newBatch(),
		wake:   make(chan struct{}, 1),
		quit:   make(chan struct{}),
	}
	return a, t.observe(a.load)
}

// load returns the number of open conversations, and the memory of them and of the spans that wait.
func (a *agentLogs) load() (conversations, bytes int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return int64(len(a.open.byKey)), int64(a.open.bytes + a.made.bytes + a.sending)
}

// Capabilities implements consumer.Logs.
func (*agentLogs) Capabilities() consumer.Capabilities {
	return consumer.Capabilities{MutatesData: false}
}

// Start implements component.Component.
func (a *agentLogs) Start(ctx context.Context, _ component.Host) error {
	work, stop := context.WithCancel(context.WithoutCancel(ctx)) // ctx is for starting alone
	a.stop = stop
	ticks, stopTicks := a.clock.NewTicker(max(a.cfg.Settle/2, time.Millisecond))
	a.done.Go(func() {
		defer stopTicks()
		for {
			select {
			case <-a.quit:
				return
			case <-a.wake:
			case <-ticks:
			}
			a.tick(work)
		}
	})
	return nil
}

// Shutdown implements component.Component. It ends all turns, and forwards their spans within ctx.
func (a *agentLogs) Shutdown(ctx context.Context) (err error) {
	a.once.Do(func() {
		defer a.telemetry.shutdown()
		if a.stop != nil {
			close(a.quit)
			defer a.stop()
			if !a.returns(ctx) {
				err = errStuck
				return
			}
		}
		a.drain(ctx, func() (more bool) {
			a.closed = true
			return a.open.stop(a.made)
		})
		lost := 0
		for _, b := range a.unsent {
			lost += b.traces.SpanCount()
		}
		if lost > 0 {
			a.telemetry.lost(ctx, lost)
			err = fmt.Errorf("%d spans are lost: the next consumer did not accept them before the end of the shutdown", lost)
		}
	})
	return err
}

var errStuck = errors.New("the next consumer does not return: open turns are lost")

// grace is how long after the end of a shutdown's context the next consumer may take to return.
const grace = time.Second

// returns waits for the goroutine until grace after the end of ctx. It reports whether the goroutine ended.
func (a *agentLogs) returns(ctx context.Context) bool {
	ended := make(chan struct{})
	go func() {
		a.done.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return true
	case <-ctx.Done():
		a.stop() // a call that blocks in the next consumer has to return
	}
	select {
	case <-ended:
		return true
	case <-a.clock.After(grace):
		return false
	}
}

// ConsumeLogs implements consumer.Logs. It keeps no part of ld, and returns no error: an error would not keep other
// consumers from getting ld, and the sender would send it again.
func (a *agentLogs) ConsumeLogs(ctx context.Context, ld plog.Logs) error {
	type read struct {
		event        agentlog.Event
		conversation string
		origin       *origin
	}
	var events []read
	var byAgent [3]int64
	for _, rl := range ld.ResourceLogs().All() {
		var from *origin // of all records of the resource
		for _, sl := range rl.ScopeLogs().All() {
			for _, lr := range sl.LogRecords().All() {
				e, id, ok := a.reader.Read(sl.Scope().Name(), lr)
				if !ok {
					continue
				}
				if from == nil {
					o := originOf(rl.Resource())
					from = &o
				}
				events = append(events, read{e, id, from})
				byAgent[e.Agent]++
			}
		}
	}
	if len(events) == 0 {
		return nil
	}
	a.telemetry.read(ctx, byAgent)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil
	}
	now := a.clock.Now()
	for i := range events {
		a.open.add(events[i].conversation, &events[i].event, events[i].origin, now, a.made)
	}
	if a.made.bytes > 0 { // of conversations that had to make room
		select {
		case a.wake <- struct{}{}:
		default:
		}
	}
	return nil
}

// tick handles the due records, and forwards the spans.
func (a *agentLogs) tick(ctx context.Context) {
	now := a.clock.Now()
	a.drain(ctx, func() (more bool) { return a.open.tick(now, a.made) })
}

// drain forwards the spans that do makes, until do has made all. mu is held for do.
func (a *agentLogs) drain(ctx context.Context, do func() (more bool)) {
	for more := true; more; {
		a.mu.Lock()
		more = do()
		b := a.made
		a.made = newBatch()
		a.telemetry.count(ctx, &a.open.count)
		a.mu.Unlock()
		a.send(ctx, b)
	}
}

// send forwards spans, after the refused ones.
func (a *agentLogs) send(ctx context.Context, b *batch) {
	if b.bytes > 0 {
		a.unsent = append(a.unsent, b)
	}
	for len(a.unsent) > 0 {
		first := a.unsent[0]
		waiting := a.waiting(first.bytes)
		copied := ptrace.NewTraces() // the next consumer owns its argument, even if it refuses it
		first.traces.CopyTo(copied)
		err := a.next.ConsumeTraces(ctx, copied)
		switch {
		case err == nil:
		case consumererror.IsPermanent(err), waiting > a.cfg.maxUnsent():
			lost := first.traces.SpanCount()
			a.telemetry.lost(ctx, lost)
			a.logger.Error("The next consumer refused spans, which are lost", zap.Int("spans", lost), zap.Error(err))
		default:
			a.waiting(0)
			return // they are sent again with the next ones
		}
		a.unsent = a.unsent[1:]
	}
	a.unsent = nil
	a.waiting(0)
}

// waiting returns the memory of the spans that wait because the next consumer refused them. The metric includes the copy
// that is being forwarded.
func (a *agentLogs) waiting(copied int) (bytes int) {
	for _, b := range a.unsent {
		bytes += b.bytes
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sending = bytes + copied
	return bytes
}
