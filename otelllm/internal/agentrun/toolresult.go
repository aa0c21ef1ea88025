package agentrun

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/otelllm/internal/abort"
	"github.com/otelllm/otelllm-go/otelllm/internal/netcause"
	"github.com/otelllm/otelllm-go/semconv"
)

// Errors that say why a tool did not run, or had no effect.
var (
	// ErrRejected says that a person or a policy refused the call.
	ErrRejected = errors.New("otelllm: tool call rejected")
	// ErrInvalidInput says that the tool does not accept the model's input.
	ErrInvalidInput = errors.New("otelllm: invalid tool input")
	// ErrBeforeEffect says that the tool failed before it had any effect. It covers the errors that wrap it: if an error
	// joins several, each of them needs its own.
	ErrBeforeEffect = errors.New("otelllm: failed before any effect")
)

// toolResult fills in how a tool ended, given its error and the context that it was started with.
func toolResult(t *classify.Tool, ctx context.Context, err error, now time.Time) { //nolint:revive // t is what is filled in
	if err == nil {
		t.Outcome = semconv.ToolOutcomeSucceeded
		return
	}
	declared, aborted := abort.InError(err)
	t.FailedBeforeEffect = netcause.Is(err, ErrBeforeEffect) && allOf(err, ErrBeforeEffect, ErrRejected, ErrInvalidInput)
	t.ErrorType = netcause.RootType(err)
	switch {
	case allOf(err, ErrRejected):
		t.Outcome, t.ErrorType = semconv.ToolOutcomeRejected, semconv.ToolOutcomeRejected.String()
	case allOf(err, ErrInvalidInput):
		t.Outcome, t.ErrorType = semconv.ToolOutcomeInvalidInput, semconv.ToolOutcomeInvalidInput.String()
	case aborted && !declared.ByWatchdog():
		t.Outcome, t.Abort, t.ErrorType = semconv.ToolOutcomeInterrupted, declared.Abort, ""
	case netcause.Is(err, context.DeadlineExceeded), deadlineCause(ctx, err):
		// The tool's own timeout, or its caller's deadline, which is recorded.
		t.Outcome = semconv.ToolOutcomeTimedOut
		if a := abort.Of(ctx, now); a.Source == semconv.AbortSourceDeadline {
			t.Abort = a
		}
	case ctx.Err() == nil && netcause.Is(err, context.Canceled) && !allOf(err, context.Canceled):
		t.Outcome = semconv.ToolOutcomeFailed // by the error that is joined to the cancellation of a context below
	case netcause.Is(err, context.Canceled), netcause.Cancelled(ctx, err, now):
		t.Outcome, t.Abort, t.ErrorType = semconv.ToolOutcomeInterrupted, abort.OrUnknown(abort.Of(ctx, now)), ""
	default:
		t.Outcome = semconv.ToolOutcomeFailed
	}
}

// deadlineCause reports whether err is the cause of ctx, whose deadline has passed.
func deadlineCause(ctx context.Context, err error) bool {
	return netcause.Is(ctx.Err(), context.DeadlineExceeded) && netcause.Holds(err, context.Cause(ctx))
}

// maxErrors bounds how many errors of a tree are visited.
const maxErrors = 256

// allOf reports whether err, and every error that it joins, is one of targets. Such an error says that nothing was changed,
// which is not known if it is joined to another failure.
func allOf(err error, targets ...error) (yes bool) {
	defer func() {
		if recover() != nil { // a method of the application's errors panicked
			yes = false
		}
	}()
	left := maxErrors
	return covered(err, targets, &left)
}

func covered(err error, targets []error, left *int) bool {
	*left--
	if err == nil || *left < 0 {
		return false
	}
	is, ok := err.(interface{ Is(error) bool })
	for _, target := range targets {
		if err == target || ok && is.Is(target) { //nolint:errorlint // likewise
			return true
		}
	}
	switch e := err.(type) { //nolint:errorlint // likewise
	case interface{ Unwrap() error }:
		return covered(e.Unwrap(), targets, left)
	case interface{ Unwrap() []error }:
		joined := e.Unwrap()
		// fmt.Errorf describes one failure by several errors. Only ErrBeforeEffect has to cover all of them:
		// ErrInvalidInput beside the parser's error is the usual form.
		if describes(err) && targets[0] != ErrBeforeEffect { //nolint:errorlint // likewise
			return slices.ContainsFunc(joined, func(e error) bool { return covered(e, targets, left) })
		}
		for _, e := range joined {
			if e != nil && !covered(e, targets, left) {
				return false
			}
		}
		return len(joined) > 0
	default:
		return false
	}
}

// describes reports whether err is one failure that fmt.Errorf wraps several errors in.
func describes(err error) bool { return reflect.TypeOf(err) == severalOfFmt }

var severalOfFmt = reflect.TypeOf(fmt.Errorf("%w%w", ErrRejected, ErrInvalidInput))
