package otelllm

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/otelllm/internal/netcause"
	"github.com/otelllm/otelllm-go/semconv"
)

// Errors that say why a tool did not run. Wrap them, or return them as they are,
// and give them to [Tool.End].
var (
	// ErrToolRejected: a person or a policy refused the call.
	ErrToolRejected = errors.New("otelllm: tool call rejected")
	// ErrToolInvalidInput: the model's input is not what the tool takes.
	ErrToolInvalidInput = errors.New("otelllm: invalid tool input")
)

// FailedBeforeEffect wraps the error of a tool to vouch that it failed before it
// had any effect, so that executing the call again repeats nothing. The vouch covers
// what it wraps: where an error joins several, each of them needs its own. It returns
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

func (e *beforeEffectError) Is(target error) bool { return target == errBeforeEffect }

// errBeforeEffect is what every error that [FailedBeforeEffect] wraps matches.
var errBeforeEffect = errors.New("otelllm: failed before any effect")

// toolResult fills in what a tool's error says about how it ended. Ctx is the
// context that the tool was started with.
func toolResult(t *classify.Tool, ctx context.Context, err error, now time.Time) { //nolint:revive // t is what is filled in
	if err == nil {
		t.Outcome = semconv.ToolOutcomeSucceeded
		return
	}
	var typed *AbortError
	t.FailedBeforeEffect = is(err, errBeforeEffect) && allOf(err, errBeforeEffect, ErrToolRejected, ErrToolInvalidInput)
	t.ErrorType = netcause.RootType(err)
	switch {
	case allOf(err, ErrToolRejected):
		t.Outcome, t.ErrorType = semconv.ToolOutcomeRejected, semconv.ToolOutcomeRejected.String()
	case allOf(err, ErrToolInvalidInput):
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

// maxErrors bounds how many errors of a tree are looked at.
const maxErrors = 256

// allOf reports whether err, and every error that it joins, is one of targets. Such an
// error says that nothing happened, which does not hold if it is joined to another
// failure.
func allOf(err error, targets ...error) (yes bool) {
	defer func() {
		if recover() != nil { // a method of the application's errors
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
		// fmt.Errorf describes one failure by several errors. Only the vouch has to
		// cover all of them: ErrToolInvalidInput beside the parser's error is the usual form.
		if describes(err) && targets[0] != errBeforeEffect { //nolint:errorlint // likewise
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

var severalOfFmt = reflect.TypeOf(fmt.Errorf("%w%w", ErrToolRejected, ErrToolInvalidInput))

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
