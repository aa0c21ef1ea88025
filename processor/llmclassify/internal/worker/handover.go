package worker

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"

	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/forward"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/intake"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/origin"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/telemetry"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/trace"
)

// Handover is a call on its way to the lanes of its spans. Give it back with Free.
type Handover struct {
	*intake.Batch
	pool       *Pool
	caller     *origin.Caller
	deliveries []delivery // by tenant, and by shard for each
	whole      wholeRuns
}

var handovers = sync.Pool{New: func() any { return new(Handover) }}

// HandOver begins to hand over a call of a caller.
func (p *Pool) HandOver(caller *origin.Caller, b *intake.Batch) *Handover {
	h := handovers.Get().(*Handover)
	n := len(b.Tenants) * len(p.Shards)
	h.Batch, h.pool, h.caller = b, p, caller
	h.deliveries = slices.Grow(h.deliveries[:0], n)[:n]
	return h
}

// Free gives a handover back, to be used again.
func (h *Handover) Free() {
	h.Batch, h.pool, h.caller = nil, nil, nil
	h.whole.clear()
	clear(h.deliveries)
	handovers.Put(h)
}

// delivery returns the index of the delivery for a trace of a tenant.
func (h *Handover) delivery(tenant int, trace pcommon.TraceID) int {
	return tenant*len(h.pool.Shards) + h.pool.index(trace)
}

// deliveryTo returns the delivery for a trace of a tenant.
func (h *Handover) deliveryTo(tenant int, trace pcommon.TraceID) *delivery {
	return &h.deliveries[h.delivery(tenant, trace)]
}

// lane returns the lane of a delivery, by its index.
func (h *Handover) lane(delivery int) *Lane {
	n := len(h.pool.Shards)
	return h.pool.Shards[delivery%n].Lane(h.Tenants[delivery/n])
}

// Own takes over the LLM spans of the call, and sends its other spans to the lanes as news. After an error no span was
// taken over.
func (h *Handover) Own(ctx context.Context) error {
	p := h.pool
	p.Live.AddAll(h.Traces, 1)
	if !p.Store.Enabled() { // a storage has all spans before they are judged
		h.expectWhole()
	}
	h.addNews()
	h.judgeWhole(ctx)
	h.deliver()
	if err := h.takeOver(ctx); err != nil {
		p.Live.AddAll(h.Traces, -1)
		return err
	}
	p.Live.AddAll(h.whole.ids, -1) // their lanes know them as judged
	p.Telemetry.Flow.Add(telemetry.Counts{In: h.Held(), Taken: h.Held(), Held: h.Held()})
	h.tell()
	return nil
}

// Pass sends the spans of a call without LLM spans to the lanes as news.
func (h *Handover) Pass() {
	h.addNews()
	h.tell()
}

// addNews puts the links and the exchanges among the other spans of the call into deliveries.
func (h *Handover) addNews() {
	if live := &h.pool.Live; live.Any() {
		h.EachLink(live, h.addLink)
	}
	h.EachExchange(func(owner int, x trace.Exchange) {
		d := h.deliveryTo(owner, x.Trace)
		d.exchanges = append(d.exchanges, x)
	})
}

func (h *Handover) addLink(owner int, link trace.Link) {
	if t, ok := h.MayBeWhole(owner, link.Trace); ok {
		h.whole.traces[t].links = append(h.whole.traces[t].links, link)
		return
	}
	d := h.deliveryTo(owner, link.Trace)
	d.links = append(d.links, link)
}

// deliver puts the items of the LLM spans into deliveries.
func (h *Handover) deliver() {
	if h.Held() == 0 {
		return
	}
	arrivals := h.Arrivals()
	if len(h.deliveries) == 1 && h.whole.spans == 0 {
		h.deliveries[0].Arrivals, h.deliveries[0].size = arrivals, h.HeldBytes()
		return
	}
	var last *origin.Scope
	for i, a := range arrivals {
		if len(a.Items) == 0 { // it arrived whole
			continue
		}
		d := h.deliveryTo(h.Owners[i], a.Trace)
		if d.Arrivals == nil {
			d.Arrivals = make([]trace.Arrival, 0, len(arrivals))
		}
		d.Arrivals = append(d.Arrivals, a)
		for _, it := range a.Items {
			d.size += int(it.Size)
		}
		if from := a.Items[0].Known.Origin; from != last {
			last = from
			d.size += from.Size()
		}
	}
}

