package harness

import (
	"testing"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/semconv"
)

// Forest is a trace of more spans than the ids of Span tell apart.
type Forest struct {
	testing.TB
	ptrace.Traces
}

// NewForest makes a trace without spans.
func NewForest(tb testing.TB) Forest {
	tb.Helper()
	return Forest{tb, ptrace.NewTraces()}
}

// NthSpanID is the id of the nth of many spans.
func NthSpanID(n int) pcommon.SpanID { return pcommon.SpanID{0xde, byte(n >> 8), byte(n), 1} }

// Add adds a span with this id beneath a parent.
func (f Forest) Add(s Span, id, parent pcommon.SpanID, from, to float64) ptrace.Span {
	td := TracesOf(f, s)
	span := td.ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0)
	span.SetSpanID(id)
	span.SetParentSpanID(parent)
	span.SetStartTimestamp(At(from))
	span.SetEndTimestamp(At(to))
	td.ResourceSpans().MoveAndAppendTo(f.ResourceSpans())
	return span
}

// AddChain adds spans, each the parent of the next one, and returns the last.
func (f Forest) AddChain(s Span, depth int, parent pcommon.SpanID, from, to float64) pcommon.SpanID {
	for n := range depth {
		within := 0.0001 * float64(n+1)
		f.Add(s, NthSpanID(n), parent, from+within, to-within)
		parent = NthSpanID(n)
	}
	return parent
}

// AddRefused adds the spans of UncountedRun beneath a parent.
func (f Forest) AddRefused(parent pcommon.SpanID, from, to float64) {
	spans := UncountedRun(from, to)
	f.Add(spans[0], SpanID(1), parent, from, to)
	f.Add(spans[1], SpanID(2), SpanID(1), from+0.1, from+0.2)
}

// AddShown adds run 4, an uncounted one, with request 5, which showed text.
func (f Forest) AddShown(parent pcommon.SpanID, from, to float64) {
	f.Add(Unannounced(RunSpan(4, 0, 0, 1, 0)).Failed("x"), SpanID(4), parent, from, to)
	f.Add(ShownText(5, 4), SpanID(5), SpanID(4), from+0.1, to-0.1)
}

// ShownText is a request that broke after it had shown text.
func ShownText(id, run byte) Span {
	return RequestSpan(id, run, 0.3, 0.5).Cut(semconv.PhaseText, semconv.TransportCauseConnectionReset, "ECONNRESET", Counts{Text: 2})
}

// Clone returns a copy.
func (f Forest) Clone() Forest {
	c := NewForest(f.TB)
	f.CopyTo(c.Traces)
	return c
}
