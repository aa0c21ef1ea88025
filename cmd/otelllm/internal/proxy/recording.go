package proxy

import (
	"bytes"
	"net/http"
	"net/url"
	"strings"

	"github.com/otelllm/otelllm-go/otelllm/realtime"
	"github.com/otelllm/otelllm-go/otelllm/responses"
)

// session records the text messages of one side of a WebSocket.
type session interface {
	RecordSent(message []byte)
	RecordSendFailure(message []byte, err error)
	RecordReceived(message []byte)
	Close(err error)
}

// recording records both sides of a WebSocket. Its zero value records nothing.
type recording struct {
	agent, provider session // the side of the client, and that of the upstream; nil: not recorded

	fromClient, fromUpstream direction
}

// newRecording returns the recording of the WebSocket that resp opens.
func (s *Server) newRecording(x *exchange, resp *http.Response) *recording {
	r := &recording{}
	req := resp.Request
	switch {
	case strings.HasSuffix(req.URL.Path, "/responses"):
		agent := responses.NewSession(req.Context(), responses.Config{
			URL: (&url.URL{Scheme: "ws", Host: x.host}).String(), Header: req.Header, Serving: true,
			Propagators: s.propagators, Instrumentation: s.llm,
		})
		r.agent, r.provider = agent, responses.NewSession(req.Context(), responses.Config{
			URL: req.URL.String(), Header: req.Header, Upstream: agent, Instrumentation: s.llm,
		})
	case strings.HasSuffix(req.URL.Path, "/realtime"):
		r.provider = realtime.NewSession(req.Context(), realtime.Config{Instrumentation: s.llm, Header: req.Header})
	}
	extensions := resp.Header.Get("Sec-Websocket-Extensions")
	r.fromClient.from, r.fromClient.to, r.fromClient.early = r.agent, r.provider, true
	r.fromClient.frames.inflate = newInflater(extensions, "client")
	r.fromUpstream.from, r.fromUpstream.to = r.provider, r.agent
	r.fromUpstream.frames.inflate = newInflater(extensions, "server")
	return r
}

// closeBoth closes the session of the side that broke with its error, and then the other
// one, which this process closes.
func closeBoth(broken, other session, err error) {
	if broken != nil {
		broken.Close(err)
	}
	if other != nil {
		other.Close(nil)
	}
}

// direction records what passes from one side of a WebSocket to the other.
type direction struct {
	from, to session
	frames   frameReader
	// early says that a message counts as sent before it is passed on: the answer to a
	// request may be there before the write of the request has returned.
	early   bool
	waiting [][]byte // messages that have not been passed on
}

// closes reports whether a close frame has been read.
func (d *direction) closes() bool { return d.frames.closed.Load() != 0 }

// read takes bytes before they are passed on.
func (d *direction) read(p []byte) {
	if d.from == nil && d.to == nil {
		return
	}
	d.frames.read(p, func(message []byte) {
		if d.from != nil {
			d.from.RecordReceived(message)
		}
		switch {
		case d.to == nil:
		case d.early:
			d.to.RecordSent(message)
		default:
			d.waiting = append(d.waiting, bytes.Clone(message))
		}
	})
}

// passed takes the error with which what was read has been passed on, or nil.
func (d *direction) passed(err error) {
	for i, message := range d.waiting {
		if err == nil {
			d.to.RecordSent(message)
		} else {
			d.to.RecordSendFailure(message, err)
		}
		d.waiting[i] = nil
	}
	d.waiting = d.waiting[:0]
}
