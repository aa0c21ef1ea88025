package llmclassify

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.uber.org/zap"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/journal"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/origin"
)

// Waits between two tries at a next consumer that fails for now.
const (
	firstRetry = 100 * time.Millisecond
	maxRetry   = 30 * time.Second
)

// parcel is classified spans on their way to the next consumer, all in one
// caller's name.
type parcel struct {
	traces ptrace.Traces
	spans  int
	bytes  int // of memory
	caller *origin.Caller
	data   []byte // the spans as they are on the wire; traces are not set then

	// What is to be noted once they are taken: what becomes of spans, and what was
	// judged, as [journal.Judged] encodes it.
	spent, done []journal.Ticket
	judged      []byte
}

// pack makes a parcel that has to wait as small as it is on the wire.
func (p *parcel) pack() {
	if p.data == nil {
		data, err := (&ptrace.ProtoMarshaler{}).MarshalTraces(p.traces)
		if err != nil {
			return // it stays as it is
		}
		p.data = data
	}
	p.traces, p.bytes = ptrace.Traces{}, len(p.data)
}

// join takes another parcel that has to wait into this one, if they may go in one
// call: many small ones would each have to find the next consumer working.
func (p *parcel) join(other *parcel) bool {
	if p.caller != other.caller || p.data == nil || other.data == nil || p.bytes+other.bytes > maxParcelBytes {
		return false
	}
	p.data = append(p.data, other.data...) // on the wire the one after the other are both together
	p.bytes += other.bytes
	p.spans += other.spans
	p.spent, p.done = append(p.spent, other.spent...), append(p.done, other.done...)
	p.judged = append(p.judged, other.judged...)
	return true
}

// unpack makes traces of a parcel that had to wait.
func (p *parcel) unpack() error {
	if p.traces != (ptrace.Traces{}) {
		return nil
	}
	td, err := (&ptrace.ProtoUnmarshaler{}).UnmarshalTraces(p.data)
	p.traces = td
	return err
}

// forwarder hands parcels to the next consumer, and keeps those that it refuses
// for now. While any is kept, new ones queue behind them: one parcel at a time
// finds out whether the next consumer works again. It belongs to one shard.
//
//	send ──► next ──► taken
//	  │        ├────► refused for good: counted, logged, gone
//	  │        └────► refused for now ─► queue ◄─┐
//	  └─ while the queue is not empty ──►┘  └─ retry, with backoff ─► next
type forwarder struct {
	p *classifier
	// mutates: what next refuses it may have changed, so that it has to be kept apart
	mutates bool

	queue   []parcel
	bytes   int           // of queue
	known   int           // of bytes, to the budget
	backoff time.Duration // the last wait, 0 before the first
	retryAt time.Time     // when queue is not empty
}

func newForwarder(p *classifier) *forwarder {
	return &forwarder{p: p, mutates: p.next.Capabilities().MutatesData}
}

// waits reports whether any parcel waits to be sent again.
func (f *forwarder) waits() bool { return len(f.queue) > 0 }

// send forwards a parcel, or keeps it. It never fails: the parcel is ours.
func (f *forwarder) send(ctx context.Context, p parcel) {
	if f.waits() {
		f.push(p)
		return
	}
	if left, err := f.try(ctx, p); err != nil {
		f.push(left)
		f.later()
		f.p.health.nextFails(err)
		f.p.logger.Warn("The next consumer refuses classified spans for now; they are kept and sent again",
			zap.Int("spans", left.spans), zap.Error(err))
	}
}

func (f *forwarder) push(p parcel) {
	p.pack()
	f.bytes += p.bytes
	if n := len(f.queue); n > 0 && f.queue[n-1].join(&p) {
		return
	}
	f.queue = append(f.queue, p)
}

// later sets the next try.
func (f *forwarder) later() {
	f.backoff = min(max(2*f.backoff, firstRetry), maxRetry)
	f.retryAt = f.p.clock.Now().Add(f.backoff)
}

// try hands p to the next consumer. It returns what is left of p and an error when
// that refuses it for now.
func (f *forwarder) try(ctx context.Context, p parcel) (left parcel, err error) {
	if p.spans > 0 {
		if p, err = f.next(ctx, p); err != nil {
			return p, err
		}
	}
	f.p.update(ctx, p.spent, p.done, p.judged)
	return parcel{}, nil
}

func (f *forwarder) next(ctx context.Context, p parcel) (left parcel, err error) {
	if f.mutates && p.data == nil {
		p.data, _ = (&ptrace.ProtoMarshaler{}).MarshalTraces(p.traces) // an error is one of the next consumer's, too
	}
	if err := p.unpack(); err != nil {
		f.p.telemetry.forwardFailed(ctx, p.spans, true)
		f.p.logger.Error("Classified spans that waited to be sent again cannot be read back; they are lost",
			zap.Int("spans", p.spans), zap.Error(err))
		return p, nil
	}
	err = f.p.next.ConsumeTraces(p.caller.Context(ctx), p.traces)
	if err == nil {
		f.p.telemetry.forwarded(ctx, p.spans)
		return p, nil
	}
	permanent := consumererror.IsPermanent(err)
	f.p.telemetry.forwardFailed(ctx, p.spans, permanent)
	if permanent {
		f.p.logger.Error("The next consumer refused classified spans for good; they are lost",
			zap.Int("spans", p.spans), zap.Error(err))
		return p, nil
	}
	var partial consumererror.Traces
	if errors.As(err, &partial) && partial.Data().SpanCount() < p.spans {
		taken := p.spans - partial.Data().SpanCount()
		f.p.telemetry.forwarded(ctx, taken)
		p.traces, p.data = partial.Data(), nil
		p.spans -= taken
	}
	return p, err
}

// due is when retry is to be called; false when nothing waits.
func (f *forwarder) due() (time.Time, bool) { return f.retryAt, f.waits() }

// maxRetried bounds the parcels that are sent before others have their turn.
const maxRetried = 8

// retry sends what waits, in order, until the next consumer refuses again, and at
// most a few parcels. It reports whether nothing waits any more.
func (f *forwarder) retry(ctx context.Context) bool {
	for range maxRetried {
		if !f.waits() {
			break
		}
		before := f.queue[0].bytes
		left, err := f.try(ctx, f.queue[0])
		if err != nil {
			left.pack()
			f.bytes += left.bytes - before
			f.queue[0] = left
			f.later()
			return false
		}
		f.bytes -= before
		f.backoff = 0         // one that fails now and then is not one that is away
		f.queue[0] = parcel{} // lets go of it
		f.queue = f.queue[1:]
	}
	if f.waits() {
		return false
	}
	if !f.retryAt.IsZero() {
		f.backoff, f.retryAt, f.queue = 0, time.Time{}, nil
		f.p.health.nextWorks()
		f.p.logger.Info("The next consumer takes classified spans again")
	}
	return true
}

// At a shutdown whose context has no deadline, a next consumer that takes nothing is
// tried this often in a row, and no longer apart than that: for half a minute.
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
		wait := f.p.clock.NewTimer(min(f.retryAt.Sub(f.p.clock.Now()), maxLastRetry))
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
	}
	f.queue, f.bytes = nil, 0
	return left
}
