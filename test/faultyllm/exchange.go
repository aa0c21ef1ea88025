package faultyllm

import (
	"net/http"
	"time"
)

// Exchange is the server's reaction to one request.
type Exchange struct {
	kind    exchangeKind
	steps   []Step
	failure Failure
	header  http.Header
	body    rawBody
	framing Framing
	cut     *cut

	compression compression
	asDocument  bool   // also where a stream was asked for
	location    string // of a redirect
}

type exchangeKind uint8

const (
	exchangeAnswer exchangeKind = iota
	exchangeFailure
	exchangeBody
	exchangeSilence
	exchangeRedirect
)

// Framing is how an HTTP/1.1 body marks its end.
type Framing uint8

// The framings. By default a stream is chunked and a document has a Content-Length.
const (
	Natural        Framing = iota
	ContentLength          // the length of the whole script, even if only a part is sent
	CloseDelimited         // the body ends with the connection
)

type rawBody struct {
	contentType string
	data        []byte
}

type cut struct {
	after int
	how   Step
}

// Answer returns a model's answer: streamed if the request asks for it, otherwise one
// JSON document. In a document only a fault that ends the response counts, and it takes
// effect in the middle of the body.
func Answer(steps ...Step) Exchange { return Exchange{kind: exchangeAnswer, steps: steps} }

// Refuse returns an HTTP error in the provider's format.
func Refuse(f Failure) Exchange { return Exchange{kind: exchangeFailure, failure: f} }

// Body returns a 200 response with any content.
func Body(contentType string, data []byte) Exchange {
	return Exchange{kind: exchangeBody, body: rawBody{contentType: contentType, data: data}}
}

// Redirect returns a status 302 to another place.
func Redirect(location string) Exchange { return Exchange{kind: exchangeRedirect, location: location} }

// AsDocument returns the exchange with an answer that is one JSON document, also where the request
// asks for a stream.
func (e Exchange) AsDocument() Exchange {
	e.asDocument = true
	return e
}

// HTMLPage returns the page of a proxy or a captive portal, with status 200.
func HTMLPage() Exchange {
	return Body("text/html; charset=utf-8", []byte("<!DOCTYPE html>\n<html><head><title>Sign in</title></head>\n"+
		"<body><h1>Sign in to the network</h1><form method=\"post\"><input name=\"user\"></form></body></html>\n"))
}

// BeforeHeaders reads the request and sends no response: [Reset] resets the connection,
// [Truncate] and [CleanEnd] close it, [Stall] waits until the client disconnects.
func BeforeHeaders(fault Step) Exchange { return Exchange{kind: exchangeSilence, steps: []Step{fault}} }

// Framed returns the exchange with a body that marks its end in the given way.
func (e Exchange) Framed(f Framing) Exchange {
	e.framing = f
	return e
}

// CutAfter returns the exchange with the fault after the first n events, keepalives
// included, in place of the script's own faults. If the stream has fewer events,
// nothing is cut.
func (e Exchange) CutAfter(n int, fault Step) Exchange {
	e.cut = &cut{after: n, how: fault}
	return e
}

// With returns the exchange with another response header.
func (e Exchange) With(key, value string) Exchange {
	e.header = e.header.Clone()
	if e.header == nil {
		e.header = http.Header{}
	}
	e.header.Add(key, value)
	return e
}

// Unhurried returns the exchange with a pause of d before each fault. Some clients drop
// unread data when a connection breaks; the pause lets them read it first.
func (e Exchange) Unhurried(d time.Duration) Exchange {
	steps := make([]Step, 0, len(e.steps)+1)
	for _, s := range e.steps {
		if s.ends() {
			steps = append(steps, Pause(d))
		}
		steps = append(steps, s)
	}
	e.steps = steps
	return e
}

// Events returns the number of events in the whole stream over this wire protocol,
// keepalives and the terminal event included.
func (e Exchange) Events(w Wire) int {
	n := 0
	for _, f := range w.render(e.steps, ids{}) {
		if f.fault.kind == 0 {
			n++
		}
	}
	return n
}

// frames returns the frames to play.
func (e Exchange) frames(w Wire, id ids) []frame {
	frames := w.render(e.steps, id)
	if e.cut == nil {
		return frames
	}
	var kept []frame
	for _, f := range frames {
		if f.fault.kind != 0 {
			continue
		}
		if len(kept) == e.cut.after {
			return append(kept, frame{fault: e.cut.how})
		}
		kept = append(kept, f)
	}
	return kept
}
