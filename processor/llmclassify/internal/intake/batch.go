// Package intake reads a call into a batch: its LLM spans with their traces and tenants, and the evidence in its other
// spans. It removes verdicts that do not stay.
package intake

import (
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/dialect"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/journal/ticket"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/origin"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/packed"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/tenant"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/trace"
)

// Batch is one call and the LLM spans in it. Give it back with Free.
type Batch struct {
	Rest    ptrace.Traces    // the call: at first all of it, later the spans that Take leaves
	Now     time.Time        // arrival of the call
	Spans   int              // all spans
	Others  int              // spans other than LLM spans
	Cleaned int              // spans whose verdict was removed
	Tenants []*tenant.Tenant // of all spans

	Traces []pcommon.TraceID // traces of LLM spans; a trace of several tenants is there once for each
	Owners []int             // by trace: index in Tenants

	reader  *Reader
	found   []found      // the LLM spans to hold
	scopes  []scopeSpans // the ScopeSpans of found, in order; each has the next spans of found
	size    int          // estimated memory of found, bytes
	origins int          // estimated memory of their scopes and resources, each time they occur, bytes
	clients []clientSpan // spans of HTTP clients, which may hold evidence

	index   map[traceKey]int // of traces
	counts  []int            // by trace: number of LLM spans to hold
	counted []bool           // by trace: a run of it announces its requests and tools

	// Traces that may arrive whole, see WholeArrivals.
	whole    []trace.Arrival
	items    []trace.Item
	pointers []*trace.Item
}

// traceKey is a trace of a tenant, by its index in Batch.Tenants.
type traceKey struct {
	tenant int
	id     pcommon.TraceID
}

// clientSpan is a span of an HTTP client.
type clientSpan struct {
	span   ptrace.Span
	tenant int // index in Batch.Tenants
}

// found is an LLM span.
type found struct {
	span  ptrace.Span
	head  dialect.Head
	by    dialect.Dialect
	from  *origin.Scope
	trace int // index in Batch.Traces
	index int // of the span in its scope
	at    int // of the span in the call
	size  int
	item  *trace.Item // once Arrivals was called
	last  bool        // see trace.Item
}

// scopeSpans is a ScopeSpans with LLM spans.
type scopeSpans struct {
	resource ptrace.ResourceSpans
	scope    ptrace.ScopeSpans
	n        int // number of its LLM spans
}

var batches = sync.Pool{New: func() any { return &Batch{index: make(map[traceKey]int)} }}

// Free gives a batch back, to be used again.
func (b *Batch) Free() {
	const most = 1 << 14 // larger ones are not kept
	if cap(b.found) > most || cap(b.clients) > most || cap(b.items) > most {
		return
	}
	clear(b.found)
	clear(b.scopes)
	clear(b.index)
	clear(b.clients)
	clear(b.Tenants)
	clear(b.whole)
	clear(b.items)
	clear(b.pointers)
	*b = Batch{
		found: b.found[:0], scopes: b.scopes[:0], clients: b.clients[:0], Traces: b.Traces[:0], index: b.index,
		Tenants: b.Tenants[:0], Owners: b.Owners[:0], counts: b.counts[:0], counted: b.counted[:0],
		whole: b.whole[:0], items: b.items[:0], pointers: b.pointers[:0],
	}
	batches.Put(b)
}

// Held is the number of LLM spans to hold.
func (b *Batch) Held() int { return len(b.found) }

// HeldBytes is the estimated memory of the spans to hold, with their resources and scopes.
func (b *Batch) HeldBytes() int { return b.size + b.origins }

// ownerOf returns the index of the tenant of a resource.
func (b *Batch) ownerOf(rs ptrace.ResourceSpans) int {
	tenants := b.reader.tenants
	if !tenants.ByResource() {
		return 0
	}
	t := tenants.OfResource(rs.Resource())
	at := slices.Index(b.Tenants, t)
	if at < 0 {
		at = len(b.Tenants)
		b.Tenants = append(b.Tenants, t)
	}
	return at
}

// traceOf returns the index of a trace of a tenant. Spans of a trace mostly follow one another.
func (b *Batch) traceOf(owner int, id pcommon.TraceID) int {
	if n := len(b.found); n > 0 {
		if last := b.found[n-1].trace; b.Traces[last] == id && b.Owners[last] == owner {
			return last
		}
	}
	key := traceKey{owner, id}
	at, ok := b.index[key]
	if !ok {
		at = len(b.Traces)
		b.index[key] = at
		b.Traces, b.Owners = append(b.Traces, id), append(b.Owners, owner)
		b.counts, b.counted = append(b.counts, 0), append(b.counted, false)
		b.size += trace.TraceSize
	}
	return at
}

