package faultyllm

import (
	"context"
	"maps"
	"net"
	"net/http"
	"strconv"
)

// player plays one exchange.
type player struct {
	w       http.ResponseWriter
	rc      *http.ResponseController
	gone    context.Context // done when the client has disconnected
	closing <-chan struct{}
	asked   http.Header // the request's
	ids     ids
	record  Record
}

func (p *player) play(e Exchange) {
	if e.kind == exchangeSilence {
		p.fault(e.steps[0])
		if p.record.Ending == EndedEarly || p.record.Ending == EndedByClient {
			p.hangUp(false) // a handler that returns writes headers
		}
		return
	}
	h := p.w.Header()
	maps.Copy(h, e.header)
	if p.record.Encoding = e.Encoding(p.asked); p.record.Encoding != "" {
		h.Set("Content-Encoding", string(p.record.Encoding))
		h.Add("Vary", "Accept-Encoding")
	}
	if header := p.record.Wire.requestIDHeader(); header != "" {
		p.record.RequestID = p.ids.id("req_", 0)
		h.Set(header, p.record.RequestID)
	}
	switch e.kind {
	case exchangeFailure:
		p.record.Status = e.failure.write(p.w, p.record.Wire, p.record.RequestID, p.record.Encoding)
	case exchangeRedirect:
		p.record.Status = http.StatusFound
		h.Set("Location", e.location)
		p.w.WriteHeader(http.StatusFound)
	case exchangeBody:
		p.document(e, e.body.contentType, e.body.data)
	default:
		if p.record.Streamed && !e.asDocument {
			p.stream(e)
		} else {
			p.document(e, "application/json", p.record.Wire.document(e.steps, p.ids))
		}
	}
}

// stream plays the frames one by one and flushes each, until a fault ends the response.
func (p *player) stream(e Exchange) {
	frames := p.record.Encoding.stream(e.frames(p.record.Wire, p.ids))
	length := 0
	for _, f := range frames {
		length += len(f.data)
	}
	if e.cut != nil { // the Content-Length is that of the whole stream
		length = 0
		for _, f := range p.record.Encoding.stream(p.record.Wire.render(e.steps, p.ids)) {
			length += len(f.data)
		}
	}
	p.w.Header().Set("Cache-Control", "no-cache")
	p.headers("text/event-stream; charset=utf-8", e.framing, length+missing(frames))
	if !p.flush() {
		return
	}
	for _, f := range frames {
		if f.fault.kind != 0 {
			if !p.fault(f.fault) {
				return
			}
			continue
		}
		if !p.write(f.data) {
			return
		}
		p.record.Sent.add(f.sent)
	}
}

// missing returns by how much the Content-Length has to exceed the frames, so that the
// body of a truncated stream is too short.
func missing(frames []frame) int {
	for _, f := range frames {
		if f.fault.ends() {
			return len("data: [DONE]\n\n")
		}
	}
	return 0
}

// document writes a body that is not a stream. A fault that ends the response takes
// effect in its middle.
func (p *player) document(e Exchange, contentType string, data []byte) {
	size := len(data)
	data = p.record.Encoding.document(data)
	framing := e.framing
	if framing == Natural {
		framing = ContentLength
	}
	p.headers(contentType, framing, len(data))
	var fault Step
	for _, s := range e.steps {
		if s.kind == stepPause {
			if !p.fault(s) {
				return
			}
		} else if s.kind.fault() {
			fault = s
		}
	}
	if fault.kind == 0 {
		if p.write(data) {
			p.record.Sent.Bytes = size
		}
		return
	}
	if half := data[:len(data)/2]; p.write(half) {
		p.record.Sent.Bytes = size / 2
		p.fault(fault)
	}
}

func (p *player) headers(contentType string, f Framing, length int) {
	h := p.w.Header()
	h.Set("Content-Type", contentType)
	switch f {
	case ContentLength:
		h.Set("Content-Length", strconv.Itoa(length))
	case CloseDelimited:
		h.Set("Connection", "close")
		h.Set("Transfer-Encoding", "identity")
	}
	p.record.Status = http.StatusOK
	p.w.WriteHeader(http.StatusOK)
}

func (p *player) write(data []byte) bool {
	if _, err := p.w.Write(data); err != nil {
		p.record.Ending = EndedByClient
		return false
	}
	return p.flush()
}

func (p *player) flush() bool {
	if err := p.rc.Flush(); err != nil {
		p.record.Ending = EndedByClient
		return false
	}
	return true
}

// fault performs the step and reports whether the exchange continues.
func (p *player) fault(s Step) bool {
	switch s.kind {
	case stepReset:
		p.record.Ending = EndedReset
		p.hangUp(true)
	case stepTruncate:
		p.record.Ending = EndedTruncated
		p.hangUp(false)
	case stepCleanEnd, stepCutEncoding:
		p.record.Ending = EndedEarly
	case stepStall:
		wait(p.gone, p.closing, 0)
		p.record.Ending = EndedByClient
	case stepPause:
		if wait(p.gone, p.closing, s.pause) {
			return true
		}
		p.record.Ending = EndedByClient
	}
	return false
}

// hangUp takes the connection from the HTTP server and closes it: with a reset, or with
// a FIN. Everything written before has already reached the client's kernel, which
// delivers it to the reader before the reset.
func (p *player) hangUp(reset bool) {
	conn, _, err := p.rc.Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // HTTP/2, or the connection is already closed: the server resets the stream
	}
	if tcp, ok := conn.(*net.TCPConn); ok && reset {
		_ = tcp.SetLinger(0) // fails only if the connection is already closed
	}
	_ = conn.Close()
}
