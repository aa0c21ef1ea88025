package otelllm

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"os"
	"time"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/otelllm/internal/netcause"
	"github.com/otelllm/otelllm-go/otelllm/internal/spanfacts"
	"github.com/otelllm/otelllm-go/semconv"
)

// serving records one model call that a gateway serves, from its arrival until the
// handler has returned. It is used by the goroutines of the handler.
type serving struct {
	exchange

	limit *bodyLimit // nil: nothing that net/http has to be told

	// Everything below is guarded by mu.
	responded bool                // to a client that was there, or with no error
	late      bool                // the client seemed to have gone before that
	cut       semconv.AbortSource // by whose doing the client cannot be written to any more; unset: it can
	upstream  *spanfacts.Request  // what the last attempt upstream came to; nil: none has ended
}

type servingKey struct{}

// servingOf is the served request that ctx belongs to, or nil.
func servingOf(ctx context.Context) *serving {
	s, _ := ctx.Value(servingKey{}).(*serving)
	return s
}

// clientGone: the client of the served request went away. Only that, or the end of
// the handler, ends the request's own context without a typed cause.
func (s *serving) clientGone() bool { return s != nil && s.ctx.Err() != nil }

// upstreamEnded takes what an attempt upstream came to. The last one counts: what
// was made good by another attempt is no failure of the served request.
//
// A context that net/http cancelled over a write that failed does not say why. By
// it the attempt takes its end for the client's doing; what the write said is known here.
func (s *serving) upstreamEnded(a *attempt) {
	if s == nil {
		return
	}
	s.mu.Lock()
	cut := s.cut
	s.mu.Unlock()
	a.mu.Lock()
	if f := &a.facts; cut != semconv.AbortSourceUnset && f.Ended == semconv.StreamEndCancelled && f.Abort.Source == semconv.AbortSourceConsumer {
		f.Abort.Source = cut
	}
	facts := a.facts
	a.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.upstream = &facts
}

// broughtAbout: err is that by which the served request's own body failed, which is what a
// client that goes away while it sends does. No context ends then.
func (s *serving) broughtAbout(err error) bool {
	if s == nil {
		return false
	}
	_, failed := s.tee.fault()
	return failed != nil && netcause.Holds(err, failed)
}

// aborted is who ended the request before it was answered whole, with mu held. What
// the context names comes first; the zero value if there was none.
func (s *serving) aborted(now time.Time) classify.Abort {
	abort := abortOf(s.ctx, now)
	switch abort.Source {
	case semconv.AbortSourceUnset:
		abort.Source = s.cut
	case semconv.AbortSourceUnknown, semconv.AbortSourceConsumer:
		abort = classify.Abort{Source: cmp.Or(s.cut, semconv.AbortSourceConsumer)}
	}
	return abort
}

// header takes the response's status and headers, the first time that they are final.
// An error that the gateway tells a client that has gone before is not an answer.
// Any other response may be one: a client over HTTP/1 that has closed its own side
// seems to have gone, and reads on.
func (s *serving) header(status int, h http.Header) {
	defer s.contain()
	s.limit.enforce()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.responded || s.over.Load() || status < 200 && status != http.StatusSwitchingProtocols {
		return
	}
	now := time.Now()
	if s.aborted(now).Source == semconv.AbortSourceConsumer {
		if status >= 400 {
			return
		}
		s.late = true
	}
	s.responded = true
	if status >= 400 {
		h = h.Clone() // the handler may go on using it, for trailers
	}
	s.respond(status, h, contentEncoded(h), now)
}

// wrote takes what one Write or Flush sent, and how it ended.
func (s *serving) wrote(p []byte, err error) {
	defer s.contain()
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over.Load() {
		return
	}
	if s.responded {
		s.observe(p, now)
	}
	if s.cut == semconv.AbortSourceUnset {
		s.cut = cutBy(err)
	}
}

// cutBy is by whose doing a client cannot be written to any more: its own, which
// any error says that has no other cause.
func cutBy(err error) semconv.AbortSource {
	switch {
	case err == nil,
		errors.Is(err, http.ErrBodyNotAllowed), errors.Is(err, http.ErrContentLength), err.Error() == http2ContentLength, // the handler's mistakes
		errors.Is(err, errors.ErrUnsupported): // a Flush that did nothing
		return semconv.AbortSourceUnset
	case errors.Is(err, os.ErrDeadlineExceeded): // http.Server's WriteTimeout, or the handler's SetWriteDeadline
		return semconv.AbortSourceDeadline
	default:
		return semconv.AbortSourceConsumer
	}
}

