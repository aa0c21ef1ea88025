package wire

import (
	"bytes"
	"strings"
)

// mistralConversations is Mistral's Conversations API, streaming or not: the beginning of a
// conversation, what is appended to it, and its restart from an entry. The history is on the
// server. A stream begins with conversation.response.started; the response is complete with
// conversation.response.done, which has the usage, and has failed with
// conversation.response.error. There is no finish reason: a response with calls gets
// tool_calls, another one stop, as those of the Responses API. Connectors and handoffs to
// other agents are executed by the server (tool.execution.started, agent.handoff.started). A
// function.call.delta has the id and the name of its call each time, and no event ends one:
// its input is complete with the next entry, or with the response.
//
// https://docs.mistral.ai/api/endpoint/beta/conversations (November 2026), and the types of
// mistralai/client-python of June 2026.
type mistralConversations struct{ conversation string }

func (mistralConversations) Name() string                    { return "mistral_conversations" }
func (mistralConversations) Provider() string                { return providerMistral }
func (mistralConversations) Operation() string               { return "chat" }
func (mistralConversations) ReadError(_ int, b []byte) Error { return readError(b) }

var mistralDecoders decoders[mistralReader, *mistralReader]

func (mistralConversations) NewDecoder(ct string) Decoder { return mistralDecoders.get(ct, 0) }

// mistralAt matches …/v1/conversations, …/v1/conversations/{id} and that with /restart. It is
// no proof: OpenAI has such paths for conversations without an answer.
func mistralAt(path string) (p Protocol, sure bool) {
	i := strings.LastIndex(path, "/v1/conversations")
	if i < 0 {
		return nil, false
	}
	rest := path[i+len("/v1/conversations"):]
	if rest == "" {
		return mistralConversations{}, false
	}
	id := strings.TrimSuffix(rest[1:], "/restart")
	if rest[0] != '/' || id == "" || strings.Contains(id, "/") {
		return nil, false
	}
	return mistralConversations{SafeID(id)}, false
}

// ReadRequest implements [Protocol].
func (p mistralConversations) ReadRequest(body []byte) (Request, error) {
	req := Request{ConversationID: p.conversation}
	var tools offeredTools
	var calls, outputs newestIDs
	given, agent := false, false
	c := cursor{b: body}
	isObject := c.peek() == '{'
	for key, ok := c.object(); ok; key, ok = c.key() {
		switch string(key) {
		case "model":
			req.Model = safeModel(c.str())
		case "agent_id":
			agent = c.hasValue()
		case "stream":
			req.Stream = c.boolean()
		case "inputs":
			if given = c.peek() == '"'; given {
				c.skip()
				continue
			}
			given = c.peek() == '['
			for ok := c.array(); ok; ok = c.element() {
				readMistralEntry(&c, &calls, &outputs)
			}
		case "tools":
			tools.addUnlessFunction(&c)
		case "completion_args":
			req.limit(readMember(&c, "max_tokens"))
		default:
			tools.other(&c, mistralMembers, key)
		}
	}
	tools.hidden = tools.hidden || agent || p.conversation != "" // those of the agent, or of the conversation
	req.ProviderTools = tools.types()
	req.fillModel("")
	req.HistoryOutputs = outputs.safe()
	if p.conversation == "" {
		req.HistoryCalls = calls.safe()
	}
	req.IsCall = given && (req.Model != "" || agent || p.conversation != "")
	return req, requestError(&c, isObject)
}

// readMistralEntry reads an entry of the history.
func readMistralEntry(c *cursor, calls, outputs *newestIDs) {
	typ, id, _ := readTypeAndIDs(c, "tool_call_id", "") // an output has the call's id in the same member
	switch string(typ) {
	case "function.call":
		calls.add(id)
	case "function.result":
		outputs.add(id)
	}
}

// mistralReader reads one response of a conversation.
type mistralReader struct {
	t    tally
	open callSet[string] // calls, by id as [SafeID] returns it
}

func (r *mistralReader) tally() *tally { return &r.t }
func (r *mistralReader) reset()        { *r = mistralReader{open: r.open.cleared()} }
func (r *mistralReader) done()         {}

// closed handles the end of the body.
func (r *mistralReader) closed(cut bool) {
	if !cut && !r.t.over() {
		r.open.cleanEnd(&r.t)
	}
}

func (r *mistralReader) add(d *contentDelta) {
	r.open.leave(&r.t)
	r.t.add(d)
}

func (r *mistralReader) event(name, data []byte) payloadKind {
	var ev mistralEvent
	c := r.t.cursor(data)
	ev.read(&c)
	if v := r.t.payloadKind(&c); v != progress {
		return v
	}
	if ev.typed = len(ev.typ) > 0; !ev.typed {
		ev.typ = name
	}
	r.t.Unread = r.t.Unread || ev.unread
	switch string(ev.typ) {
	case "message.output.delta":
		r.t.identify(nil, ev.model)
		return r.t.content(contentDelta{text: ev.text, reasoning: ev.reasoning})
	case "function.call.delta":
		r.t.identify(nil, ev.model)
		r.input(&ev)
	case "tool.execution.started", "agent.handoff.started":
		r.open.leave(&r.t)
		r.t.providerTool(ev.providerTool())
	case "conversation.response.started":
	case "tool.execution.delta", "tool.execution.done", "agent.handoff.done":
		r.open.leave(&r.t)
	case "conversation.response.done":
		r.end(&ev)
	case "conversation.response.error":
		r.t.fail(&ev.fault)
	default:
		// A type that is not known may be the beginning of a tool.
		r.t.Unread = r.t.Unread || ev.typed || ev.text || ev.reasoning || len(ev.callID) > 0
	}
	return progress
}

