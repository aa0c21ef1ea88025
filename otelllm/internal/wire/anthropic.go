package wire

import (
	"bytes"

	"github.com/otelllm/otelllm-go/semconv"
)

// anthropicMessages is Anthropic Messages.
type anthropicMessages struct{}

func (anthropicMessages) Name() string                          { return "anthropic_messages" }
func (anthropicMessages) Provider() string                      { return "anthropic" }
func (anthropicMessages) Operation() string                     { return "chat" }
func (anthropicMessages) NewDecoder(ct string) Decoder          { return newDecoder(ct, newMessagesReader()) }
func (anthropicMessages) ReadError(_ int, b []byte) Error       { return readError(b) }
func (anthropicMessages) ReadRequest(b []byte) (Request, error) { return readMessagesRequest(b) }

// messagesReader follows one response of the Messages API.
type messagesReader struct {
	t     tally
	open  []openBlock // client-executed tool_use blocks that have not stopped
	usage messagesUsage
	ev    messagesEvent

	// shape is that of the last delta; deltaType and deltaIndex are what it was.
	shape      shape
	deltaType  []byte
	deltaIndex int
}

type openBlock struct {
	index int
	call  call
}

// messagesUsage are Anthropic's counts, of which input_tokens leaves out what was
// read from or written to the cache; -1 where nothing was said.
type messagesUsage struct {
	input, output, cacheRead, cacheCreation int
}

// messagesEvent is what one payload says. Its slices are the payload's own.
type messagesEvent struct {
	typ     []byte
	index   int
	block   messagesBlock
	delta   messagesDelta
	message messagesObject
	fault   fault
}

// messagesObject is a message: that of message_start, or a whole body. The usage of
// message_delta is read into it as well.
type messagesObject struct {
	id, model, stop []byte
	content         []messagesBlock
	usage           messagesUsage
}

type messagesBlock struct {
	typ, id, name []byte
	filled        bool // there is text, reasoning or redacted reasoning in it
}

type messagesDelta struct {
	typ, stop []byte
	filled    bool
}

var unknownMessagesUsage = messagesUsage{-1, -1, -1, -1}

func newMessagesReader() *messagesReader {
	return &messagesReader{usage: unknownMessagesUsage}
}

func (r *messagesReader) tally() *tally { return &r.t }

// done takes a [DONE], which this protocol does not have: it changes nothing.
func (r *messagesReader) done() {}

func (r *messagesReader) event(name, data []byte) verdict {
	if f, ok := r.shape.match(data); ok {
		if !r.t.Terminal {
			r.delta(r.deltaIndex, &messagesDelta{typ: r.deltaType, filled: f.has(whatText)})
		}
		return progress
	}
	defer r.forget()
	if !r.read(data) {
		return malformed
	}
	ev := &r.ev
	if len(ev.typ) == 0 {
		ev.typ = name
	} else if string(ev.typ) == "content_block_delta" {
		r.deltaType = append(r.deltaType[:0], ev.delta.typ...)
		r.deltaIndex = ev.index
		r.shape.learn(data)
	}
	return r.apply()
}

// read parses a payload, an event or a whole message, into r.ev.
func (r *messagesReader) read(data []byte) bool {
	ev := &r.ev
	ev.message.usage = unknownMessagesUsage
	r.shape.begin()
	c := cursor{b: data}
	for key, ok := c.object(); ok; key, ok = c.key() {
		switch string(key) {
		case "type":
			ev.typ = c.str()
		case "index":
			ev.index = c.count()
		case "delta":
			r.readDelta(&c)
		case "content_block":
			ev.block = readMessagesBlock(&c)
		case "message":
			for key, ok := c.object(); ok; key, ok = c.key() {
				ev.message.member(&c, key)
			}
		case "error":
			ev.fault.read(&c)
		default:
			ev.message.member(&c, key)
		}
	}
	return c.end()
}

// forget lets go of the payload, of which nothing may be retained.
func (r *messagesReader) forget() {
	content := r.ev.message.content
	clear(content)
	r.ev = messagesEvent{}
	r.ev.message.content = content[:0]
}

// member reads one member of a message.
func (m *messagesObject) member(c *cursor, key []byte) {
	switch string(key) {
	case "id":
		m.id = c.str()
	case "model":
		m.model = c.str()
	case "stop_reason":
		m.stop = c.str()
	case "content":
		for ok := c.array(); ok; ok = c.element() {
			if b := readMessagesBlock(c); len(m.content) < maxListed {
				m.content = append(m.content, b)
			}
		}
	case "usage":
		m.usage.read(c)
	default:
		c.skip()
	}
}

func readMessagesBlock(c *cursor) messagesBlock {
	var b messagesBlock
	for key, ok := c.object(); ok; key, ok = c.key() {
		switch string(key) {
		case "type":
			b.typ = c.str()
		case "id":
			b.id = c.str()
		case "name":
			b.name = c.str()
		case "text", "thinking", "data":
			b.filled = c.filled() || b.filled
		default:
			c.skip()
		}
	}
	return b
}

func (r *messagesReader) readDelta(c *cursor) {
	d := &r.ev.delta
	for key, ok := c.object(); ok; key, ok = c.key() {
		switch string(key) {
		case "type":
			d.typ = c.str()
		case "text", "thinking":
			d.filled = r.shape.filled(c, whatText) || d.filled
		case "partial_json":
			r.shape.filled(c, whatOther)
		case "stop_reason":
			d.stop = c.str()
		default:
			c.skip()
		}
	}
}

