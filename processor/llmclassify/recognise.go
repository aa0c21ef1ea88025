package llmclassify

import (
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/dialect"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/journal"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/origin"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/packed"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/trace"
	"github.com/otelllm/otelllm-go/semconv"
)

// roles are the roles of spans in the buffer, by their kind.
var roles = [...]trace.Role{dialect.Request: trace.Request, dialect.Tool: trace.Tool, dialect.Run: trace.Run}

// batch is one call and the LLM spans in it. Get one with recognise, and give it back
// with putBatch.
type batch struct {
	td      ptrace.Traces
	now     time.Time // when it arrived
	spans   int       // all spans
	others  int       // those that are not LLM spans
	cleaned int       // those whose verdict was removed

	found   []found      // the LLM spans
	scopes  []scopeSpans // the ScopeSpans of found, in order; their spans are the next ones of found
	size    int          // estimated memory of found, bytes
	origins int          // that of their scopes and resources, each time they come
	clients []clientSpan // spans of HTTP clients, which may hold evidence

	tenants []*tenant // of all spans

	traces  []pcommon.TraceID // of LLM spans; one of several tenants is there for each
	index   map[traceKey]int  // of traces
	owners  []int             // by trace: index in tenants
	counts  []int             // by trace: LLM spans
	counted []bool            // by trace: a run of it announces its requests and tools
}

// traceKey is a trace of a tenant, by its index in batch.tenants.
type traceKey struct {
	tenant int
	id     pcommon.TraceID
}

// clientSpan is a span of an HTTP client.
type clientSpan struct {
	span   ptrace.Span
	tenant int // index in batch.tenants
}

// found is an LLM span.
type found struct {
	span  ptrace.Span
	head  dialect.Head
	by    dialect.Dialect
	from  *origin.Scope
	trace int // index in batch.traces
	index int // of the span among those of its scope
	at    int // of the span among all of the call
	size  int
	item  *trace.Item // once arrivals was called

	oneSource bool // see [Config.OneSource]
}

// scopeSpans is a ScopeSpans with LLM spans.
type scopeSpans struct {
	resource ptrace.ResourceSpans
	scope    ptrace.ScopeSpans
	n        int // how many of its spans are LLM spans
	base     int // how many spans are in the scopes before it
}

var batches = sync.Pool{New: func() any { return &batch{index: make(map[traceKey]int)} }}

func putBatch(b *batch) {
	const most = 1 << 14 // larger ones are not kept
	if cap(b.found) > most || cap(b.clients) > most {
		return
	}
	clear(b.found)
	clear(b.scopes)
	clear(b.index)
	clear(b.clients)
	clear(b.tenants)
	*b = batch{
		found: b.found[:0], scopes: b.scopes[:0], clients: b.clients[:0], traces: b.traces[:0], index: b.index,
		tenants: b.tenants[:0], owners: b.owners[:0], counts: b.counts[:0], counted: b.counted[:0],
	}
	batches.Put(b)
}

// recognise finds the LLM spans of a call of a caller. It changes nothing of the call but the
// verdicts that came with it: those that do not stay are removed, from other spans too.
//
// A span without a trace id or span id has no place in any trace: it is not one of them.
func (p *classifier) recognise(now time.Time, caller *origin.Caller, td ptrace.Traces) *batch {
	verdicts := p.incoming()
	b := batches.Get().(*batch)
	b.td, b.now = td, now
	if !p.tenants.byResource() {
		b.tenants = append(b.tenants, p.tenants.ofCaller(caller))
	}
	for _, rs := range td.ResourceSpans().All() {
		verdicts.cleanShared(rs.Resource().Attributes())
		owner := p.ownerOf(b, rs)
		for _, ss := range rs.ScopeSpans().All() {
			verdicts.cleanShared(ss.Scope().Attributes())
			recogniser := p.registry.In(dialect.ScopeName(rs.Resource(), ss.Scope()))
			var scope *scopeSpans
			var from *origin.Scope
			for i, span := range ss.Spans().All() {
				id := span.TraceID() // loaded from memory together with the attributes
				head, by := recogniser.Recognise(span)
				if id.IsEmpty() || span.SpanID().IsEmpty() {
					head.Kind = dialect.Other
				}
				if head.Judged && verdicts.clean(span, ss.Scope().Name(), head.Kind) {
					b.cleaned++
				}
				if head.Exchange {
					b.clients = append(b.clients, clientSpan{span, owner})
					continue
				}
				if head.Kind == dialect.Other {
					continue
				}
				if scope == nil {
					from = p.origins.Intern(now, rs, ss)
					b.origins += from.Size()
					b.scopes = append(b.scopes, scopeSpans{resource: rs, scope: ss, base: b.spans})
					scope = &b.scopes[len(b.scopes)-1]
				}
				scope.n++
				size := trace.ItemSize + origin.SpanSize(span)
				b.size += size
				trace := b.traceOf(owner, id)
				b.counts[trace]++
				b.counted[trace] = b.counted[trace] || announces(&head) || p.cfg.OneSource && comesLast(&head)
				b.found = append(b.found, found{span, head, by, from, trace, i, b.spans + i, size, nil, p.cfg.OneSource})
			}
			b.spans += ss.Spans().Len()
		}
	}
	b.others = b.spans - len(b.found)
	return b
}

