package llmclassify

import (
	"context"
	"slices"

	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/origin"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/trace"
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
func (o *outbox) add(ctx context.Context, span ptrace.Span, known *trace.Known, size int) {
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

// record lets the store know of the spans of a release once they are forwarded. Unreadable ones stay as
// they are: they may be readable in the store.
func (o *outbox) record(release *trace.Release, unreadable []*trace.Member) {
	for i := range release.Members {
		m := &release.Members[i]
		if m.Foreign || slices.Contains(unreadable, m) {
			continue
		}
		switch p := o.of(m.Known.Caller); {
		case isLast(release):
			p.done = append(p.done, m.Known.Ticket)
		case m.Out:
			p.sent = append(p.sent, m.Known.Ticket)
		}
	}
}

// isLast reports whether nothing is kept of the members of a release.
func isLast(r *trace.Release) bool {
	return r.Final || r.Reason == trace.Late || r.Reason == trace.RunExpired
}
