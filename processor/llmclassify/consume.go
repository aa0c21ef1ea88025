package llmclassify

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/assemble"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/journal"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/origin"
)

// errShutdown is returned for spans that come after the shutdown began.
var errShutdown = errors.New("llm_classify is shut down and takes no spans")

// ConsumeTraces implements consumer.Traces. Other spans, and the runs that came whole
// with them, are forwarded before LLM spans are taken over: an error means that none
// was.
func (p *classifier) ConsumeTraces(ctx context.Context, td ptrace.Traces) error {
	spans := td.SpanCount()
	p.telemetry.came(ctx, spans)
	now := p.clock.Now()
	b := recognise(p.registry, p.origins, now, td)
	defer b.release()
	if len(b.found) == 0 {
		return p.pass(ctx, td, spans, b)
	}
	if err := p.take(ctx, now, b, td, spans); err != nil {
		p.telemetry.refused(ctx, spans)
		return err
	}
	return nil
}

// take judges the runs of a call that are whole, takes over its other LLM spans and
// forwards the rest.
func (p *classifier) take(ctx context.Context, now time.Time, b *batch, td ptrace.Traces, spans int) error {
	if !p.calls.enter() {
		return errShutdown
	}
	defer p.calls.leave()
	p.interest.all(b.traces, 1)
	others := spans - len(b.found)
	p.divide(now, b, others)
	deliveries := p.deliveries(b)
	apart := others == 0 && b.spans > 0 // no other span waits for them to be forwarded
	if apart {
		d := &deliveries[p.shardOf(b.claimed[0])]
		d.parcel, d.size = &parcel{}, d.size+b.bytes
	}
	if err := p.handOver(ctx, now, b, deliveries, td, others); err != nil {
		p.disclaim(b)
		p.interest.all(b.traces, -1)
		return err
	}
	p.interest.all(b.claimed, -1) // their shards know
	if !apart {
		p.budget.add(-b.bytes)
	}
	return nil
}

// handOver waits for the shards, and takes over what there is memory for. Calls that
// wait do not count: what is held must not go early to make room for them.
func (p *classifier) handOver(ctx context.Context, now time.Time, b *batch, deliveries []delivery, td ptrace.Traces, others int) error {
	if err := p.reserve(ctx, deliveries); err != nil {
		return err
	}
	size := b.size + b.bytes
	err := p.budget.admit(size)
	if err == nil {
		if err = p.own(ctx, now, b, deliveries, td, others); err == nil {
			return nil
		}
		p.budget.add(-size)
	}
	p.unreserve(deliveries)
	return err
}

// own moves the LLM spans that are to be held out of td, forwards what is left and
// hands over.
func (p *classifier) own(ctx context.Context, now time.Time, b *batch, deliveries []delivery, td ptrace.Traces, others int) error {
	who := p.callers.Of(ctx)
	tickets, err := p.takeHeld(ctx, now, who, b, td)
	if err != nil {
		return err
	}
	seen := p.links(td, b)
	https := p.exchanges(b)
	p.remember(b)
	switch {
	case others > 0:
		p.judgeWhole(now, b, https)
		if err := p.next.ConsumeTraces(ctx, td); err != nil {
			p.unwrite(ctx, tickets, len(b.found))
			return whole(err)
		}
		p.telemetry.passed(ctx, others)
		p.telemetry.forwarded(ctx, b.spans)
		p.update(ctx, nil, nil, p.judgedWhole(now, b)) // before the sender hears that they are taken
	case b.spans > 0:
		parcel := deliveries[p.shardOf(b.claimed[0])].parcel
		*parcel, err = p.parcelOf(ctx, now, who, b, td)
		if err != nil {
			p.unwrite(ctx, tickets, len(b.found))
			return err
		}
		p.judgeWhole(now, b, https)
	}
	p.gone(ctx, b)
	b.sign(who, tickets)
	p.telemetry.held(ctx, len(b.found))
	for i := range deliveries {
		d := &deliveries[i]
		if seen != nil {
			d.seen = seen[i]
		}
		if https != nil {
			d.https = https[i]
		}
		if !d.owns() {
			p.tell(ctx, i, *d)
			continue
		}
		p.suspect(d, 1)
		p.shards[i].in <- *d // it has a place
	}
	return nil
}

