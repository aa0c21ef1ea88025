package llmclassify

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.uber.org/zap"
)

// Waits between two attempts while the next consumer fails.
const (
	firstRetry = 100 * time.Millisecond
	maxRetry   = 30 * time.Second
)

// forwarder hands parcels to the next consumer, and keeps those that it refuses with an
// error that is not permanent. While any parcel is kept, new ones queue behind it: one
// parcel at a time tests whether the next consumer works again. It belongs to one shard.
//
//	send ──► next ──► accepted
//	  │        ├────► permanent error: counted, logged, gone
//	  │        └────► other error ─► queue ◄────┐
//	  └─ while the queue is not empty ─►┘  └─ retry, with backoff ─► next
type forwarder struct {
	next      consumer.Traces
	clock     clock
	telemetry *telemetry
	store     *store
	// mutates: next may have changed what it refuses, so that it is encoded before
	mutates bool

	queue   []parcel
	size    int           // of queue, in bytes
	backoff time.Duration // the last wait, 0 before the first
	retryAt time.Time     // when queue is not empty
}

// newForwarder forwards to the next consumer, and lets the store know of what that has.
func newForwarder(next consumer.Traces, c clock, t *telemetry, s *store) *forwarder {
	return &forwarder{next: next, clock: c, telemetry: t, store: s, mutates: next.Capabilities().MutatesData}
}

// bytes is the memory of what waits to be sent again.
func (f *forwarder) bytes() int { return f.size }

// waits reports whether any parcel waits to be sent again.
func (f *forwarder) waits() bool { return len(f.queue) > 0 }

// send forwards a parcel, or keeps it. It never fails: the processor owns the parcel.
func (f *forwarder) send(ctx context.Context, p parcel) {
	if f.waits() {
		f.push(p)
		return
	}
	if left, err := f.try(ctx, p); err != nil {
		f.push(left)
		f.later()
		f.telemetry.health.nextFails(err)
		f.telemetry.Warn("The next consumer refuses classified spans; they are kept and will be sent again",
			zap.Int("spans", left.spans), zap.Error(err))
	}
}

func (f *forwarder) push(p parcel) {
	p.encode()
	f.size += p.bytes
	if n := len(f.queue); n > 0 && f.queue[n-1].join(&p) {
		return
	}
	f.queue = append(f.queue, p)
}

// later sets the time of the next attempt.
func (f *forwarder) later() {
	f.backoff = min(max(2*f.backoff, firstRetry), maxRetry)
	f.retryAt = f.clock.Now().Add(f.backoff)
}

// try hands p to the next consumer. It returns what is left of p, and an error if the
// next consumer refuses that with an error that is not permanent.
func (f *forwarder) try(ctx context.Context, p parcel) (left parcel, err error) {
	if p.spans > 0 {
		if p, err = f.forward(ctx, p); err != nil {
			return p, err
		}
	}
	f.store.accepted(ctx, p.sent, p.done)
	return parcel{}, nil
}

func (f *forwarder) forward(ctx context.Context, p parcel) (left parcel, err error) {
	if f.mutates && p.data == nil {
		p.data, _ = (&ptrace.ProtoMarshaler{}).MarshalTraces(p.traces) // an error is one of the next consumer's, too
	}
	if err := p.decode(); err != nil {
		f.telemetry.forwardFailed(ctx, p.spans, true)
		f.telemetry.flow.gone(p.spans - p.added)
		f.telemetry.Error("Classified spans that waited to be sent again cannot be decoded; they are lost",
			zap.Int("spans", p.spans), zap.Error(err))
		return p, nil
	}
	err = f.next.ConsumeTraces(p.caller.Context(ctx), p.traces)
	if err == nil {
		f.telemetry.flow.left(p.spans, p.added)
		return p, nil
	}
	permanent := consumererror.IsPermanent(err)
	f.telemetry.forwardFailed(ctx, p.spans, permanent)
	if permanent {
		f.telemetry.flow.gone(p.spans - p.added)
		f.telemetry.Error("The next consumer refused classified spans with a permanent error; they are lost",
			zap.Int("spans", p.spans), zap.Error(err))
		return p, nil
	}
	if part, ok := partOf(err); ok && part.SpanCount() < p.spans {
		taken := p.spans - part.SpanCount()
		added := max(p.added-part.SpanCount(), 0) // those that were taken for certain
		f.telemetry.flow.left(taken, added)
		p.traces, p.data = part, nil
		p.spans -= taken
		p.added -= added
	}
	return p, err
}

// partOf is what was refused, if the next consumer refused a part of a call. Of several consumers that refused the same
// call, each may have refused something else: then nothing is known.
func partOf(refused error) (part ptrace.Traces, ok bool) {
	for err := refused; err != nil; err = errors.Unwrap(err) { // it does not look into joined errors
		if partial, ok := err.(consumererror.Traces); ok { //nolint:errorlint // see above
			return partial.Data(), true
		}
	}
	return ptrace.Traces{}, false
}

// due is when retry is to be called; false when nothing waits.
func (f *forwarder) due() (time.Time, bool) { return f.retryAt, f.waits() }

// maxRetried bounds the parcels that are sent before the shard does other work.
const maxRetried = 8

// retry sends what waits, in order, until the next consumer refuses again, and at most
// maxRetried parcels. It reports whether nothing waits any more.
func (f *forwarder) retry(ctx context.Context) bool {
	for range maxRetried {
		if !f.waits() {
			break
		}
		before := f.queue[0].bytes
		left, err := f.try(ctx, f.queue[0])
		if err != nil {
			left.encode()
			f.size += left.bytes - before
			f.queue[0] = left
			f.later()
			return false
		}
		f.size -= before
		f.backoff = 0         // a consumer that fails now and then is not down
		f.queue[0] = parcel{} // for the garbage collector
		f.queue = f.queue[1:]
	}
	if f.waits() {
		return false
	}
	if !f.retryAt.IsZero() {
		f.backoff, f.retryAt, f.queue = 0, time.Time{}, nil
		f.telemetry.health.nextWorks()
		f.telemetry.Info("The next consumer accepts classified spans again")
	}
	return true
}

// At a shutdown without a deadline, a next consumer that accepts nothing is tried this
// often in a row, at most this long apart: for half a minute.
const (
	lastTries    = 20
	maxLastRetry = 2 * time.Second
)

// flush sends what waits, until ctx is done. It returns how many spans are left.
func (f *forwarder) flush(ctx context.Context) (left int) {
	for try := 1; f.waits(); try++ {
		before := len(f.queue)
		if f.retry(ctx) {
			return 0
		}
		if len(f.queue) < before {
			try = 0
		}
		if try == lastTries {
			break
		}
		wait := f.clock.NewTimer(min(f.retryAt.Sub(f.clock.Now()), maxLastRetry))
		select {
		case <-wait.C():
		case <-ctx.Done():
		}
		wait.Stop()
		if ctx.Err() != nil {
			break
		}
	}
	for _, p := range f.queue {
		left += p.spans
		if !f.store.enabled() {
			f.telemetry.flow.gone(p.spans - p.added)
		}
	}
	f.queue, f.size = nil, 0
	return left
}
