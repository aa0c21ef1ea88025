package otelllm

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/otelllm/internal/netcause"
	"github.com/otelllm/otelllm-go/otelllm/internal/wire"
	"github.com/otelllm/otelllm-go/semconv"
)

// attempt records one attempt of one model call over HTTP, from before dialling
// until its stream has ended.
//
//	begin ─► RoundTrip ─┬─► unanswered ──────────────────────────────┐
//	                    └─► answered ─► read, read … ─► EOF, error, ─┴─► end
//	                                                    close, drop
//
// It is used by the goroutine that called RoundTrip, those that read and close
// the body, and the one that cleans up after a body that was lost.
type attempt struct {
	exchange

	trace   netcause.Trace
	marked  markedContext // that the request is sent with
	dog     *dog          // nil: nothing is watched
	serving *serving      // the gateway's request that this attempt is made for, nil: none

	misdeclared bool // its body is not as long as it claims
	stillborn   bool // its context had ended before it was sent

	// Everything below is guarded by mu.
	fired   error // the watchdog's own, where it is what ended the reading
	aborted bool  // the reading ended with the error of the caller's cancelled context
}

// answered takes the response, before anybody reads its body.
func (a *attempt) answered(resp *http.Response, now time.Time) {
	defer a.contain()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over.Load() { // by Shutdown, and its facts are being written
		return
	}
	a.facts.Connection.Protocol = protocolVersion(resp)
	a.respond(resp.StatusCode, resp.Header, encoded(resp), now)
	a.dog.answered(a.decoder != nil && a.facts.Streams, now)
}

// read sees what one Read of the body returned. It reports whether that was the
// end of the attempt.
func (a *attempt) read(p []byte, n int, err error) (ended bool) {
	defer a.contain()
	now := a.now()
	if a.take(p[:max(0, min(n, len(p)))], err, now) {
		a.end(now)
	}
	return a.over.Load()
}

// take takes what one Read returned. It reports whether that ended the attempt.
func (a *attempt) take(p []byte, err error, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over.Load() {
		return false
	}
	before := a.events()
	a.observe(p, now)
	if err == nil {
		a.dog.waited(a.events() != before, a.silent(), now)
		return false
	}
	c := closing{how: byError}
	switch {
	case err == io.EOF: //nolint:errorlint // bodies return it bare; wrapped it is an error
		c.how = byEOF
	case netcause.ClosedHere(err):
		c.how, c.abort, c.watchdog = byClose, abortOf(a.ctx, now), a.dog.bitten()
	case a.dog.did(err, now):
		c.watchdog, a.fired = a.dog.bitten(), a.dog.err
	case netcause.Cancelled(a.ctx, err, now):
		c.abort = someAbort(abortOf(a.ctx, now))
		a.aborted = true
	case a.serving.broughtAbout(err):
		c.abort = classify.Abort{Source: semconv.AbortSourceConsumer}
		a.aborted = true
	default:
		c.failure = a.failure(err, semconv.TransportStageBody)
	}
	a.conclude(c, now)
	return true
}

// failure is what err says, by which the attempt ended at this stage. A body that failed,
// or that is not as long as it claims, explains whatever the transport said: the request
// could not have got through.
func (a *attempt) failure(err error, at semconv.TransportStage) netcause.Failure {
	f := netcause.Of(err, at)
	wrong, failed := a.tee.fault()
	switch {
	case failed != nil && netcause.Holds(err, failed):
		if at == semconv.TransportStageUnset { // a transport that calls no hooks has begun to send
			f.Stage = semconv.TransportStageWrite
		}
	case (wrong || a.misdeclared) && f.Stage != semconv.TransportStageUnset && !beforeConnection(f.Stage):
	default:
		return f
	}
	f.Cause, f.Code = semconv.TransportCauseInvalidRequest, ""
	return f
}

// protocolVersion is the version of HTTP that a response came over, as the conventions
// have it; "": the transport does not say.
func protocolVersion(resp *http.Response) string {
	switch {
	case resp.ProtoMajor <= 0:
		return ""
	case resp.ProtoMajor == 1:
		return "1." + strconv.Itoa(resp.ProtoMinor)
	default:
		return strconv.Itoa(resp.ProtoMajor)
	}
}

// events is how many semantic events have come, with mu held.
func (a *attempt) events() int {
	if a.state == nil {
		return 0
	}
	return a.state.Events
}

// silent: no semantic progress is due any more, with mu held: the protocol has had
// its last word, or the stream cannot be read. Where there is no last word the answer
// is whole, unless another choice begins.
func (a *attempt) silent() bool {
	st := a.state
	return st == nil || st.Terminal || st.GaveUp || st.Violation != semconv.TransportCauseUnset ||
		st.Complete && !wire.HasLastWord(a.protocol)
}

