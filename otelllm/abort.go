package otelllm

import (
	"context"
	"errors"
	"time"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/otelllm/internal/netcause"
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

func (e *AbortError) abort() classify.Abort {
	source := e.Source
	if source == semconv.AbortSourceUnset {
		source = semconv.AbortSourceUnknown
	}
	return classify.Abort{Source: source, Reason: classify.SanitizeCode(e.Reason)}
}

// abortOf says who cancelled ctx, or let its deadline pass. The zero value if neither.
func abortOf(ctx context.Context, now time.Time) classify.Abort {
	err := ctx.Err()
	if err == nil {
		if deadline, ok := ctx.Deadline(); ok && !now.Before(deadline) {
			return classify.Abort{Source: semconv.AbortSourceDeadline}
		}
		return classify.Abort{}
	}
	cause := context.Cause(ctx)
	if a, ok := typedAbort(cause); ok {
		return a
	}
	switch {
	case netcause.Signal(cause):
		return classify.Abort{Source: AbortShutdown}
	case errors.Is(err, context.DeadlineExceeded):
		return classify.Abort{Source: semconv.AbortSourceDeadline}
	case servingOf(ctx).clientGone():
		return classify.Abort{Source: semconv.AbortSourceConsumer}
	default:
		return classify.Abort{Source: semconv.AbortSourceUnknown}
	}
}

// typedAbort is the abort that err is the typed word of.
func typedAbort(err error) (a classify.Abort, ok bool) {
	var abort *AbortError
	if as(err, &abort) {
		return abort.abort(), true
	}
	var watchdog *WatchdogError
	if as(err, &watchdog) {
		return classify.Abort{Source: AbortWatchdog, Reason: watchdog.Kind.String()}, true
	}
	return classify.Abort{}, false
}

// ownWatchdog is the watchdog of the application's own that a says has ended what ctx is
// for; the zero value: none has, or its kind is not known.
func ownWatchdog(ctx context.Context, a classify.Abort) classify.Watchdog {
	if a.Source != AbortWatchdog {
		return classify.Watchdog{}
	}
	var typed *WatchdogError
	if as(context.Cause(ctx), &typed) {
		return classify.Watchdog{Kind: typed.Kind, Limit: typed.Limit}
	}
	kind, _ := semconv.ParseWatchdogKind(a.Reason)
	return classify.Watchdog{Kind: kind}
}

// causeTypes are the names of the types of the cause with which the application has
// cancelled ctx: evidence for those who know them. Nil: it named none of its own.
func causeTypes(ctx context.Context) []string {
	err := ctx.Err()
	if err == nil {
		return nil
	}
	cause := context.Cause(ctx)
	if _, typed := typedAbort(cause); typed || cause == err { //nolint:errorlint // the context's own word, itself
		return nil
	}
	return netcause.Chain(cause)
}

// someAbort is a, or an abort of unknown source where a names none.
func someAbort(a classify.Abort) classify.Abort {
	if a.Source == semconv.AbortSourceUnset {
		a.Source = semconv.AbortSourceUnknown
	}
	return a
}