// Arrivals returns the items of the LLM spans to hold, by trace. They have no spans before Take.
func (b *Batch) Arrivals() []trace.Arrival {
	list := make([]trace.Arrival, len(b.Traces))
	pointers := make([]*trace.Item, len(b.found))
	for t, n := range b.counts {
		if n == 0 {
			continue
		}
		// The items of a trace are mostly released at the same time: one allocation for all.
		items := make([]trace.Item, n)
		for i := range items {
			pointers[i] = &items[i]
		}
		items[0].Size = trace.TraceSize
		list[t] = trace.Arrival{Trace: b.Traces[t], Items: pointers[:0:n]}
		pointers = pointers[n:]
	}
	for i := range b.found {
		f := &b.found[i]
		a := &list[f.trace]
		a.Items = a.Items[:len(a.Items)+1]
		f.item = a.Items[len(a.Items)-1]
		f.fill(f.item)
	}
	return list
}

// WholeArrivals returns the items of the traces that may arrive whole, by trace, without items for the other traces, and
// the number of their spans. Such a trace has a run that announces its parts, and no other span of it is here or on its
// way. The spans stay in the call.
func (b *Batch) WholeArrivals(live *trace.Live) (list []trace.Arrival, spans int) {
	for t, counted := range b.counted {
		if b.counted[t] = counted && live.Alone(b.Traces[t]); b.counted[t] {
			spans += b.counts[t]
		}
	}
	if spans == 0 {
		return nil, 0
	}
	b.whole = resized(b.whole, len(b.Traces))
	b.items, b.pointers = resized(b.items, spans), resized(b.pointers, spans)
	pointers := b.pointers
	for t, counted := range b.counted {
		if counted {
			n := b.counts[t]
			b.whole[t] = trace.Arrival{Trace: b.Traces[t], Items: pointers[:0:n]}
			pointers = pointers[n:]
		}
	}
	b.fillWhole()
	return b.whole, spans
}

// fillWhole makes the items of the traces that may arrive whole.
func (b *Batch) fillWhole() {
	free, rest := b.items, b.found
	for _, s := range b.scopes {
		body := packed.Loose(s.scope.Spans())
		for i := range rest[:s.n] {
			f := &rest[i]
			if !b.counted[f.trace] {
				continue
			}
			it := &free[0]
			free = free[1:]
			f.fill(it)
			it.Known.Body = body(f.index)
			a := &b.whole[f.trace]
			a.Items = append(a.Items, it)
		}
		rest = rest[s.n:]
	}
}

// resized returns n zero elements, in the memory of list if it is large enough.
func resized[E any](list []E, n int) []E {
	if cap(list) < n {
		return make([]E, n)
	}
	list = list[:n]
	clear(list)
	return list
}

// MayBeWhole returns the index of a trace of a tenant that may arrive whole.
func (b *Batch) MayBeWhole(owner int, id pcommon.TraceID) (trace int, ok bool) {
	if len(b.whole) == 0 {
		return 0, false
	}
	trace, ok = b.index[traceKey{owner, id}]
	return trace, ok && b.counted[trace]
}

// CameWhole notes that a trace arrived whole: its spans are not held. It returns their number.
func (b *Batch) CameWhole(trace int) (spans int) {
	spans, b.counts[trace] = b.counts[trace], 0
	return spans
}

// LeaveWhole leaves the spans of whole traces with the rest of the call.
func (b *Batch) LeaveWhole() {
	found, scopes, rest := b.found[:0], b.scopes[:0], b.found
	for _, s := range b.scopes {
		list := rest[:s.n]
		rest = rest[s.n:]
		s.n = 0
		for i := range list {
			if b.counts[list[i].trace] > 0 {
				found = append(found, list[i])
				s.n++
			} else {
				b.size -= list[i].size
			}
		}
		if s.n > 0 {
			scopes = append(scopes, s)
		}
	}
	clear(b.found[len(found):])
	clear(b.scopes[len(scopes):])
	b.found, b.scopes = found, scopes
}

