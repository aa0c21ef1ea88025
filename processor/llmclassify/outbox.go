package llmclassify

import (
	"context"

	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/journal"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/origin"
)

// outbox puts stamped spans into parcels, one for each caller, and sends those that are
// full.
type outbox struct {
	forwarder *forwarder
	open      []*openParcel
}

type openParcel struct {
	parcel
	regroup *origin.Regroup
}

// newOutbox makes an empty outbox.
func newOutbox(f *forwarder) outbox { return outbox{forwarder: f} }

func (o *outbox) of(caller *origin.Caller) *openParcel {
	for _, p := range o.open {
		if p.caller == caller {
			return p
		}
	}
	p := &openParcel{parcel: parcel{caller: caller}, regroup: origin.NewRegroup()}
	o.open = append(o.open, p)
	return p
}

// add adds a span, which it moves, of about this many bytes.
func (o *outbox) add(ctx context.Context, span ptrace.Span, caller *origin.Caller, scope *origin.Scope, size int) {
	p := o.of(caller)
	if p.bytes+p.regroup.Bytes() >= maxParcelBytes {
		o.send(ctx, p)
	}
	span.MoveTo(p.regroup.Append(scope))
	p.spans++
	p.bytes += size
}

// addNew adds a span that did not come, but was made for the others.
func (o *outbox) addNew(ctx context.Context, span ptrace.Span, caller *origin.Caller, scope *origin.Scope, size int) {
	o.add(ctx, span, caller, scope, size)
	o.of(caller).added++
}

// sent lets the store know, once the spans are forwarded, that the facts of one are still kept.
func (o *outbox) sent(caller *origin.Caller, t journal.Ticket) {
	p := o.of(caller)
	p.sent = append(p.sent, t)
}

// done lets the store know, once the spans are forwarded, that nothing is kept of one.
func (o *outbox) done(caller *origin.Caller, t journal.Ticket) {
	p := o.of(caller)
	p.done = append(p.done, t)
}

func (o *outbox) send(ctx context.Context, p *openParcel) {
	p.traces = p.regroup.Traces()
	o.forwarder.send(ctx, p.parcel)
	p.parcel, p.regroup = parcel{caller: p.caller}, origin.NewRegroup()
}

// flush sends what was added.
func (o *outbox) flush(ctx context.Context) {
	for _, p := range o.open {
		if !p.empty() {
			o.send(ctx, p)
		}
	}
}
