package netcause

import (
	"context"
	"errors"
	"net"
	"reflect"
	"time"
)

// Cancelled reports whether err comes from this side's own cancellation or
// deadline: whether it is ctx that ended the request, not something on the way
// that happened to fail while ctx was ending. Ask at the moment of failure: a
// context that is cancelled afterwards must not turn a broken connection into an
// abort.
//
// What the error itself is decides, because net/http mixes the two: HTTP/1
// returns context.Cause(ctx) as it is, HTTP/2 returns ctx.Err(), diallers return
// an error that only resembles it, and net/http's own timeouts claim to be
// context.DeadlineExceeded without being the caller's.
func Cancelled(ctx context.Context, err error, now time.Time) bool {
	if err == nil {
		return false
	}
	defer func() { _ = recover() }() // a foreign Unwrap panicked: then it is not ctx's word
	chain := links(err)
	done := ctx.Err() != nil
	cause := context.Cause(ctx)
	for _, e := range chain {
		switch {
		case e == context.Canceled: //nolint:errorlint // identity, link by link: an Is method may claim anything
			return true
		case e == context.DeadlineExceeded && (done || deadlinePassed(ctx, now)): //nolint:errorlint // as above
			return true
		case done && identical(e, cause):
			return true
		case done && e == net.ErrClosed: //nolint:errorlint // as above
			// This process closed the connection, and ctx is why it does: net/http says so
			// itself but for a moment, the libraries for WebSockets leave it at that.
			return true
		}
		if text, ok := standardMessage(e); ok {
			switch text {
			case "net/http: request canceled", "net/http: request canceled while waiting for connection",
				"http2: canceling request":
				return true
			}
		}
		op, ok := e.(*net.OpError) //nolint:errorlint // as above
		if !ok || op.Op != "dial" {
			continue
		}
		// A dialler that was given ctx: "operation was canceled", or an i/o timeout
		// at the very moment at which ctx's deadline passes.
		if _, errno := errnoName(op.Err); errors.Is(op.Err, context.Canceled) ||
			!errno && op.Timeout() && (errors.Is(ctx.Err(), context.DeadlineExceeded) || deadlinePassed(ctx, now)) {
			return true
		}
	}
	return false
}

// Signal reports whether cause is the one that signal.NotifyContext gives a context when
// a signal has come.
func Signal(cause error) bool {
	return cause != nil && reflect.TypeOf(cause).PkgPath() == "os/signal"
}

// passed: the caller's deadline is over, whether its timer has fired or not.
func deadlinePassed(ctx context.Context, now time.Time) bool {
	deadline, ok := ctx.Deadline()
	return ok && !now.Before(deadline)
}

// Holds reports whether target itself is a link of err's chain. An Is method, which may
// claim anything, is not asked.
func Holds(err, target error) bool {
	defer func() { _ = recover() }() // a foreign Unwrap panicked: then it is not seen
	for _, e := range links(err) {
		if identical(e, target) {
			return true
		}
	}
	return false
}

// same compares by identity; errors of types that cannot be compared are not the same.
func identical(a, b error) (equal bool) {
	defer func() {
		if recover() != nil {
			equal = false
		}
	}()
	return a == b //nolint:errorlint // identity is the point
}

// ClosedHere reports whether err says no more than that this side had closed the
// body before it read it.
func ClosedHere(err error) bool {
	defer func() { _ = recover() }()
	for _, e := range links(err) {
		if text, ok := standardMessage(e); ok {
			switch text {
			case "http: read on closed response body", "http2: response body closed", "http: invalid Read on closed Body":
				return true
			}
		}
	}
	return false
}
