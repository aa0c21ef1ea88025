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
// ([signal.NotifyContext], from Go 1.26 on), bodies that are closed early, and
// cancellations without a typed cause are recognised without one.
//
// [signal.NotifyContext]: https://pkg.go.dev/os/signal#NotifyContext
const (
	AbortUser        = semconv.AbortSourceUser        // a person pressed stop
	AbortApplication = semconv.AbortSourceApplication // the application decided
	AbortShutdown    = semconv.AbortSourceShutdown    // the process is going down

	// AbortWatchdog is a time limit of the application's own. Reaching it is a failure, as
	// it is for a [Watchdog]. The reason says what the limit was for, if it is one of
	// "connect", "first_progress", "idle" and "total". Cancelling a context with a
	// [*WatchdogError] as its cause has the same effect.
	AbortWatchdog = semconv.AbortSourceWatchdog
)

// WithAbort returns a context, and a function that cancels it with a typed cause, an
// [*AbortError], so that a deliberate end is never taken for a broken connection.
//
// Source says who aborts. Reason is a low-cardinality word of the application's own, such
// as "stop_button": at most 80 bytes of [A-Za-z0-9_.:-]. Anything else is recorded as
// "redacted". The first call counts. Call abort even if nothing was aborted, like a
// context's cancel function, to release what the context holds.
func WithAbort(parent context.Context) (ctx context.Context, abort func(source AbortSource, reason string)) {
	ctx, cancel := context.WithCancelCause(parent)
	return ctx, func(source AbortSource, reason string) {
		cancel(&AbortError{Source: source, Reason: reason})
	}
}

// AbortError is the cause of a context that was cancelled by [WithAbort]'s function. HTTP/1 response
// bodies return it as it is, so errors.Is(err, context.Canceled) holds for it.
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

// As lets errors.As find the abort that the error declares.
func (e *AbortError) As(target any) bool {
	d, ok := target.(*abort.Declared)
	if ok {
		*d = abort.Declared{Abort: abort.OrUnknown(classify.Abort{Source: e.Source, Reason: classify.SanitizeCode(e.Reason)})}
	}
	return ok
}
