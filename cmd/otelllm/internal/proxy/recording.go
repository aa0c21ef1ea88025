package proxy

import (
	"bytes"
	"net/http"
	"strings"

	"github.com/otelllm/otelllm-go/otelllm/realtime"
	"github.com/otelllm/otelllm-go/otelllm/responses"
)

// session records the text messages of a WebSocket, as the client of the upstream.
type session interface {
	RecordSent(message []byte)
	RecordReceived(message []byte)
	Close(err error)
}

// recording records a WebSocket. Its zero value records nothing.
type recording struct {
	session session // nil: not recorded

	fromClient, fromUpstream direction
}

// newRecording returns the recording of the WebSocket that resp opens.
func (s *Server) newRecording(resp *http.Response) *recording {
	r := &recording{}
	req := resp.Request
	switch {
	case strings.HasSuffix(req.URL.Path, "/responses"):
		r.session = responses.NewSession(req.Context(), responses.Config{
			URL: req.URL.String(), Header: req.Header, Propagators: s.propagators, Instrumentation: s.llm,
		})
	case strings.HasSuffix(req.URL.Path, "/realtime"):
		r.session = realtime.NewSession(req.Context(), realtime.Config{Instrumentation: s.llm, Header: req.Header})
	default:
		return r
	}
	extensions := resp.Header.Get("Sec-Websocket-Extensions")
	r.fromClient.record, r.fromClient.early = r.session.RecordSent, true
	r.fromClient.frames.inflate = newInflater(extensions, "client")
	r.fromUpstream.record = r.session.RecordReceived
	r.fromUpstream.frames.inflate = newInflater(extensions, "server")
	return r
}

// close ends the recording.
func (r *recording) close(err error) {
	if r.session != nil {
		r.session.Close(err)
	}
}

// direction records what passes from one side of a WebSocket to the other. A message of the upstream counts once it
// has been passed on.
type direction struct {
	record func(message []byte) // nil: nothing is recorded
	frames frameReader
	// early says that a message counts before it is passed on: the answer to a
	// request may be there before the write of the request has returned.
	early   bool
	waiting [][]byte // messages that have not been passed on
}

// closes reports whether a close frame has been read.
func (d *direction) closes() bool { return d.frames.closed.Load() != 0 }

// read takes bytes before they are passed on.
func (d *direction) read(p []byte) {
	if d.record == nil {
		return
	}
	d.frames.read(p, func(message []byte) {
		if d.early {
			d.record(message)
		} else {
			d.waiting = append(d.waiting, bytes.Clone(message))
		}
	})
}

// passed takes the error with which what was read has been passed on, or nil. After an error the last message has not
// got through. Of those before it that is not known, so they count.
func (d *direction) passed(err error) {
	for i, message := range d.waiting {
		if err == nil || i < len(d.waiting)-1 {
			d.record(message)
		}
		d.waiting[i] = nil
	}
	d.waiting = d.waiting[:0]
}
