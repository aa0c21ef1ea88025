package forward

import (
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/journal"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/origin"
)

// MaxParcelBytes is the estimated memory of a full parcel. On the wire spans are smaller, so that a full parcel stays well
// below the 4 MiB that gRPC receivers accept by default.
const MaxParcelBytes = 2 << 20

// VerdictSize is about the memory of a verdict, in bytes.
const VerdictSize = 2 << 10

// Parcel is classified spans on their way to the next consumer, all of one caller.
type Parcel struct {
	Traces ptrace.Traces
	Spans  int
	Added  int // spans that were not received, but added
	Bytes  int // of memory
	Caller *origin.Caller
	data   []byte // the spans as OTLP, from before they are sent; while they wait, Traces is empty

	// Records for the store once the spans are accepted: spans whose facts are kept, and spans that are done.
	sent, Done []journal.Ticket
}

// encode keeps the spans of a parcel as they are now.
func (p *Parcel) encode() {
	if p.data == nil {
		p.data, _ = (&ptrace.ProtoMarshaler{}).MarshalTraces(p.Traces) // it does not fail
	}
}

// pack shrinks a parcel that has to wait to its size on the wire.
func (p *Parcel) pack() {
	p.encode()
	p.Traces, p.Bytes = ptrace.Traces{}, len(p.data)
}

// span is a span of a trace.
type span struct {
	trace pcommon.TraceID
	id    pcommon.SpanID
}

// keep keeps the spans of a parcel that are in its refused part, as they were before they were sent. It returns the number
// of the other spans, and how many of them were certainly added: none, if the part has foreign spans.
func (p *Parcel) keep(part ptrace.Traces) (taken, added int) {
	refused := make(map[span]int)
	for _, rs := range part.ResourceSpans().All() {
		for _, ss := range rs.ScopeSpans().All() {
			for _, s := range ss.Spans().All() {
				refused[span{s.TraceID(), s.SpanID()}]++
			}
		}
	}
	kept, err := (&ptrace.ProtoUnmarshaler{}).UnmarshalTraces(p.data)
	if err != nil {
		return 0, 0
	}
	kept.ResourceSpans().RemoveIf(func(rs ptrace.ResourceSpans) bool {
		rs.ScopeSpans().RemoveIf(func(ss ptrace.ScopeSpans) bool {
			ss.Spans().RemoveIf(func(s ptrace.Span) bool {
				key := span{s.TraceID(), s.SpanID()}
				refused[key]--
				return refused[key] < 0
			})
			return ss.Spans().Len() == 0
		})
		return rs.ScopeSpans().Len() == 0
	})
	left := kept.SpanCount()
	if left != part.SpanCount() {
		return 0, 0
	}
	taken, added = p.Spans-left, max(p.Added-left, 0)
	p.Traces, p.data = kept, nil
	p.Spans, p.Added = left, p.Added-added
	return taken, added
}

// decode makes traces of a parcel that had to wait.
func (p *Parcel) decode() error {
	if p.Traces != (ptrace.Traces{}) {
		return nil
	}
	td, err := (&ptrace.ProtoUnmarshaler{}).UnmarshalTraces(p.data)
	p.Traces = td
	return err
}

// join takes another waiting parcel into this one, if they fit into one call: many small ones would each have to find the
// next consumer working.
func (p *Parcel) join(other *Parcel) bool {
	if p.Caller != other.Caller || p.data == nil || other.data == nil || p.Bytes+other.Bytes > MaxParcelBytes {
		return false
	}
	p.data = append(p.data, other.data...) // OTLP of both, one after the other, is OTLP of both together
	p.Bytes += other.Bytes
	p.Spans += other.Spans
	p.Added += other.Added
	p.sent, p.Done = append(p.sent, other.sent...), append(p.Done, other.Done...)
	return true
}

// empty reports whether there is nothing to forward and nothing to record.
func (p *Parcel) empty() bool { return p.Spans == 0 && len(p.Done) == 0 }
