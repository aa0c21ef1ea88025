package otelllm

import (
	"context"
	"reflect"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/trace"
)

// ScopeName is the name of the instrumentation scope of all spans.
const ScopeName = "github.com/otelllm/otelllm-go/otelllm"

// Version is the version of the instrumentation.
const Version = "0.1.0"

// tracerOf picks the tracer of a new span: of the provider given, else of the
// provider that made the context's span, else of the global one. A span that has come
// over the network, or that was made of its context alone, has no provider that would say
// anything: it is a no-op.
func tracerOf(ctx context.Context, given trace.TracerProvider) trace.Tracer {
	if given == nil {
		given = otel.GetTracerProvider()
		span := trace.SpanFromContext(ctx)
		if sc := span.SpanContext(); sc.IsValid() && !sc.IsRemote() {
			if made := span.TracerProvider(); made != nil && !carriedOnly(made) {
				given = made
			}
		}
	}
	return tracerFrom(given)
}

// carriedOnly: p is the provider of a span that only carries a span context.
func carriedOnly(p trace.TracerProvider) bool {
	return reflect.TypeOf(p) == carrierType
}

var carrierType = reflect.TypeOf(trace.SpanFromContext(trace.ContextWithSpanContext(context.Background(), trace.SpanContext{})).TracerProvider())

func tracerFrom(p trace.TracerProvider) trace.Tracer {
	return p.Tracer(ScopeName, trace.WithInstrumentationVersion(Version))
}
