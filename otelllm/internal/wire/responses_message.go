package wire

import "bytes"

// This file reads the messages of a WebSocket of the Responses API. Each is a JSON object
// with a type. What a client sends as response.create has the members of the body of a
// request over HTTP, and the server's events are those of the event stream over HTTP: so
// [Protocol.ReadRequest], [Transcript.Read] and [NewResponsesMessages] read their content.
//
// Sources: OpenAI's guide of the WebSocket mode,
// https://developers.openai.com/api/docs/guides/websocket-mode, and the reference of its
// events, https://developers.openai.com/api/reference/resources/responses/websocket-events,
// as of November 2026.

// NewResponsesMessages returns a decoder of a response of the Responses API that comes over
// a WebSocket: each Write is one message. The response is complete as over HTTP.
func NewResponsesMessages() Decoder {
	d := responsesDecoders.get("", 0)
	d.mode = separate
	return d
}

// ClientMessageKind is the meaning of a client's message for the connection.
type ClientMessageKind uint8

const (
	// ClientOther is any other message, or one that cannot be read.
	ClientOther ClientMessageKind = iota
	// ClientCreate is a response.create: a request begins.
	ClientCreate
	// ClientPrewarm is a response.create with generate: false. The server reads its input
	// and answers with a response that has no output and that a later request may name as
	// the one before it.
	ClientPrewarm
	// ClientSteer is a response.steer: the server may end the response early, and begins
	// another one without a request for it.
	ClientSteer
)

// ClientMessage is what the message of a client says beside the content of its request.
type ClientMessage struct {
	Kind ClientMessageKind
	// Stream is the stream_id; "": the default stream. The requests of one stream are
	// answered one after the other, those of several streams at the same time.
	Stream string
	// TraceParent and TraceState are the trace context in the client_metadata that Codex
	// sends with each request, as there are no headers for it.
	TraceParent, TraceState string
}

// ReadClientMessage reads a message of a client. It retains nothing of p.
func ReadClientMessage(p []byte) (m ClientMessage) {
	if len(p) > MaxEvent {
		if typ, _ := leadingType(p); string(typ) == "response.create" {
			return ClientMessage{Kind: ClientCreate} // its content is not read
		}
		return ClientMessage{}
	}
	c := cursor{b: p}
	generate := true
	var typ, stream []byte
	for key, ok := c.object(); ok; key, ok = c.key() {
		switch string(key) {
		case "type":
			typ = c.str()
		case "stream_id":
			stream = c.str()
		case "generate":
			b := c.peek()
			c.skip()
			generate = b != 'f'
		case "client_metadata":
			m.readMetadata(&c)
		default:
			c.skip()
		}
	}
	if c.bad || len(stream) > maxStreamID {
		return ClientMessage{}
	}
	switch {
	case string(typ) == "response.create" && generate:
		m.Kind = ClientCreate
	case string(typ) == "response.create":
		m.Kind = ClientPrewarm
	case string(typ) == "response.steer":
		m.Kind = ClientSteer
	}
	m.Stream = string(stream)
	return m
}

const (
	maxStreamID = 256 // the API's own limit
	maxTrace    = 512 // of a traceparent or tracestate, in bytes
)

// readMetadata reads the client_metadata.
func (m *ClientMessage) readMetadata(c *cursor) {
	for key, ok := c.object(); ok; key, ok = c.key() {
		switch string(key) {
		case "ws_request_header_traceparent":
			m.TraceParent = traceValue(c.str())
		case "ws_request_header_tracestate":
			m.TraceState = traceValue(c.str())
		default:
			c.skip()
		}
	}
}

func traceValue(b []byte) string {
	if len(b) > maxTrace {
		return ""
	}
	return string(b)
}

// ServerMessageKind is the meaning of a server's message for the connection.
type ServerMessageKind uint8

const (
	// ServerOther is not part of a response: an answer to a response.steer that changes
	// nothing.
	ServerOther ServerMessageKind = iota
	// ServerSteerAccepted is response.steer.accepted: unless a ServerSteerDone follows, the
	// server begins another response without a request for it.
	ServerSteerAccepted
	// ServerSteerDone is a response.steer.failed after the input was accepted, or a
	// response.steer.pending: the input waits for the client's next request. No response
	// follows by itself.
	ServerSteerDone
	// ServerKeepalive is no progress: a keepalive, or limits of the account.
	ServerKeepalive
	// ServerBegins is response.created, or response.queued.
	ServerBegins
	// ServerPart is any other event within a response.
	ServerPart
	// ServerEnds is response.completed, .incomplete, .failed or .cancelled.
	ServerEnds
	// ServerError is an error event. It ends the response, or answers the request for one.
	ServerError
)

