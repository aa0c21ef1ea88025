package forward

import (
	"context"

	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/journal"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/origin"
)

// Outbox puts stamped spans into parcels, one for each caller, and sends full parcels.
type Outbox struct {
	forwarder *Forwarder
	open      []*openParcel
}

type openParcel struct {
	Parcel
	regroup *origin.Regroup
}

// NewOutbox makes an empty outbox.
func NewOutbox(f *Forwarder) Outbox { return Outbox{forwarder: f} }

func (o *Outbox) of(caller *origin.Caller) *openParcel {
	for _, p := range o.open {
		if p.Caller == caller {
			return p
		}
	}
	p := &openParcel{Parcel: Parcel{Caller: caller}, regroup: origin.NewRegroup()}
	o.open = append(o.open, p)
	return p
}

// Add adds a span, which it moves, of about this many bytes.
func (o *Outbox) Add(ctx context.Context, span ptrace.Span, caller *origin.Caller, scope *origin.Scope, size int) {
	p := o.of(caller)
	if p.Bytes+p.regroup.Bytes() >= MaxParcelBytes {
		o.send(ctx, p)
	}
	span.MoveTo(p.regroup.Append(scope))
	p.Spans++
	p.Bytes += size
}

// AddNew adds a span that was not received, but made to represent others.
func (o *Outbox) AddNew(ctx context.Context, span ptrace.Span, caller *origin.Caller, scope *origin.Scope, size int) {
	o.Add(ctx, span, caller, scope, size)
	o.of(caller).Added++
}

// Sent records in the store, once the spans are forwarded, that the facts of one are still kept.
func (o *Outbox) Sent(caller *origin.Caller, t journal.Ticket) {
	p := o.of(caller)
	p.sent = append(p.sent, t)
}

// Done records in the store, once the spans are forwarded, that nothing is kept of one.
func (o *Outbox) Done(caller *origin.Caller, t journal.Ticket) {
	p := o.of(caller)
	p.Done = append(p.Done, t)
}

func (o *Outbox) send(ctx context.Context, p *openParcel) {
	p.Traces = p.regroup.Traces()
	o.forwarder.Send(ctx, p.Parcel)
	p.Parcel, p.regroup = Parcel{Caller: p.Caller}, origin.NewRegroup()
}

// Flush sends the open parcels.
func (o *Outbox) Flush(ctx context.Context) {
	for _, p := range o.open {
		if !p.empty() {
			o.send(ctx, p)
		}
	}
}
