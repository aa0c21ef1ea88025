package llmclassify

import (
	"context"
	"fmt"

	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.uber.org/zap"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/journal"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/origin"
)

// begin lets time pass for the spans that come from now on. It is called before there are any, and replays what
// an earlier process left in the storage: for these no time passes until all are read.
func (p *pool) begin(ctx context.Context, r *reader, callers *origin.Callers) error {
	p.lifetime.Begin(p.clock.Now())
	if !p.store.enabled() {
		return nil
	}
	for _, s := range p.shards {
		s.replay()
	}
	spans := 0
	err := p.store.journal.Replay(ctx, func(call *journal.Replayed) error {
		caller := callers.With(call.Metadata)
		b := r.read(call.At, caller, call.Traces)
		defer b.free()
		spans += b.held()
		return p.replay(ctx, caller, b, call)
	})
	if err != nil {
		return fmt.Errorf("replaying the spans of an earlier process: %w", err)
	}
	for _, s := range p.shards {
		s.replayed()
	}
	if spans > 0 {
		p.telemetry.Info("Replayed spans that an earlier process had held or kept the facts of", zap.Int("spans", spans))
	}
	return nil
}

// replay takes over one call of an earlier process. Spans that no dialect recognises any more are
// forwarded as they are.
func (p *pool) replay(ctx context.Context, caller *origin.Caller, b *batch, call *journal.Replayed) error {
	h := newHandover(p, caller, b)
	defer h.free()
	h.deliver()
	held, others := b.restore(caller, call.Tickets, call.Sent)
	b.take(false)
	p.telemetry.flow.add(spanCounts{replayed: held, held: held})
	p.live.addAll(b.traces, 1)
	for i := range h.deliveries {
		d := &h.deliveries[i]
		if d.arrivals == nil {
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
	rest := &parcel{
		traces: call.Traces, spans: len(others), caller: caller, done: others,
		bytes: (&ptrace.ProtoMarshaler{}).TracesSize(call.Traces),
	}
	p.telemetry.flow.add(spanCounts{replayed: rest.spans, held: rest.spans})
	return p.putReplayed(ctx, p.shards[0].lane(p.tenants.others), &delivery{parcel: rest, size: rest.bytes})
}

// putReplayed puts a delivery of an earlier process into the inbox of a lane.
func (p *pool) putReplayed(ctx context.Context, l *lane, d *delivery) error {
	if err := l.inbox.reserve(ctx, d); err != nil {
		return err
	}
	p.budget.add(l.tenant, d.size)
	l.inbox.put(d)
	return nil
}