// ownerOf is the index of the tenant of a resource.
func (p *classifier) ownerOf(b *batch, rs ptrace.ResourceSpans) int {
	if !p.tenants.byResource() {
		return 0
	}
	t := p.tenants.ofResource(rs.Resource())
	at := slices.Index(b.tenants, t)
	if at < 0 {
		at = len(b.tenants)
		b.tenants = append(b.tenants, t)
	}
	return at
}

// traceOf is the index of a trace of a tenant. Spans of a trace mostly follow one another.
func (b *batch) traceOf(owner int, id pcommon.TraceID) int {
	if n := len(b.found); n > 0 {
		if last := b.found[n-1].trace; b.traces[last] == id && b.owners[last] == owner {
			return last
		}
	}
	key := traceKey{owner, id}
	at, ok := b.index[key]
	if !ok {
		at = len(b.traces)
		b.index[key] = at
		b.traces, b.owners = append(b.traces, id), append(b.owners, owner)
		b.counts, b.counted = append(b.counts, 0), append(b.counted, false)
		b.size += trace.TraceSize
	}
	return at
}

// fill writes what was found into its item.
func (f *found) fill(it *trace.Item) {
	it.ID, it.Parent, it.Run = f.span.SpanID(), f.span.ParentSpanID(), f.head.Run
	it.Role, it.Yields = roles[f.head.Kind], f.head.Inferred && !f.oneSource
	it.Last = f.oneSource && comesLast(&f.head)
	it.Session, it.Response = uint64(f.head.Session), uint64(f.head.Response)
	it.Start, it.End = trace.Clock(f.span.StartTimestamp()), trace.Clock(f.span.EndTimestamp())
	if announces(&f.head) {
		it.Announced = trace.Announced{
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
	it.Known.Part, it.Known.Judged = f.head.Part, f.head.Judged
	it.Known.Server = f.span.Kind() == ptrace.SpanKindServer
}

// announces reports whether a span announces how many requests and tools began under its run.
func announces(head *dialect.Head) bool {
	return head.Requests.Observed() && head.Tools.Observed() && !head.Inferred
}

// comesLast reports whether a span is that of a run of which, from one source, nothing comes later but requests
// that it announces.
func comesLast(head *dialect.Head) bool { return head.Inferred && head.Requests.Observed() }

// empty reports whether a response may have reached its end with nothing in it. It
// is quick, and may report that of one with something in it.
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

// takeSpans moves the spans of found out of the call, which keeps the others, and no
// resource or scope without spans, and attaches them to their items. What it returns is
// in the order of found, with resources and scopes where withOrigins is set.
func (b *batch) takeSpans(withOrigins bool) ptrace.Traces {
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
		b.td.ResourceSpans().RemoveIf(func(rs ptrace.ResourceSpans) bool {
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

// attach gives the items their caller and, by index, their tickets.
func (b *batch) attach(caller *origin.Caller, tickets func(int) journal.Ticket) {
	for i := range b.found {
		known := &b.found[i].item.Known
		if known.Caller = caller; tickets != nil {
			known.Ticket = tickets(i)
		}
	}
}
