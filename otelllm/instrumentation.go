package otelllm

import (
	"context"

	"github.com/otelllm/otelllm-go/otelllm/internal/inferred"
	"github.com/otelllm/otelllm-go/otelllm/internal/kinship"
	"github.com/otelllm/otelllm-go/otelllm/internal/live"
	"github.com/otelllm/otelllm-go/otelllm/internal/record"
	"github.com/otelllm/otelllm-go/otelllm/internal/setup"
	"github.com/otelllm/otelllm-go/semconv"
)

// Instrumentation records with options of its own, and shuts down on its own. It is for a
// library, a test, or a process with several pipelines; most applications use the
// functions of this package, which record with the global providers. It is safe for
// concurrent use.
//
// Its methods correspond to the functions of the same names. Options given to a method
// take precedence over those of the Instrumentation. Packages otelllm/manual,
// otelllm/realtime and otelllm/responses record with the Instrumentation that they are
// given.
type Instrumentation struct {
	config   config
	open     live.Registry // what has begun and not ended
	inferred inferred.Runs

	histories record.Histories // that providers keep
}

// New returns an Instrumentation.
func New(opts ...Option) *Instrumentation {
	i := &Instrumentation{config: config{events: true, inferred: true, limits: kinship.DefaultConfig()}}
	i.config = *configure(i, opts, Option.applyInstrumentation)
	return i
}

// global is the Instrumentation of the package's functions.
var global = New()

func init() {
	setup.Of = func(instrumentation any) setup.Setup {
		i := instrumentation.(*Instrumentation)
		if i == nil {
			i = global
		}
		c := &i.config
		return setup.Setup{
			Record: c.recorder(i), TracerProvider: c.tracerProvider, Provider: c.recogniser.Provider,
			Inferred: c.source(i),
		}
	}
}

// Shutdown ends the recording of every request, tool and run that this package's functions
// began and that is still open, as aborted by shutdown, so that their spans can be
// exported before the TracerProvider is shut down. Inferred runs that wait for their next
// request end as well. So it does with what the packages
// otelllm/manual, otelllm/realtime and otelllm/responses began without an [Instrumentation]. It does not touch
// the streams themselves: end those first, best with [WithAbort] and [AbortShutdown]. What
// begins later is recorded as usual. [WithWatchdog] and [WithStreamErrors] have no effect
// on a stream whose recording has ended this way.
//
// Shutdown ends spans in portions, and calls ForceFlush of their providers in between, so
// that a [sdktrace.BatchSpanProcessor] does not drop any because its queue is full. The
// last portion is exported when the provider is shut down.
//
// It returns the error of ctx if ctx is done before everything has ended; the rest stays
// open. Shutdown waits for a request that another goroutine is just ending, so a
// [sdktrace.SpanProcessor] must not call Shutdown when a span ends.
//
// [sdktrace.BatchSpanProcessor]:
// https://pkg.go.dev/go.opentelemetry.io/otel/sdk/trace#NewBatchSpanProcessor
// [sdktrace.SpanProcessor]:
// https://pkg.go.dev/go.opentelemetry.io/otel/sdk/trace#SpanProcessor
func Shutdown(ctx context.Context) error { return global.Shutdown(ctx) }

// Shutdown is [Shutdown] for what was begun with i.
func (i *Instrumentation) Shutdown(ctx context.Context) error {
	err := i.open.Shutdown(ctx)
	if err == nil { // otherwise runs go on
		i.inferred.Shutdown()
	}
	return err
}

// EndInferredRuns ends the inferred runs that wait for their next request, as if it had not
// come in the time that [WithInferredRuns] allows. It is for a process that knows that no
// further request will come, such as a proxy whose only client has exited: after it,
// Shutdown ends as aborted only what is still open. A request that comes later begins a run
// of its own.
func (i *Instrumentation) EndInferredRuns() { i.inferred.EndWaiting(semconv.RunEndUnset) }

// EndInferredRunsBy is [Instrumentation.EndInferredRuns] for a client that is known to have
// ended before it sent the outputs of its tools: the inferred runs that wait for outputs end
// by this. It is [semconv.RunEndProcessDied] if the client was killed, and
// [semconv.RunEndShutdown] if it was told to end.
func (i *Instrumentation) EndInferredRunsBy(end semconv.RunEnd) { i.inferred.EndWaiting(end) }