// input records a part of the input of a call.
func (r *mistralReader) input(ev *mistralEvent) {
	id := safeID(ev.callID)
	if known := r.open.find(id); known != nil {
		r.open.part(&r.t, id, known, ev.input)
	} else {
		r.open.begin(&r.t, id, r.t.start(ev.callID, ev.name), ev.input)
	}
}

func (r *mistralReader) end(ev *mistralEvent) {
	r.t.use(ev.usage)
	if r.t.Terminal {
		return
	}
	r.open.endAll(&r.t)
	r.t.handOverAll()
	if r.t.ToolCalls > 0 {
		r.t.finishAs("tool_calls")
	} else {
		r.t.finishAs("stop")
	}
	r.t.end()
}

func (r *mistralReader) document(data []byte) payloadKind {
	ev := mistralEvent{}
	c := r.t.cursor(data)
	ev.read(&c)
	if v := r.t.payloadKind(&c); v != progress {
		return v
	}
	if !ev.hasOutputs {
		if f, ok := faultOf(data); ok && f.seen {
			r.t.fail(&f)
		} else {
			r.t.Unread = true // its meaning is not known
		}
		return progress
	}
	for i := range ev.outputs {
		out := &ev.outputs[i]
		r.t.Unread = r.t.Unread || out.unread
		r.t.identify(nil, out.model)
		switch string(out.typ) {
		case "message.output":
			if out.reasoning {
				r.t.reasoning()
			}
			if out.text {
				r.t.text()
			}
		case "function.call":
			call := r.t.start(out.callID, out.name)
			r.t.input(&call, out.input)
			r.t.endInput(&call)
		case "tool.execution", "agent.handoff":
			r.t.providerTool(out.providerTool())
		default:
			r.t.Unread = true
		}
	}
	r.end(&ev)
	return progress
}

// mistralEvent is the parsed form of an event, of an entry, or of a whole body.
type mistralEvent struct {
	typ, callID, name, model []byte
	text, reasoning          bool
	unread                   bool // an unknown member contains text
	typed                    bool // it has a type of its own, not the event's name
	input                    inputPart
	usage                    Usage
	fault                    fault
	outputs                  []mistralEvent
	hasOutputs               bool
}

// providerTool returns the name of the tool that the server executes. A handoff is another
// agent's turn.
func (ev *mistralEvent) providerTool() []byte {
	if bytes.HasPrefix(ev.typ, []byte("agent.handoff")) {
		return []byte("handoff")
	}
	return ev.name
}

func (ev *mistralEvent) read(c *cursor) {
	ev.usage = unknownUsage
	for key, ok := c.object(); ok; key, ok = c.key() {
		switch string(key) {
		case "type":
			ev.typ = c.str()
		case "tool_call_id":
			ev.callID = c.str()
		case "name":
			ev.name = c.str()
		case "model":
			ev.model = c.str()
		case "content":
			ev.content(c)
		case "usage":
			ev.usage = readMistralUsage(c)
		case "code":
			ev.fault.seen = true
			ev.fault.member(c, key)
		case "created_at", "completed_at":
			c.skipVarying()
		case "arguments":
			ev.input = c.inputPart()
		case "outputs":
			ev.hasOutputs = c.peek() == '['
			for ok := c.array(); ok; ok = c.element() {
				var out mistralEvent
				if out.read(c); c.room(len(ev.outputs)) {
					ev.outputs = append(ev.outputs, out)
				}
			}
		case "id", "conversation_id", "agent_id", "object", "role", "output_index", "content_index", "info", "message",
			"confirmation_status", "previous_agent_id", "previous_agent_name", "next_agent_id", "next_agent_name", "guardrails":
			c.skip()
		default:
			ev.unread = c.checkUnread(key) || ev.unread
		}
	}
}

// content reads a text, a chunk, or a list of chunks.
func (ev *mistralEvent) content(c *cursor) {
	switch c.peek() {
	case '"':
		ev.text = c.filled() || ev.text
	case '[':
		for ok := c.array(); ok; ok = c.element() {
			ev.chunk(c)
		}
	default:
		ev.chunk(c)
	}
}

func (ev *mistralEvent) chunk(c *cursor) {
	var typ []byte
	filled, thought := false, false
	for key, ok := c.object(); ok; key, ok = c.key() {
		switch string(key) {
		case "type":
			typ = c.str()
		case "thinking":
			thought = c.nonEmpty() || thought
		case "text", "image_url", "document_url", "file_id":
			filled = c.nonEmpty() || filled
		case "closed", "signature", "tool", "title", "url", "source", "file_name", "file_type", "document_name", "favicon", "description":
			c.skip()
		default:
			c.skipUnread(key)
		}
	}
	ev.reasoning = ev.reasoning || thought
	ev.text = ev.text || filled && string(typ) != "tool_reference"
}

func readMistralUsage(c *cursor) Usage {
	u := unknownUsage
	for key, ok := c.object(); ok; key, ok = c.key() {
		switch string(key) {
		case "prompt_tokens":
			u.Input = c.count()
		case "completion_tokens":
			u.Output = c.count()
		default:
			c.skip()
		}
	}
	return u
}
