package abort

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
)

var (
	byUser     = Declared{Abort: classify.Abort{Source: semconv.AbortSourceUser, Reason: "stop_button"}}
	timedOut   = TimedOut{Kind: semconv.WatchdogKindIdle, Limit: time.Minute}
	byWatchdog = Declared{
		Abort:      classify.Abort{Source: semconv.AbortSourceWatchdog, Reason: "idle"},
		Watchdog:   classify.Watchdog(timedOut),
		byWatchdog: true,
	}
)

// asError declares by its As method, like the errors of package otelllm.
type asError struct{ declared error }

func (asError) Error() string { return "declared" }

func (e asError) As(target any) bool {
	switch target := target.(type) {
	case *Declared:
		d, ok := e.declared.(Declared) //nolint:errorlint // itself
		*target = d
		return ok
	case *TimedOut:
		t, ok := e.declared.(TimedOut) //nolint:errorlint // itself
		*target = t
		return ok
	default:
		return false
	}
}

// panicError panics in its methods.
type panicError struct{}

func (panicError) Error() string { panic("Error") }
func (panicError) As(any) bool   { panic("As") }
func (panicError) Is(error) bool { panic("Is") }
func (panicError) Unwrap() error { panic("Unwrap") }

// cancelled returns a context that was cancelled with this cause. A nil cause is that of
// the context itself.
func cancelled(cause error) context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(cause)
	return ctx
}

// late returns a context whose deadline has passed, with this cause.
func late(t *testing.T, cause error) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), 0, cause)
	t.Cleanup(cancel)
	return ctx
}

func TestInError(t *testing.T) {
	for _, tt := range []struct {
		name string
		err  error
		want Declared
		ok   bool
	}{
		{"nil", nil, Declared{}, false},
		{"declares nothing", io.EOF, Declared{}, false},
		{"a cancellation", context.Canceled, Declared{}, false},
		{"declared", byUser, byUser, true},
		{"by As", asError{timedOut}, byWatchdog, true},
		{"wrapped", fmt.Errorf("x: %w", asError{byUser}), byUser, true},
		{"joined", errors.Join(io.EOF, asError{byUser}), byUser, true},
		{"an abort after a watchdog", errors.Join(asError{timedOut}, asError{byUser}), byUser, true},
		{"a watchdog of no kind", asError{TimedOut{}}, Declared{Abort: classify.Abort{Source: semconv.AbortSourceWatchdog}, byWatchdog: true}, true},
		{"shutdown", Shutdown, Declared{Abort: classify.Abort{Source: semconv.AbortSourceShutdown}}, true},
		{"panics", panicError{}, Declared{}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := InError(tt.err)
			assert.Equal(t, tt.ok, ok)
			assert.Equal(t, tt.want, got)
		})
	}
	assert.True(t, byWatchdog.ByWatchdog())
	assert.False(t, byUser.ByWatchdog())
}

func TestOf(t *testing.T) {
	now := time.Now()
	withDeadline, cancel := context.WithDeadline(t.Context(), now.Add(time.Hour))
	defer cancel()
	client := func(gone bool) context.Context {
		return WithClient(cancelled(nil), func() bool { return gone })
	}
	source := func(s semconv.AbortSource) classify.Abort { return classify.Abort{Source: s} }
	for _, tt := range []struct {
		name string
		ctx  context.Context
		now  time.Time
		want classify.Abort
	}{
		{"live", t.Context(), now, classify.Abort{}},
		{"before its deadline", withDeadline, now.Add(time.Hour - 1), classify.Abort{}},
		{"at its deadline, before its timer", withDeadline, now.Add(time.Hour), source(semconv.AbortSourceDeadline)},
		{"cancelled", cancelled(nil), now, source(semconv.AbortSourceUnknown)},
		{"cancelled with a cause", cancelled(io.EOF), now, source(semconv.AbortSourceUnknown)},
		{"declared", cancelled(byUser), now, byUser.Abort},
		{"declared by As", cancelled(fmt.Errorf("x: %w", asError{timedOut})), now, byWatchdog.Abort},
		{"deadline", late(t, nil), now, source(semconv.AbortSourceDeadline)},
		{"deadline with a cause", late(t, io.EOF), now, source(semconv.AbortSourceDeadline)},
		{"deadline that declares", late(t, byUser), now, byUser.Abort},
		{"the client is gone", client(true), now, source(semconv.AbortSourceConsumer)},
		{"the client is there", client(false), now, source(semconv.AbortSourceUnknown)},
		{"declared, and the client is gone", WithClient(cancelled(byUser), func() bool { return true }), now, byUser.Abort},
		{"live, and the client is gone", WithClient(t.Context(), func() bool { return true }), now, classify.Abort{}},
		{"a cause that panics", cancelled(panicError{}), now, source(semconv.AbortSourceUnknown)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, tt.want, Of(tt.ctx, tt.now))
		})
	}
}

func TestOrUnknown(t *testing.T) {
	assert.Equal(t, byUser.Abort, OrUnknown(byUser.Abort))
	assert.Equal(t, classify.Abort{Source: semconv.AbortSourceUnknown, Reason: "r"}, OrUnknown(classify.Abort{Reason: "r"}))
}

func TestWatchdog(t *testing.T) {
	abortFor := func(reason string) classify.Abort {
		return classify.Abort{Source: semconv.AbortSourceWatchdog, Reason: reason}
	}
	for _, tt := range []struct {
		name  string
		ctx   context.Context
		abort classify.Abort
		want  classify.Watchdog
	}{
		{"by a user", cancelled(byUser), byUser.Abort, classify.Watchdog{}},
		{"by a user, of a context that a watchdog ended", cancelled(timedOut), byUser.Abort, classify.Watchdog{}},
		{"declared by the cause", cancelled(asError{timedOut}), byWatchdog.Abort, byWatchdog.Watchdog},
		{"named by the reason", cancelled(nil), abortFor("first_progress"), classify.Watchdog{Kind: semconv.WatchdogKindFirstProgress}},
		{"the cause comes before the reason", cancelled(timedOut), abortFor("total"), byWatchdog.Watchdog},
		{"of a context that both ended", cancelled(errors.Join(byUser, timedOut)), abortFor("total"), byWatchdog.Watchdog},
		{"another reason", cancelled(nil), abortFor("budget"), classify.Watchdog{}},
		{"no reason, of a live context", t.Context(), abortFor(""), classify.Watchdog{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, tt.want, Watchdog(tt.ctx, tt.abort))
		})
	}
}

func TestCauseTypes(t *testing.T) {
	for _, tt := range []struct {
		name string
		ctx  context.Context
		want []string
	}{
		{"live", t.Context(), nil},
		{"cancelled without a cause", cancelled(nil), nil},
		{"deadline without a cause", late(t, nil), nil},
		{"declared", cancelled(byUser), nil},
		{"declared by As", cancelled(fmt.Errorf("secret: %w", asError{byUser})), nil},
		{"a cause", cancelled(io.EOF), []string{"*errors.errorString"}},
		{"a wrapped cause", cancelled(fmt.Errorf("secret: %w", io.EOF)), []string{"*fmt.wrapError", "*errors.errorString"}},
		{"deadline with a cause", late(t, io.EOF), []string{"*errors.errorString"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, tt.want, CauseTypes(tt.ctx))
		})
	}
}
