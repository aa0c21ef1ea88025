package record

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/otelllm/otelllm-go/otelllm/internal/spanfacts"
	"github.com/otelllm/otelllm-go/otelllm/internal/telemetry"
)

// The kinds of a request's span.
var (
	ClientKind = trace.WithSpanKind(trace.SpanKindClient)
	ServerKind = trace.WithSpanKind(trace.SpanKindServer)
)

// StartSpan starts the span of a request by the tracer of the given provider, which may be
// nil. If the provider panics, the span is [telemetry.NoSpan].
func StartSpan(
	ctx context.Context, given trace.TracerProvider, kind trace.SpanStartOption, id *spanfacts.Identity, start time.Time,
) (context.Context, trace.Span) {
	return telemetry.StartSpan(ctx, func() (context.Context, trace.Span) {
		tracer := telemetry.Tracer(ctx, given)
		mem := takeScratch()
		mem.attrs = id.Append(mem.attrs)
		mem.start = append(mem.start, kind, trace.WithTimestamp(start), trace.WithAttributes(mem.attrs...))
		started, span := tracer.Start(ctx, id.SpanName(), mem.start...)
		mem.giveBack()
		return started, span
	})
}
