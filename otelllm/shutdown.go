package otelllm

import (
	"context"

	"github.com/otelllm/otelllm-go/otelllm/internal/live"
)

// open holds what has begun and not ended, for [Shutdown].
var open live.Registry

// Shutdown ends the recording of every request, tool and run that is still open
// in this process, as aborted by shutdown, so that their spans can leave before
// the TracerProvider is shut down. It touches no stream: to end those is for the
// application, best with [WithAbort] and [AbortShutdown] before. What begins later
// is recorded as ever. [WithWatchdog] and [WithStreamErrors] have no effect any more
// on a stream whose recording has been ended so.
//
// It ends spans in portions, and calls the ForceFlush of their providers in between, so
// that a [sdktrace.BatchSpanProcessor] drops none of them for want of room. What is ended
// last leaves when the provider is shut down.
//
// It returns the error of ctx when that is done before all have been ended; the
// rest stays open. A request that another goroutine is ending at that moment is
// waited for, so a [sdktrace.SpanProcessor] must not call Shutdown when a span ends.
//
// [sdktrace.BatchSpanProcessor]: https://pkg.go.dev/go.opentelemetry.io/otel/sdk/trace#NewBatchSpanProcessor
// [sdktrace.SpanProcessor]: https://pkg.go.dev/go.opentelemetry.io/otel/sdk/trace#SpanProcessor
func Shutdown(ctx context.Context) error { return open.Shutdown(ctx) }