// closed ends the attempt because the consumer closes the body.
func (a *attempt) closed() { a.letGo(byClose, classify.Abort{}) }

// abandoned ends the attempt because the consumer lost the body.
func (a *attempt) abandoned() {
	a.letGo(byDrop, classify.Abort{})
	a.dog.release()
}

// shutdown ends the attempt because the process is going down.
func (a *attempt) shutdown() { a.letGo(byClose, classify.Abort{Source: AbortShutdown}) }

// letGo ends the attempt by this side's will: abort's, else the context's.
func (a *attempt) letGo(h how, abort classify.Abort) {
	defer a.contain()
	now := a.now()
	if a.finish(func() {
		if abort.Source == semconv.AbortSourceUnset {
			abort = abortOf(a.ctx, now)
		}
		if a.facts.Status == 0 {
			a.notAnswered(netcause.Failure{Stage: a.trace.Stage()}, someAbort(abort), classify.Watchdog{}, now)
			return
		}
		a.conclude(closing{how: h, abort: abort, watchdog: a.dog.bitten()}, now)
	}) {
		a.end(now)
	}
}

// unanswered ends the attempt because no response came. Err may be nil: the
// transport below broke its contract or panicked.
func (a *attempt) unanswered(err error) {
	defer a.contain()
	now := a.now()
	if a.finish(func() {
		failure := a.failure(err, a.trace.Stage())
		switch {
		case a.dog.did(err, now):
			a.fired = a.dog.err
			a.notAnswered(failure, classify.Abort{}, a.dog.bitten(), now)
		case netcause.Cancelled(a.ctx, err, now):
			a.notAnswered(failure, someAbort(abortOf(a.ctx, now)), classify.Watchdog{}, now)
		case a.serving.broughtAbout(err):
			a.notAnswered(failure, classify.Abort{Source: semconv.AbortSourceConsumer}, classify.Watchdog{}, now)
		default:
			a.notAnswered(failure, classify.Abort{}, classify.Watchdog{}, now)
		}
	}) {
		a.end(now)
	}
}

// notAnswered makes the facts final, with mu held, where no response came.
func (a *attempt) notAnswered(failure netcause.Failure, abort classify.Abort, watchdog classify.Watchdog, now time.Time) {
	sent, known := a.trace.Sent()
	if !known && a.stillborn && abort.Source != semconv.AbortSourceUnset {
		known = true // nothing was begun, so no transport has called a hook
	}
	a.facts.Bytes = -1
	a.traced()
	a.settle(unanswered(failure, abort, watchdog, sent, known), now)
}

// conclude decides, with mu held, how a response ended, and makes it final.
func (a *attempt) conclude(c closing, now time.Time) {
	a.traced()
	a.exchange.conclude(c, now)
}

// traced takes over, with mu held, what the trace knows of the request by now.
func (a *attempt) traced() {
	a.facts.Resends = a.trace.Resends()
	a.facts.Connection.Reused, a.facts.Connection.Idle = a.trace.Connection()
	a.times.requestWritten(a.trace.WrittenAt())
}

// end ends the record. A gateway that makes the attempt for a request of its own
// hears of it first.
func (a *attempt) end(now time.Time) {
	a.serving.upstreamEnded(a)
	a.exchange.end(now)
}

// word is the error that the consumer is told for err, by which the attempt has
// ended: err itself, but where the application asked for another.
func (a *attempt) word(err error) (word error) {
	word = err
	if a.dog == nil && !a.config.streamErrors {
		return word
	}
	defer a.contain()
	a.mu.Lock()
	facts, fired, aborted := a.facts.Request, a.fired, a.aborted
	a.mu.Unlock()
	if fired != nil {
		word = fired
	}
	if !a.config.streamErrors || aborted || !brokeOff(&facts) {
		return word
	}
	if word == io.EOF { //nolint:errorlint // as in take
		word = io.ErrUnexpectedEOF
	}
	return &StreamError{Diagnosis: a.run.verdictOn(&facts), err: word}
}

// mark returns the context to send the request with, which says that it is recorded.
func (a *attempt) mark(ctx context.Context) context.Context {
	a.marked.Context = ctx //nolint:fatcontext // it is part of its attempt, and holds the one context that the request is sent with
	return &a.marked
}

// watch returns the context to send the request with, where it is watched.
func (a *attempt) watch(ctx context.Context, w Watchdog) context.Context {
	if w == (Watchdog{}) {
		return ctx
	}
	a.mu.Lock()
	streams := a.asksStream()
	a.mu.Unlock()
	ctx, a.dog = watch(ctx, w, streams, a.start, a.trace.Connecting, a.over.Load)
	if a.tee != nil {
		a.tee.dog = a.dog
	}
	return ctx
}