// http2ContentLength is what net/http says over HTTP/2 where it says
// http.ErrContentLength over HTTP/1.
const http2ContentLength = "http2: handler wrote more than declared Content-Length"

// hijacked: the connection belongs to the application now.
func (s *serving) hijacked() {
	defer s.contain()
	now := time.Now()
	if s.finish(func() { s.conclude(closing{how: byEOF}, now) }) {
		s.end(now)
	}
}

// shutdown ends the recording because the process is going down.
func (s *serving) shutdown() {
	defer s.contain()
	now := time.Now()
	if s.finish(func() { s.conclude(closing{how: byClose, abort: classify.Abort{Source: AbortShutdown}}, now) }) {
		s.end(now)
	}
}

// returned ends the recording when the handler has returned, or panics.
func (s *serving) returned(panics bool) {
	defer s.contain()
	s.limit.enforce()
	now := time.Now()
	if s.finish(func() { s.settle(s.served(panics, now), now) }) {
		s.end(now)
	}
}

// served decides, with mu held, how the response came out.
//
// An answer that is whole, or an error that was passed on, is what it is. Where it
// is neither, and an upstream failed, that is the cause, whatever the gateway made
// of it: a clean end, a `[DONE]`, a status of its own, a client that went away over it.
func (s *serving) served(panics bool, now time.Time) conclusion {
	abort := s.aborted(now)
	cutShort := panics || abort.Source != semconv.AbortSourceUnset
	if !s.responded && !cutShort {
		s.respond(http.StatusOK, http.Header{}, false, now) // what net/http answers for a handler that wrote nothing
	}
	s.endOfBody(!cutShort)
	c := closing{how: byEOF, status: s.facts.Status, unexpected: s.unexpected, foreign: s.foreign, state: s.state}
	if s.foreign {
		return conclude(c)
	}
	up := s.upstream
	// A clean end with nothing before it is what hides a failure, not an answer.
	hides := up != nil && up.Failed == classify.Yes && s.state != nil && empty(s.state)
	if st := s.state; st != nil && (st.Err != nil || st.Complete && !hides) {
		return conclude(c)
	}
	if up != nil && up.Abort.Source != semconv.AbortSourceUnset && up.Failed != classify.Yes && abort.Source == semconv.AbortSourceUnset {
		abort = up.Abort // by the gateway's will, then
	} else if up != nil && up.Failed == classify.Yes {
		return s.failedUpstream(up, cutShort)
	}
	switch {
	case s.facts.Status >= 400:
	case s.late && abort.Source == semconv.AbortSourceConsumer && s.state != nil && empty(s.state):
		// The end that the gateway put there is no answer to anybody.
		return conclusion{end: semconv.StreamEndConsumerClosed, phase: semconv.PhaseResponseStarted, abort: abort}
	case abort.Source != semconv.AbortSourceUnset:
		c.how, c.abort = byClose, abort
		if abort.Source == semconv.AbortSourceConsumer {
			c.abort = classify.Abort{} // closing by itself is the consumer's
		}
		if s.state == nil && s.facts.Status == 0 {
			end, by := c.stopped()
			return conclusion{end: end, phase: semconv.PhaseAwaitingResponse, abort: by}
		}
	case panics:
		c.how, c.failure = byError, netcause.Failure{Stage: semconv.TransportStageBody, Chain: []string{"panic"}}
	}
	return conclude(c)
}

// failedUpstream is the end of a response whose upstream failed. The facts of the
// failure become those of the served request.
func (s *serving) failedUpstream(up *spanfacts.Request, cutShort bool) conclusion {
	f := &s.facts
	out := conclusion{end: semconv.StreamEndEOF, phase: up.Phase, transport: up.Transport, abort: up.Abort, watchdog: up.Watchdog, chain: up.ErrorChain, due: true}
	f.Provider, f.RetryAfter = up.Provider, up.RetryAfter
	switch st := s.state; {
	case f.Status == 0 && up.Ended == semconv.StreamEndHTTPError:
		out.end, out.due = semconv.StreamEndNoResponse, false // the status was told upstream, not here
	case f.Status >= 400, f.Status == 0:
		// The answer is the gateway's own, or there is no answer.
		out.end, out.due = up.Ended, false
	case st != nil:
		out.phase = st.Phase
		switch {
		case st.Terminal:
			out.end = semconv.StreamEndTerminalEvent // and the end alone would not show it
			out.due = !st.Complete
			if empty(st) {
				out.phase = semconv.PhaseStreamEnd
			}
		case cutShort:
			out.end = semconv.StreamEndReadError
		}
	}
	return out
}
