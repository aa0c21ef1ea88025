package llmclassify

import (
	"context"
	"errors"
	"fmt"

	"go.opentelemetry.io/collector/consumer/consumererror"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/journal"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/origin"
)

// handOver waits for the shards, and takes over the call if there is memory for it. Calls
// that wait do not count: held spans must not go early to make room for them.
func (p *classifier) handOver(ctx context.Context, q *partition) error {
	if err := p.reserve(ctx, q.deliveries); err != nil {
		return err
	}
	size := q.size + q.complete.bytes
	err := p.budget.admit(size)
	if err == nil {
		if err = p.takeOver(ctx, q); err == nil {
			if !q.asParcel() {
				p.budget.add(-q.complete.bytes)
			}
			return nil
		}
		p.budget.add(-size)
	}
	p.unreserve(q.deliveries)
	return err
}

// takeOver moves the LLM spans that are to be held out of the call, forwards what is
// left of it and sends the deliveries.
func (p *classifier) takeOver(ctx context.Context, q *partition) error {
	caller := p.callers.Of(ctx)
	tickets, err := p.takeHeld(ctx, caller, q)
	if err != nil {
		return err
	}
	p.addLinks(q)
	p.addExchanges(q)
	p.rememberSpans(&q.complete)
	if err := p.forwardRest(ctx, caller, q); err != nil {
		p.store.remove(ctx, tickets, len(q.found))
		return err
	}
	p.countComplete(ctx, &q.complete)
	q.attach(caller, tickets)
	p.telemetry.held(ctx, len(q.found))
	for i := range q.deliveries {
		d := &q.deliveries[i]
		if !d.hasSpans() {
			p.notify(ctx, i, d)
			continue
		}
		p.expectEvidence(d, 1)
		p.shards[i].in <- *d // it has a place
	}
	return nil
}

// takeHeld takes the LLM spans that are to be held out of the call, and writes them to
// the store.
func (p *classifier) takeHeld(ctx context.Context, caller *origin.Caller, q *partition) (tickets func(int) journal.Ticket, err error) {
	if len(q.found) == 0 {
		return nil, nil
	}
	taken := q.takeSpans(p.store.enabled())
	return p.store.add(ctx, q.now, caller, taken)
}

// forwardRest judges the complete runs of a call, and forwards what is not held of it.
// Where that is complete runs alone, it is a parcel for a shard to forward: no other span
// waits for the next consumer.
func (p *classifier) forwardRest(ctx context.Context, caller *origin.Caller, q *partition) error {
	switch {
	case q.others > 0:
		p.judgeRest(q)
		if err := p.next.ConsumeTraces(ctx, q.td); err != nil {
			return hidePartial(err)
		}
		p.telemetry.passed(ctx, q.others)
		p.telemetry.forwarded(ctx, q.complete.spans)
		p.store.update(ctx, nil, nil, p.completeRecords(q.now, &q.complete)) // before the sender learns that they are taken
	case q.asParcel():
		made, err := p.completeParcel(ctx, q.now, caller, &q.complete, q.td)
		if err != nil {
			return err
		}
		*q.deliveries[p.shards.index(q.complete.traces[0])].parcel = made
		p.judgeRest(q)
	}
	return nil
}

// judgeRest judges the complete runs. Of the exchanges of their traces it delivers those
// that explained nothing, as it does the others.
func (p *classifier) judgeRest(q *partition) {
	for above, x := range p.judgeComplete(q.now, &q.complete) {
		d := &q.deliveries[p.shards.index(above.trace)]
		d.exchanges = append(d.exchanges, exchange{above, x})
	}
}

// pass forwards a call without LLM spans, and lets the shards know of its spans.
func (p *classifier) pass(ctx context.Context, q *partition) error {
	p.addLinks(q)
	p.addExchanges(q)
	if err := p.next.ConsumeTraces(ctx, q.td); err != nil {
		return err
	}
	p.telemetry.passed(ctx, q.spans)
	if !anyNews(q.deliveries) || !p.calls.enter() {
		return nil
	}
	defer p.calls.leave()
	for i := range q.deliveries {
		p.notify(ctx, i, &q.deliveries[i])
	}
	return nil
}

// notify lets a shard know of spans that passed. Where it has no time for that before
// ctx ends, runs wait for longer and verdicts are less certain, but nothing is lost. It
// does not wait for evidence of failures that may belong to no run.
func (p *classifier) notify(ctx context.Context, shard int, d *delivery) {
	if !d.hasNews() {
		return
	}
	p.expectEvidence(d, 1)
	place := p.shards[shard].places
	select {
	case place <- struct{}{}:
	default:
		if d.links == nil {
			p.expectEvidence(d, -1)
			return
		}
		select {
		case place <- struct{}{}:
		case <-ctx.Done():
			p.expectEvidence(d, -1)
			return
		}
	}
	p.shards[shard].in <- *d
}

// expectEvidence notes of which traces evidence is on its way to a shard (1), or not any
// more (-1).
func (p *classifier) expectEvidence(d *delivery, change int32) {
	for i := range d.exchanges {
		p.evidenced.add(d.exchanges[i].above.trace, change)
	}
}

// reserve gets a place for each delivery of spans, always in the same order, so that no
// two calls wait for each other.
func (p *classifier) reserve(ctx context.Context, deliveries []delivery) error {
	for i := range deliveries {
		if !deliveries[i].hasSpans() {
			continue
		}
		select {
		case p.shards[i].places <- struct{}{}:
		case <-ctx.Done():
			p.unreserve(deliveries[:i])
			return fmt.Errorf("waiting for earlier spans to be taken over: %w", ctx.Err())
		}
	}
	return nil
}

func (p *classifier) unreserve(deliveries []delivery) {
	for i := range deliveries {
		if deliveries[i].hasSpans() {
			<-p.shards[i].places
		}
	}
}

// hidePartial hides from the sender that only a part of the call may have failed: its LLM
// spans were not taken either, so that it has to send all of it again.
func hidePartial(err error) error {
	var partial consumererror.Traces
	if !errors.As(err, &partial) {
		return err
	}
	all := fmt.Errorf("the next consumer refused a part of the call, so that none of its LLM spans were taken: %s", err) //nolint:errorlint // the type is what is to be hidden
	if consumererror.IsPermanent(err) {
		return consumererror.NewPermanent(all)
	}
	return all
}
