package client

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/otelllm/internal/abort"
	"github.com/otelllm/otelllm-go/otelllm/internal/gateway"
	"github.com/otelllm/otelllm-go/otelllm/internal/httpcall"
	"github.com/otelllm/otelllm-go/otelllm/internal/netcause"
	"github.com/otelllm/otelllm-go/otelllm/internal/record"
	"github.com/otelllm/otelllm-go/otelllm/internal/spanfacts"
	"github.com/otelllm/otelllm-go/otelllm/internal/telemetry"
	"github.com/otelllm/otelllm-go/otelllm/internal/watchdog"
	"github.com/otelllm/otelllm-go/semconv"
)

// attempt is one attempt of one model call over HTTP, from before dialling until its
// stream has ended. It feeds the recorder with what it sees.
//
// It is used by the goroutine that called RoundTrip, those that read and close
// the body, and the one that cleans up after a body that was lost.
type attempt struct {
	rec      record.Recorder
	config   *Config
	trace    netcause.Trace
	body     *httpcall.Body     // nil: the request's body was read before it was sent
	marked   markedContext      // that the request is sent with
	watchdog *watchdog.Watchdog // nil: nothing is watched
	served   *gateway.Request   // the served request that this attempt is made for; nil: none

	misdeclared bool // its body is not as long as it claims
	cancelled   bool // its context had ended before it was sent

	// aborted: the reading ended with the error of the caller's cancelled context. It is
	// written before the recorder ends.
	aborted atomic.Bool
	// timedOut holds the watchdog's error, if the reading ended by it. It is written
	// before the recorder ends.
	timedOut atomic.Pointer[error]
}

// Complete implements [record.Source].
func (a *attempt) Complete(e record.Ending, f *spanfacts.Request) record.Ending {
	letGo := e.Reason == record.Closed || e.Reason == record.Dropped
	switch {
	case e.Unanswered:
		f.Bytes = -1
		if letGo {
			e.Abort = abort.OrUnknown(e.Abort)
			e.Failure.Stage = a.trace.Stage()
		}
		e.Sent, e.SentKnown = a.trace.Sent()
		if !e.SentKnown && a.cancelled && e.Abort.Source != semconv.AbortSourceUnset {
			e.SentKnown = true // nothing was begun, so no transport has called a hook
		}
	case letGo:
		e.Watchdog, _ = a.watchdog.Fired()
	}
	e.WrittenAt = a.trace.WrittenAt()
	f.Resends = a.trace.Resends()
	f.Connection.Reused, f.Connection.Idle = a.trace.Connection()
	return e
}

// Settled implements [record.Source]. A gateway that makes the attempt for a request of its
// own gets the facts first.
func (a *attempt) Settled(f *spanfacts.Request) { a.served.UpstreamEnded(f) }

// responded takes the response, before its body is read.
func (a *attempt) responded(resp *http.Response) {
	defer telemetry.Recover()
	now := a.rec.Now()
	encoded := !resp.Uncompressed && httpcall.ContentEncoded(resp.Header)
	streams := a.rec.Respond(record.Headers{Status: resp.StatusCode, Header: resp.Header, Encoded: encoded, Version: httpVersion(resp)}, now)
	if !a.rec.Over() {
		a.watchdog.Answered(streams, now)
	}
}

// httpVersion returns the version of HTTP that a response came over, as the conventions
// write it. It is "" if the transport does not say.
func httpVersion(resp *http.Response) string {
	switch {
	case resp.ProtoMajor <= 0:
		return ""
	case resp.ProtoMajor == 1:
		return "1." + strconv.Itoa(resp.ProtoMinor)
	default:
		return strconv.Itoa(resp.ProtoMajor)
	}
}

// read takes what one Read of the body returned. It reports whether the attempt is over.
func (a *attempt) read(p []byte, n int, err error) (over bool) {
	defer telemetry.Recover()
	now := a.rec.Now()
	progress, silent := a.rec.Read(p[:max(0, min(n, len(p)))], now)
	if err == nil {
		if !a.rec.Over() {
			a.watchdog.ReadEnded(progress, silent, now)
		}
		return a.rec.Over()
	}
	a.rec.End(now, func() record.Ending { return a.readEnding(err, now) })
	return true
}

// readEnding returns how the reading ended with err.
func (a *attempt) readEnding(err error, now time.Time) record.Ending {
	switch {
	case err == io.EOF: //nolint:errorlint // bodies return it bare; wrapped it is an error
		return record.Ending{Reason: record.EOF}
	case netcause.ClosedHere(err):
		return record.Ending{Reason: record.Closed}
	default:
		return a.failedEnding(err, semconv.TransportStageBody, now)
	}
}

