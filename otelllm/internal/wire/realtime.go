package wire

import (
	"bytes"

	"github.com/otelllm/otelllm-go/semconv"
)

// Realtime reads the frames of one session of the OpenAI Realtime API. Each is a JSON
// object with a type. It knows the event names since the API became generally available
// (response.output_text.delta) and those of the beta that Azure and gateways still send
// (response.text.delta). It keeps counts, ids and codes but never content. It is not safe
// for concurrent use.
//
// Sources: the API reference of client and server events,
// https://platform.openai.com/docs/api-reference/realtime-client-events and
// https://platform.openai.com/docs/api-reference/realtime-server-events, and the
// types of package realtime in github.com/openai/openai-go/v3.
type Realtime struct {
	model       string
	serverModel bool                // model is from the server, which overrides the client
	tools       []string            // provider-executed tools that the session offers; nil: not known
	hidden      bool                // the client has set something of the session that is not known
	open        []*realtimeResponse // responses that have begun and are not done, the oldest first

	values *values // of the current frame; nil: the fast path learns nothing
}

// MaxOpenResponses bounds the responses of a session that are open at the same time. A
// conversation has one at a time; others are possible outside of it (conversation: none).
// Beyond the bound the oldest is forgotten.
const MaxOpenResponses = 8

// FrameKind is the meaning of a frame for the caller.
type FrameKind uint8

const (
	// FrameOther is any other frame. It is not progress: session and rate limit events,
	// input audio, items of the conversation, unknown events, and events of a response
	// whose beginning was not received, or that is done or forgotten.
	FrameOther FrameKind = iota
	// FrameCreateSent is a sent response.create. With voice activity detection the server begins
	// responses without it.
	FrameCreateSent
	// FrameBegan is response.created.
	FrameBegan
	// FrameProgress is any other event of an open response, by its response_id.
	FrameProgress
	// FrameDone is response.done, "always emitted, no matter the final state".
	FrameDone
	// FrameOutputSent is a sent conversation.item.create whose item is a
	// function_call_output.
	FrameOutputSent
	// FrameCancelSent is a sent response.cancel.
	FrameCancelSent
	// FrameError is an error event. According to the reference most leave the session open;
	// one may answer a request that was sent too early or too late
	// (conversation_already_has_active_response, response_cancel_not_active).
	FrameError
	// FrameHistoryChanged is a sent conversation.item.delete or .truncate, or the server's
	// confirmation: from then on the content of the history is not known.
	FrameHistoryChanged
	// FrameUnreadable is not a JSON object, or longer than MaxEvent.
	FrameUnreadable
)

// Reasons of a cancelled response, as the API writes them.
const (
	CancelTurnDetected = "turn_detected"    // the user began to speak
	CancelClient       = "client_cancelled" // response.cancel
)

// Frame is the meaning of one frame.
type Frame struct {
	Kind FrameKind
	// ResponseID, as SafeID returns it, is the response of a FrameBegan, FrameProgress or
	// FrameDone, and the one that a FrameCancelSent names; "" if it names none.
	ResponseID string
	// State is the state of the response of a FrameBegan, FrameProgress or FrameDone. The
	// pointer stays the same for a response; after FrameDone the state does not change.
	// Model is mostly empty: the session has it, the response need not. State contains the
	// end of the response: for the status completed, Complete; for incomplete, Complete
	// with the reason as finish reason (max_output_tokens, content_filter); for failed,
	// Err; for cancelled neither, and the finish reason cancelled.
	State *State
	// Cancelled, of a FrameDone: the response was cancelled. CancelReason is its
	// status_details.reason, as SafeName returns it, or "".
	Cancelled    bool
	CancelReason string
	// ProviderTools, of a FrameCreateSent and a FrameBegan, are the types of the
	// provider-executed tools that are offered to the response: those of the
	// response.create, else those of the session; nil: not known. They do not change.
	ProviderTools []string
	CallID        string // of a FrameOutputSent, as SafeID returns it
	Err           *Error // of a FrameError: codes only
	// EventID, as SafeID returns it, is the event_id of a FrameCreateSent, a FrameOutputSent
	// and a FrameCancelSent. Of a FrameError it is that of the client's event that caused
	// it, or "".
	EventID string
}

