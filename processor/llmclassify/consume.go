package llmclassify

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/assemble"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/hold"
)

// errShutdown is returned for spans that come after the shutdown began.
var errShutdown = errors.New("llm_classify is shut down and takes no spans")

// ConsumeTraces implements consumer.Traces. Other spans are forwarded before the
// LLM spans are taken over: an error means that none was.
func (p *traces) ConsumeTraces(ctx context.Context, td ptrace.Traces) error {
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

// take takes over the LLM spans of a call and forwards the others.
func (p *traces) take(ctx context.Context, now time.Time, b *batch, td ptrace.Traces, spans int) error {
	if !p.calls.enter() {
		return errShutdown
	}
	defer p.calls.leave()
	if err := p.budget.admit(b.size); err != nil {
		return err
	}
	deliveries := p.deliveries(b)
	if err := p.reserve(ctx, deliveries); err != nil {
		p.budget.add(-b.size)
		return err
	}
	for _, id := range b.traces {
		p.interest.add(id, 1)
	}
	err := p.own(ctx, now, b, deliveries, td, spans-len(b.found))
	if err != nil {
		for _, id := range b.traces {
			p.interest.add(id, -1)
		}
		p.unreserve(deliveries)
		p.budget.add(-b.size)
	}
	return err
}

// own moves the LLM spans out of td, forwards the others and hands over.
func (p *traces) own(ctx context.Context, now time.Time, b *batch, deliveries []delivery, td ptrace.Traces, others int) error {
	who := p.callers.Of(ctx)
	taken := b.take(td, p.journal != nil)
	b.embody(taken)
	tickets, err := p.write(ctx, now, who, taken)
	if err != nil {
		return err
	}
	var seen [][]hold.Link
	var https [][]exchange
	if others > 0 {
		seen, https = p.links(td), p.exchanges(b)
		if err := p.next.ConsumeTraces(ctx, td); err != nil {
			p.unwrite(ctx, tickets, len(b.found))
			return whole(err)
		}
		p.telemetry.passed(ctx, others)
	}
	b.sign(who, tickets)
	p.telemetry.held(ctx, len(b.found))
	for i := range deliveries {
		if seen != nil {
			deliveries[i].seen = seen[i]
		}
		if https != nil {
			deliveries[i].https = https[i]
		}
		if deliveries[i].arrivals != nil {
			p.shards[i].in <- deliveries[i] // it has a place
		} else {
			p.tell(ctx, i, deliveries[i])
		}
	}
	return nil
}

// pass forwards a call without LLM spans.
func (p *traces) pass(ctx context.Context, td ptrace.Traces, spans int, b *batch) error {
	seen, https := p.links(td), p.exchanges(b)
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
// does not wait for evidence of failures that may be nobody's.
func (p *traces) tell(ctx context.Context, shard int, d delivery) {
	if d.seen == nil && d.https == nil {
		return
	}
	place := p.shards[shard].places
	select {
	case place <- struct{}{}:
	default:
		if d.seen == nil {
			return
		}
		select {
		case place <- struct{}{}:
		case <-ctx.Done():
			return
		}
	}
	p.shards[shard].in <- d
}

// reserve gets a place for each delivery, always in the same order, so that no two
// calls wait for each other.
func (p *traces) reserve(ctx context.Context, deliveries []delivery) error {
	for i := range deliveries {
		if deliveries[i].arrivals == nil {
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

func (p *traces) unreserve(deliveries []delivery) {
	for i := range deliveries {
		if deliveries[i].arrivals != nil {
			<-p.shards[i].places
		}
	}
}

// deliveries are the items of b, by shard.
func (p *traces) deliveries(b *batch) []delivery {
	deliveries := make([]delivery, len(p.shards))
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
			d.size += it.Size
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