// takeOver takes over the LLM spans to hold, with the places and the memory for them.
func (h *Handover) takeOver(ctx context.Context) error {
	if h.Held() == 0 {
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
func (h *Handover) takeSpans(ctx context.Context) error {
	if err := h.admit(); err != nil {
		return err
	}
	store := h.pool.Store
	tickets, err := store.Put(ctx, h.Now, h.caller, h.Take(store.Enabled()))
	if err != nil {
		h.giveBack(len(h.deliveries))
		return err
	}
	h.Attach(h.caller, tickets)
	return nil
}

// admit takes the memory of the deliveries.
func (h *Handover) admit() error {
	for i := range h.deliveries {
		if d := &h.deliveries[i]; d.needsPlace() {
			if err := h.pool.Budget.Admit(h.lane(i).tenant, d.size); err != nil {
				h.giveBack(i)
				return err
			}
		}
	}
	return nil
}

// giveBack gives back the memory of the first n deliveries.
func (h *Handover) giveBack(n int) {
	for i := range h.deliveries[:n] {
		if d := &h.deliveries[i]; d.needsPlace() {
			h.pool.Budget.Add(h.lane(i).tenant, -d.size)
		}
	}
}

// reserve gets a place for each delivery that needs one, by tenant and shard, in an order that is the same for all calls,
// so that no two calls wait for each other. It returns the indices of these deliveries.
func (h *Handover) reserve(ctx context.Context) (places []int, err error) {
	for i := range h.deliveries {
		if h.deliveries[i].needsPlace() {
			places = append(places, i)
		}
	}
	if n := len(h.pool.Shards); len(h.Tenants) > 1 {
		slices.SortFunc(places, func(a, b int) int {
			return cmp.Or(cmp.Compare(h.Tenants[a/n].Index, h.Tenants[b/n].Index), cmp.Compare(a, b))
		})
	}
	for n, i := range places {
		if err := h.lane(i).Inbox.reserve(ctx, &h.deliveries[i]); err != nil {
			h.unreserve(places[:n])
			return nil, err
		}
	}
	return places, nil
}

// unreserve gives back the places of deliveries.
func (h *Handover) unreserve(places []int) {
	for _, i := range places {
		h.lane(i).Inbox.unreserve(&h.deliveries[i])
	}
}

// tell puts the deliveries of the call into the inboxes of their lanes, with the links and the evidence among its other
// spans. It never waits.
func (h *Handover) tell() {
	for i := range h.deliveries {
		if d := &h.deliveries[i]; d.needsPlace() || d.news() > 0 {
			h.lane(i).Inbox.put(d)
		}
	}
}

// Refuse reports the traces of a refused call to the lanes.
func (h *Handover) Refuse() {
	h.takeBackWhole()
	clear(h.deliveries)
	for t, trace := range h.Traces {
		d := h.deliveryTo(h.Owners[t], trace)
		d.refused = append(d.refused, trace)
	}
	h.tell()
}

// Forward forwards the other spans of the call, with the whole runs. Spans that the next consumer refuses wait with the
// held LLM spans. If none is held, the sender repeats the call.
func (h *Handover) Forward(ctx context.Context) error {
	p, whole := h.pool, h.whole.spans
	if h.Others == 0 && whole == 0 && h.Held() > 0 {
		return nil
	}
	err := p.next.ConsumeTraces(ctx, h.Rest)
	if err != nil && h.Held() > 0 && h.keepRest(ctx, err) {
		h.countWhole(ctx)
		return nil
	}
	if err != nil {
		var partial consumererror.Traces
		if !errors.As(err, &partial) { // else the sender repeats some of the spans, which are late
			h.takeBackWhole()
		}
		p.Telemetry.Flow.Add(telemetry.Counts{In: h.Others + whole, Refused: h.Others + whole})
		return err
	}
	h.countWhole(ctx)
	p.Telemetry.Flow.Add(telemetry.Counts{In: h.Others + whole, Passed: h.Others, Taken: whole, Forwarded: whole})
	return nil
}

// keepRest takes over the refused spans of the call. The calls themselves are the only limit on that: no call is admitted
// while there is no memory and spans wait to be sent again. It reports false if the store fails, and if the next consumer
// mutates spans: the refused spans may have changed.
func (h *Handover) keepRest(ctx context.Context, refused error) bool {
	p := h.pool
	if forward.IsPermanent(refused) || p.next.Capabilities().MutatesData {
		return false
	}
	all := h.Others + h.whole.spans
	rest := forward.Parcel{Traces: h.Rest, Caller: h.caller}
	if part, ok := forward.PartOf(refused); ok && part.SpanCount() < all {
		rest.Traces = part
	} else if h.Rest.SpanCount() != all { // a consumer behind the next one mutates spans
		return false
	}
	if rest.Traces.SpanCount() == 0 {
		p.Telemetry.Flow.Add(telemetry.Counts{In: all, Passed: h.Others, Taken: h.whole.spans, Forwarded: h.whole.spans})
		return true
	}
	tickets, err := p.Store.Put(ctx, h.Now, h.caller, rest.Traces)
	if err != nil {
		return false
	}
	rest.Spans = rest.Traces.SpanCount()
	rest.Bytes = (&ptrace.ProtoMarshaler{}).TracesSize(rest.Traces)
	if tickets != nil {
		for i := range rest.Spans {
			rest.Done = append(rest.Done, tickets(i))
		}
	}
	l := p.Lane(h.Tenants[0], h.Traces[0])
	p.Budget.Add(l.tenant, rest.Bytes)
	p.Telemetry.Flow.Add(telemetry.Counts{In: all, Taken: h.whole.spans, Held: rest.Spans, Forwarded: all - rest.Spans})
	l.Inbox.put(&delivery{Parcel: &rest, size: rest.Bytes})
	return true
}