func (u *messagesUsage) read(c *cursor) {
	for key, ok := c.object(); ok; key, ok = c.key() {
		switch string(key) {
		case "input_tokens":
			u.input = c.count()
		case "output_tokens":
			u.output = c.count()
		case "cache_read_input_tokens":
			u.cacheRead = c.count()
		case "cache_creation_input_tokens":
			u.cacheCreation = c.count()
		default:
			c.skip()
		}
	}
}

// apply makes the event part of the state.
func (r *messagesReader) apply() verdict {
	ev := &r.ev
	switch string(ev.typ) {
	case "ping":
		return keepalive
	case "error":
		r.t.fail(&ev.fault)
		return progress
	}
	if r.t.Terminal {
		return progress
	}
	switch string(ev.typ) {
	case "content_block_delta":
		r.delta(ev.index, &ev.delta)
	case "content_block_start":
		r.startBlock(ev.index, &ev.block)
	case "content_block_stop":
		r.stopBlock(ev.index)
	case "message_start":
		// A second one begins the message anew, as the SDK does it; calls that the
		// first one left open stay open.
		r.open = r.open[:0]
		r.begin(&ev.message)
	case "message_delta":
		r.stop(ev.delta.stop)
		r.use(&ev.message.usage)
	case "message_stop":
		r.end()
	}
	return progress
}

func (r *messagesReader) delta(index int, d *messagesDelta) {
	switch string(d.typ) {
	case "text_delta":
		if d.filled {
			r.t.text()
		}
	case "thinking_delta":
		if d.filled {
			r.t.thought()
		} else {
			r.t.Phase = semconv.PhaseReasoning
		}
	case "input_json_delta":
		if r.find(index) >= 0 {
			r.t.Phase = semconv.PhaseToolInput
		}
	}
}

func (r *messagesReader) startBlock(index int, b *messagesBlock) {
	switch string(b.typ) {
	case "text":
		if b.filled {
			r.t.text()
		}
	case "thinking", "redacted_thinking":
		r.t.Phase = semconv.PhaseReasoning
		if b.filled {
			r.t.thought()
		}
	case "tool_use":
		began := openBlock{index: index, call: r.t.start(b.id, b.name)}
		if len(r.open) < maxOpen {
			r.open = append(r.open, began)
		}
	default:
		// server_tool_use, mcp_tool_use
		if bytes.HasSuffix(b.typ, []byte("_tool_use")) {
			r.t.ProviderToolsStarted++
		}
	}
}

func (r *messagesReader) stopBlock(index int) {
	if i := r.find(index); i >= 0 {
		r.t.complete(&r.open[i].call)
		r.open = append(r.open[:i], r.open[i+1:]...)
	}
}

// find is the place of a block in r.open; -1 if it is not there.
func (r *messagesReader) find(index int) int {
	for i := len(r.open) - 1; i >= 0; i-- {
		if r.open[i].index == index {
			return i
		}
	}
	return -1
}

func (r *messagesReader) stop(reason []byte) {
	if len(reason) > 0 {
		r.t.FinishReasons = []string{safeName(reason)}
	}
}

// end is message_stop: the message is handed over as it is, and its calls with it
// unless the answer was cut within them.
func (r *messagesReader) end() {
	r.t.Terminal = true
	reasons := r.t.FinishReasons
	if len(reasons) == 0 || !cutsInput(reasons[0]) {
		r.t.handOverAll()
	}
	if len(reasons) > 0 {
		r.t.end()
	}
}

// use records Anthropic's counts. Usage.Input counts the whole input, as the GenAI
// conventions want it and the other providers do.
func (r *messagesReader) use(u *messagesUsage) {
	for _, f := range [...]struct{ to, from *int }{
		{&r.usage.input, &u.input},
		{&r.usage.output, &u.output},
		{&r.usage.cacheRead, &u.cacheRead},
		{&r.usage.cacheCreation, &u.cacheCreation},
	} {
		if *f.from >= 0 {
			*f.to = *f.from
		}
	}
	total := Usage{
		Input:         r.usage.input,
		Output:        r.usage.output,
		CacheRead:     r.usage.cacheRead,
		CacheCreation: r.usage.cacheCreation,
		Reasoning:     -1,
	}
	if total.Input >= 0 {
		total.Input += max(total.CacheRead, 0) + max(total.CacheCreation, 0)
	}
	r.t.use(total)
}

func (r *messagesReader) document(data []byte) verdict {
	defer r.forget()
	if !r.read(data) {
		return malformed
	}
	ev := &r.ev
	if string(ev.typ) == "error" || ev.fault.seen {
		r.t.fail(&ev.fault)
		return progress
	}
	if r.begin(&ev.message); len(ev.message.stop) > 0 {
		r.end()
	}
	return progress
}

// begin takes a message. That of message_start is mostly empty, but not always:
// when a program of the provider's calls the application's tools, it holds the
// calls and the stop_reason, and nothing but message_stop follows.
func (r *messagesReader) begin(m *messagesObject) {
	r.t.identify(m.id, m.model)
	r.use(&m.usage)
	for i := range m.content {
		r.startBlock(i, &m.content[i])
		r.stopBlock(i)
	}
	r.stop(m.stop)
}
