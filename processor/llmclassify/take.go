package llmclassify

import (
	"sync"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/assemble"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/dialect"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/hold"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/journal"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/origin"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/packed"
	"github.com/otelllm/otelllm-go/semconv"
)

// roles are what kinds of spans are to the buffer, kinds the other way round.
var (
	roles = [...]hold.Role{dialect.Request: hold.Request, dialect.Tool: hold.Tool, dialect.Run: hold.Run}
	kinds = [...]dialect.Kind{hold.Request: dialect.Request, hold.Tool: dialect.Tool, hold.Run: dialect.Run}
)

// batch is the LLM spans of one call, recognised and not yet taken. Get one with
// recognise, and give it back with release.
type batch struct {
	found  []found       // those that are to be held
	scopes []scopeSpans  // the ScopeSpans that have LLM spans, in order; their spans are the next ones of found
	size   int           // estimated memory of found, bytes
	https  []ptrace.Span // spans of HTTP clients, which may hold evidence

	traces []pcommon.TraceID       // of LLM spans
	index  map[pcommon.TraceID]int // of traces
	ended  []bool                  // by trace: a run span came that announces what it has
	counts []int                   // by trace: LLM spans

	wholes // what need not be held
}

// found is an LLM span.
type found struct {
	span  ptrace.Span
	head  dialect.Head
	by    dialect.Dialect
	from  *origin.Scope
	trace int // index in batch.traces
	index int // of the span among those of its scope
	size  int
	item  *assemble.Item // once arrivals was called
}

// scopeSpans is a ScopeSpans with LLM spans.
type scopeSpans struct {
	resource ptrace.ResourceSpans
	scope    ptrace.ScopeSpans
	n        int // how many of its spans are LLM spans
	base     int // how many spans are in the scopes before it
}

var batches = sync.Pool{New: func() any { return &batch{index: make(map[pcommon.TraceID]int)} }}

func (b *batch) release() {
	const most = 1 << 14 // larger ones are not kept
	if cap(b.found) > most || cap(b.https) > most {
		return
	}
	clear(b.found)
	clear(b.scopes)
	clear(b.index)
	clear(b.https)
	b.found, b.scopes, b.traces, b.size, b.https = b.found[:0], b.scopes[:0], b.traces[:0], 0, b.https[:0]
	b.ended, b.counts = b.ended[:0], b.counts[:0]
	b.wholes.clear()
	batches.Put(b)
}

// recognise finds the LLM spans of td. It changes nothing.
//
// A span without a trace id or span id has no place in any trace: it is not taken.
func recognise(registry *dialect.Registry, origins *origin.Table, now time.Time, td ptrace.Traces) *batch {
	b := batches.Get().(*batch)
	base := 0
	for _, rs := range td.ResourceSpans().All() {
		for _, ss := range rs.ScopeSpans().All() {
			recogniser := registry.In(ss.Scope().Name())
			var scope *scopeSpans
			var from *origin.Scope
			for i, span := range ss.Spans().All() {
				id := span.TraceID() // from memory while the attributes come from there, too
				head, by := recogniser.Recognise(span)
				if head.Exchange {
					b.https = append(b.https, span)
					continue
				}
				if head.Kind == dialect.Other || id.IsEmpty() || span.SpanID().IsEmpty() {
					continue
				}
				extra := 0
				if scope == nil {
					from, extra = origins.Intern(now, rs, ss)
					b.scopes = append(b.scopes, scopeSpans{resource: rs, scope: ss, base: base})
					scope = &b.scopes[len(b.scopes)-1]
				}
				scope.n++
				size := extra + hold.ItemSize + origin.SpanSize(span)
				b.size += size
				trace := b.traceOf(id)
				b.counts[trace]++
				if head.Kind == dialect.Run && head.Requests.Observed() && head.Tools.Observed() {
					b.ended[trace] = true
				}
				b.found = append(b.found, found{span, head, by, from, trace, i, size, nil})
			}
			base += ss.Spans().Len()
		}
	}
	return b
}

// traceOf is the index of a trace. Spans of a trace come in rows.
func (b *batch) traceOf(id pcommon.TraceID) int {
	if n := len(b.found); n > 0 && b.traces[b.found[n-1].trace] == id {
		return b.found[n-1].trace
	}
	at, ok := b.index[id]
	if !ok {
		at = len(b.traces)
		b.index[id] = at
		b.traces = append(b.traces, id)
		b.ended, b.counts = append(b.ended, false), append(b.counts, 0)
		b.size += hold.TraceSize
	}
	return at
}

