package llmclassify

import (
	"context"
	"fmt"
	"time"

	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.uber.org/zap"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/journal"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/origin"
)

// replay takes over what an earlier process left in the storage: the record of judged
// runs, and then its spans. No time passes for those until all are read.
func (p *classifier) replay(ctx context.Context) error {
	if err := p.recall(ctx); err != nil {
		return fmt.Errorf("replaying what an earlier process had judged: %w", err)
	}
	for _, s := range p.shards {
		s.replay()
	}
	spans := 0
	now := p.clock.Now()
	err := p.store.journal.Replay(ctx, now, func(r *journal.Replayed) error {
		n, err := p.replayCall(ctx, r)
		spans += n
		return err
	}, func() {
		for _, s := range p.shards {
			s.lose(now, p.recallsUntil(now))
		}
	})
	if err != nil {
		return fmt.Errorf("replaying the spans of an earlier process: %w", err)
	}
	p.lifetime.hold = max(p.cfg.MaxHold, senderPatience)
	p.lifetime.begin(p.clock.Now())
	for _, s := range p.shards {
		s.replayed()
	}
	if spans > 0 {
		p.logger.Info("Replayed spans that an earlier process had held or kept the facts of", zap.Int("spans", spans))
	}
	return nil
}

// senderPatience is for how long exporters send a call again that was refused, if they keep to
// the default of the Collector.
const senderPatience = 5 * time.Minute

// recall lets the shards remember what earlier processes judged.
func (p *classifier) recall(ctx context.Context) error {
	now := p.clock.Now()
	until := p.recallsUntil(now)
	return p.store.journal.Recall(ctx, now, until.Sub(now), p.cfg.MaxFactBytes/8, func(r *journal.Judged) {
		if r.MarksLost() { // of whatever tenant, in whatever shard
			for _, s := range p.shards {
				s.recalled.add(r, 0, until)
			}
			return
		}
		tenant := r.Tenant
		if !p.cfg.hasTenants() {
			tenant = 0
		}
		p.shards[p.shards.index(r.Trace)].recalled.add(r, tenant, until)
	})
}

// recallsUntil is until when the shards remember what earlier processes judged: as long as they
// remember what this one does.
func (p *classifier) recallsUntil(now time.Time) time.Time {
	return now.Add(2 * max(p.cfg.RunTimeout, 2*p.cfg.MaxHold))
}

// replayCall takes over one call of an earlier process. Spans that no dialect recognises
// any more are forwarded as they are.
func (p *classifier) replayCall(ctx context.Context, r *journal.Replayed) (spans int, err error) {
	caller := p.callers.With(r.Metadata)
	b := p.recognise(r.At, caller, r.Traces)
	defer putBatch(b)
	q := newPartition(b, p.shards)
	defer putPartition(q)
	spans = len(b.found)
	p.deliver(q)
	recognised := make([]bool, len(r.States))
	next, held := 0, 0
	for _, s := range b.scopes {
		for range s.n {
			f := &b.found[next]
			i := s.base + f.index
			recognised[i] = true
			f.item.Known.Caller, f.item.Known.Ticket = caller, r.Tickets[i]
			f.item.Spent = r.States[i] == journal.Spent
			next++
			if !f.item.Spent {
				held++
			}
		}
	}
	b.takeSpans(false)
	p.telemetry.flow.add(spanCounts{replayed: held, held: held})
	p.interest.addAll(b.traces, 1)
	for i := range q.deliveries {
		d := &q.deliveries[i]
		if d.arrivals == nil {
			continue
		}
		d.at = r.At
		l := q.lane(i)
		if err := l.inbox.reserve(ctx, d); err != nil {
			return spans, err
		}
		p.budget.add(l.tenant, d.size)
		l.inbox.put(d)
	}
	return spans, p.replayOthers(ctx, caller, r, recognised)
}

// replayOthers forwards the spans that are left in r, unless they were forwarded before.
func (p *classifier) replayOthers(ctx context.Context, caller *origin.Caller, r *journal.Replayed, recognised []bool) error {
	others := parcel{traces: r.Traces, caller: caller}
	var spent []bool // by what is left
	for i, ok := range recognised {
		if !ok {
			others.done = append(others.done, r.Tickets[i])
			spent = append(spent, r.States[i] == journal.Spent)
		}
	}
	if len(others.done) == 0 {
		return nil
	}
	i := -1
	for _, rs := range r.Traces.ResourceSpans().All() {
		for _, ss := range rs.ScopeSpans().All() {
			ss.Spans().RemoveIf(func(ptrace.Span) bool { i++; return spent[i] })
		}
	}
	others.spans = r.Traces.SpanCount()
	others.bytes = (&ptrace.ProtoMarshaler{}).TracesSize(r.Traces)
	p.telemetry.flow.add(spanCounts{replayed: others.spans, held: others.spans})
	d := &delivery{parcel: &others, size: others.bytes}
	l := p.shards[0].lane(p.tenants.others)
	if err := l.inbox.reserve(ctx, d); err != nil {
		return err
	}
	p.budget.add(l.tenant, d.size)
	l.inbox.put(d)
	return nil
}
