package wire

import (
	"bytes"
	"strings"
)

// cohereChat is the second version of Cohere's Chat API, streaming or not. A stream begins
// with message-start. A block of content has content-start, -delta and -end; a call has
// tool-call-start, -delta and -end, whose end completes its input. message-end has the finish
// reason and the usage: the response is complete with it, unless the reason is ERROR or
// TIMEOUT. Clients of the stream get a call as it comes; it is theirs to execute at
// message-end. There is no error event. Text of the plan for calls (tool_plan) is reasoning.
//
// https://docs.cohere.com/v2/docs/streaming and https://docs.cohere.com/v2/reference/chat-stream
// (November 2026), and the types of cohere-python of August 2026.
type cohereChat struct{}

func (cohereChat) Name() string                    { return "cohere_chat" }
func (cohereChat) Provider() string                { return "cohere" }
func (cohereChat) Operation() string               { return "chat" }
func (cohereChat) ReadError(_ int, b []byte) Error { return readError(b) }

// ReadRequest implements [Protocol]. The members that count are those of Chat Completions.
func (cohereChat) ReadRequest(b []byte) (Request, error) {
	req, messages, err := readChatRequest(b, cohereMembers)
	req.fillModel("")
	req.IsCall = messages && req.Model != ""
	return req, err
}

var cohereDecoders decoders[cohereReader, *cohereReader]

func (cohereChat) NewDecoder(ct string) Decoder { return cohereDecoders.get(ct, 0) }

// cohereAt matches …/v2/chat, which other applications may have too.
func cohereAt(path string) (p Protocol, sure bool) {
	if strings.HasSuffix(path, "/v2/chat") {
		return cohereChat{}, false
	}
	return nil, false
}

// cohereReader reads one response of Cohere's.
type cohereReader struct {
	t    tally
	open callSet[int] // calls whose input is not complete, by index
}

func (r *cohereReader) tally() *tally { return &r.t }
func (r *cohereReader) reset()        { *r = cohereReader{open: r.open.cleared()} }

// closed handles the end of the body.
func (r *cohereReader) closed(cut bool) {
	if !cut && !r.t.over() {
		r.open.cleanEnd(&r.t)
	}
}

// done has no effect: it follows message-end, if it comes at all.
func (r *cohereReader) done() {}

func (r *cohereReader) add(d *contentDelta) { r.t.addWithCalls(d, &r.open) }

func (r *cohereReader) event(name, data []byte) payloadKind {
	ev := cohereEvent{index: -1, usage: unknownUsage}
	c := r.t.cursor(data)
	ev.read(&c)
	if v := r.t.payloadKind(&c); v != progress {
		return v
	}
	if ev.typed = len(ev.typ) > 0; !ev.typed {
		ev.typ = name
	}
	return r.apply(&ev)
}

// apply changes the state by the event.
func (r *cohereReader) apply(ev *cohereEvent) payloadKind {
	m := &ev.message
	r.t.Unread = r.t.Unread || ev.unread
	switch string(ev.typ) {
	case "content-delta", "tool-plan-delta":
		r.t.Unread = r.t.Unread || !m.given // what it is a delta of is not known
		return r.t.content(contentDelta{index: ev.index, text: m.text, reasoning: m.reasoning})
	case "tool-call-delta":
		return r.t.content(contentDelta{index: ev.index, input: true, part: ev.message.input()})
	case "message-start":
		r.t.identify(ev.id, nil)
	case "content-start":
		r.content(m)
	case "tool-call-start":
		for i := range m.calls {
			r.open.begin(&r.t, ev.index, r.t.start(m.calls[i].id, m.calls[i].name), m.calls[i].input)
		}
	case "tool-call-end":
		if c := r.open.find(ev.index); c != nil {
			r.t.endInput(c)
			r.open.remove(ev.index)
		} else {
			r.t.Unread = true // the call whose input is complete is not known
		}
	case "content-end", "citation-start", "citation-end":
	case "message-end":
		r.t.identify(ev.id, nil)
		r.end(ev)
	default:
		// A type that is not known may be the end of a call.
		r.t.Unread = r.t.Unread || ev.typed || m.given || len(m.calls) > 0
	}
	return progress
}

// content records content that is not a delta.
func (r *cohereReader) content(m *cohereMessage) {
	if m.reasoning {
		r.t.reasoning()
	}
	if m.text {
		r.t.text()
	}
}

// end handles the end of a message.
func (r *cohereReader) end(ev *cohereEvent) {
	r.t.use(ev.usage)
	switch reason := ev.finish; {
	case r.t.Terminal:
	case bytes.EqualFold(reason, []byte("ERROR")), bytes.EqualFold(reason, []byte("TIMEOUT")), len(reason) == 0 && ev.failed:
		f := fault{seen: true, code: []byte("error")}
		if bytes.EqualFold(reason, []byte("TIMEOUT")) {
			f.code = []byte("timeout")
		}
		r.t.fail(&f)
	case len(reason) == 0:
		r.t.Terminal = true
	default:
		r.t.finish(reason)
		if !cutsInput(bytes.ToLower(reason)) {
			r.open.endAll(&r.t)
			r.t.handOverAll()
		} else {
			r.open.fill(&r.t)
		}
		r.t.end()
	}
}