// arrivals are the items that are to be held, by trace. Their bodies are not set yet.
func (b *batch) arrivals() []assemble.Arrival {
	list := make([]assemble.Arrival, 0, len(b.traces))
	pointers := make([]*assemble.Item, len(b.found))
	at := make([]int, len(b.traces)) // in list, by trace
	for t, n := range b.counts {
		if b.is(t) {
			continue
		}
		// The items of a trace have about the same fate: one allocation for all.
		items := make([]assemble.Item, n)
		for i := range items {
			pointers[i] = &items[i]
		}
		items[0].Size = hold.TraceSize
		at[t] = len(list)
		list = append(list, assemble.Arrival{Trace: b.traces[t], Items: pointers[:0:n]})
		pointers = pointers[n:]
	}
	for i := range b.found {
		f := &b.found[i]
		a := &list[at[f.trace]]
		a.Items = a.Items[:len(a.Items)+1]
		f.item = a.Items[len(a.Items)-1]
		f.fill(f.item)
	}
	return list
}

// fill writes what was found into its item.
func (f *found) fill(it *assemble.Item) {
	it.ID, it.Parent, it.Run = f.span.SpanID(), f.span.ParentSpanID(), f.head.Run
	it.Role = roles[f.head.Kind]
	it.Start, it.End = f.span.StartTimestamp(), f.span.EndTimestamp()
	if f.head.Requests.Observed() && f.head.Tools.Observed() {
		it.Announced = hold.Announced{
			Known:    true,
			Requests: uint32(f.head.Requests.N()), //nolint:gosec // made of 32 bits
			Tools:    uint32(f.head.Tools.N()),    //nolint:gosec // likewise
		}
	} else if f.head.Requests.Observed() {
		it.Announced.Requests = uint32(f.head.Requests.N()) //nolint:gosec // likewise
	}
	it.Unexplained = f.head.Kind == dialect.Request && empty(f.span)
	it.Upstream = f.head.Kind == dialect.Request && f.span.Status().Code() == ptrace.StatusCodeError
	it.Size += int32(f.size) //nolint:gosec // no message is that large
	it.Known.Dialect = f.by
	it.Known.Origin = f.from
	it.Known.Server = f.span.Kind() == ptrace.SpanKindServer
}

// empty reports whether an answer may have come to its end with nothing in it. It
// is quick, and may say so of one that had something in it.
func empty(span ptrace.Span) bool {
	attrs := span.Attributes()
	for _, key := range [...]string{string(semconv.StreamTextChunksKey), string(semconv.StreamToolInputsStartedKey)} {
		if n, ok := attrs.Get(key); !ok || n.Int() != 0 { // most of them have one or the other
			return false
		}
	}
	end, ok := attrs.Get(string(semconv.StreamEndKey))
	return ok && end.Type() == pcommon.ValueTypeStr && end.Str() == semconv.StreamEndTerminalEvent.String()
}

// take moves the LLM spans out of td, which keeps the others, and no resource or
// scope without spans. The spans that were taken are in the order of found; they
// have their resources and scopes where whole is set.
func (b *batch) take(td ptrace.Traces, whole bool) ptrace.Traces {
	taken := ptrace.NewTraces()
	taken.ResourceSpans().EnsureCapacity(len(b.scopes))
	next := 0
	for _, s := range b.scopes {
		rs := taken.ResourceSpans().AppendEmpty()
		ss := rs.ScopeSpans().AppendEmpty()
		if whole {
			rs.SetSchemaUrl(s.resource.SchemaUrl())
			s.resource.Resource().CopyTo(rs.Resource())
			ss.SetSchemaUrl(s.scope.SchemaUrl())
			s.scope.Scope().CopyTo(ss.Scope())
		}
		found := b.found[next : next+s.n]
		next += s.n
		s.take(found, ss.Spans())
	}
	if len(b.scopes) > 0 {
		td.ResourceSpans().RemoveIf(func(rs ptrace.ResourceSpans) bool {
			rs.ScopeSpans().RemoveIf(func(ss ptrace.ScopeSpans) bool { return ss.Spans().Len() == 0 })
			return rs.ScopeSpans().Len() == 0
		})
	}
	return taken
}

func (s *scopeSpans) take(list []found, to ptrace.SpanSlice) {
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

// embody gives the items their spans.
func (b *batch) embody(taken ptrace.Traces) {
	next := 0
	for i, s := range b.scopes {
		body := packed.Loose(taken.ResourceSpans().At(i).ScopeSpans().At(0).Spans())
		for n := range s.n {
			b.found[next].item.Known.Body = body(n)
			next++
		}
	}
}

// sign gives the items their caller and their tickets, by index.
func (b *batch) sign(who *origin.Caller, tickets func(int) journal.Ticket) {
	for i := range b.found {
		known := &b.found[i].item.Known
		if known.Caller = who; tickets != nil {
			known.Ticket = tickets(i)
		}
	}
}
