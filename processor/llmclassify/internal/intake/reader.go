package intake

import (
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/dialect"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/origin"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/tenant"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/trace"
	"github.com/otelllm/otelllm-go/semconv"
)

// Reader makes batches of calls. It is safe for concurrent use.
type Reader struct {
	Registry *dialect.Registry
	origins  *origin.Table
	tenants  *tenant.Set
	verdicts incoming

	// OneSource is Config.OneSource.
	OneSource bool
}

// NewReader makes a reader. verdicts is a value of Config.IncomingVerdicts.
func NewReader(r *dialect.Registry, o *origin.Table, t *tenant.Set, verdicts string) *Reader {
	return &Reader{Registry: r, origins: o, tenants: t, verdicts: incoming(verdicts)}
}

// Read finds the LLM spans of a caller's call. The only change to the call is the removal of incoming verdicts that do not
// stay, from other spans, too.
//
// A span without a trace id or span id has no place in any trace, and does not count as an LLM span.
func (r *Reader) Read(now time.Time, caller *origin.Caller, td ptrace.Traces) *Batch {
	b := batches.Get().(*Batch)
	b.Rest, b.Now, b.reader = td, now, r
	if !r.tenants.ByResource() {
		b.Tenants = append(b.Tenants, r.tenants.OfCaller(caller))
	}
	for _, rs := range td.ResourceSpans().All() {
		r.verdicts.cleanShared(rs.Resource().Attributes())
		owner := b.ownerOf(rs)
		for _, ss := range rs.ScopeSpans().All() {
			r.verdicts.cleanShared(ss.Scope().Attributes())
			recogniser := r.Registry.In(dialect.ScopeName(rs.Resource(), ss.Scope()))
			var scope *scopeSpans
			var from *origin.Scope
			for i, span := range ss.Spans().All() {
				id := span.TraceID() // loaded from memory together with the attributes
				head, by := recogniser.Recognise(span)
				if id.IsEmpty() || span.SpanID().IsEmpty() {
					head.Kind = dialect.Other
				}
				if head.Judged && r.verdicts.clean(span, ss.Scope().Name(), head.Kind) {
					b.Cleaned++
				}
				if head.Exchange {
					b.clients = append(b.clients, clientSpan{span, owner})
					continue
				}
				if head.Kind == dialect.Other {
					continue
				}
				if scope == nil {
					from = r.origins.Intern(now, rs, ss)
					b.origins += from.Size()
					b.scopes = append(b.scopes, scopeSpans{resource: rs, scope: ss})
					scope = &b.scopes[len(b.scopes)-1]
				}
				scope.n++
				last := r.OneSource && head.Inferred && head.Requests.Observed()
				head.Inferred = head.Inferred && !r.OneSource // no run of another source can be above it
				size := trace.ItemSize + origin.SpanSize(span)
				b.size += size
				trace := b.traceOf(owner, id)
				b.counts[trace]++
				b.counted[trace] = b.counted[trace] || announces(&head) || last
				b.found = append(b.found, found{span, head, by, from, trace, i, b.Spans + i, size, nil, last})
			}
			b.Spans += ss.Spans().Len()
		}
	}
	b.Others = b.Spans - len(b.found)
	return b
}

// roles are the roles of spans in the buffer, by their kind.
var roles = [...]trace.Role{dialect.Request: trace.Request, dialect.Tool: trace.Tool, dialect.Run: trace.Run}

// fill writes a found span into its item.
func (f *found) fill(it *trace.Item) {
	it.ID, it.Parent, it.Run = f.span.SpanID(), f.span.ParentSpanID(), f.head.Run
	it.Role, it.Yields, it.Last = roles[f.head.Kind], f.head.Inferred, f.last
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

// empty reports whether a response may have reached its end without content. It is quick, and may report that of a response
// with content.
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
