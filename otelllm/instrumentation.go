package otelllm

import (
	"context"
	"net/http"

	"github.com/otelllm/otelllm-go/otelllm/internal/live"
)

// Instrumentation is the recording of one part of an application, with options of its own
// and a Shutdown of its own. Most applications need none: the functions of this package
// record with the global providers. It is safe for concurrent use.
//
// Its methods are the package's functions of the same names. Options that are given to a
// method come after those of the Instrumentation.
type Instrumentation struct {
	config config
	open   live.Registry // what has begun and not ended
}

// New returns an Instrumentation.
func New(opts ...Option) *Instrumentation {
	i := &Instrumentation{config: config{events: true}}
	i.config = *configure(i, opts, Option.applyInstrumentation)
	return i
}

// global is the Instrumentation of the package's functions.
var global = New()

// Shutdown ends the recording of every request, tool and run that the package's functions
// began and that is still open, as aborted by shutdown, so that their spans can leave before
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
func Shutdown(ctx context.Context) error { return global.Shutdown(ctx) }

// Shutdown is [Shutdown] for what the methods of i began.
func (i *Instrumentation) Shutdown(ctx context.Context) error { return i.open.Shutdown(ctx) }

// NewTransport is [NewTransport] with the options of i.
func (i *Instrumentation) NewTransport(base http.RoundTripper, opts ...TransportOption) *Transport {
	return newTransport(i, base, opts)
}

// NewHandler is [NewHandler] with the options of i.
func (i *Instrumentation) NewHandler(next http.Handler, opts ...HandlerOption) http.Handler {
	return newHandler(i, next, opts)
}

// NewRealtime is [NewRealtime] with the options of i.
func (i *Instrumentation) NewRealtime(ctx context.Context, opts ...RequestOption) *Realtime {
	return newRealtime(ctx, i, opts)
}

// StartRequest is [StartRequest] with the options of i.
func (i *Instrumentation) StartRequest(ctx context.Context, info RequestInfo, opts ...RequestOption) (context.Context, *Request) {
	return startRequest(ctx, i, info, opts)
}

// StartRun is [StartRun] with the options of i.
func (i *Instrumentation) StartRun(ctx context.Context, agent string, opts ...RunOption) (context.Context, *Run) {
	return startRun(ctx, i, agent, opts)
}

// StartTool is [StartTool]. A tool belongs to the Instrumentation of its run, and to i
// outside of any run.
func (i *Instrumentation) StartTool(ctx context.Context, call ToolCall) (context.Context, *Tool) {
	return startTool(ctx, i, call)
}