// EachLink visits the other spans of live traces, each as a link of its tenant.
func (b *Batch) EachLink(live *trace.Live, visit func(owner int, link trace.Link)) {
	var last pcommon.TraceID // spans of a trace mostly follow one another
	isLive, at, found := false, -1, b.found
	for _, rs := range b.Rest.ResourceSpans().All() {
		owner := b.ownerOf(rs)
		for _, ss := range rs.ScopeSpans().All() {
			for _, span := range ss.Spans().All() {
				if at++; len(found) > 0 && found[0].at == at {
					found = found[1:]
					continue
				}
				if id := span.TraceID(); id != last {
					last, isLive = id, !id.IsEmpty() && live.Has(id)
				}
				if isLive {
					visit(owner, trace.Link{Trace: last, ID: span.SpanID(), Parent: span.ParentSpanID()})
				}
			}
		}
	}
}

// EachExchange visits the exchanges in the spans of HTTP clients, even if no other span of their trace is known: the span
// of a request usually arrives later than theirs.
func (b *Batch) EachExchange(visit func(owner int, x trace.Exchange)) {
	for _, client := range b.clients {
		span := client.span
		if !span.TraceID().IsEmpty() && !span.ParentSpanID().IsEmpty() {
			visit(client.tenant, trace.Exchange{Trace: span.TraceID(), Above: span.ParentSpanID(), Exchange: dialect.ReadExchange(span)})
		}
	}
}

// Take moves the spans of found out of the call, which keeps the others, and no resource or scope without spans, and
// attaches them to their items. The result is in the order of found, with resources and scopes if withOrigins is set.
func (b *Batch) Take(withOrigins bool) ptrace.Traces {
	taken := ptrace.NewTraces()
	taken.ResourceSpans().EnsureCapacity(len(b.scopes))
	next := 0
	var rs ptrace.ResourceSpans
	for i, s := range b.scopes {
		if i == 0 || s.resource != b.scopes[i-1].resource {
			rs = taken.ResourceSpans().AppendEmpty()
			if withOrigins {
				rs.SetSchemaUrl(s.resource.SchemaUrl())
				s.resource.Resource().CopyTo(rs.Resource())
			}
		}
		ss := rs.ScopeSpans().AppendEmpty()
		if withOrigins {
			ss.SetSchemaUrl(s.scope.SchemaUrl())
			s.scope.Scope().CopyTo(ss.Scope())
		}
		list := b.found[next : next+s.n]
		next += s.n
		s.moveTo(list, ss.Spans())
		body := packed.Loose(ss.Spans())
		for i := range list {
			list[i].item.Known.Body = body(i)
		}
	}
	if len(b.scopes) > 0 {
		b.Rest.ResourceSpans().RemoveIf(func(rs ptrace.ResourceSpans) bool {
			rs.ScopeSpans().RemoveIf(func(ss ptrace.ScopeSpans) bool { return ss.Spans().Len() == 0 })
			return rs.ScopeSpans().Len() == 0
		})
	}
	return taken
}

func (s *scopeSpans) moveTo(list []found, to ptrace.SpanSlice) {
	from := s.scope.Spans()
	if len(list) == from.Len() {
		from.MoveAndAppendTo(to)
		return
	}
	to.EnsureCapacity(len(list))
	for i := range list {
		list[i].span.MoveTo(to.AppendEmpty())
	}
	next, i := 0, -1
	from.RemoveIf(func(ptrace.Span) bool {
		i++
		if next < len(list) && list[next].index == i {
			next++
			return true
		}
		return false
	})
}

// Attach gives the items their caller and, by index, their tickets.
func (b *Batch) Attach(caller *origin.Caller, tickets func(int) ticket.Ticket) {
	for i := range b.found {
		known := &b.found[i].item.Known
		if known.Caller = caller; tickets != nil {
			known.Ticket = tickets(i)
		}
	}
}

// Restore gives the items of an earlier process's call their caller, their tickets, and whether their spans were sent. It
// returns the number of unsent spans, and the tickets of the other spans.
func (b *Batch) Restore(caller *origin.Caller, tickets func(int) ticket.Ticket, sent func(int) bool) (held int, others []ticket.Ticket) {
	next := 0
	for i := range b.found {
		f := &b.found[i]
		for ; next < f.at; next++ {
			others = append(others, tickets(next))
		}
		next = f.at + 1
		known := &f.item.Known
		known.Caller, known.Ticket, known.Sent = caller, tickets(f.at), sent(f.at)
		if !known.Sent {
			held++
		}
	}
	for ; next < b.Spans; next++ {
		others = append(others, tickets(next))
	}
	return held, others
}
