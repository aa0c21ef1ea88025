package faultyllm

import (
	"net/http"
	"time"
)

// Exchange is what the server does with one request.
type Exchange struct {
	kind    exchangeKind
	steps   []Step
	failure Failure
	header  http.Header
	body    rawBody
	framing Framing
	cut     *cut
}

type exchangeKind uint8

const (
	exchangeAnswer exchangeKind = iota
	exchangeFailure
	exchangeBody
	exchangeSilence
)

// Framing says how an HTTP/1.1 body shows its end.
type Framing uint8

// The framings. A stream is chunked and a document has a Content-Length unless
// said otherwise.
const (
	Natural        Framing = iota
	ContentLength          // the length of the whole script, whatever is sent of it
	CloseDelimited         // the end of the connection is the end of the body
)

type rawBody struct {
	contentType string
	data        []byte
}

type cut struct {
	after int
	how   Step
}

// Answer is a model's answer: streamed if the request asks for it, else one JSON
// document. In a document only a fault that ends it counts, and it falls in the
// middle of the body.
func Answer(steps ...Step) Exchange { return Exchange{kind: exchangeAnswer, steps: steps} }

// Refuse is an HTTP error in the provider's own words.
func Refuse(f Failure) Exchange { return Exchange{kind: exchangeFailure, failure: f} }

// Body answers 200 with these bytes, whatever they are.
func Body(contentType string, data []byte) Exchange {
	return Exchange{kind: exchangeBody, body: rawBody{contentType: contentType, data: data}}
}

// HTMLPage is a proxy's or a captive portal's page, under status 200.
func HTMLPage() Exchange {
	return Body("text/html; charset=utf-8", []byte("<!DOCTYPE html>\n<html><head><title>Sign in</title></head>\n"+
		"<body><h1>Sign in to the network</h1><form method=\"post\"><input name=\"user\"></form></body></html>\n"))
}

// BeforeHeaders reads the request and then answers nothing: [Reset] resets the
// connection, [Truncate] and [CleanEnd] close it, [Stall] waits for the client to go.
func BeforeHeaders(fault Step) Exchange { return Exchange{kind: exchangeSilence, steps: []Step{fault}} }

// Framed sets how the body shows its end.
func (e Exchange) Framed(f Framing) Exchange {
	e.framing = f
	return e
}

// CutAfter lets the stream break by fault after n events of it, keepalives
// included, instead of where its script has a fault. n is counted from 0; beyond
// the end nothing is cut.
func (e Exchange) CutAfter(n int, fault Step) Exchange {
	e.cut = &cut{after: n, how: fault}
	return e
}

// With adds a response header.
func (e Exchange) With(key, value string) Exchange {
	e.header = e.header.Clone()
	if e.header == nil {
		e.header = http.Header{}
	}
	e.header.Add(key, value)
	return e
}

// Unhurried makes the model think for d before each fault, so that a client that drops
// what it has not read when a connection breaks has read what came before.
func (e Exchange) Unhurried(d time.Duration) Exchange {
	steps := make([]Step, 0, len(e.steps)+1)
	for _, s := range e.steps {
		if s.kind.fault() && s.kind != stepPause {
			steps = append(steps, Pause(d))
		}
		steps = append(steps, s)
	}
	e.steps = steps
	return e
}

// Events is how many events the whole stream has over this wire, keepalives and
// the terminal event included.
func (e Exchange) Events(w Wire) int {
	n := 0
	for _, f := range w.render(e.steps, ids{}) {
		if f.fault.kind == 0 {
			n++
		}
	}
	return n
}

// frames are the frames to play.
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
