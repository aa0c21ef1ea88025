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

// deliver judges releases, stamps the verdicts and forwards the spans together.
func (p *traces) deliver(ctx context.Context, releases []assemble.Release) {
	p.telemetry.forgot(ctx, p.shard.forgotten())
	if len(releases) == 0 {
		return
	}
	out := parcel{}
	regroup := origin.NewRegroup()
	for i := range releases {
		p.judge(ctx, &releases[i], regroup, &out)
	}
	out.traces = regroup.Traces()
	p.forwarder.send(ctx, out)
}

// judge judges one release and moves its spans, stamped, to where they go out.
func (p *traces) judge(ctx context.Context, release *assemble.Release, regroup *origin.Regroup, out *parcel) {
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
		m.Span.MoveTo(regroup.Append(m.Known.Origin))
		out.spans++
		out.bytes += m.Size
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
