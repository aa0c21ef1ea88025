package worker

import (
	"context"
	"fmt"

	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.uber.org/zap"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/forward"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/intake"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/journal"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/origin"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/telemetry"
)

// Begin lets time pass for the spans that arrive from now on. It is called before there are any, and replays the spans that
// an earlier process left in the storage: for these no time passes until all are read.
func (p *Pool) Begin(ctx context.Context, r *intake.Reader, callers *origin.Callers) error {
	p.Lifetime.Begin(p.Clock.Now())
	if !p.Store.Enabled() {
		return nil
	}
	for _, s := range p.Shards {
		s.replay()
	}
	spans := 0
	err := p.Store.Journal.Replay(ctx, func(call *journal.Replayed) error {
		caller := callers.With(call.Metadata)
		b := r.Read(call.At, caller, call.Traces)
		defer b.Free()
		spans += b.Held()
		return p.replay(ctx, caller, b, call)
	})
	if err != nil {
		return fmt.Errorf("replaying the spans of an earlier process: %w", err)
	}
	for _, s := range p.Shards {
		s.replayed()
	}
	if spans > 0 {
		p.Telemetry.Info("Replayed spans that an earlier process had held or kept the facts of", zap.Int("spans", spans))
	}
	return nil
}

// replay takes over one call of an earlier process. Spans that no dialect recognises any more are forwarded as they are.
func (p *Pool) replay(ctx context.Context, caller *origin.Caller, b *intake.Batch, call *journal.Replayed) error {
	h := p.HandOver(caller, b)
	defer h.Free()
	h.deliver()
	held, others := b.Restore(caller, call.Tickets, call.Sent)
	b.Take(false)
	p.Telemetry.Flow.Add(telemetry.Counts{Replayed: held, Held: held})
	p.Live.AddAll(b.Traces, 1)
	for i := range h.deliveries {
		d := &h.deliveries[i]
		if d.Arrivals == nil {
			continue
		}
		d.at = call.At
		if err := p.putReplayed(ctx, h.lane(i), d); err != nil {
			return err
		}
	}
	if len(others) == 0 {
		return nil
	}
	rest := &forward.Parcel{
		Traces: call.Traces, Spans: len(others), Caller: caller, Done: others,
		Bytes: (&ptrace.ProtoMarshaler{}).TracesSize(call.Traces),
	}
	p.Telemetry.Flow.Add(telemetry.Counts{Replayed: rest.Spans, Held: rest.Spans})
	return p.putReplayed(ctx, p.Shards[0].Lane(p.Tenants.Others), &delivery{Parcel: rest, size: rest.Bytes})
}

// putReplayed puts a delivery of an earlier process into the inbox of a lane.
func (p *Pool) putReplayed(ctx context.Context, l *Lane, d *delivery) error {
	if err := l.Inbox.reserve(ctx, d); err != nil {
		return err
	}
	p.Budget.Add(l.tenant, d.size)
	l.Inbox.put(d)
	return nil
}
