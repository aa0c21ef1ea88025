package llmclassify

import (
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/assemble"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/dialect"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/hold"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/origin"
	"github.com/otelllm/otelllm-go/semconv"
)

// arrival is one LLM span on its way into the buffer.
type arrival = hold.Arrival[assemble.Known]

// roles are what kinds of spans are to the buffer.
var roles = [...]hold.Role{dialect.Request: hold.Request, dialect.Tool: hold.Tool, dialect.Run: hold.Run}

// batch is the LLM spans of one call, recognised and not yet taken.
type batch struct {
	arrivals []arrival
	size     int // estimated memory, bytes

	// scopes are the ScopeSpans that have LLM spans, in order; their spans are the
	// next ones of arrivals.
	scopes []scopeSpans
}

type scopeSpans struct {
	spans   ptrace.SpanSlice
	indexes []int // of the LLM spans among them
}

// recognise finds the LLM spans of td. It changes nothing.
//
// A span without a trace id or span id has no place in any trace: it is not taken.
func recognise(registry *dialect.Registry, origins *origin.Table, now time.Time, td ptrace.Traces) batch {
	var b batch
	for _, rs := range td.ResourceSpans().All() {
		for _, ss := range rs.ScopeSpans().All() {
			var found *scopeSpans
			var from *origin.Scope
			for i, span := range ss.Spans().All() {
				head, by := registry.Recognise(span)
				if head.Kind == dialect.Other || span.TraceID().IsEmpty() || span.SpanID().IsEmpty() {
					continue
				}
				extra := 0
				if found == nil {
					from, extra = origins.Intern(now, rs, ss)
					b.scopes = append(b.scopes, scopeSpans{spans: ss.Spans()})
					found = &b.scopes[len(b.scopes)-1]
				}
				found.indexes = append(found.indexes, i)
				it := newItem(span, head, by, from)
				it.Size += extra
				b.size += it.Size
				b.arrivals = append(b.arrivals, arrival{Trace: span.TraceID(), Item: it})
			}
		}
	}
	return b
}

func newItem(span ptrace.Span, head dialect.Head, by dialect.Dialect, from *origin.Scope) *assemble.Item {
	return &assemble.Item{
		ID: span.SpanID(), Parent: span.ParentSpanID(), Run: head.Run,
		Role:  roles[head.Kind],
		Start: span.StartTimestamp(), End: span.EndTimestamp(),
		Announced: hold.Announced{
			Known:    head.Requests.Observed() && head.Tools.Observed(),
			Requests: head.Requests.N(), Tools: head.Tools.N(),
		},
		Unexplained: head.Kind == dialect.Request && empty(span),
		Size:        hold.ItemSize + origin.SpanSize(span),
		Known: assemble.Known{
			Reading: dialect.Reading{Dialect: by},
			Origin:  from,
			Server:  span.Kind() == ptrace.SpanKindServer,
		},
	}
}

// empty reports whether an answer may have come to its end with nothing in it. It
// is quick, and may say so of one that had something in it.
func empty(span ptrace.Span) bool {
	attrs := span.Attributes()
	end, ok := attrs.Get(string(semconv.StreamEndKey))
	if !ok || end.Type() != pcommon.ValueTypeStr || end.Str() != semconv.StreamEndTerminalEvent.String() {
		return false
	}
	for _, key := range [...]string{string(semconv.StreamTextChunksKey), string(semconv.StreamToolInputsStartedKey)} {
		if n, ok := attrs.Get(key); !ok || n.Int() != 0 {
			return false
		}
	}
	return true
}

// take moves the LLM spans out of td, which keeps the others, and no resource
// or scope without spans.
func (b *batch) take(td ptrace.Traces) {
	taken := ptrace.NewSpanSlice()
	taken.EnsureCapacity(len(b.arrivals))
	for _, scope := range b.scopes {
		if len(scope.indexes) == scope.spans.Len() {
			scope.spans.MoveAndAppendTo(taken)
			continue
		}
		for _, i := range scope.indexes {
			scope.spans.At(i).MoveTo(taken.AppendEmpty())
		}
		next, i := 0, -1
		scope.spans.RemoveIf(func(ptrace.Span) bool {
			i++
			if next < len(scope.indexes) && scope.indexes[next] == i {
				next++
				return true
			}
			return false
		})
	}
	for i := range b.arrivals {
		b.arrivals[i].Item.Span = taken.At(i)
	}
	td.ResourceSpans().RemoveIf(func(rs ptrace.ResourceSpans) bool {
		rs.ScopeSpans().RemoveIf(func(ss ptrace.ScopeSpans) bool { return ss.Spans().Len() == 0 })
		return rs.ScopeSpans().Len() == 0
	})
}

// link is where a span that is not held stands in its trace.
type link struct {
	trace      pcommon.TraceID
	id, parent pcommon.SpanID
}

// links finds the spans of td, all of them other ones, that belong to traces
// which has says are of interest.
func links(td ptrace.Traces, has func(pcommon.TraceID) bool) []link {
	var found []link
	var last pcommon.TraceID // spans of a trace come in rows
	interesting := false
	for _, rs := range td.ResourceSpans().All() {
		for _, ss := range rs.ScopeSpans().All() {
			for _, span := range ss.Spans().All() {
				if id := span.TraceID(); id != last {
					last, interesting = id, has(id)
				}
				if interesting {
					found = append(found, link{last, span.SpanID(), span.ParentSpanID()})
				}
			}
		}
	}
	return found
}
