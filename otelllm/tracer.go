package otelllm

import (
	"context"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/trace"
)

// ScopeName is the name of the instrumentation scope of all spans.
const ScopeName = "github.com/otelllm/otelllm-go/otelllm"

// Version is the version of the instrumentation.
const Version = "0.1.0"

// tracerOf picks the tracer of a new span: of the provider given, else of the
// provider that made the context's span, else of the global one.
func tracerOf(ctx context.Context, given trace.TracerProvider) trace.Tracer {
	if given == nil {
		if span := trace.SpanFromContext(ctx); span.SpanContext().IsValid() {
			given = span.TracerProvider()
		} else {
			given = otel.GetTracerProvider()
		}
	}
	return tracerFrom(given)
}

func tracerFrom(p trace.TracerProvider) trace.Tracer {
	return p.Tracer(ScopeName, trace.WithInstrumentationVersion(Version))
}
