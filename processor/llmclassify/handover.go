package llmclassify

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"

	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/origin"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/trace"
)

// handover is a call on its way to the lanes of its spans. Give it back with free.
type handover struct {
	*batch
	pool       *pool
	caller     *origin.Caller
	deliveries []delivery // by tenant, and by shard for each
	whole      wholeRuns
}

var handovers = sync.Pool{New: func() any { return new(handover) }}

// newHandover makes a handover with empty deliveries.
func newHandover(p *pool, caller *origin.Caller, b *batch) *handover {
	h := handovers.Get().(*handover)
	n := len(b.tenants) * len(p.shards)
	h.batch, h.pool, h.caller = b, p, caller
	h.deliveries = slices.Grow(h.deliveries[:0], n)[:n]
	return h
}

// free gives a handover back, to be used again.
func (h *handover) free() {
	h.batch, h.pool, h.caller = nil, nil, nil
	h.whole.clear()
	clear(h.deliveries)
	handovers.Put(h)
}

// delivery is the index of the delivery for a trace of a tenant.
func (h *handover) delivery(tenant int, trace pcommon.TraceID) int {
	return tenant*len(h.pool.shards) + h.pool.index(trace)
}

// deliveryTo is the delivery for a trace of a tenant.
func (h *handover) deliveryTo(tenant int, trace pcommon.TraceID) *delivery {
	return &h.deliveries[h.delivery(tenant, trace)]
}

// lane is the lane of a delivery, by its index.
func (h *handover) lane(delivery int) *lane {
	n := len(h.pool.shards)
	return h.pool.shards[delivery%n].lane(h.tenants[delivery/n])
}

// own takes over the LLM spans of the call, and lets the lanes know of its other spans. After an error
// nothing was taken over.
func (h *handover) own(ctx context.Context) error {
	p := h.pool
	p.live.addAll(h.traces, 1)
	if !p.store.enabled() { // a storage has all spans before they are judged
		h.expectWhole()
	}
	h.addNews()
	h.judgeWhole(ctx)
	h.deliver()
	if err := h.takeOver(ctx); err != nil {
		p.live.addAll(h.traces, -1)
		return err
	}
	p.live.addAll(h.whole.ids, -1) // their lanes know them as judged
	p.telemetry.flow.add(spanCounts{in: h.held(), taken: h.held(), held: h.held()})
	h.tell()
	return nil
}

// pass lets the lanes know of the spans of a call without LLM spans.
func (h *handover) pass() {
	h.addNews()
	h.tell()
}

// addNews puts the links and the exchanges among the other spans of the call into deliveries.
func (h *handover) addNews() {
	if live := &h.pool.live; live.any() {
		h.eachLink(live, h.addLink)
	}
	h.eachExchange(func(owner int, x exchange) {
		d := h.deliveryTo(owner, x.trace)
		d.exchanges = append(d.exchanges, x)
	})
}

func (h *handover) addLink(owner int, link trace.Link) {
	if t, ok := h.mayBeWhole(owner, link.Trace); ok {
		h.whole.traces[t].links = append(h.whole.traces[t].links, link)
		return
	}
	d := h.deliveryTo(owner, link.Trace)
	d.links = append(d.links, link)
}

// deliver puts the items of the LLM spans into deliveries.
func (h *handover) deliver() {
	if h.held() == 0 {
		return
	}
	arrivals := h.arrivals()
	if len(h.deliveries) == 1 && h.whole.spans == 0 {
		h.deliveries[0].arrivals, h.deliveries[0].size = arrivals, h.heldBytes()
		return
	}
	var last *origin.Scope
	for i, a := range arrivals {
		if len(a.Items) == 0 { // it came whole
			continue
		}
		d := h.deliveryTo(h.owners[i], a.Trace)
		if d.arrivals == nil {
			d.arrivals = make([]trace.Arrival, 0, len(arrivals))
		}
		d.arrivals = append(d.arrivals, a)
		for _, it := range a.Items {
			d.size += int(it.Size)
		}
		if from := a.Items[0].Known.Origin; from != last {
			last = from
			d.size += from.Size()
		}
	}
}

// takeOver takes places and memory for the LLM spans of the call that are to be held, and the spans.
func (h *handover) takeOver(ctx context.Context) error {
	if h.held() == 0 {
		return nil
	}
	places, err := h.reserve(ctx)
	if err != nil {
		return err
	}
	if err := h.takeSpans(ctx); err != nil {
		h.unreserve(places)
		return err
	}
	return nil
}

// takeSpans takes the memory for the LLM spans of the call, moves them out of it and writes them to the store.
func (h *handover) takeSpans(ctx context.Context) error {
	if err := h.admit(); err != nil {
		return err
	}
	store := h.pool.store
	tickets, err := store.put(ctx, h.now, h.caller, h.take(store.enabled()))
	if err != nil {
		h.giveBack(len(h.deliveries))
		return err
	}
	h.attach(h.caller, tickets)
	return nil
}