// realtimeResponse is one response and its reader.
type realtimeResponse struct {
	responsesReader

	id  string // as SafeID returns it
	raw []byte // as in the events, unless that is long

	fast fastPath // for the frames that name this response
}

// NewRealtime returns a reader of one session.
func NewRealtime() *Realtime { return &Realtime{values: &values{}} }

// Model returns the session's model from session.created, session.updated or else a
// session.update, in a form that may be recorded; "" before.
func (r *Realtime) Model() string { return r.model }

// Received reads a text frame from the server. It does not retain p.
func (r *Realtime) Received(p []byte) Frame {
	if len(p) > MaxEvent {
		return Frame{Kind: FrameUnreadable}
	}
	for _, x := range r.open {
		if d := x.fast.find(nil, p); d != nil {
			addDelta(&x.responsesReader, d)
			return x.progress(FrameProgress)
		}
	}
	var ev realtimeEvent
	r.values.reset()
	if !ev.read(&cursor{b: p, values: r.values}, false) {
		return Frame{Kind: FrameUnreadable}
	}
	switch string(ev.typ) {
	case "error":
		return Frame{Kind: FrameError, Err: ev.failure().asError(), EventID: safeID(ev.failure().eventID)}
	case "session.created", "session.updated":
		r.setSession(&ev, true)
	case "conversation.item.deleted", "conversation.item.truncated":
		return Frame{Kind: FrameHistoryChanged}
	case "response.created":
		f := r.begin(ev.response.id)
		f.ProviderTools = r.tools
		return f
	case "response.done":
		return r.end(&ev.response)
	default:
		if bytes.HasPrefix(ev.typ, []byte("response.")) {
			return r.progress(p, &ev)
		}
	}
	return Frame{}
}

// Sent reads a text frame that was written to the server. It does not retain p.
func (r *Realtime) Sent(p []byte) Frame {
	var ev realtimeEvent
	if len(p) > MaxEvent || !ev.read(&cursor{b: p}, true) {
		return Frame{Kind: FrameUnreadable}
	}
	switch string(ev.typ) {
	case "response.create":
		f := Frame{Kind: FrameCreateSent, EventID: safeID(ev.eventID), ProviderTools: r.tools}
		if ev.hasTools || ev.tools.hidden {
			f.ProviderTools = ev.tools.types()
		}
		return f
	case "response.cancel":
		return Frame{Kind: FrameCancelSent, ResponseID: safeID(ev.responseID), EventID: safeID(ev.eventID)}
	case "conversation.item.create":
		if string(ev.item.typ) == "function_call_output" {
			return Frame{Kind: FrameOutputSent, CallID: safeID(ev.item.callID), EventID: safeID(ev.eventID)}
		}
	case "conversation.item.delete", "conversation.item.truncate":
		return Frame{Kind: FrameHistoryChanged}
	case "session.update":
		r.setSession(&ev, false)
	}
	return Frame{}
}

// setSession handles a session event.
func (r *Realtime) setSession(ev *realtimeEvent, server bool) {
	r.hidden = r.hidden || !server && ev.tools.hidden
	switch {
	case r.hidden:
		r.tools = nil
	case ev.hasTools:
		r.tools = ev.tools.types()
	}
	if len(ev.model) == 0 || r.serverModel && !server {
		return
	}
	r.model, r.serverModel = safeModel(ev.model), server
}

// begin handles response.created.
func (r *Realtime) begin(id []byte) Frame {
	if x := r.find(id); x != nil {
		return x.progress(FrameProgress)
	}
	x := &realtimeResponse{id: safeID(id)}
	if len(id) <= maxSafeID {
		x.raw = bytes.Clone(id)
	}
	x.t.State = State{ResponseID: x.id, Phase: semconv.PhaseResponseStarted, FinishReasons: []string{}, Usage: unknownUsage}
	if len(r.open) == MaxOpenResponses {
		r.drop(r.open[0])
	}
	r.open = append(r.open, x)
	return x.progress(FrameBegan)
}

