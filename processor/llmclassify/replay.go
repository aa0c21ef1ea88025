package llmclassify

import (
	"context"
	"fmt"

	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.uber.org/zap"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/journal"
)

// replay takes over the spans that an earlier process left in the storage. No time passes for these
// until all are read.
func (p *classifier) replay(ctx context.Context) error {
	p.lifetime.Begin(p.clock.Now())
	for _, s := range p.shards {
		s.replay()
	}
	spans := 0
	err := p.store.journal.Replay(ctx, func(r *journal.Replayed) error {
		n, err := p.replayCall(ctx, r)
		spans += n
		return err
	})
	if err != nil {
		return fmt.Errorf("replaying the spans of an earlier process: %w", err)
	}
	for _, s := range p.shards {
		s.replayed()
	}
	if spans > 0 {
		p.logger.Info("Replayed spans that an earlier process had held or kept the facts of", zap.Int("spans", spans))
	}
	return nil
}

// replayCall takes over one call of an earlier process. Spans that no dialect recognises
// any more are forwarded as they are.
func (p *classifier) replayCall(ctx context.Context, r *journal.Replayed) (spans int, err error) {
	caller := p.callers.With(r.Metadata)
	b := p.recognise(r.At, caller, r.Traces)
	defer putBatch(b)
	q := newPartition(b, p.shards)
	defer putPartition(q)
	q.deliver()
	others := parcel{traces: r.Traces, caller: caller}
	next, from, held := 0, 0, 0
	for _, s := range b.scopes {
		for range s.n {
			f := &b.found[next]
			next++
			at := s.base + f.index
			f.item.Known.Caller, f.item.Known.Ticket, f.item.Known.Sent = caller, r.Tickets(at), r.Sent(at)
			if !f.item.Known.Sent {
				held++
			}
			for ; from < at; from++ {
				others.done = append(others.done, r.Tickets(from))
			}
			from = at + 1
		}
	}
	for ; from < b.spans; from++ {
		others.done = append(others.done, r.Tickets(from))
	}
	b.takeSpans(false)
	p.telemetry.flow.add(spanCounts{replayed: held, held: held})
	p.live.addAll(b.traces, 1)
	for i := range q.deliveries {
		d := &q.deliveries[i]
		if d.arrivals == nil {
			continue
		}
		d.at = r.At
		if err := p.putReplayed(ctx, q.lane(i), d); err != nil {
			return next, err
		}
	}
	return next, p.replayOthers(ctx, &others)
}

// replayOthers forwards the spans of a call that no dialect recognises any more.
func (p *classifier) replayOthers(ctx context.Context, others *parcel) error {
	if len(others.done) == 0 {
		return nil
	}
	others.spans = len(others.done)
	others.bytes = (&ptrace.ProtoMarshaler{}).TracesSize(others.traces)
	p.telemetry.flow.add(spanCounts{replayed: others.spans, held: others.spans})
	return p.putReplayed(ctx, p.shards[0].lane(p.tenants.others), &delivery{parcel: others, size: others.bytes})
}

// putReplayed puts a delivery of an earlier process into the inbox of a lane.
func (p *classifier) putReplayed(ctx context.Context, l *lane, d *delivery) error {
	if err := l.inbox.reserve(ctx, d); err != nil {
		return err
	}
	p.budget.add(l.tenant, d.size)
	l.inbox.put(d)
	return nil
}
