package llmclassify

import (
	"context"
	"errors"

	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/origin"
)

// own takes over the LLM spans of a call, and lets the lanes know of its other spans. After an error
// nothing was taken over.
func (p *classifier) own(ctx context.Context, caller *origin.Caller, q *partition) error {
	p.live.addAll(q.traces, 1)
	if !p.store.enabled() { // a storage has all spans before they are judged
		q.expectWhole(&p.live)
	}
	p.addLinks(q)
	p.addExchanges(q)
	p.judgeWhole(ctx, q)
	q.deliver()
	if err := p.takeOver(ctx, caller, q); err != nil {
		p.live.addAll(q.traces, -1)
		return err
	}
	p.live.addAll(q.whole.ids, -1) // their lanes know them as judged
	p.telemetry.flow.add(spanCounts{in: len(q.found), taken: len(q.found), held: len(q.found)})
	p.tell(q)
	return nil
}

// takeOver takes places and memory for the LLM spans of a call that are to be held, and the spans.
func (p *classifier) takeOver(ctx context.Context, caller *origin.Caller, q *partition) error {
	if len(q.found) == 0 {
		return nil
	}
	if err := p.reserve(ctx, q); err != nil {
		return err
	}
	if err := p.take(ctx, caller, q); err != nil {
		p.unreserve(q, q.withPlaces())
		return err
	}
	return nil
}

// take takes the memory for the LLM spans of a call, moves them out of it and writes them to the store.
func (p *classifier) take(ctx context.Context, caller *origin.Caller, q *partition) error {
	if err := p.admit(q); err != nil {
		return err
	}
	tickets, err := p.store.put(ctx, q.now, caller, q.takeSpans(p.store.enabled()))
	if err != nil {
		p.giveBack(q, len(q.deliveries))
		return err
	}
	q.attach(caller, tickets)
	return nil
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

// tell puts the deliveries of a call into the inboxes of their lanes, with the links and the evidence
// among its other spans. It never waits.
func (p *classifier) tell(q *partition) {
	for i := range q.deliveries {
		if d := &q.deliveries[i]; d.needsPlace() || d.news() > 0 {
			q.lane(i).inbox.put(d)
		}
	}
}

// refuse lets the lanes know of the traces of a call that was refused.
func (p *classifier) refuse(q *partition) {
	p.takeBackWhole(q)
	clear(q.deliveries)
	for t, trace := range q.traces {
		d := q.deliveryTo(q.owners[t], trace)
		d.refused = append(d.refused, trace)
	}
	for i := range q.deliveries {
		if d := &q.deliveries[i]; d.news() > 0 {
			q.lane(i).inbox.put(d)
		}
	}
}

// forwardRest forwards the other spans of a call, with the runs that came whole. What the next consumer
// refuses of them waits with the LLM spans that are held. Where none is held, the sender repeats the call.
func (p *classifier) forwardRest(ctx context.Context, caller *origin.Caller, q *partition) error {
	whole := q.whole.spans
	if q.others == 0 && whole == 0 && len(q.found) > 0 {
		return nil
	}
	err := p.next.ConsumeTraces(ctx, q.td)
	if err != nil && len(q.found) > 0 && p.keepRest(ctx, caller, q, err) {
		p.countWhole(ctx, q)
		return nil
	}
	if err != nil {
		var partial consumererror.Traces
		if !errors.As(err, &partial) { // else the sender repeats some of the spans, which are late
			p.takeBackWhole(q)
		}
		p.telemetry.flow.add(spanCounts{in: q.others + whole, refused: q.others + whole})
		return err
	}
	p.countWhole(ctx, q)
	p.telemetry.flow.add(spanCounts{in: q.others + whole, passed: q.others, taken: whole, forwarded: whole})
	return nil
}

// keepRest takes over what the next consumer refused of a call. Nothing limits that but the calls themselves: no call is
// admitted while there is no memory and spans wait to be sent again. It reports false if the store fails, and if the next
// consumer mutates spans: it may have changed what it refused.
func (p *classifier) keepRest(ctx context.Context, caller *origin.Caller, q *partition, refused error) bool {
	if consumererror.IsPermanent(refused) || p.next.Capabilities().MutatesData {
		return false
	}
	all := q.others + q.whole.spans
	rest := parcel{traces: q.td, caller: caller}
	if part, ok := partOf(refused); ok && part.SpanCount() < all {
		rest.traces = part
	} else if q.td.SpanCount() != all { // a consumer behind the next one mutates spans
		return false
	}
	if rest.traces.SpanCount() == 0 {
		p.telemetry.flow.add(spanCounts{in: all, passed: q.others, taken: q.whole.spans, forwarded: q.whole.spans})
		return true
	}
	tickets, err := p.store.put(ctx, q.now, caller, rest.traces)
	if err != nil {
		return false
	}
	rest.spans = rest.traces.SpanCount()
	rest.bytes = (&ptrace.ProtoMarshaler{}).TracesSize(rest.traces)
	if tickets != nil {
		for i := range rest.spans {
			rest.done = append(rest.done, tickets(i))
		}
	}
	l := p.shards.of(q.tenants[0], q.traces[0])
	p.budget.add(l.tenant, rest.bytes)
	p.telemetry.flow.add(spanCounts{in: all, taken: q.whole.spans, held: rest.spans, forwarded: all - rest.spans})
	l.inbox.put(&delivery{parcel: &rest, size: rest.bytes})
	return true
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
