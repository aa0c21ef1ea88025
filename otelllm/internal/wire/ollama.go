package wire

import "strings"

// ollama is Ollama's own API: a stream of one JSON object a line, or one object
// where the request says "stream": false. The object with "done": true ends the
// response and completes it; done_reason says why.
// https://github.com/ollama/ollama/blob/main/docs/api.md
type ollama struct {
	generate bool // /api/generate, whose requests have no messages
}

func (ollama) Name() string                          { return "ollama" }
func (ollama) Provider() string                      { return "ollama" }
func (ollama) ReadError(_ int, b []byte) Error       { return readError(b) }
func (ollama) ReadRequest(b []byte) (Request, error) { return readOllamaRequest(b) }

var ollamaDecoders decoders[ollamaReader, *ollamaReader]

func (ollama) NewDecoder(ct string) Decoder { return ollamaDecoders.get(ct, formLines) }

func (o ollama) Operation() string {
	if o.generate {
		return "text_completion"
	}
	return "chat"
}

// ollamaAt reads …/api/chat and …/api/generate, which many an application has.
func ollamaAt(path string) (p Protocol, sure bool) {
	switch {
	case strings.HasSuffix(path, "/api/chat"):
		return ollama{}, false
	case strings.HasSuffix(path, "/api/generate"):
		return ollama{generate: true}, false
	default:
		return nil, false
	}
}

// ollamaReader follows one response.
type ollamaReader struct {
	t      tally
	shapes shapes[struct{}] // of lines that were pieces of text or of reasoning
}

// ollamaLine is what one payload says. Its slices are the payload's own.
type ollamaLine struct {
	model, reason   []byte
	text, reasoning bool
	unshaped        bool // some of it was read where a shape has no hole
	calls           []ollamaCall
	done            bool
	input, output   int
	fault           fault
	answer          bool // it has a message
	doubt           bool // a member that is not known says something
}

type ollamaCall struct{ id, name []byte }

func (r *ollamaReader) tally() *tally { return &r.t }

func (r *ollamaReader) reset() {
	r.shapes.reset()
	*r = ollamaReader{shapes: r.shapes}
}

// done takes a [DONE], which this protocol does not have: it changes nothing.
func (r *ollamaReader) done() {}

func (r *ollamaReader) event(_, data []byte) verdict {
	if known, f := r.shapes.match(data); known != nil {
		r.known(f)
		return progress
	}
	return r.document(data)
}

func (r *ollamaReader) take(p []byte) int {
	known, f, n := r.shapes.take(p)
	if known != nil {
		r.known(f)
	}
	return n
}

// known takes a piece of a known shape.
func (r *ollamaReader) known(f filled) {
	r.say(f.has(whatText), f.has(whatReasoning))
}

// document reads a whole answer, which is as a line is.
func (r *ollamaReader) document(data []byte) verdict {
	var l ollamaLine
	if v := r.read(data, &l); v != progress {
		return v
	}
	if !l.done && !l.unshaped && len(l.calls) == 0 && !l.fault.seen {
		r.shapes.learn(nil, data, struct{}{})
	}
	r.apply(&l)
	return progress
}

func (r *ollamaReader) apply(l *ollamaLine) {
	if l.fault.seen {
		r.t.fail(&l.fault)
		return
	}
	if !r.t.Terminal {
		r.t.identify(nil, l.model)
	}
	r.say(l.text, l.reasoning)
	for _, made := range l.calls {
		c := r.t.start(made.id, made.name)
		r.t.handOver(&c) // it comes whole
	}
	if !l.done || r.t.Terminal {
		return
	}
	usage := unknownUsage
	usage.Input, usage.Output = l.input, l.output
	r.t.use(usage)
	if len(l.reason) == 0 {
		l.reason = []byte("stop") // servers older than done_reason
	}
	r.t.finish(l.reason)
	r.t.end()
}

func (r *ollamaReader) say(text, reasoning bool) {
	if reasoning {
		r.t.thought()
	}
	if text {
		r.t.text()
	}
}

// read parses a payload into l.
func (r *ollamaReader) read(data []byte, l *ollamaLine) verdict {
	l.input, l.output = -1, -1
	r.shapes.begin()
	c := cursor{b: data}
	for key, ok := c.object(); ok; key, ok = c.key() {
		switch string(key) {
		case "model":
			l.model = c.str()
		case "created_at":
			r.shapes.filled(&c, whatOther)
		case "message":
			l.answer = true
			for key, ok := c.object(); ok; key, ok = c.key() {
				r.member(&c, key, l)
			}
		case "response", "thinking", "tool_calls", "image": // of /api/generate
			r.member(&c, key, l)
		case "done":
			l.done = c.boolean()
		case "done_reason":
			l.reason = c.str()
		case "prompt_eval_count":
			l.input = c.count()
		case "eval_count":
			l.output = c.count()
		case "error":
			l.fault.read(&c)
		case "remote_model", "remote_host", "context", "logprobs", "_debug_info":
			c.skip()
		default:
			l.doubt = c.suspect(key) || l.doubt
		}
	}
	v := c.verdict()
	if v != progress {
		return v
	}
	r.t.Unread = r.t.Unread || c.doubtful || l.doubt && !l.answer && !l.fault.seen
	return v
}

// member reads one member of a message.
func (r *ollamaReader) member(c *cursor, key []byte, l *ollamaLine) {
	switch string(key) {
	case "content", "response":
		l.text = r.shapes.filled(c, whatText) || l.text
	case "thinking":
		l.reasoning = r.shapes.filled(c, whatReasoning) || l.reasoning
	case "tool_calls":
		for ok := c.array(); ok; ok = c.element() {
			if made := readOllamaCall(c); c.room(len(l.calls)) {
				l.calls = append(l.calls, made)
			}
		}
	case "images", "image": // output like a text
		if c.something() {
			l.text, l.unshaped = true, true
		}
	case "role", "tool_name", "logprobs":
		c.skip()
	default:
		c.doubt(key)
	}
}

func readOllamaCall(c *cursor) (made ollamaCall) {
	for key, ok := c.object(); ok; key, ok = c.key() {
		switch string(key) {
		case "id":
			made.id = c.str()
		case "function":
			for key, ok := c.object(); ok; key, ok = c.key() {
				if string(key) == "name" {
					made.name = c.str()
				} else {
					c.skip()
				}
			}
		default:
			c.skip()
		}
	}
	return made
}