func (r *cohereReader) document(data []byte) payloadKind {
	ev := cohereEvent{index: -1, usage: unknownUsage}
	c := r.t.cursor(data)
	ev.read(&c)
	if v := r.t.payloadKind(&c); v != progress {
		return v
	}
	r.t.identify(ev.id, nil)
	r.content(&ev.message)
	for i := range ev.message.calls {
		call := r.t.start(ev.message.calls[i].id, ev.message.calls[i].name)
		r.t.input(&call, ev.message.calls[i].input)
		r.t.endInput(&call)
	}
	if r.t.Unread = r.t.Unread || ev.unread; len(ev.finish) == 0 {
		if f, ok := faultOf(data); ok && f.seen {
			r.t.fail(&f)
		} else {
			r.t.Unread = true // its meaning is not known
		}
		return progress
	}
	r.end(&ev)
	return progress
}

// cohereEvent is the parsed form of one payload: an event, or a whole body.
type cohereEvent struct {
	typ, id, finish []byte
	index           int
	message         cohereMessage
	usage           Usage
	failed          bool // it has an error's message
	typed           bool // it has a type of its own, not the event's name
	unread          bool // an unknown member contains text
}

// cohereMessage is what a payload has of the message.
type cohereMessage struct {
	text, reasoning bool
	given           bool // it has a member for them, even if that is empty
	calls           []cohereCall
}

type cohereCall struct {
	id, name []byte
	input    inputPart
}

// input returns the part of an input that a delta has.
func (m *cohereMessage) input() inputPart {
	if len(m.calls) == 0 {
		return inputPart{}
	}
	return m.calls[0].input
}

// read parses a payload. A delta has the same members as a whole body.
func (ev *cohereEvent) read(c *cursor) {
	for key, ok := c.object(); ok; key, ok = c.key() {
		switch string(key) {
		case "type":
			ev.typ = c.str()
		case "index":
			ev.index = c.count()
		case "delta":
			for key, ok := c.object(); ok; key, ok = c.key() {
				ev.member(c, key)
			}
		default:
			ev.member(c, key)
		}
	}
}

func (ev *cohereEvent) member(c *cursor, key []byte) {
	switch string(key) {
	case "id":
		ev.id = c.str()
	case "message":
		if c.peek() == '"' { // of an error
			c.skip()
			return
		}
		for key, ok := c.object(); ok; key, ok = c.key() {
			ev.message.member(c, key)
		}
	case "finish_reason":
		ev.finish = c.str()
	case "error":
		ev.failed = c.nonEmpty() || ev.failed
	case "usage":
		ev.usage = readCohereUsage(c)
	case "logprobs", "meta":
		c.skip()
	default:
		ev.unread = c.checkUnread(key) || ev.unread
	}
}

func (m *cohereMessage) member(c *cursor, key []byte) {
	switch string(key) {
	case "content":
		switch c.peek() {
		case '[':
			for ok := c.array(); ok; ok = c.element() {
				m.part(c)
			}
		case '"':
			m.text, m.given = c.filled() || m.text, true
		default:
			m.part(c)
		}
	case "tool_plan":
		m.reasoning, m.given = c.filled() || m.reasoning, true
	case "tool_calls":
		if c.peek() != '[' {
			m.call(c)
			return
		}
		for ok := c.array(); ok; ok = c.element() {
			m.call(c)
		}
	case "role", "citations":
		c.skip()
	default:
		c.skipUnread(key)
	}
}

func (m *cohereMessage) part(c *cursor) {
	for key, ok := c.object(); ok; key, ok = c.key() {
		switch string(key) {
		case "text":
			m.text, m.given = c.filled() || m.text, true
		case "thinking":
			m.reasoning, m.given = c.filled() || m.reasoning, true
		case "type":
			c.skip()
		default:
			c.skipUnread(key)
		}
	}
}

func (m *cohereMessage) call(c *cursor) {
	if c.peek() != '{' {
		c.skipOther()
		return
	}
	var call cohereCall
	for key, ok := c.object(); ok; key, ok = c.key() {
		switch string(key) {
		case "id":
			call.id = c.str()
		case "function":
			for key, ok := c.object(); ok; key, ok = c.key() {
				switch string(key) {
				case "name":
					call.name = c.str()
				case "arguments":
					call.input = c.inputPart()
				default:
					c.skip()
				}
			}
		default:
			c.skip()
		}
	}
	if c.room(len(m.calls)) {
		m.calls = append(m.calls, call)
	}
}

// readCohereUsage reads the tokens that were used, else those that are billed.
func readCohereUsage(c *cursor) Usage {
	u, billed := unknownUsage, unknownUsage
	tokens := func(u *Usage) {
		for key, ok := c.object(); ok; key, ok = c.key() {
			switch string(key) {
			case "input_tokens":
				u.Input = c.count()
			case "output_tokens":
				u.Output = c.count()
			default:
				c.skip()
			}
		}
	}
	for key, ok := c.object(); ok; key, ok = c.key() {
		switch string(key) {
		case "tokens":
			tokens(&u)
		case "billed_units":
			tokens(&billed)
		case "cached_tokens":
			u.CacheRead = c.count()
		default:
			c.skip()
		}
	}
	u.Input, u.Output = latest(billed.Input, u.Input), latest(billed.Output, u.Output)
	return u
}
