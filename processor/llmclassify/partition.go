package llmclassify

import (
	"cmp"
	"slices"
	"sync"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/assemble"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/dialect"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/hold"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/origin"
)

// partition is a call by what becomes of its spans. Get one with newPartition, and give it
// back with putPartition.
type partition struct {
	*batch                  // found is what is to be held
	complete   completeRuns // what need not be held
	shards     shards
	deliveries []delivery // what is handed over: by tenant, and by shard for each
	begun      []begun    // by trace
}

var partitions = sync.Pool{New: func() any { return new(partition) }}

// newPartition makes a partition with empty deliveries.
func newPartition(b *batch, s shards) *partition {
	q := partitions.Get().(*partition)
	q.batch, q.shards, q.deliveries = b, s, resized(q.deliveries, len(b.tenants)*len(s))
	return q
}

// deliveryTo is what is handed over of a trace of a tenant.
func (q *partition) deliveryTo(tenant int, trace pcommon.TraceID) *delivery {
	return &q.deliveries[tenant*len(q.shards)+q.shards.index(trace)]
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

// laneOf is the lane of a trace in a call of one tenant.
func (q *partition) laneOf(trace pcommon.TraceID) *lane { return q.shards.of(q.tenants[0], trace) }

func putPartition(q *partition) {
	const most = 1 << 14 // larger ones are not kept
	if cap(q.complete.items) > most || cap(q.complete.ids) > most {
		return
	}
	q.batch, q.shards = nil, nil
	q.complete.clear()
	clear(q.deliveries)
	partitions.Put(q)
}

// partition finds the runs of a call that are complete in it and claims them, and fills
// the deliveries with the rest of its LLM spans. The traces of the call are in p.interest
// already.
func (p *classifier) partition(q *partition) {
	p.findComplete(q)
	p.deliver(q)
	if q.asParcel() {
		d := q.deliveryTo(0, q.complete.traces[0])
		d.parcel, d.size = &parcel{}, d.size+q.complete.bytes
	} else if q.complete.spans > 0 && p.store.enabled() {
		q.deliveryTo(0, q.complete.traces[0]).records = true
	}
}

// asParcel reports whether the complete runs are for a shard to forward: no other span of
// the call waits for the next consumer.
func (q *partition) asParcel() bool { return q.others == 0 && q.complete.spans > 0 }

// isComplete reports whether the runs of a trace are complete.
func (q *partition) isComplete(tenant int, id pcommon.TraceID) bool {
	if q.complete.byTrace == nil {
		return false
	}
	t, here := q.index[traceKey{tenant, id}]
	return here && q.complete.byTrace[t]
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

// deliver puts the items of the spans that are to be held into deliveries.
func (p *classifier) deliver(q *partition) {
	if len(q.found) == 0 {
		return
	}
	arrivals, owners := q.arrivals()
	if len(q.deliveries) == 1 {
		q.deliveries[0].arrivals, q.deliveries[0].size = arrivals, q.size+q.origins
		return
	}
	var last *origin.Scope
	for i, a := range arrivals {
		d := q.deliveryTo(owners[i], a.Trace)
		if d.arrivals == nil {
			d.arrivals = make([]assemble.Arrival, 0, len(arrivals))
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

// arrivals are the items that are to be held, by trace, and the indices of their tenants.
// They have no spans yet.
func (q *partition) arrivals() (list []assemble.Arrival, owners []int) {
	list = make([]assemble.Arrival, 0, len(q.traces))
	pointers := make([]*assemble.Item, len(q.found))
	at := make([]int, len(q.traces)) // in list, by trace
	for t, n := range q.counts {
		if q.complete.has(t) {
			continue
		}
		// The items of a trace mostly go at the same time: one allocation for all.
		items := make([]assemble.Item, n)
		for i := range items {
			pointers[i] = &items[i]
		}
		items[0].Size = hold.TraceSize
		at[t] = len(list)
		list = append(list, assemble.Arrival{Trace: q.traces[t], Items: pointers[:0:n]})
		owners = append(owners, q.owners[t])
		pointers = pointers[n:]
	}
	for i := range q.found {
		f := &q.found[i]
		a := &list[at[f.trace]]
		a.Items = a.Items[:len(a.Items)+1]
		f.item = a.Items[len(a.Items)-1]
		f.fill(f.item)
	}
	return list, owners
}

// findComplete finds the runs that are complete in this call, and claims them. What is
// left in q.found is to be held.
func (p *classifier) findComplete(q *partition) {
	if len(q.tenants) != 1 {
		return
	}
	candidates := 0
	evidenced := p.evidenced.any()
	for t, announced := range q.announced {
		// Nothing else of the trace is here or on its way, no evidence either.
		if announced && p.interest.count(q.traces[t]) == 1 && !(evidenced && p.evidenced.has(q.traces[t])) {
			candidates += q.counts[t]
		} else {
			q.announced[t] = false
		}
	}
	if candidates == 0 {
		return
	}
	c := &q.complete
	q.fillCandidates(candidates)
	for t, announced := range q.announced {
		if !announced {
			continue
		}
		if q.others > 0 && q.laneOf(q.traces[t]).inner.has(q.traces[t]) {
			continue // the others may be between those and its runs
		}
		candidate := &c.candidates[t]
		from, ok := len(c.releases), false
		if c.releases, c.members, ok = hold.CompleteRuns(candidate.Arrival, candidate.spans, q.others == 0, c.releases, c.members); !ok {
			continue
		}
		if !p.claim(q, q.traces[t], c.releases[from:]) {
			c.releases = c.releases[:from]
			continue
		}
		if c.byTrace == nil {
			c.byTrace = make([]bool, len(q.traces))
		}
		c.byTrace[t] = true
		c.traces = append(c.traces, candidate.Trace)
		c.spans += len(candidate.Items)
	}
	q.leaveHeld()
}

// claim claims the runs of a trace of which nothing else is here.
//
// A call that brings other spans of the trace adds to the interest in it before its
// shard asks what was judged: it is noticed here, or finds the claim there.
func (p *classifier) claim(q *partition, trace pcommon.TraceID, releases []assemble.Release) bool {
	judged := q.laneOf(trace).buffer.Judged()
	var few [4]pcommon.SpanID
	runs := few[:0]
	for i := range releases {
		runs = append(runs, releases[i].RunID)
	}
	if !judged.Claim(q.now, trace, runs...) {
		return false
	}
	if p.interest.count(trace) != 1 {
		judged.Disclaim(trace, runs...)
		return false
	}
	for i := range releases {
		judged.Ran(q.now, trace, releases[i].Run.Start, releases[i].Run.End)
	}
	return true
}

// fillCandidates makes the arrivals of the traces that may be complete, of n spans.
func (q *partition) fillCandidates(n int) {
	c := &q.complete
	if cap(c.items) < n {
		c.items, c.pointers, c.bodies = make([]assemble.Item, n), make([]*assemble.Item, n), make([]ptrace.Span, n)
	}
	c.items, c.pointers, c.bodies = c.items[:n], c.pointers[:n], c.bodies[:n]
	next := 0
	for t, announced := range q.announced {
		candidate := candidate{Arrival: assemble.Arrival{Trace: q.traces[t]}}
		if announced {
			to := next + q.counts[t]
			candidate.Items, candidate.spans = c.pointers[next:next:to], c.bodies[next:next:to]
			next = to
		}
		c.candidates = append(c.candidates, candidate)
	}
	free := c.items
	for i := range q.found {
		if f := &q.found[i]; q.announced[f.trace] {
			candidate := &c.candidates[f.trace]
			f.fill(&free[0])
			candidate.Items, candidate.spans = append(candidate.Items, &free[0]), append(candidate.spans, f.span)
			free = free[1:]
		}
	}
}

// leaveHeld takes the complete runs out of the spans that are to be held.
func (q *partition) leaveHeld() {
	c := &q.complete
	if c.byTrace == nil {
		return
	}
	kept, scopes, next := q.found[:0], q.scopes[:0], 0
	for _, s := range q.scopes {
		list := q.found[next : next+s.n]
		next += s.n
		s.n = 0
		for i := range list {
			if c.byTrace[list[i].trace] {
				c.bytes += list[i].size
				continue
			}
			kept = append(kept, list[i])
			s.n++
		}
		if s.n > 0 {
			scopes = append(scopes, s)
		}
	}
	clear(q.found[len(kept):])
	clear(q.scopes[len(scopes):])
	q.found, q.scopes = kept, scopes
	c.bytes += hold.TraceSize * len(c.traces)
	q.size -= c.bytes
}

// addLinks puts the links of the spans that are left in q.td, none of which is to be
// held, into deliveries: those of traces of which LLM spans are here. The spans of
// complete runs' traces are noted in q.complete instead.
func (p *classifier) addLinks(q *partition) {
	if !p.interest.any() {
		return
	}
	var last pcommon.TraceID // spans of a trace mostly follow one another
	interesting, complete, lastOwner := false, false, 0
	var d *delivery
	for _, rs := range q.td.ResourceSpans().All() {
		owner := p.ownerOf(q.batch, rs)
		for _, ss := range rs.ScopeSpans().All() {
			for _, span := range ss.Spans().All() {
				if id := span.TraceID(); id != last || owner != lastOwner {
					last, lastOwner, interesting = id, owner, !id.IsEmpty() && p.interest.has(id)
					d = q.deliveryTo(owner, id)
					complete = interesting && q.isComplete(owner, id)
				}
				switch {
				case !interesting:
				case complete:
					q.complete.note(last, span.SpanID(), span.ParentSpanID())
				default:
					d.links = append(d.links, hold.Link{Trace: last, ID: span.SpanID(), Parent: span.ParentSpanID()})
				}
			}
		}
	}
}

// addExchanges reads the spans of HTTP clients before they are forwarded, and puts what
// they show into deliveries, also where nothing else of their trace is known: the span of
// a request usually comes later than theirs.
func (p *classifier) addExchanges(q *partition) {
	for _, client := range q.clients {
		span := client.span
		id := span.TraceID()
		if id.IsEmpty() || span.ParentSpanID().IsEmpty() {
			continue
		}
		t, here := q.index[traceKey{client.tenant, id}]
		x := exchange{spanKey{id, span.ParentSpanID()}, dialect.ReadExchange(span)}
		if here && q.complete.has(t) {
			q.complete.exchanges = append(q.complete.exchanges, x)
			continue
		}
		d := q.deliveryTo(client.tenant, id)
		d.exchanges = append(d.exchanges, x)
	}
}
