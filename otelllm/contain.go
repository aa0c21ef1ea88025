package otelllm

import (
	"context"

	"go.opentelemetry.io/otel/trace"
)

// started starts a span. A provider, a sampler or a span processor that panics costs
// that span only: ctx stays as it is, and nothing is recorded.
func started(ctx context.Context, start func() (context.Context, trace.Span)) (out context.Context, span trace.Span) {
	defer func() {
		if p := recover(); p != nil {
			out, span = ctx, noSpan
			panicked(p)
		}
	}()
	return start()
}

// noSpan records nothing.
var noSpan = trace.SpanFromContext(context.Background())

// quietly runs f, which calls what the application has registered: a panic there ends
// f and nothing else.
func quietly(f func()) {
	defer contained()
	f()
}
