package otelllm

import (
	"context"
	"errors"
	"time"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/otelllm/internal/netcause"
	"github.com/otelllm/otelllm-go/semconv"
)

// Errors that say why a tool did not run. Wrap them, or return them as they are,
// and give them to [Tool.End].
var (
	// ErrRejected: somebody with a say in it, a person or a policy, refused the call.
	ErrRejected = errors.New("otelllm: tool call rejected")
	// ErrInvalidInput: the model's input was not what the tool takes.
	ErrInvalidInput = errors.New("otelllm: invalid tool input")
)

// FailedBeforeEffect wraps the error of a tool to vouch that it failed before it
// had any effect, so that executing the call again repeats nothing. It returns
// nil for nil.
func FailedBeforeEffect(err error) error {
	if err == nil {
		return nil
	}
	return &beforeEffectError{err}
}

type beforeEffectError struct{ err error }

func (e *beforeEffectError) Error() string { return e.err.Error() }

func (e *beforeEffectError) Unwrap() error { return e.err }

// toolResult fills in what a tool's error says about how it ended. Ctx is the
// context that the tool was started with.
func toolResult(t *classify.Tool, ctx context.Context, err error, now time.Time) { //nolint:revive // t is what is filled in
	if err == nil {
		t.Outcome = semconv.ToolOutcomeSucceeded
		return
	}
	var (
		typed  *AbortError
		before *beforeEffectError
	)
	t.FailedBeforeEffect = as(err, &before)
	t.ErrorType = netcause.RootType(err)
	switch {
	case is(err, ErrRejected):
		t.Outcome, t.ErrorType = semconv.ToolOutcomeRejected, semconv.ToolOutcomeRejected.String()
	case is(err, ErrInvalidInput):
		t.Outcome, t.ErrorType = semconv.ToolOutcomeInvalidInput, semconv.ToolOutcomeInvalidInput.String()
	case as(err, &typed):
		t.Outcome, t.Abort, t.ErrorType = semconv.ToolOutcomeInterrupted, typed.abort(), ""
	case is(err, context.DeadlineExceeded), deadlineCause(ctx, err):
		// The tool's own timeout, or its caller's deadline; the second is told.
		t.Outcome = semconv.ToolOutcomeTimedOut
		if a := abortOf(ctx, now); a.Source == semconv.AbortSourceDeadline {
			t.Abort = a
		}
	case is(err, context.Canceled), netcause.Cancelled(ctx, err, now):
		t.Outcome, t.Abort, t.ErrorType = semconv.ToolOutcomeInterrupted, someAbort(abortOf(ctx, now)), ""
	default:
		t.Outcome = semconv.ToolOutcomeFailed
	}
}

// deadlineCause reports whether err is the cause of ctx, whose deadline has passed.
func deadlineCause(ctx context.Context, err error) bool {
	return is(ctx.Err(), context.DeadlineExceeded) && netcause.Holds(err, context.Cause(ctx))
}

// is is errors.Is over errors of the application, whose methods may panic.
func is(err, target error) (yes bool) {
	defer func() { _ = recover() }()
	return errors.Is(err, target)
}

// as is errors.As over errors of the application, whose methods may panic.
func as[T error](err error, target *T) (yes bool) {
	defer func() { _ = recover() }()
	return errors.As(err, target)
}
