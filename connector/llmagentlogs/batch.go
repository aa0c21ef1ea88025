package llmagentlogs

import (
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/connector/llmagentlogs/internal/metadata"
)

// batch is spans that wait to be forwarded.
type batch struct {
	traces ptrace.Traces
	bytes  int // estimated memory
}

func newBatch() *batch { return &batch{traces: ptrace.NewTraces()} }

// add moves spans of one origin to the batch.
func (b *batch) add(from *origin, made ptrace.SpanSlice) {
	const fixed, aSpan = 500, 500
	rs := b.traces.ResourceSpans().AppendEmpty()
	from.writeTo(rs.Resource())
	ss := rs.ScopeSpans().AppendEmpty()
	ss.Scope().SetName(metadata.ScopeName)
	b.bytes += fixed + attributeBytes(rs.Resource().Attributes())
	for _, span := range made.All() {
		b.bytes += aSpan + len(span.Name()) + attributeBytes(span.Attributes())
	}
	made.MoveAndAppendTo(ss.Spans())
}

// attributeBytes estimates the memory of attributes. Their keys are constants.
func attributeBytes(m pcommon.Map) (n int) {
	const each = 64
	for _, v := range m.All() {
		n += each
		switch v.Type() {
		case pcommon.ValueTypeStr:
			n += len(v.Str())
		case pcommon.ValueTypeSlice:
			n += each * v.Slice().Len()
		default:
		}
	}
	return n
}