// ServerMessage is what the message of a server says about its place.
type ServerMessage struct {
	Kind   ServerMessageKind
	Stream string // as [ClientMessage.Stream]
	// ResponseID, as SafeID returns it, is the response of a message that begins or ends
	// one; "": it names none.
	ResponseID string
	// Failed: a message that ends a response is response.failed or response.cancelled.
	Failed bool
	// Steered: the response ended early because of a response.steer. Another response
	// follows without a request for it.
	Steered bool
	// Connection: the error ends the connection and not one response alone.
	Connection bool
}

// connectionLimit is the code of the error by which a server ends a connection that has
// been open for as long as is allowed (60 minutes).
const connectionLimit = "websocket_connection_limit_reached"

// ReadServerMessage reads a message of a server. It retains nothing of p. Most messages are
// deltas: of these it reads the type and, if it is there, the stream.
func ReadServerMessage(p []byte) ServerMessage {
	if len(p) > MaxEvent {
		return ServerMessage{Kind: ServerPart} // what it was is not known
	}
	if typ, ok := leadingType(p); ok && !bytes.Contains(p, []byte(`"stream_id"`)) {
		if kind := serverKind(typ); kind == ServerPart {
			return ServerMessage{Kind: kind}
		}
	}
	return readServerMessage(p)
}

// leadingType returns the type of a message whose first member it is, as it is in nearly
// all.
func leadingType(p []byte) ([]byte, bool) {
	rest, ok := bytes.CutPrefix(p, []byte(`{"type":"`))
	if !ok {
		return nil, false
	}
	end := bytes.IndexByte(rest[:min(len(rest), 128)], '"')
	if end < 0 || bytes.IndexByte(rest[:end], '\\') >= 0 {
		return nil, false
	}
	return rest[:end], true
}

func readServerMessage(p []byte) (m ServerMessage) {
	c := cursor{b: p}
	var typ, stream, id, steer []byte
	var nested, flat fault
	steered := false
	for key, ok := c.object(); ok; key, ok = c.key() {
		switch string(key) {
		case "type":
			typ = c.str()
		case "stream_id":
			stream = c.str()
		case "response":
			id, steered = readEndOfResponse(&c)
		case "steer":
			steer = readReference(&c)
		case "error":
			nested.read(&c)
		case "code":
			flat.member(&c, key)
		default:
			c.skipUnknown(key)
		}
	}
	if c.misnamed && !c.bad {
		return readServerMessage(canonical(p))
	}
	if c.bad || len(stream) > maxStreamID {
		return ServerMessage{Kind: ServerPart} // the decoder finds what is wrong with it
	}
	m = ServerMessage{Kind: serverKind(typ), Stream: string(stream)}
	switch m.Kind {
	case ServerBegins:
		m.ResponseID = safeID(id)
	case ServerEnds:
		m.ResponseID, m.Steered = safeID(id), steered
		m.Failed = string(typ) == "response.failed" || string(typ) == "response.cancelled"
	case ServerError:
		m.Connection = string(nested.code) == connectionLimit || string(flat.code) == connectionLimit
	case ServerSteerDone:
		if string(typ) == "response.steer.failed" && len(steer) == 0 {
			m.Kind = ServerOther // it was never accepted
		}
	case ServerOther, ServerSteerAccepted, ServerKeepalive, ServerPart:
	}
	return m
}

// readEndOfResponse reads of a response its id, and whether a response.steer ended it.
func readEndOfResponse(c *cursor) (id []byte, steered bool) {
	for key, ok := c.object(); ok; key, ok = c.key() {
		switch string(key) {
		case "id":
			id = c.str()
		case "incomplete_details":
			for key, ok := c.object(); ok; key, ok = c.key() {
				if string(key) == "reason" {
					steered = string(c.str()) == "steered"
				} else {
					c.skip()
				}
			}
		default:
			c.skip()
		}
	}
	return id, steered
}

func serverKind(typ []byte) ServerMessageKind {
	switch string(typ) {
	case "error":
		return ServerError
	case "response.created", "response.queued":
		return ServerBegins
	case "response.completed", "response.incomplete", "response.failed", "response.cancelled":
		return ServerEnds
	case "response.steer.accepted":
		return ServerSteerAccepted
	case "response.steer.failed", "response.steer.pending":
		return ServerSteerDone
	case "keepalive", "ping", "codex.rate_limits", "codex.response.metadata":
		return ServerKeepalive
	}
	if bytes.HasPrefix(typ, []byte("response.steer.")) {
		return ServerOther
	}
	return ServerPart
}
