package llmclassify

import (
	"cmp"
	"slices"
	"sync"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/dialect"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/origin"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/trace"
)

// partition is a call by the lanes of its spans. Get one with newPartition, and give it back with
// putPartition.
type partition struct {
	*batch
	shards     shards
	deliveries []delivery // by tenant, and by shard for each
	whole      wholeRuns
}

var partitions = sync.Pool{New: func() any { return new(partition) }}

// newPartition makes a partition with empty deliveries.
func newPartition(b *batch, s shards) *partition {
	q := partitions.Get().(*partition)
	q.batch, q.shards, q.deliveries = b, s, resized(q.deliveries, len(b.tenants)*len(s))
	return q
}

func putPartition(q *partition) {
	q.batch, q.shards = nil, nil
	q.whole.clear()
	clear(q.deliveries)
	partitions.Put(q)
}

// resized is n zero elements, in the memory of list if that has room.
func resized[E any](list []E, n int) []E {
	if cap(list) < n {
		return make([]E, n)
	}
	list = list[:n]
	clear(list)
	return list
}

// wholeRuns are the runs of a call that come whole in it. Such a run is not held: its call judges it, and its spans
// go on where they are, with the other spans of the call. If the next consumer refuses these, the verdict is taken
// back, as the sender repeats the call.
type wholeRuns struct {
	traces   []wholeTrace // by index in batch.traces; empty if none may come whole
	items    []trace.Item // of all of them
	pointers []*trace.Item
	room     trace.Room
	ids      []pcommon.TraceID
	spans    int // LLM spans of ids
	endings  []ending
}

// wholeTrace is a trace of a call that may come whole.
type wholeTrace struct {
	trace.Arrival // without items if it does not
	links         []trace.Link
	lane          *lane
	releases      []trace.Release // nil if it did not
}

func (w *wholeRuns) clear() {
	const most = 1 << 14 // larger ones are not kept
	if cap(w.items) > most {
		*w = wholeRuns{}
		return
	}
	const mostLinks = 64
	for i := range w.traces {
		links := w.traces[i].links[:0]
		if cap(links) > mostLinks {
			links = nil
		}
		w.traces[i] = wholeTrace{links: links}
	}
	clear(w.items)
	clear(w.pointers)
	w.room.Clear()
	*w = wholeRuns{
		traces: w.traces[:0], items: w.items[:0], pointers: w.pointers[:0], room: w.room, ids: w.ids[:0], endings: w.endings[:0],
	}
}

// delivery is the index of the delivery for a trace of a tenant.
func (q *partition) delivery(tenant int, trace pcommon.TraceID) int {
	return tenant*len(q.shards) + q.shards.index(trace)
}

// deliveryTo is the delivery for a trace of a tenant.
func (q *partition) deliveryTo(tenant int, trace pcommon.TraceID) *delivery {
	return &q.deliveries[q.delivery(tenant, trace)]
}

// lane is the lane of a delivery, by its index.
func (q *partition) lane(delivery int) *lane {
	return q.shards[delivery%len(q.shards)].lane(q.tenants[delivery/len(q.shards)])
}

// withPlaces are the indices of the deliveries that need places, in an order that is the same
// for all calls.
func (q *partition) withPlaces() (list []int) {
	for i := range q.deliveries {
		if q.deliveries[i].needsPlace() {
			list = append(list, i)
		}
	}
	if n := len(q.shards); len(q.tenants) > 1 {
		slices.SortFunc(list, func(a, b int) int {
			return cmp.Or(cmp.Compare(q.tenants[a/n].index, q.tenants[b/n].index), cmp.Compare(a, b))
		})
	}
	return list
}

// deliver puts the items of the LLM spans into deliveries.
func (q *partition) deliver() {
	if len(q.found) == 0 {
		return
	}
	arrivals := q.arrivals()
	if len(q.deliveries) == 1 && q.whole.spans == 0 {
		q.deliveries[0].arrivals, q.deliveries[0].size = arrivals, q.size+q.origins
		return
	}
	var last *origin.Scope
	for i, a := range arrivals {
		if len(a.Items) == 0 { // it came whole
			continue
		}
		d := q.deliveryTo(q.owners[i], a.Trace)
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

// arrivals are the items of the LLM spans, by trace. They have no spans yet.
func (q *partition) arrivals() []trace.Arrival {
	list := make([]trace.Arrival, len(q.traces))
	pointers := make([]*trace.Item, len(q.found))
	for t, n := range q.counts {
		if n == 0 {
			continue
		}
		// The items of a trace mostly go at the same time: one allocation for all.
		items := make([]trace.Item, n)
		for i := range items {
			pointers[i] = &items[i]
		}
		items[0].Size = trace.TraceSize
		list[t] = trace.Arrival{Trace: q.traces[t], Items: pointers[:0:n]}
		pointers = pointers[n:]
	}
	for i := range q.found {
		f := &q.found[i]
		a := &list[f.trace]
		a.Items = a.Items[:len(a.Items)+1]
		f.item = a.Items[len(a.Items)-1]
		f.fill(f.item)
	}
	return list
}

// addLinks puts the links among the other spans of the call into deliveries.
func (p *classifier) addLinks(q *partition) {
	if !p.live.any() {
		return
	}
	var last pcommon.TraceID // spans of a trace mostly follow one another
	live, lastOwner := false, 0
	var d *delivery
	var whole *wholeTrace
	at, found := -1, q.found
	for _, rs := range q.td.ResourceSpans().All() {
		owner := p.ownerOf(q.batch, rs)
		for _, ss := range rs.ScopeSpans().All() {
			for _, span := range ss.Spans().All() {
				if at++; len(found) > 0 && found[0].at == at {
					found = found[1:]
					continue
				}
				if id := span.TraceID(); id != last || owner != lastOwner {
					last, lastOwner, live = id, owner, !id.IsEmpty() && p.live.has(id)
					d, whole = q.deliveryTo(owner, id), nil
					if live {
						whole = q.mayBeWhole(owner, id)
					}
				}
				link := trace.Link{Trace: last, ID: span.SpanID(), Parent: span.ParentSpanID()}
				switch {
				case !live:
				case whole != nil:
					whole.links = append(whole.links, link)
				default:
					d.links = append(d.links, link)
				}
			}
		}
	}
}

// addExchanges reads the spans of HTTP clients before they are forwarded, and puts their evidence into
// deliveries, also where nothing else of their trace is known: the span of a request usually comes
// later than theirs.
func (p *classifier) addExchanges(q *partition) {
	for _, client := range q.clients {
		span := client.span
		id := span.TraceID()
		if id.IsEmpty() || span.ParentSpanID().IsEmpty() {
			continue
		}
		d := q.deliveryTo(client.tenant, id)
		d.exchanges = append(d.exchanges, exchange{spanKey{id, span.ParentSpanID()}, dialect.ReadExchange(span)})
	}
}

// mayBeWhole is a trace of the call that may come whole, nil if it does not.
func (q *partition) mayBeWhole(owner int, id pcommon.TraceID) *wholeTrace {
	if len(q.whole.traces) == 0 {
		return nil
	}
	if t, here := q.index[traceKey{owner, id}]; here && q.counted[t] {
		return &q.whole.traces[t]
	}
	return nil
}