// failedEnding returns how the attempt ended with err at this stage.
func (a *attempt) failedEnding(err error, at semconv.TransportStage, now time.Time) record.Ending {
	e := record.Ending{Reason: record.Failed, Failure: a.failure(err, at)}
	by, cancelled := a.rec.CancelledBy(err, now)
	switch {
	case a.watchdog.Caused(err, now):
		fired, timedOut := a.watchdog.Fired()
		e.Watchdog = fired
		a.timedOut.Store(&timedOut)
	case cancelled:
		e.Abort = by
		a.aborted.Store(true)
	case a.served.BodyFailed(err):
		e.Abort = classify.Abort{Source: semconv.AbortSourceConsumer}
		a.aborted.Store(true)
	}
	return e
}

// failure returns what err says, by which the attempt ended at this stage. A body that
// failed, or that is not as long as it claims, explains whatever the transport said: the
// request could not have got through.
func (a *attempt) failure(err error, at semconv.TransportStage) netcause.Failure {
	f := netcause.Of(err, at)
	wrong, failed := a.body.Fault()
	switch {
	case failed != nil && netcause.Holds(err, failed):
		if at == semconv.TransportStageUnset { // a transport that calls no hooks has begun to send
			f.Stage = semconv.TransportStageWrite
		}
	case (wrong || a.misdeclared) && f.Stage != semconv.TransportStageUnset && !record.BeforeConnection(f.Stage):
	default:
		return f
	}
	f.Cause, f.Code = semconv.TransportCauseInvalidRequest, ""
	return f
}

// failed ends the attempt because no response came. Err may be nil: the transport below
// broke its contract or panicked.
func (a *attempt) failed(err error) {
	now := a.rec.Now()
	a.rec.End(now, func() record.Ending { return a.failedEnding(err, a.trace.Stage(), now) })
}

// closed ends the attempt because the consumer closes the body.
func (a *attempt) closed() {
	a.rec.End(a.rec.Now(), func() record.Ending { return record.Ending{Reason: record.Closed} })
}

// undelivered ends the attempt because the client of a proxy did not get all of the last Read.
func (a *attempt) undelivered() {
	a.rec.End(a.rec.Now(), func() record.Ending {
		return record.Ending{Reason: record.Closed, Abort: classify.Abort{Source: semconv.AbortSourceConsumer}, Undelivered: true}
	})
}

// dropped ends the attempt because the consumer lost the body.
func (a *attempt) dropped() {
	a.rec.End(a.rec.Now(), func() record.Ending { return record.Ending{Reason: record.Dropped} })
	a.watchdog.Release()
}

// errorForReader returns the error that the reader gets for err, by which the attempt has
// ended: err itself, unless the application asked for another.
func (a *attempt) errorForReader(err error) (given error) {
	given = err
	if a.watchdog == nil && a.config.StreamError == nil {
		return given
	}
	defer telemetry.Recover()
	facts := a.rec.Outcome()
	if fired := a.timedOut.Load(); fired != nil {
		given = *fired
	}
	if a.config.StreamError == nil || a.aborted.Load() || !brokeOff(&facts) {
		return given
	}
	if given == io.EOF { //nolint:errorlint // bodies return it bare
		given = io.ErrUnexpectedEOF
	}
	return a.config.StreamError(a.rec.Judge(&facts), given)
}

// brokeOff reports whether a response broke off that was no error by itself, and not
// because this side ended it. A request that got no response has an error already.
func brokeOff(f *classify.Request) bool {
	switch f.Ended {
	case semconv.StreamEndEOF, semconv.StreamEndReadError, semconv.StreamEndWatchdog:
		return f.Status > 0 && f.Status < 400 && f.Abort.Source == semconv.AbortSourceUnset
	default:
		return false
	}
}

// mark returns the context to send the request with, which marks it as recorded.
func (a *attempt) mark(ctx context.Context) context.Context {
	a.marked.Context = ctx //nolint:fatcontext // it is part of its attempt, and holds the one context that the request is sent with
	return &a.marked
}

// watch returns the context to send the request with, if it is watched.
func (a *attempt) watch(ctx context.Context) context.Context {
	if a.config.Watchdog == (watchdog.Limits{}) {
		return ctx
	}
	ctx, a.watchdog = watchdog.Start(ctx, a.config.Watchdog, watchdog.Request{
		Start:      a.rec.Start(),
		Streams:    a.rec.AsksStream(),
		Connecting: a.trace.Connecting,
		Over:       a.rec.Over,
		Error:      a.config.WatchdogError,
	})
	if a.body != nil {
		a.body.OnStream = a.watchdog.Streams
	}
	return ctx
}
