package otelllm

import (
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/otelllm/internal/spanfacts"
	"github.com/otelllm/otelllm-go/otelllm/internal/wire"
	"github.com/otelllm/otelllm-go/semconv"
)

// maxErrorBody bounds how much of an error response is kept to be read.
const maxErrorBody = 64 << 10

// exchange is the record of a request that is answered over HTTP: it reads the
// response as its bytes pass, on whichever side of the connection.
type exchange struct {
	record

	protocol wire.Protocol
	tee      *requestTee // nil: the request's body was read before it was sent

	// Everything below is guarded by mu.
	decoder wire.Decoder // nil: the body is not read
	arrived time.Time    // when the last bytes of the body came
	// unexpected: the status is no error, and no answer either.
	unexpected bool
	// foreign: the request turned out to be no model call, so its answer is not decoded.
	foreign bool
	refusal *errorResponse // nil: no error status came
}

// errorResponse is a response with an error status.
type errorResponse struct {
	header http.Header
	body   []byte
	wait   time.Duration // of the headers' retry-after
}

// respond takes a response's status and headers, with mu held.
func (x *exchange) respond(status int, header http.Header, encoded bool, now time.Time) {
	defer x.giveUp()
	f := &x.facts
	f.Status = status
	f.RequestID = requestID(header)
	x.headersCame(now)
	if x.tee != nil {
		x.protocol = x.tee.spoken()
	}
	x.foreign = x.tee.foreign()
	x.unexpected = noAnswer(status, header)
	switch {
	case x.foreign:
	case status >= 400:
		x.refusal = &errorResponse{header: header, wait: retryAfter(header, now)}
	case encoded:
		f.Unread = true // the application asked for the compression, and undoes it itself
	case status < 200, status >= 300:
		// Nothing that could be read: a redirect.
	default:
		x.decoder = x.protocol.NewDecoder(value(header, "Content-Type"))
		x.state = x.decoder.State()
		f.Streams = mediaType(header) == "text/event-stream" || x.asksStream()
	}
}

// noAnswer: status is a redirect of which nothing can come: one that is not to be
// followed, or that names no place.
func noAnswer(status int, header http.Header) bool {
	switch status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return value(header, "Location") == ""
	default:
		return status >= 300 && status < 400
	}
}

// asksStream reports, with mu held, whether the request is known to ask for a stream:
// by its body, as far as that has been read, else by its path.
func (x *exchange) asksStream() bool {
	stream := x.identity.Stream
	if stream == classify.NotObserved {
		stream = x.tee.said().stream
	}
	return stream == classify.Yes || stream == classify.NotObserved && streamsByPath(x.protocol)
}

// giveUp, deferred with mu held, turns a panic of a decoder into an end of the
// reading. The stream and its consumer never hear of it. What had been read stays.
func (x *exchange) giveUp() {
	if recover() == nil {
		return
	}
	x.facts.Unread, x.decoder = true, nil
	if x.state != nil {
		x.state.Unread, x.state.GaveUp = true, true
	}
}

// observe takes the next bytes of the body, with mu held.
func (x *exchange) observe(p []byte, now time.Time) {
	defer x.giveUp()
	x.facts.Bytes += int64(len(p))
	if len(p) == 0 {
		return
	}
	if e := x.refusal; e != nil {
		e.body = append(e.body, p[:min(len(p), maxErrorBody-len(e.body))]...)
		return
	}
	if x.decoder == nil {
		return
	}
	before := x.state.Events
	x.arrived = now
	x.decoder.Write(p)
	x.progress(before, now)
}

// endOfBody lets the decoder take, with mu held, what no blank line had ended. Whole:
// the body came to its end.
func (x *exchange) endOfBody(whole bool) {
	if x.decoder == nil {
		return
	}
	defer x.giveUp()
	before := x.state.Events
	if whole {
		x.decoder.Close()
	} else {
		x.decoder.Cut()
	}
	x.progress(before, x.arrived)
}

// conclude decides, with mu held, how a response ended, and makes it final.
func (x *exchange) conclude(c closing, now time.Time) {
	x.endOfBody(c.how == byEOF)
	c.status, c.unexpected, c.foreign, c.state = x.facts.Status, x.unexpected, x.foreign, x.state
	x.settle(conclude(c), now)
}

// settle, with mu held, makes the facts final.
func (x *exchange) settle(c conclusion, now time.Time) {
	if c.end == semconv.StreamEndHTTPError && x.facts.Provider.Kind == semconv.ProviderErrorKindUnset {
		x.readErrorResponse()
	}
	x.record.settle(c, now)
	x.refusal = nil
}

// end ends the record.
func (x *exchange) end(now time.Time) {
	x.record.end(now)
	x.tee.drop()
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.decoder != nil {
		x.decoder.Release()
		x.decoder = nil
	}
}

// readErrorResponse reads what the provider said under an error status, as far as
// the SDK has read it.
func (x *exchange) readErrorResponse() {
	if x.unexpected {
		x.facts.Provider = classify.ProviderError{Kind: semconv.ProviderErrorKindUnknown, Code: strconv.Itoa(x.facts.Status)}
		return
	}
	if x.refusal == nil {
		x.refusal = &errorResponse{} // the status says something still
	}
	e := wire.Error{}
	func() {
		defer func() { _ = recover() }() // of a reader of bytes that may be anything
		e = wire.CompleteError(x.protocol.ReadError(x.facts.Status, x.refusal.body), x.refusal.header.Get)
	}()
	if x.refusal.wait > 0 {
		e.RetryAfter = x.refusal.wait
	}
	applyError(&x.facts, x.facts.Status, &e)
}

// teeAsked lets what the body of the request to target says be read as it is sent.
func (x *exchange) teeAsked(t *requestTee, target *url.URL) {
	x.tee = t
	x.untold = true
	first := t.protocol
	x.late = func(f *spanfacts.Request, id *spanfacts.Identity) {
		said := t.said()
		if p := t.spoken(); p.Name() != first.Name() {
			known := x.config.identify(p, target)
			id.Operation, id.Provider = known.Operation, known.Provider
			x.reidentified = true
		}
		takeAsked(f, &said)
		takeIdentity(id, &said)
	}
}

// encoded reports whether a body's content is encoded and will reach the reader so.
func encoded(resp *http.Response) bool { return !resp.Uncompressed && contentEncoded(resp.Header) }

func contentEncoded(h http.Header) bool {
	switch value(h, "Content-Encoding") {
	case "", "identity":
		return false
	default:
		return true
	}
}
