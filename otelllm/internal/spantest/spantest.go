// Package spantest helps tests to look at what would be exported: the spans of an SDK that
// keeps them, the diagnosis that they give, and credentials that must not be in them.
package spantest

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/otelllm/internal/spanfacts/spanread"
)

// Recorder is an SDK that keeps the spans that have ended.
type Recorder struct {
	*trace.TracerProvider

	Spans *tracetest.SpanRecorder
}

// New returns a Recorder, which is shut down at the end of the test.
func New(tb testing.TB, opts ...trace.TracerProviderOption) *Recorder {
	tb.Helper()
	r := &Recorder{Spans: tracetest.NewSpanRecorder()}
	r.TracerProvider = trace.NewTracerProvider(append(opts, trace.WithSpanProcessor(r.Spans))...)
	tb.Cleanup(func() { _ = r.Shutdown(context.Background()) })
	return r
}

// Only returns the one span that has ended.
func (r *Recorder) Only(tb testing.TB) trace.ReadOnlySpan {
	tb.Helper()
	ended := r.Spans.Ended()
	require.Len(tb, ended, 1)
	return ended[0]
}

// Named returns the ended spans of this name.
func (r *Recorder) Named(name string) (spans []trace.ReadOnlySpan) {
	for _, s := range r.Spans.Ended() {
		if s.Name() == name {
			spans = append(spans, s)
		}
	}
	return spans
}

// Diagnosis judges a run by its spans alone, as the Collector does.
func (r *Recorder) Diagnosis() classify.Diagnosis {
	var run classify.Run
	for _, s := range r.Spans.Ended() {
		readable := &spanread.Span{Start: s.StartTime(), End: s.EndTime(), Attributes: s.Attributes(), Error: Failed(s)}
		switch Get(s, "gen_ai.operation.name") {
		case "invoke_agent":
			parts := run
			run = spanread.Run(readable)
			run.Requests, run.Tools = parts.Requests, parts.Tools
		case "execute_tool":
			run.Tools = append(run.Tools, spanread.Tool(readable))
		default:
			run.Requests = append(run.Requests, spanread.Request(readable))
		}
	}
	return classify.Judge(&run).Run
}

// Get returns the value of an attribute, or nil.
func Get(s trace.ReadOnlySpan, key attribute.Key) any {
	for _, kv := range s.Attributes() {
		if kv.Key == key {
			return kv.Value.AsInterface()
		}
	}
	return nil
}

// Failed reports whether the span's status is ERROR.
func Failed(s trace.ReadOnlySpan) bool { return s.Status().Code == codes.Error }

// Events returns the names of the span's events.
func Events(s trace.ReadOnlySpan) (names []string) {
	for _, e := range s.Events() {
		names = append(names, e.Name)
	}
	return names
}

// Text returns all that would be exported of a span, as text.
func Text(s trace.ReadOnlySpan) string {
	var b strings.Builder
	put := func(attrs []attribute.KeyValue) {
		for _, kv := range attrs {
			fmt.Fprintln(&b, kv.Key, kv.Value.String())
		}
	}
	fmt.Fprintln(&b, s.Name(), s.Status(), s.SpanContext().TraceState(), s.Links())
	put(s.Attributes())
	for _, e := range s.Events() {
		fmt.Fprintln(&b, e.Name)
		put(e.Attributes)
	}
	return b.String()
}

// Exported returns all that would be exported, spans and metrics, as text.
func Exported(tb testing.TB, r *Recorder, reader metric.Reader) string {
	tb.Helper()
	var b strings.Builder
	for _, s := range r.Spans.Ended() {
		b.WriteString(Text(s))
	}
	var metrics metricdata.ResourceMetrics
	require.NoError(tb, reader.Collect(context.Background(), &metrics))
	text, err := json.Marshal(metrics)
	require.NoError(tb, err)
	b.Write(text)
	return b.String()
}
