package otelllm

import (
	"context"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/otelllm/internal/abort"
	"github.com/otelllm/otelllm-go/semconv"
)

// AbortSource says who ended something on purpose.
type AbortSource = semconv.AbortSource

// Sources of an abort that an application can name. Deadlines, signals
// ([signal.NotifyContext], from Go 1.26 on), bodies that are closed early and cancellations without a
// typed cause are recognised without being named.
//
// [signal.NotifyContext]: https://pkg.go.dev/os/signal#NotifyContext
const (
	AbortUser        = semconv.AbortSourceUser        // a person pressed stop
	AbortApplication = semconv.AbortSourceApplication // the application decided
	AbortShutdown    = semconv.AbortSourceShutdown    // the process is going down

	// AbortWatchdog is a time limit of the application's own. It is a failure, as that
	// of a [Watchdog] is. The reason says what the limit was for, where it is one of
	// "connect", "first_progress", "idle" and "total". A context that is cancelled with
	// a [*WatchdogError] as its cause says the same.
	AbortWatchdog = semconv.AbortSourceWatchdog
)

// AbortFunc cancels a context with provenance. Reason is the application's own
// low-cardinality word, such as "stop_button": at most 80 bytes of
// [A-Za-z0-9_.:-]; anything else is recorded as "redacted". The first call counts.
// A call is due even when nothing was aborted, as for a context's own cancel
// function, to let go of what the context holds.
type AbortFunc func(source AbortSource, reason string)

// WithAbort returns a context that can be cancelled with a typed cause, so that
// a deliberate end is never taken for a broken connection: context.Cause of the
// context is then an [*AbortError].
func WithAbort(ctx context.Context) (context.Context, AbortFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	return ctx, func(source AbortSource, reason string) {
		cancel(&AbortError{Source: source, Reason: reason})
	}
}

// AbortError is the cause of a context that an [AbortFunc] cancelled. HTTP/1
// response bodies return it as it is, so it also answers to
// errors.Is(err, context.Canceled).
type AbortError struct {
	Source AbortSource
	Reason string
}

// Error implements error.
func (e *AbortError) Error() string {
	text := "otelllm: aborted"
	if e.Source != semconv.AbortSourceUnset {
		text += " by " + e.Source.String()
	}
	if e.Reason != "" {
		text += " (" + e.Reason + ")"
	}
	return text
}

// Is reports that an abort is a cancellation.
func (e *AbortError) Is(target error) bool { return target == context.Canceled }

// As makes errors.As find what the error declares about a deliberate end.
func (e *AbortError) As(target any) bool {
	d, ok := target.(*abort.Declared)
	if ok {
		*d = abort.Declared{Abort: abort.OrUnknown(classify.Abort{Source: e.Source, Reason: classify.SanitizeCode(e.Reason)})}
	}
	return ok
}
