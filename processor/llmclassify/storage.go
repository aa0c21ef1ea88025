package llmclassify

import (
	"context"
	"fmt"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/extension/xextension/storage"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.uber.org/zap"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/journal"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/origin"
)

// openJournal opens the journal in the storage extension of this name.
func openJournal(ctx context.Context, host component.Host, extension, id component.ID, logger *zap.Logger) (*journal.Journal, error) {
	found, ok := host.GetExtensions()[extension]
	if !ok {
		return nil, fmt.Errorf("storage: the extension %q is not there: add it to extensions and to service::extensions", extension)
	}
	provider, ok := found.(storage.Extension)
	if !ok {
		return nil, fmt.Errorf("storage: the extension %q is no storage extension", extension)
	}
	client, err := provider.GetClient(ctx, component.KindProcessor, id, "traces")
	if err != nil {
		return nil, fmt.Errorf("storage: getting a client of the extension %q: %w", extension, err)
	}
	return journal.Open(ctx, client, logger)
}

// write writes spans to the journal before they are owned, if there is one.
func (p *classifier) write(ctx context.Context, now time.Time, who *origin.Caller, taken ptrace.Traces) (tickets func(int) journal.Ticket, err error) {
	if p.journal == nil {
		return nil, nil
	}
	tickets, err = p.journal.Append(ctx, now, who.Metadata(), taken)
	p.health.storageIs(err)
	p.telemetry.wrote(ctx, err)
	return tickets, err
}

// unwrite deletes spans from the journal that are not owned after all.
func (p *classifier) unwrite(ctx context.Context, tickets func(int) journal.Ticket, n int) {
	if tickets == nil {
		return
	}
	done := make([]journal.Ticket, n)
	for i := range done {
		done[i] = tickets(i)
	}
	p.update(ctx, nil, done, nil)
}

// update notes what has become of spans, and what was judged with them. An error
// loses nothing.
func (p *classifier) update(ctx context.Context, spent, done []journal.Ticket, judged []byte) {
	if p.journal == nil || len(spent)+len(done)+len(judged) == 0 {
		return
	}
	err := p.journal.Update(context.WithoutCancel(ctx), spent, done, judged)
	p.health.storageIs(err)
	p.telemetry.wrote(ctx, err)
	if err != nil {
		p.logger.Error("The storage does not take note of spans that were forwarded and of runs that were judged; after a restart they may come again", zap.Error(err))
	}
}

// replay takes up the spans of an earlier process, and before that what it had judged.
func (p *classifier) replay(ctx context.Context) error {
	if err := p.recall(ctx); err != nil {
		return fmt.Errorf("taking up what an earlier process had judged: %w", err)
	}
	spans := 0
	err := p.journal.Replay(ctx, func(r *journal.Replayed) error {
		n, err := p.takeUp(ctx, r)
		spans += n
		return err
	})
	if err != nil {
		return fmt.Errorf("taking up what an earlier process had left: %w", err)
	}
	if spans > 0 {
		p.logger.Info("Took up spans that an earlier process had held or kept the facts of", zap.Int("spans", spans))
	}
	return nil
}

// takeUp takes up one call of an earlier process. Spans that no dialect recognises
// any more are forwarded as they are.
func (p *classifier) takeUp(ctx context.Context, r *journal.Replayed) (spans int, err error) {
	who := p.callers.With(r.Metadata)
	b := recognise(p.registry, p.origins, r.At, r.Traces)
	defer b.release()
	spans = len(b.found)
	deliveries := p.deliveries(b)
	recognised := make([]bool, len(r.States))
	next := 0
	for _, s := range b.scopes {
		for range s.n {
			f := &b.found[next]
			i := s.base + f.index
			recognised[i] = true
			f.item.Known.Caller, f.item.Known.Ticket = who, r.Tickets[i]
			f.item.Spent = r.States[i] == journal.Spent
			next++
		}
	}
	b.embody(b.take(r.Traces, false))
	p.interest.all(b.traces, 1)
	p.budget.add(b.size)
	for i := range deliveries {
		d := deliveries[i]
		if d.arrivals == nil {
			continue
		}
		d.at = r.At
		select {
		case p.shards[i].places <- struct{}{}:
			p.shards[i].in <- d
		case <-ctx.Done():
			return spans, ctx.Err()
		}
	}
	return spans, p.takeUpOthers(ctx, who, r, recognised)
}

// takeUpOthers forwards what takeUp left in r, if it has not been before.
func (p *classifier) takeUpOthers(ctx context.Context, who *origin.Caller, r *journal.Replayed, recognised []bool) error {
	var done []journal.Ticket
	var spent []bool // by what is left
	for i, ok := range recognised {
		if !ok {
			done = append(done, r.Tickets[i])
			spent = append(spent, r.States[i] == journal.Spent)
		}
	}
	if len(done) == 0 {
		return nil
	}
	i := -1
	for _, rs := range r.Traces.ResourceSpans().All() {
		for _, ss := range rs.ScopeSpans().All() {
			ss.Spans().RemoveIf(func(ptrace.Span) bool { i++; return spent[i] })
		}
	}
	if r.Traces.SpanCount() > 0 {
		if err := p.next.ConsumeTraces(who.Context(ctx), r.Traces); err != nil {
			return fmt.Errorf("forwarding spans that no dialect recognises any more: %w", err)
		}
	}
	p.update(ctx, nil, done, nil)
	return nil
}
