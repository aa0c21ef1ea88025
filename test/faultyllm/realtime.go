package faultyllm

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"

	"github.com/coder/websocket"
)

// realtimeMessages is the maximum size of a client's message.
const realtimeMessages = 1 << 20

// connKey is the key of the connection in the context of its requests.
type connKey struct{}

// realtimeSession serves one WebSocket of the Realtime API. Each response.create plays
// the next exchange of the case. Faults end the session.
type realtimeSession struct {
	server  *Server
	key     string
	model   string
	tcp     net.Conn // the connection below ws
	ws      *websocket.Conn
	heard   chan clientEvent // closed when the client has disconnected
	events  int              // number of the session's own events that have been sent
	outputs []string         // the calls whose outputs have arrived
}

// clientEvent holds the fields of a client event that the server uses.
type clientEvent struct {
	Type    string          `json:"type"`
	EventID string          `json:"event_id"`
	Item    json.RawMessage `json:"item"`
}

// realtime upgrades the request and serves the session until it ends.
func (s *Server) realtime(w http.ResponseWriter, r *http.Request, key string) {
	tcp, _ := r.Context().Value(connKey{}).(net.Conn)
	ws, err := websocket.Accept(w, r, nil)
	if err != nil {
		return // the client has its error response
	}
	ws.SetReadLimit(realtimeMessages)
	// The request's own context is of no use after the connection is hijacked.
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
	defer cancel()
	c := &realtimeSession{server: s, key: key, model: r.URL.Query().Get("model"), tcp: tcp, ws: ws, heard: make(chan clientEvent, 64)}
	gone, lost := context.WithCancel(ctx)
	reading := make(chan struct{})
	go func() {
		defer close(reading)
		defer lost()
		defer close(c.heard)
		c.listen(ctx)
	}()
	c.serve(ctx, gone)
	_ = ws.CloseNow()
	cancel()
	<-reading
}

// listen passes on the client's events until the client disconnects.
func (c *realtimeSession) listen(ctx context.Context) {
	for {
		_, data, err := c.ws.Read(ctx)
		if err != nil {
			return
		}
		var e clientEvent
		if err := json.Unmarshal(data, &e); err != nil {
			e.Type = "" // an unknown event, to which serve responds with an error
		}
		select {
		case c.heard <- e:
		case <-ctx.Done():
			return
		}
	}
}

// serve responds to the client until the session ends. gone is done when the client has
// disconnected.
func (c *realtimeSession) serve(ctx, gone context.Context) {
	if !c.say(ctx, "session.created", c.session()) {
		return
	}
	for {
		var e clientEvent
		select {
		case heard, ok := <-c.heard:
			if !ok {
				return
			}
			e = heard
		case <-c.server.closing:
			return
		}
		var on bool
		switch e.Type {
		case "session.update":
			on = c.say(ctx, "session.updated", c.session())
		case "conversation.item.create":
			on = c.keep(ctx, e.Item)
		case "response.create":
			on = c.respond(ctx, gone, e.EventID)
		default:
			on = c.fail(ctx, e.EventID, "invalid_request_error", "unknown_event", "faultyllm: no such event: "+e.Type)
		}
		if !on {
			return
		}
	}
}

func (c *realtimeSession) session() string {
	return fmt.Sprintf(`"session":{"type":"realtime","object":"realtime.session","id":%s,"model":%s,"output_modalities":["text"],"tools":[]}`,
		q(ids{seed: c.key}.id("sess_", 0)), q(c.model))
}

// keep adds an item to the conversation and confirms it.
func (c *realtimeSession) keep(ctx context.Context, item json.RawMessage) bool {
	var said struct {
		Type   string `json:"type"`
		CallID string `json:"call_id"`
	}
	if err := json.Unmarshal(item, &said); err != nil {
		return c.fail(ctx, "", "invalid_request_error", "invalid_item", "faultyllm: the item is not an object")
	}
	if said.Type == "function_call_output" {
		c.outputs = append(c.outputs, said.CallID)
	}
	return c.say(ctx, "conversation.item.added", `"item":`+string(item)) && c.say(ctx, "conversation.item.done", `"item":`+string(item))
}

// respond plays the next exchange, and reports whether the session continues.
func (c *realtimeSession) respond(ctx, gone context.Context, eventID string) bool {
	e, record, index, ok := c.server.next(c.key, Request{Wire: Realtime})
	if !ok {
		return c.fail(ctx, eventID, "invalid_request_error", "not_found", "faultyllm: no exchange is scripted for this request")
	}
	done := Record{Wire: Realtime, Streamed: true, Outputs: append([]string(nil), c.outputs...)}
	defer func() { c.server.end(c.key, record, done) }()
	switch e.kind {
	case exchangeFailure:
		v := openAIVoices[e.failure.Trouble]
		return c.fail(ctx, eventID, v.typ, e.failure.responsesCode(), e.failure.message())
	case exchangeSilence:
		return c.fault(gone, e.steps[0], &done)
	case exchangeBody:
		if c.ws.Write(ctx, websocket.MessageText, e.body.data) != nil {
			done.Ending = EndedByClient
			return false
		}
		return true
	}
	frames := e.frames(Realtime, ids{seed: fmt.Sprintf("%s/%d", c.key, index), model: c.model})
	for i, f := range frames {
		// A reset discards what the kernel has not sent yet. The client has to have all
		// messages before the last one ahead of the reset.
		if i+1 < len(frames) && frames[i+1].fault.kind == stepReset && c.ws.Ping(gone) != nil {
			done.Ending = EndedByClient
			return false
		}
		if f.fault.kind != 0 {
			if !c.fault(gone, f.fault, &done) {
				return false
			}
			continue
		}
		if err := c.ws.Write(ctx, websocket.MessageText, f.data); err != nil {
			done.Ending = EndedByClient
			return false
		}
		done.Sent.add(f.sent)
	}
	return true
}

// fault performs the step and reports whether the session continues.
func (c *realtimeSession) fault(gone context.Context, s Step, done *Record) bool {
	switch s.kind {
	case stepReset:
		done.Ending = EndedReset
		if tcp, ok := c.tcp.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // fails only if the connection is already closed
		}
		_ = c.tcp.Close()
	case stepTruncate: // without a close frame
		done.Ending = EndedTruncated
		_ = c.tcp.Close()
	case stepCleanEnd:
		done.Ending = EndedEarly
		_ = c.ws.Close(websocket.StatusNormalClosure, "")
	case stepStall:
		wait(gone, c.server.closing, 0)
		done.Ending = EndedByClient
	case stepPause:
		if wait(gone, c.server.closing, s.pause) {
			return true
		}
		done.Ending = EndedByClient
	}
	return false
}

// say sends an event of the session's own.
func (c *realtimeSession) say(ctx context.Context, name, fields string) bool {
	data := fmt.Sprintf(`{"type":%q,"event_id":%s,%s}`, name, q(ids{seed: c.key}.id("event_s", c.events)), fields)
	c.events++
	return c.ws.Write(ctx, websocket.MessageText, []byte(data)) == nil
}

// fail sends an error event in response to a client's event.
func (c *realtimeSession) fail(ctx context.Context, about, typ, code, message string) bool {
	return c.say(ctx, "error", fmt.Sprintf(`"error":{"type":%s,"code":%s,"message":%s,"param":null,"event_id":%s}`,
		q(typ), q(code), q(message), orNull(about)))
}
