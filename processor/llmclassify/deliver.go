package llmclassify

import (
	"context"
	"time"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/assemble"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/hold"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/origin"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/stamp"
	"github.com/otelllm/otelllm-go/semconv"
)

// triggers are the vocabulary's words for the buffer's reasons.
var triggers = [...]semconv.Trigger{
	hold.Complete:    semconv.TriggerComplete,
	hold.RunEnded:    semconv.TriggerRunEnded,
	hold.HoldExpired: semconv.TriggerHoldExpired,
	hold.SpanLimit:   semconv.TriggerSpanLimit,
	hold.Memory:      semconv.TriggerMemory,
	hold.Shutdown:    semconv.TriggerShutdown,
	hold.Late:        semconv.TriggerLate,
}

// maxParcelBytes is when a parcel is full, in bytes of estimated memory. On the
// wire spans are smaller, so that a full one stays well below the 4 MiB that gRPC
// receivers take by default.
const maxParcelBytes = 2 << 20

// packer packs stamped spans into parcels and sends those that are full.
type packer struct {
	forwarder *forwarder
	regroup   *origin.Regroup
	parcel    parcel
}

func (k *packer) add(ctx context.Context, m *assemble.Member) {
	if k.regroup == nil {
		k.regroup = origin.NewRegroup()
	}
	m.Span.MoveTo(k.regroup.Append(m.Known.Origin))
	k.parcel.spans++
	if k.parcel.bytes += m.Size; k.parcel.bytes >= maxParcelBytes {
		k.send(ctx)
	}
}

func (k *packer) send(ctx context.Context) {
	if k.parcel.spans == 0 {
		return
	}
	k.parcel.traces = k.regroup.Traces()
	k.forwarder.send(ctx, k.parcel)
	k.parcel, k.regroup = parcel{}, nil
}

// deliver judges releases, stamps the verdicts and forwards the spans together.
func (p *traces) deliver(ctx context.Context, releases []assemble.Release) {
	p.telemetry.forgot(ctx, p.shard.forgotten())
	k := packer{forwarder: p.forwarder}
	for i := range releases {
		p.judge(ctx, &releases[i], &k)
		releases[i] = assemble.Release{} // its spans are on their way
	}
	k.send(ctx)
}

// judge judges one release and packs its spans, stamped.
func (p *traces) judge(ctx context.Context, release *assemble.Release, k *packer) {
	trigger := triggers[release.Reason]
	d := assemble.Diagnose(release)
	var held time.Duration
	for i := range release.Members {
		m := &release.Members[i]
		if !m.Out {
			continue
		}
		if i == d.Carrier {
			stamp.Run(m.Span, d.Run, d.Members[i], trigger)
		} else {
			stamp.Span(m.Span, d.Members[i], trigger)
		}
		k.add(ctx, m)
		held = max(held, m.Held)
	}
	if d.Run != nil {
		p.telemetry.run(ctx, d.Run, trigger)
	}
	if release.Reason == hold.Late {
		p.telemetry.late(ctx, len(release.Members))
		return
	}
	p.telemetry.holdTime(ctx, held, trigger)
}