// admit takes the memory of the deliveries.
func (h *handover) admit() error {
	for i := range h.deliveries {
		if d := &h.deliveries[i]; d.needsPlace() {
			if err := h.pool.budget.admit(h.lane(i).tenant, d.size); err != nil {
				h.giveBack(i)
				return err
			}
		}
	}
	return nil
}

// giveBack gives back the memory of the first n deliveries.
func (h *handover) giveBack(n int) {
	for i := range h.deliveries[:n] {
		if d := &h.deliveries[i]; d.needsPlace() {
			h.pool.budget.add(h.lane(i).tenant, -d.size)
		}
	}
}

// reserve gets a place for each delivery that needs one, by tenant and shard, in an order that is the same for
// all calls, so that no two of them wait for each other. It returns which these are.
func (h *handover) reserve(ctx context.Context) (places []int, err error) {
	for i := range h.deliveries {
		if h.deliveries[i].needsPlace() {
			places = append(places, i)
		}
	}
	if n := len(h.pool.shards); len(h.tenants) > 1 {
		slices.SortFunc(places, func(a, b int) int {
			return cmp.Or(cmp.Compare(h.tenants[a/n].index, h.tenants[b/n].index), cmp.Compare(a, b))
		})
	}
	for n, i := range places {
		if err := h.lane(i).inbox.reserve(ctx, &h.deliveries[i]); err != nil {
			h.unreserve(places[:n])
			return nil, err
		}
	}
	return places, nil
}

// unreserve gives back the places of deliveries.
func (h *handover) unreserve(places []int) {
	for _, i := range places {
		h.lane(i).inbox.unreserve(&h.deliveries[i])
	}
}

// tell puts the deliveries of the call into the inboxes of their lanes, with the links and the evidence
// among its other spans. It never waits.
func (h *handover) tell() {
	for i := range h.deliveries {
		if d := &h.deliveries[i]; d.needsPlace() || d.news() > 0 {
			h.lane(i).inbox.put(d)
		}
	}
}

// refuse lets the lanes know of the traces of a call that was refused.
func (h *handover) refuse() {
	h.takeBackWhole()
	clear(h.deliveries)
	for t, trace := range h.traces {
		d := h.deliveryTo(h.owners[t], trace)
		d.refused = append(d.refused, trace)
	}
	h.tell()
}

// forward forwards the other spans of the call, with the runs that came whole. What the next consumer
// refuses of them waits with the LLM spans that are held. Where none is held, the sender repeats the call.
func (h *handover) forward(ctx context.Context) error {
	p, whole := h.pool, h.whole.spans
	if h.others == 0 && whole == 0 && h.held() > 0 {
		return nil
	}
	err := p.next.ConsumeTraces(ctx, h.rest)
	if err != nil && h.held() > 0 && h.keepRest(ctx, err) {
		h.countWhole(ctx)
		return nil
	}
	if err != nil {
		var partial consumererror.Traces
		if !errors.As(err, &partial) { // else the sender repeats some of the spans, which are late
			h.takeBackWhole()
		}
		p.telemetry.flow.add(spanCounts{in: h.others + whole, refused: h.others + whole})
		return err
	}
	h.countWhole(ctx)
	p.telemetry.flow.add(spanCounts{in: h.others + whole, passed: h.others, taken: whole, forwarded: whole})
	return nil
}

// keepRest takes over what the next consumer refused of the call. Nothing limits that but the calls themselves: no call is
// admitted while there is no memory and spans wait to be sent again. It reports false if the store fails, and if the next
// consumer mutates spans: it may have changed what it refused.
func (h *handover) keepRest(ctx context.Context, refused error) bool {
	p := h.pool
	if consumererror.IsPermanent(refused) || p.next.Capabilities().MutatesData {
		return false
	}
	all := h.others + h.whole.spans
	rest := parcel{traces: h.rest, caller: h.caller}
	if part, ok := partOf(refused); ok && part.SpanCount() < all {
		rest.traces = part
	} else if h.rest.SpanCount() != all { // a consumer behind the next one mutates spans
		return false
	}
	if rest.traces.SpanCount() == 0 {
		p.telemetry.flow.add(spanCounts{in: all, passed: h.others, taken: h.whole.spans, forwarded: h.whole.spans})
		return true
	}
	tickets, err := p.store.put(ctx, h.now, h.caller, rest.traces)
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
	l := p.lane(h.tenants[0], h.traces[0])
	p.budget.add(l.tenant, rest.bytes)
	p.telemetry.flow.add(spanCounts{in: all, taken: h.whole.spans, held: rest.spans, forwarded: all - rest.spans})
	l.inbox.put(&delivery{parcel: &rest, size: rest.bytes})
	return true
}
