package retry

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
)

// Error is returned by [Do] and [Run] when they give up on a model call that failed. It wraps the
// error that the function returned, if it returned one.
type Error struct {
	Diagnosis classify.Diagnosis
	// Plan says how to go on: which tool calls ran, and what to send.
	Plan classify.Plan
	// Decision is why there is no further attempt.
	Decision semconv.RetryDecision
	// Attempts is how many there were.
	Attempts int

	wrapped []error
}

// Error returns the summary of the diagnosis, why there is no further attempt, and the error that
// the function returned.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(cmp.Or(e.Diagnosis.Summary, "The model call failed."))
	b.WriteString(" (gave up after ")
	b.WriteString(strconv.Itoa(e.Attempts))
	if b.WriteString(" attempt"); e.Attempts != 1 {
		b.WriteByte('s')
	}
	b.WriteString(": ")
	b.WriteString(e.Decision.String())
	for _, err := range e.wrapped {
		b.WriteString("; ")
		b.WriteString(err.Error())
	}
	b.WriteByte(')')
	return b.String()
}

// Unwrap returns the error that the function returned, if any, and that of the context if it was
// done while a retry waited.
func (e *Error) Unwrap() []error { return e.wrapped }

// interrupted is the error of a function whose context was cancelled because a model call was not
// sent. It is that error but for [context.Canceled]: the caller's context goes on.
type interrupted struct{ err error }

// Error implements error.
func (e interrupted) Error() string { return e.err.Error() }

// Is is for errors.Is.
func (e interrupted) Is(target error) bool {
	return target != context.Canceled && errors.Is(e.err, target)
}

// As is for errors.As.
func (e interrupted) As(target any) bool { return errors.As(e.err, target) }

// refusal is the error of a model call that was not sent.
type refusal semconv.RetryDecision

// Error returns why it was not sent.
func (r refusal) Error() string {
	why := "its budget is spent (" + semconv.RetryDecision(r).String() + ")"
	if r.decision() == semconv.RetryDecisionOutputLeftOut {
		why = "its history lacks the output of a tool call that ran, and that would run again, or cannot be read before it is sent; keep the history between attempts, and send it as bytes in memory"
	}
	return "otelllm/retry: the model call was not sent: " + why
}

func (r refusal) decision() semconv.RetryDecision { return semconv.RetryDecision(r) }
