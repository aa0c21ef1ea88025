package otelllm

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/otelllm/otelllm-go/otelllm/internal/spanfacts"
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

// initQuietly is init for a span, and instruments, that may panic: then neither is used,
// and the run hears of the request all the same.
func (r *record) initQuietly(ctx context.Context, c *config, span trace.Span, id *spanfacts.Identity, start time.Time) {
	done := false
	quietly(func() {
		r.init(ctx, c, span, id, start)
		done = true
	})
	if !done {
		bare := *c
		bare.meters = nil
		r.init(ctx, &bare, noSpan, id, start)
	}
}
