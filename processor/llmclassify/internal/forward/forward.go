// Package forward hands parcels of classified spans to the next consumer, and keeps parcels that it refuses for now.
package forward

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.uber.org/zap"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/clock"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/journal"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/telemetry"
)

// Waits between two attempts while the next consumer fails.
const (
	FirstRetry = 100 * time.Millisecond
	MaxRetry   = 30 * time.Second
)

// Forwarder hands parcels to the next consumer, and keeps a parcel that is refused with an error that is not permanent.
// While any parcel is kept, new ones queue behind it: one parcel at a time tests whether the next consumer works again. A
// Forwarder belongs to one shard.
//
//	send ──► next ──► accepted
//	  │        ├────► permanent error: counted, logged, gone
//	  │        └────► other error ─► queue ◄────┐
//	  └─ while the queue is not empty ─►┘  └─ retry, with backoff ─► next
type Forwarder struct {
	next      consumer.Traces
	clock     clock.Clock
	telemetry *telemetry.Telemetry
	store     *journal.Store
	copies    bool // of each parcel: the next consumer may change spans that it refuses

	Queue   []Parcel
	size    int           // of queue, in bytes
	backoff time.Duration // the last wait, 0 before the first
	retryAt time.Time     // when queue is not empty
}

// New makes a forwarder to the next consumer, which records accepted spans in the store. With copies it keeps each parcel
// as it is before it is sent, for a next consumer that may change spans and then refuse them.
func New(next consumer.Traces, c clock.Clock, t *telemetry.Telemetry, s *journal.Store, copies bool) *Forwarder {
	return &Forwarder{next: next, clock: c, telemetry: t, store: s, copies: copies}
}

// Bytes is the memory of the parcels that wait to be sent again.
func (f *Forwarder) Bytes() int { return f.size }

// Waits reports whether any parcel waits to be sent again.
func (f *Forwarder) Waits() bool { return len(f.Queue) > 0 }

// Send forwards a parcel, or keeps it. It never fails: the processor owns the parcel.
func (f *Forwarder) Send(ctx context.Context, p Parcel) {
	if f.Waits() {
		f.push(p)
		return
	}
	if left, err := f.try(ctx, p); err != nil {
		f.push(left)
		f.later()
		f.telemetry.Health.NextFails(err)
		f.telemetry.Warn("The next consumer refuses classified spans; they are kept and will be sent again",
			zap.Int("spans", left.Spans), zap.Error(err))
	}
}

func (f *Forwarder) push(p Parcel) {
	p.pack()
	f.size += p.Bytes
	if n := len(f.Queue); n > 0 && f.Queue[n-1].join(&p) {
		return
	}
	f.Queue = append(f.Queue, p)
}

// later sets the time of the next attempt.
func (f *Forwarder) later() {
	f.backoff = min(max(2*f.backoff, FirstRetry), MaxRetry)
	f.retryAt = f.clock.Now().Add(f.backoff)
}

// try hands p to the next consumer. It returns the rest of p, and an error if the next consumer refuses the rest with an
// error that is not permanent.
func (f *Forwarder) try(ctx context.Context, p Parcel) (left Parcel, err error) {
	if p.Spans > 0 {
		if p, err = f.forward(ctx, p); err != nil {
			return p, err
		}
	}
	f.store.Accepted(ctx, p.sent, p.Done)
	return Parcel{}, nil
}

