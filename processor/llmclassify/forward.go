package llmclassify

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.opentelemetry.io/collector/client"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.uber.org/zap"
)

// Waits between two tries at a next consumer that fails for now.
const (
	firstRetry = 500 * time.Millisecond
	maxRetry   = 30 * time.Second
)

// parcel is classified spans on their way to the next consumer.
type parcel struct {
	traces ptrace.Traces
	spans  int
	bytes  int // of memory, as the buffer had estimated it
}

// forwarder hands parcels to the next consumer, and keeps those that it refuses
// for now. While any is kept, new ones queue behind them: one parcel at a time
// finds out whether the next consumer works again.
//
//	send ──► next ──► taken
//	  │        ├────► refused for good: counted, logged, gone
//	  │        └────► refused for now ─► queue ◄─┐
//	  └─ while the queue is not empty ──►┘  └─ retry, with backoff ─► next
type forwarder struct {
	next consumer.Traces
	// mutates: what next refuses it may have changed, so that a copy has to be kept
	mutates   bool
	clock     clock
	logger    *zap.Logger
	telemetry *telemetry

	// mu guards everything declared below
	mu      sync.Mutex
	queue   []parcel
	bytes   int           // of queue
	backoff time.Duration // the last wait, 0 before the first
	retryAt time.Time     // when queue is not empty
}

func newForwarder(next consumer.Traces, c clock, logger *zap.Logger, t *telemetry) *forwarder {
	return &forwarder{next: next, mutates: next.Capabilities().MutatesData, clock: c, logger: logger, telemetry: t}
}

// pending is how many bytes wait to be sent again.
func (f *forwarder) pending() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.bytes
}

// send forwards a parcel, or keeps it. It never fails: the parcel is ours.
func (f *forwarder) send(ctx context.Context, p parcel) {
	f.mu.Lock()
	waiting := len(f.queue) > 0
	if waiting {
		f.push(p)
	}
	f.mu.Unlock()
	if waiting {
		return
	}
	if left, ok := f.try(ctx, p); !ok {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.push(left)
		if f.retryAt.IsZero() {
			f.later()
			f.logger.Warn("The next consumer refuses classified spans for now; they are kept and sent again",
				zap.Int("spans", left.spans))
		}
	}
}

func (f *forwarder) push(p parcel) {
	f.queue = append(f.queue, p)
	f.bytes += p.bytes
}

// later sets the next try. It is called under the lock.
func (f *forwarder) later() {
	f.backoff = min(max(2*f.backoff, firstRetry), maxRetry)
	f.retryAt = f.clock.Now().Add(f.backoff)
}

// try hands p to the next consumer. It returns false, and what is left of p, when
// that refuses it for now.
func (f *forwarder) try(ctx context.Context, p parcel) (left parcel, ok bool) {
	left = p
	if f.mutates {
		left.traces = ptrace.NewTraces()
		p.traces.CopyTo(left.traces)
	}
	// The spans are of many callers: none of them speaks for all.
	err := f.next.ConsumeTraces(client.NewContext(ctx, client.Info{}), p.traces)
	if err == nil {
		f.telemetry.forwarded(ctx, p.spans)
		return parcel{}, true
	}
	permanent := consumererror.IsPermanent(err)
	f.telemetry.forwardFailed(ctx, p.spans, permanent)
	if permanent {
		f.logger.Error("The next consumer refused classified spans for good; they are lost",
			zap.Int("spans", p.spans), zap.Error(err))
		return parcel{}, true
	}
	var partial consumererror.Traces
	if errors.As(err, &partial) && partial.Data().SpanCount() < p.spans {
		left.traces = partial.Data()
		left.spans = left.traces.SpanCount()
		f.telemetry.forwarded(ctx, p.spans-left.spans)
	}
	return left, false
}

// due is when retry is to be called; false when nothing waits.
func (f *forwarder) due() (time.Time, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.retryAt, len(f.queue) > 0
}

// retry sends what waits, in order, until the next consumer refuses again. It
// reports whether nothing waits any more. It is not for concurrent use with
// itself.
func (f *forwarder) retry(ctx context.Context) bool {
	for {
		f.mu.Lock()
		if len(f.queue) == 0 {
			if f.backoff > 0 {
				f.logger.Info("The next consumer takes classified spans again")
			}
			f.backoff, f.retryAt = 0, time.Time{}
			f.mu.Unlock()
			return true
		}
		p := f.queue[0]
		f.mu.Unlock()

		left, ok := f.try(ctx, p)

		f.mu.Lock()
		if !ok {
			f.queue[0] = left
			f.later()
			f.mu.Unlock()
			return false
		}
		f.queue[0] = parcel{} // lets go of it
		f.queue = f.queue[1:]
		f.bytes -= p.bytes
		f.mu.Unlock()
	}
}

// abandon gives up what waits, and returns how many spans that was.
func (f *forwarder) abandon() (spans int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.queue {
		spans += p.spans
	}
	f.queue, f.bytes = nil, 0
	return spans
}
