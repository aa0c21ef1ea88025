package harness

import (
	"cmp"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/otel/attribute"
	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/otelllm/otelllm-go/semconv"
)

// SpanKey is a span of a trace.
type SpanKey struct {
	Trace pcommon.TraceID
	ID    pcommon.SpanID
}

// TracesOf builds pdata out of specs, one resource for each service and scope, in their
// order.
func TracesOf(tb testing.TB, specs ...Span) ptrace.Traces {
	tb.Helper()
	td := ptrace.NewTraces()
	type producer struct{ service, library string }
	producers := map[producer]ptrace.SpanSlice{}
	for _, s := range specs {
		by := producer{cmp.Or(s.Service, AgentService), cmp.Or(s.Library, "made.by.hand")}
		spans, ok := producers[by]
		if !ok {
			rs := td.ResourceSpans().AppendEmpty()
			rs.Resource().Attributes().PutStr(string(otelsemconv.ServiceNameKey), by.service)
			ss := rs.ScopeSpans().AppendEmpty()
			ss.Scope().SetName(by.library)
			spans = ss.Spans()
			producers[by] = spans
		}
		s.Write(tb, spans.AppendEmpty())
	}
	return td
}

// EachSpan calls do with each span.
func EachSpan(td ptrace.Traces, do func(ptrace.Span)) {
	for _, rs := range td.ResourceSpans().All() {
		for _, ss := range rs.ScopeSpans().All() {
			for _, span := range ss.Spans().All() {
				do(span)
			}
		}
	}
}

// SpansOf are the spans of td, by id.
func SpansOf(td ptrace.Traces) map[pcommon.SpanID]ptrace.Span {
	found := map[pcommon.SpanID]ptrace.Span{}
	for _, rs := range td.ResourceSpans().All() {
		for _, ss := range rs.ScopeSpans().All() {
			for _, span := range ss.Spans().All() {
				found[span.SpanID()] = span
			}
		}
	}
	return found
}

// AbandonedSpans are the spans of td that stand for runs whose end never came.
func AbandonedSpans(td ptrace.Traces) (found []ptrace.Span) {
	for _, rs := range td.ResourceSpans().All() {
		for _, ss := range rs.ScopeSpans().All() {
			for _, span := range ss.Spans().All() {
				if span.Name() == semconv.SpanRunAbandoned {
					found = append(found, span)
				}
			}
		}
	}
	return found
}

// SplitTraces deals the spans of td out over n calls.
func SplitTraces(td ptrace.Traces, n int) []ptrace.Traces {
	calls := make([]ptrace.Traces, n)
	for call := range calls {
		calls[call] = ptrace.NewTraces()
		td.CopyTo(calls[call])
		i := -1
		for _, rs := range calls[call].ResourceSpans().All() {
			for _, ss := range rs.ScopeSpans().All() {
				ss.Spans().RemoveIf(func(ptrace.Span) bool { i++; return i%n != call })
			}
		}
	}
	return calls
}

// RunsJudged are the spans that carry a run's verdict.
func RunsJudged(td ptrace.Traces) (ids []pcommon.SpanID) {
	for id, span := range SpansOf(td) {
		if _, ok := span.Attributes().Get(string(semconv.RunOutcomeKey)); ok {
			ids = append(ids, id)
		}
	}
	return ids
}

// InOrder are the spans in another order, an LLM span first: spans before the first one
// of a trace are not remembered.
func InOrder(spans []Span, order []int) (list []Span) {
	var others []Span
	for _, i := range order {
		s := spans[i]
		if len(list) == 0 && !slices.ContainsFunc(s.Attrs, func(kv attribute.KeyValue) bool { return kv.Key == otelsemconv.GenAIOperationNameKey }) {
			others = append(others, s)
		} else {
			list = append(list, s)
		}
	}
	return append(list, others...)
}

// ReadLines reads OTLP JSON, one call a line.
func ReadLines(t *testing.T, path string) ptrace.Traces {
	t.Helper()
	all := ptrace.NewTraces()
	EachLine(t, path, func(line json.RawMessage) {
		td, err := (&ptrace.JSONUnmarshaler{}).UnmarshalTraces(line)
		require.NoError(t, err)
		td.ResourceSpans().MoveAndAppendTo(all.ResourceSpans())
	})
	return all
}

// EachLine reads a gzipped file with JSON in each line.
func EachLine(t *testing.T, path string, read func(json.RawMessage)) {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	for dec := json.NewDecoder(z); ; {
		var line json.RawMessage
		if err := dec.Decode(&line); errors.Is(err, io.EOF) {
			return
		} else {
			require.NoError(t, err)
		}
		read(line)
	}
}

// OutOf are the spans that came to a sink.
func OutOf(sink *consumertest.TracesSink) ptrace.Traces {
	all := ptrace.NewTraces()
	for _, td := range sink.AllTraces() {
		c := ptrace.NewTraces()
		td.CopyTo(c)
		c.ResourceSpans().MoveAndAppendTo(all.ResourceSpans())
	}
	return all
}
