package llmclassify

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.opentelemetry.io/collector/consumer/consumererror"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/journal"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/origin"
)

// handOver waits for the shards, and takes over the call if there is memory for it. Calls
// that wait do not count: held spans must not go early to make room for them.
func (p *classifier) handOver(ctx context.Context, caller *origin.Caller, q *partition) error {
	if err := p.reserve(ctx, q); err != nil {
		return err
	}
	err := p.admit(q)
	if err == nil {
		if err = p.takeOver(ctx, caller, q); err == nil {
			return nil
		}
		p.giveBack(q, len(q.deliveries))
	}
	p.unreserve(q, q.withPlaces())
	return err
}

// admit takes the memory of the deliveries.
func (p *classifier) admit(q *partition) error {
	for i := range q.deliveries {
		if d := &q.deliveries[i]; d.needsPlace() {
			if err := p.budget.admit(q.lane(i).tenant, d.size); err != nil {
				p.giveBack(q, i)
				return err
			}
		}
	}
	return nil
}

// giveBack gives back the memory of the first n deliveries.
func (p *classifier) giveBack(q *partition, n int) {
	for i := range q.deliveries[:n] {
		if d := &q.deliveries[i]; d.needsPlace() {
			p.budget.add(q.lane(i).tenant, -d.size)
		}
	}
}

// takeOver moves the LLM spans that are to be held out of the call, forwards what is
// left of it and sends the deliveries.
func (p *classifier) takeOver(ctx context.Context, caller *origin.Caller, q *partition) error {
	tickets, err := p.takeHeld(ctx, caller, q)
	if err != nil {
		return err
	}
	p.addLinks(q)
	p.addExchanges(q)
	p.rememberSpans(q)
	if err := p.forwardRest(ctx, caller, q); err != nil {
		p.store.remove(ctx, tickets, len(q.found))
		return err
	}
	p.countComplete(ctx, &q.complete)
	p.countTaken(q)
	q.attach(caller, tickets)
	for i := range q.deliveries {
		d := &q.deliveries[i]
		if d.needsPlace() || d.news() > 0 {
			p.put(q, i)
		}
	}
	return nil
}

// countTaken counts the spans of a call that was taken over.
func (p *classifier) countTaken(q *partition) {
	n := spanCounts{in: q.spans, passed: q.others, taken: len(q.found) + q.complete.spans, held: len(q.found)}
	if q.asParcel() {
		n.held += q.complete.spans
	} else {
		n.forwarded = q.complete.spans
	}
	p.telemetry.flow.add(n)
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
		if q.complete.spans > 0 { // the shard writes: no call waits for a slow disk now
			q.deliveryTo(0, q.complete.traces[0]).judged = p.completeRecords(q)
		}
	case q.asParcel():
		made, err := p.completeParcel(ctx, caller, q)
		if err != nil {
			return err
		}
		*q.deliveryTo(0, q.complete.traces[0]).parcel = made
		p.judgeRest(q)
	}
	return nil
}

// judgeRest judges the complete runs. Of the exchanges of their traces it delivers those
// that explained nothing, as it does the others.
func (p *classifier) judgeRest(q *partition) {
	for above, x := range p.judgeComplete(q) {
		d := q.deliveryTo(0, above.trace)
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
	p.telemetry.flow.add(spanCounts{in: q.spans, passed: q.spans})
	if !slices.ContainsFunc(q.deliveries, func(d delivery) bool { return d.news() > 0 }) || !p.calls.enter() {
		return nil
	}
	defer p.calls.leave()
	for i := range q.deliveries {
		if q.deliveries[i].news() > 0 {
			p.put(q, i)
		}
	}
	return nil
}

// put puts a delivery into the inbox of its lane. It never waits: what a call brought was
// forwarded, and its sender must not send it again.
func (p *classifier) put(q *partition, delivery int) {
	d := &q.deliveries[delivery]
	p.expectEvidence(d, 1)
	if !q.lane(delivery).inbox.put(d) {
		p.expectEvidence(d, -1)
	}
}

// expectEvidence notes of which traces evidence is on its way to a shard (1), or not any
// more (-1).
func (p *classifier) expectEvidence(d *delivery, change int32) {
	for i := range d.exchanges {
		p.evidenced.add(d.exchanges[i].above.trace, change)
	}
}

// reserve gets a place for each delivery that needs one, always in the same order, so that no
// two calls wait for each other.
func (p *classifier) reserve(ctx context.Context, q *partition) error {
	withPlaces := q.withPlaces()
	for n, i := range withPlaces {
		if err := q.lane(i).inbox.reserve(ctx, &q.deliveries[i]); err != nil {
			p.unreserve(q, withPlaces[:n])
			return err
		}
	}
	return nil
}

// unreserve gives back the places of deliveries.
func (p *classifier) unreserve(q *partition, deliveries []int) {
	for _, i := range deliveries {
		q.lane(i).inbox.unreserve(&q.deliveries[i])
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
