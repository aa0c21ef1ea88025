package gateway

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/otelllm/internal/httpcall"
	"github.com/otelllm/otelllm-go/otelllm/internal/netcause"
	"github.com/otelllm/otelllm-go/otelllm/internal/record"
	"github.com/otelllm/otelllm-go/otelllm/internal/spanfacts"
	"github.com/otelllm/otelllm-go/semconv"
)

// Request is a model call that a gateway serves, from its arrival until the handler has
// returned. It feeds the recorder with what the handler writes. The methods of a nil
// *Request are those of an attempt that no gateway makes.
type Request struct {
	rec   record.Recorder
	body  *httpcall.Body      // nil: the request has none
	limit *httpcall.BodyLimit // nil: net/http needs no help with one

	// mu is taken before the recorder's own lock, and after that of an attempt upstream.
	mu sync.Mutex
	// Everything below is guarded by mu.
	responded   bool                // to a client that was there, or with no error
	afterClient bool                // the client seemed to have gone before that
	cut         semconv.AbortSource // who keeps the client from being written to; unset: it can be
	upstream    *spanfacts.Request  // of the last attempt upstream; nil: none has ended
}

type requestKey struct{}

// RequestOf returns the served request that ctx belongs to, or nil.
func RequestOf(ctx context.Context) *Request {
	s, _ := ctx.Value(requestKey{}).(*Request)
	return s
}

// clientGone reports whether the client of the served request went away. Only that, or the
// end of the handler, ends the request's own context without a typed cause.
func (s *Request) clientGone() bool { return s.rec.CallerDone() }

// UpstreamEnded takes the facts of an attempt upstream. The last attempt counts: a failure
// that another attempt made good is no failure of the served request.
//
// A context that net/http cancelled over a write that failed does not say why. By
// it the attempt takes its end for the client's doing; UpstreamEnded corrects that by
// what the write returned.
func (s *Request) UpstreamEnded(f *spanfacts.Request) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cut != semconv.AbortSourceUnset && f.Ended == semconv.StreamEndCancelled && f.Abort.Source == semconv.AbortSourceConsumer {
		f.Abort.Source = s.cut
	}
	facts := *f
	s.upstream = &facts
}

// BodyFailed reports whether err is the error with which reading the served request's own
// body failed. That happens to a client that goes away while it sends; no context ends then.
func (s *Request) BodyFailed(err error) bool {
	if s == nil {
		return false
	}
	_, failed := s.body.Fault()
	return failed != nil && netcause.Holds(err, failed)
}

// aborted returns, with mu held, who ended the request before it was answered whole. What
// the context declares comes first. It is the zero value if the request was not ended so.
func (s *Request) aborted(now time.Time) classify.Abort {
	a := s.rec.CallerAbort(now)
	switch a.Source {
	case semconv.AbortSourceUnset:
		a.Source = s.cut
	case semconv.AbortSourceUnknown, semconv.AbortSourceConsumer:
		a = classify.Abort{Source: cmp.Or(s.cut, semconv.AbortSourceConsumer)}
	}
	return a
}

// header takes the response's status and headers, the first time that they are final.
// An error that the gateway sends to a client that has gone before is not an answer.
// Any other response may be one: a client over HTTP/1 that has closed its own side
// seems to have gone, and reads on.
func (s *Request) header(status int, h http.Header) {
	defer s.rec.Recover()
	s.limit.Enforce()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.responded || s.rec.Over() || status < 200 && status != http.StatusSwitchingProtocols {
		return
	}
	now := time.Now()
	if s.aborted(now).Source == semconv.AbortSourceConsumer {
		if status >= 400 {
			return
		}
		s.afterClient = true
	}
	s.responded = true
	if status >= 400 {
		h = h.Clone() // the handler may go on using it, for trailers
	}
	s.rec.Respond(record.Headers{Status: status, Header: h, Encoded: httpcall.ContentEncoded(h)}, now)
}

// wrote takes what one Write or Flush sent, and the error that it returned.
func (s *Request) wrote(p []byte, err error) {
	defer s.rec.Recover()
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rec.Over() {
		return
	}
	if s.responded {
		s.rec.Read(p, now)
	}
	if s.cut == semconv.AbortSourceUnset {
		s.cut = cutBy(err)
	}
}

// cutBy returns who keeps a client from being written to, given the error of a write. It is
// the client itself unless the error has another known cause.
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

// http2ContentLength is net/http's error over HTTP/2 for http.ErrContentLength of HTTP/1.
const http2ContentLength = "http2: handler wrote more than declared Content-Length"

// hijacked ends the recording: the connection belongs to the application now.
func (s *Request) hijacked() {
	s.rec.End(time.Now(), func() record.Ending { return record.Ending{Reason: record.EOF} })
}

// returned ends the recording when the handler has returned, or panics.
func (s *Request) returned(panicked bool) {
	defer s.rec.Recover()
	s.limit.Enforce()
	now := time.Now()
	served := s.served(panicked, now)
	s.rec.End(now, func() record.Ending { return record.Ending{Reason: record.EOF, Served: &served} })
}

// served returns what is known of the request when its handler has returned.
func (s *Request) served(panicked bool, now time.Time) record.Served {
	s.mu.Lock()
	defer s.mu.Unlock() // also if the application's context panics: an attempt upstream may go on
	return record.Served{
		Aborted: s.aborted(now), Responded: s.responded, AfterClient: s.afterClient,
		Panicked: panicked, Upstream: s.upstream,
	}
}

// Complete implements [record.Source].
func (s *Request) Complete(e record.Ending, _ *spanfacts.Request) record.Ending {
	e.Serving = true
	return e
}

// Settled implements [record.Source].
func (s *Request) Settled(*spanfacts.Request) {}
