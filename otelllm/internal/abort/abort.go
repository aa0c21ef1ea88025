// Package abort finds out who ended something on purpose: from the error that ended it,
// or from the context that it ran under.
package abort

import (
	"context"
	"errors"
	"time"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/otelllm/internal/netcause"
	"github.com/otelllm/otelllm-go/semconv"
)

// Declared is what an error of package otelllm declares about a deliberate end.
// errors.As finds it in *otelllm.AbortError, by its As method.
type Declared struct {
	Abort    classify.Abort
	Watchdog classify.Watchdog // zero unless it is a watchdog's end

	byWatchdog bool
}

// ByWatchdog reports whether the error was an *otelllm.WatchdogError.
func (d Declared) ByWatchdog() bool { return d.byWatchdog }

// Error implements error, which errors.As requires of its target.
func (Declared) Error() string { return "otelllm: aborted" }

// TimedOut is the limit that a watchdog reached. errors.As finds it in
// *otelllm.WatchdogError, by its As method.
type TimedOut classify.Watchdog

// Error implements error, which errors.As requires of its target.
func (TimedOut) Error() string { return "otelllm: timed out" }

// Shutdown declares that the process is going down.
var Shutdown error = Declared{Abort: classify.Abort{Source: semconv.AbortSourceShutdown}}

// InError returns what err declares. It reports false if err declares nothing. If err
// joins several errors, an abort takes precedence over the limit of a watchdog.
func InError(err error) (d Declared, ok bool) {
	if netcause.As(err, &d) {
		return d, true
	}
	var t TimedOut
	if !netcause.As(err, &t) {
		return Declared{}, false
	}
	by := classify.Abort{Source: semconv.AbortSourceWatchdog, Reason: t.Kind.String()}
	return Declared{Abort: by, Watchdog: classify.Watchdog(t), byWatchdog: true}, true
}

// Of returns who cancelled ctx, or let its deadline pass before now. It is the zero value
// if ctx is still live.
func Of(ctx context.Context, now time.Time) classify.Abort {
	err := ctx.Err()
	if err == nil {
		if deadline, ok := ctx.Deadline(); ok && !now.Before(deadline) {
			return classify.Abort{Source: semconv.AbortSourceDeadline}
		}
		return classify.Abort{}
	}
	cause := context.Cause(ctx)
	if d, ok := InError(cause); ok {
		return d.Abort
	}
	switch {
	case netcause.Signal(cause):
		return classify.Abort{Source: semconv.AbortSourceShutdown}
	case errors.Is(err, context.DeadlineExceeded):
		return classify.Abort{Source: semconv.AbortSourceDeadline}
	case clientGone(ctx):
		return classify.Abort{Source: semconv.AbortSourceConsumer}
	default:
		return classify.Abort{Source: semconv.AbortSourceUnknown}
	}
}

// OrUnknown returns a, or an abort of unknown source if a has none.
func OrUnknown(a classify.Abort) classify.Abort {
	if a.Source == semconv.AbortSourceUnset {
		a.Source = semconv.AbortSourceUnknown
	}
	return a
}

// Watchdog returns the application's own watchdog that ended what ctx is for, given the
// abort of ctx. It is the zero value if a watchdog did not, or its kind is not known.
func Watchdog(ctx context.Context, a classify.Abort) classify.Watchdog {
	if a.Source != semconv.AbortSourceWatchdog {
		return classify.Watchdog{}
	}
	var t TimedOut
	if netcause.As(context.Cause(ctx), &t) {
		return classify.Watchdog(t)
	}
	kind, _ := semconv.ParseWatchdogKind(a.Reason)
	return classify.Watchdog{Kind: kind}
}

// CauseTypes returns the type names of the cause with which the application cancelled
// ctx, as evidence. It is nil if the cause declares its abort, or is the context's own.
func CauseTypes(ctx context.Context) []string {
	err := ctx.Err()
	if err == nil {
		return nil
	}
	cause := context.Cause(ctx)
	if _, declared := InError(cause); declared || cause == err { //nolint:errorlint // the context's own error, by identity
		return nil
	}
	return netcause.Chain(cause)
}

type clientKey struct{}

// WithClient returns a context for what a gateway does to serve a request. Gone reports
// whether the client of that request has gone away; only that, or the end of the handler,
// ends the request's context without a typed cause.
func WithClient(ctx context.Context, gone func() bool) context.Context {
	return context.WithValue(ctx, clientKey{}, gone)
}

func clientGone(ctx context.Context) bool {
	gone, ok := ctx.Value(clientKey{}).(func() bool)
	return ok && gone()
}