// progress handles an event of an open response. The events of its items have the same
// meaning as in the Responses API; only response.done has the end.
func (r *Realtime) progress(p []byte, ev *realtimeEvent) Frame {
	x := r.find(ev.responseID)
	if x == nil {
		return Frame{}
	}
	for _, suffix := range [...]string{".added", ".delta", ".done"} {
		if bytes.HasSuffix(ev.typ, []byte(suffix)) {
			if x.apply(&ev.responsesEvent) == content {
				if len(ev.responseID) > 0 { // else the same frame may later belong to another response
					x.fast.learn(nil, p, r.values, x.t.delta)
				}
				addDelta(&x.responsesReader, &x.t.delta)
			}
			break
		}
	}
	return x.progress(FrameProgress)
}

// end handles response.done.
func (r *Realtime) end(resp *responsesObject) Frame {
	x := r.find(resp.id)
	if x == nil {
		return Frame{}
	}
	r.drop(x)
	f := x.progress(FrameDone)
	switch string(resp.status) {
	case "completed":
		x.completed(resp)
	case "incomplete":
		x.incomplete(resp)
	case "failed":
		x.outcome(resp)
		x.t.fail(&resp.fault)
	case "cancelled":
		x.outcome(resp)
		x.t.finishAs(safeName(resp.status))
		f.Cancelled, f.CancelReason = true, safeName(resp.reason)
	default:
		x.outcome(resp) // an unknown status proves nothing
	}
	x.t.Terminal = true
	return f
}

// find returns the open response of this id, or nil. An event that names no response
// belongs to the only open one.
func (r *Realtime) find(id []byte) *realtimeResponse {
	if len(id) == 0 && len(r.open) == 1 {
		return r.open[0]
	}
	for _, x := range r.open {
		if string(id) == string(x.raw) || len(id) > maxSafeID && safeID(id) == x.id {
			return x
		}
	}
	return nil
}

// drop forgets a response.
func (r *Realtime) drop(x *realtimeResponse) {
	for i := range r.open {
		if r.open[i] == x {
			r.open = append(r.open[:i], r.open[i+1:]...)
			break
		}
	}
}

// progress counts an event of the response.
func (x *realtimeResponse) progress(kind FrameKind) Frame {
	x.t.Events++
	return Frame{Kind: kind, ResponseID: x.id, State: &x.t.State}
}

// realtimeEvent is the parsed form of one frame. Its slices point into the frame.
type realtimeEvent struct {
	responsesEvent

	eventID, responseID []byte
	model               []byte       // of the session
	tools               offeredTools // of the session or of the response
	hasTools            bool
}

// read parses a frame. It reads the event_id, which differs in every frame, only of sent
// frames: the others do not need it.
func (ev *realtimeEvent) read(c *cursor, sent bool) bool {
	ev.begin()
	if c.peek() != '{' {
		return false
	}
	for key, ok := c.object(); ok; key, ok = c.key() {
		switch string(key) {
		case "event_id":
			if sent {
				ev.eventID = c.str()
			} else {
				c.skipVarying()
			}
		case "response_id":
			ev.responseID = c.str()
		case "session":
			ev.readSession(c, sent)
		case "response":
			ev.readResponse(c, sent)
		default:
			ev.member(c, key)
		}
	}
	ev.unread = ev.unread || c.unread
	return c.end()
}

// readSession reads the session of a session event. What the client sets in it has to be known:
// see [members].
func (ev *realtimeEvent) readSession(c *cursor, sent bool) {
	for key, ok := c.object(); ok; key, ok = c.key() {
		switch string(key) {
		case "model":
			ev.model = c.str()
		case "tools":
			ev.readTools(c)
		default:
			if sent {
				ev.tools.other(c, realtimeMembers, key)
			} else {
				c.skip()
			}
		}
	}
}

// readResponse reads the response of an event. A response.create may have tools of its
// own, and what else it sets has to be known.
func (ev *realtimeEvent) readResponse(c *cursor, sent bool) {
	ev.response.usage = unknownUsage
	for key, ok := c.object(); ok; key, ok = c.key() {
		switch {
		case string(key) == "tools":
			ev.readTools(c)
		case sent:
			ev.tools.other(c, realtimeMembers, key)
		default:
			ev.response.member(c, key)
		}
	}
}

func (ev *realtimeEvent) readTools(c *cursor) {
	if c.peek() != '[' {
		c.skip() // null: it has no effect
		return
	}
	ev.hasTools = true
	ev.tools.addResponses(c)
}