func (f *Forwarder) forward(ctx context.Context, p Parcel) (left Parcel, err error) {
	if f.copies { // next, or a consumer behind it that mutates spans, may change refused spans
		p.encode()
	}
	if err := p.decode(); err != nil {
		f.telemetry.ForwardFailed(ctx, p.Spans, true)
		f.telemetry.Flow.Gone(p.Spans - p.Added)
		f.telemetry.Error("Classified spans that waited to be sent again cannot be decoded; they are lost",
			zap.Int("spans", p.Spans), zap.Error(err))
		return p, nil
	}
	err = f.next.ConsumeTraces(p.Caller.Context(ctx), p.Traces)
	if err == nil {
		f.telemetry.Flow.Left(p.Spans, p.Added)
		return p, nil
	}
	permanent := IsPermanent(err)
	f.telemetry.ForwardFailed(ctx, p.Spans, permanent)
	if permanent {
		f.telemetry.Flow.Gone(p.Spans - p.Added)
		f.telemetry.Error("The next consumer refused classified spans with a permanent error; they are lost",
			zap.Int("spans", p.Spans), zap.Error(err))
		return p, nil
	}
	if part, ok := PartOf(err); ok {
		taken, added := p.keep(part)
		f.telemetry.Flow.Left(taken, added)
	}
	return p, err
}

// IsPermanent reports whether the next consumer refused a call for good. Of several consumers that refused the same call,
// one that refused it for now may still take it.
func IsPermanent(refused error) bool {
	for err := refused; consumererror.IsPermanent(err); {
		if joined, ok := err.(interface{ Unwrap() []error }); ok { // IsPermanent looks at each layer
			return !slices.ContainsFunc(joined.Unwrap(), func(err error) bool { return !IsPermanent(err) })
		}
		if err = errors.Unwrap(err); !consumererror.IsPermanent(err) {
			return true
		}
	}
	return false
}

// PartOf returns the refused part of a call, if the next consumer refused a part. Of several consumers that refused the
// same call, each may have refused another part: then nothing is known.
func PartOf(refused error) (part ptrace.Traces, ok bool) {
	for err := refused; err != nil; err = errors.Unwrap(err) { // errors.Unwrap does not look into joined errors
		if partial, ok := err.(consumererror.Traces); ok { //nolint:errorlint // see above
			return partial.Data(), true
		}
	}
	return ptrace.Traces{}, false
}

// Due is the time of the next call of Retry; false when nothing waits.
func (f *Forwarder) Due() (time.Time, bool) { return f.retryAt, f.Waits() }

// maxRetried bounds the parcels that are sent before the shard does other work.
const maxRetried = 8

// Retry sends waiting parcels, in order, until the next consumer refuses again, and at most maxRetried parcels. It reports
// whether nothing waits any more.
func (f *Forwarder) Retry(ctx context.Context) bool {
	for range maxRetried {
		if !f.Waits() {
			break
		}
		before := f.Queue[0].Bytes
		left, err := f.try(ctx, f.Queue[0])
		if err != nil {
			left.pack()
			f.size += left.Bytes - before
			f.Queue[0] = left
			f.later()
			return false
		}
		f.size -= before
		f.backoff = 0         // a consumer that fails now and then is not down
		f.Queue[0] = Parcel{} // for the garbage collector
		f.Queue = f.Queue[1:]
	}
	if f.Waits() {
		return false
	}
	if !f.retryAt.IsZero() {
		f.backoff, f.retryAt, f.Queue = 0, time.Time{}, nil
		f.telemetry.Health.NextWorks()
		f.telemetry.Info("The next consumer accepts classified spans again")
	}
	return true
}

// At a shutdown without a deadline, a next consumer that accepts nothing is tried this often in a row, at most this long
// apart: for half a minute.
const (
	LastTries    = 20
	maxLastRetry = 2 * time.Second
)

// Flush sends the waiting parcels, until ctx is done. It returns how many spans are left.
func (f *Forwarder) Flush(ctx context.Context) (left int) {
	for try := 1; f.Waits(); try++ {
		before := len(f.Queue)
		if f.Retry(ctx) {
			return 0
		}
		if len(f.Queue) < before {
			try = 0
		}
		if try == LastTries {
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
	for _, p := range f.Queue {
		left += p.Spans
		if !f.store.Enabled() {
			f.telemetry.Flow.Gone(p.Spans - p.Added)
		}
	}
	f.Queue, f.size = nil, 0
	return left
}