// takeHeld takes the LLM spans that are to be held out of td, and writes them to the
// journal.
func (p *classifier) takeHeld(ctx context.Context, now time.Time, who *origin.Caller, b *batch, td ptrace.Traces) (tickets func(int) journal.Ticket, err error) {
	if len(b.found) == 0 {
		return nil, nil
	}
	taken := b.take(td, p.journal != nil)
	b.embody(taken)
	return p.write(ctx, now, who, taken)
}

// parcelOf makes a parcel of a call that has nothing but runs that are whole, and
// writes it to the journal.
func (p *classifier) parcelOf(ctx context.Context, now time.Time, who *origin.Caller, b *batch, td ptrace.Traces) (parcel, error) {
	tickets, err := p.write(ctx, now, who, td)
	if err != nil {
		return parcel{}, err
	}
	made := parcel{traces: td, spans: b.spans, bytes: b.bytes + verdictSize*len(b.releases), caller: who}
	if tickets != nil {
		for i := range b.spans {
			made.done = append(made.done, tickets(i))
		}
		made.judged = p.judgedWhole(now, b)
	}
	return made, nil
}

// pass forwards a call without LLM spans.
func (p *classifier) pass(ctx context.Context, td ptrace.Traces, spans int, b *batch) error {
	seen, https := p.links(td, b), p.exchanges(b)
	if err := p.next.ConsumeTraces(ctx, td); err != nil {
		p.telemetry.refused(ctx, spans)
		return err
	}
	p.telemetry.passed(ctx, spans)
	if (seen != nil || https != nil) && p.calls.enter() {
		defer p.calls.leave()
		for i := range p.shards {
			var d delivery
			if seen != nil {
				d.seen = seen[i]
			}
			if https != nil {
				d.https = https[i]
			}
			p.tell(ctx, i, d)
		}
	}
	return nil
}

// tell tells a shard of spans that were seen. Where it has no time for that before
// ctx ends, runs wait for longer and verdicts are less sure, but nothing is lost. It
// does not wait for evidence of failures that may belong to no run.
func (p *classifier) tell(ctx context.Context, shard int, d delivery) {
	if d.seen == nil && d.https == nil {
		return
	}
	p.suspect(&d, 1)
	place := p.shards[shard].places
	select {
	case place <- struct{}{}:
	default:
		if d.seen == nil {
			p.suspect(&d, -1)
			return
		}
		select {
		case place <- struct{}{}:
		case <-ctx.Done():
			p.suspect(&d, -1)
			return
		}
	}
	p.shards[shard].in <- d
}

// suspect notes of which traces there is evidence on its way to a shard.
func (p *classifier) suspect(d *delivery, change int32) {
	for i := range d.https {
		p.suspects.add(d.https[i].above.trace, change)
	}
}

// reserve gets a place for each delivery, always in the same order, so that no two
// calls wait for each other.
func (p *classifier) reserve(ctx context.Context, deliveries []delivery) error {
	for i := range deliveries {
		if !deliveries[i].owns() {
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
		if deliveries[i].owns() {
			<-p.shards[i].places
		}
	}
}

// deliveries are the items of b, by shard.
func (p *classifier) deliveries(b *batch) []delivery {
	deliveries := make([]delivery, len(p.shards))
	if len(b.found) == 0 {
		return deliveries
	}
	arrivals := b.arrivals()
	if len(p.shards) == 1 {
		deliveries[0] = delivery{arrivals: arrivals, size: b.size}
		return deliveries
	}
	for _, a := range arrivals {
		d := &deliveries[p.shardOf(a.Trace)]
		if d.arrivals == nil {
			d.arrivals = make([]assemble.Arrival, 0, len(arrivals))
		}
		d.arrivals = append(d.arrivals, a)
		for _, it := range a.Items {
			d.size += int(it.Size)
		}
	}
	return deliveries
}

// whole hides from the sender that only a part of the call may have failed: the
// LLM spans were not taken either, so that it has to send all of it again.
func whole(err error) error {
	var partial consumererror.Traces
	if !errors.As(err, &partial) {
		return err
	}
	all := fmt.Errorf("the next consumer refused a part of the call, so that none of its LLM spans was taken: %s", err) //nolint:errorlint // the type is what is to be hidden
	if consumererror.IsPermanent(err) {
		return consumererror.NewPermanent(all)
	}
	return all
}
