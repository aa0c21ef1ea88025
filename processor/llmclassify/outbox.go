package llmclassify

import (
	"context"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/assemble"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/origin"
)

// outbox puts stamped spans into parcels, one for each caller, and sends those that are
// full.
type outbox struct {
	forwarder *forwarder
	tenant    uint64 // the key of the one that the spans are of
	open      []*openParcel
}

type openParcel struct {
	parcel
	regroup *origin.Regroup
	last    []pcommon.TraceID // of the releases that were recorded here, if spans passed
}

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
func (o *outbox) add(ctx context.Context, span ptrace.Span, known *assemble.Known, size int) {
	p := o.of(known.Caller)
	if p.bytes+p.regroup.Bytes() >= maxParcelBytes {
		o.send(ctx, p)
	}
	span.MoveTo(p.regroup.Append(known.Origin))
	p.spans++
	p.bytes += size
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
