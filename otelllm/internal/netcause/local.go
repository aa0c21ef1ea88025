package netcause

import (
	"context"
	"errors"
	"net"
	"reflect"
	"time"
)

// Cancelled reports whether err comes from this side's own cancellation or deadline, that
// is, whether ctx ended the request, and not a failure elsewhere while ctx was ending.
// Call it at the moment of failure: a context that is cancelled afterwards must not turn a
// broken connection into an abort.
//
// The error itself decides, because net/http returns different ones: HTTP/1 returns
// context.Cause(ctx) unchanged, HTTP/2 returns ctx.Err(), dialers return an error that
// only resembles it, and net/http's own timeouts claim to be context.DeadlineExceeded
// although the caller's deadline has not passed.
func Cancelled(ctx context.Context, err error, now time.Time) bool {
	if err == nil {
		return false
	}
	defer func() { _ = recover() }() // an Unwrap method panicked: the error is not attributed to ctx
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
			// This process closed the connection because of ctx. net/http returns this
			// error in a short window only, and an explicit one otherwise. WebSocket
			// libraries always return this one.
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
		// A dialer that was given ctx returns "operation was canceled", or an i/o timeout
		// at the moment at which ctx's deadline passes.
		if _, errno := errnoName(op.Err); errors.Is(op.Err, context.Canceled) ||
			!errno && op.Timeout() && (errors.Is(ctx.Err(), context.DeadlineExceeded) || deadlinePassed(ctx, now)) {
			return true
		}
	}
	return false
}

// CancelledRPC reports whether err has the status Canceled of gRPC, which does not wrap
// context.Canceled. Its error types have a method GRPCStatus, whose result has a method Code.
func CancelledRPC(err error) bool {
	defer func() { _ = recover() }() // a method of the error panicked
	const canceled = 1               // https://grpc.io/docs/guides/status-codes/
	for _, e := range links(err) {
		status := reflect.ValueOf(e).MethodByName("GRPCStatus")
		if !status.IsValid() || status.Type().NumIn() != 0 || status.Type().NumOut() != 1 {
			continue
		}
		code := status.Call(nil)[0].MethodByName("Code")
		if !code.IsValid() || code.Type().NumIn() != 0 || code.Type().NumOut() != 1 {
			continue
		}
		if n := code.Call(nil)[0]; n.CanUint() && n.Uint() == canceled {
			return true
		}
	}
	return false
}

// Signal reports whether cause is the cause with which signal.NotifyContext cancels a
// context after a signal.
func Signal(cause error) bool {
	return cause != nil && reflect.TypeOf(cause).PkgPath() == "os/signal"
}

// deadlinePassed reports whether the caller's deadline has passed, whether or not its
// timer has fired.
func deadlinePassed(ctx context.Context, now time.Time) bool {
	deadline, ok := ctx.Deadline()
	return ok && !now.Before(deadline)
}

// Holds reports whether target itself is in err's chain. It does not call Is methods,
// which may claim anything.
func Holds(err, target error) bool {
	defer func() { _ = recover() }() // an Unwrap method panicked: target was not found
	for _, e := range links(err) {
		if identical(e, target) {
			return true
		}
	}
	return false
}

// identical compares by identity. It returns false for errors of types that are not
// comparable.
func identical(a, b error) (equal bool) {
	defer func() {
		if recover() != nil {
			equal = false
		}
	}()
	return a == b //nolint:errorlint // identity is the point
}

// ClosedHere reports whether err says only that this side closed the body before it read
// it.
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
