package wire

// ollamaLine is the parsed form of one payload. Its slices point into the payload.
type ollamaLine struct {
	model, reason   []byte
	text, reasoning bool
	calls           []ollamaCall
	done, open      bool // the flag is true; it is false
	input, output   int
	fault           fault
	answer          bool // it has a message
	unread          bool // an unknown member contains text
}

type ollamaCall struct{ id, name []byte }

// read parses a payload.
func (l *ollamaLine) read(c *cursor) {
	l.input, l.output = -1, -1
	for key, ok := c.object(); ok; key, ok = c.key() {
		switch string(key) {
		case "model":
			l.model = c.str()
		case "created_at":
			c.skipVarying()
		case "message":
			l.answer = true
			for key, ok := c.object(); ok; key, ok = c.key() {
				l.member(c, key)
			}
		case "response", "thinking", "tool_calls", "image": // of /api/generate
			l.member(c, key)
		case "done":
			l.open = c.peek() == 'f'
			l.done = c.boolean()
		case "done_reason":
			l.reason = c.str()
		case "prompt_eval_count":
			l.input = c.count()
		case "eval_count":
			l.output = c.count()
		case "error":
			l.fault.read(c)
		case "remote_model", "remote_host", "context", "logprobs", "_debug_info":
			c.skip()
		default:
			l.unread = c.checkUnread(key) || l.unread
		}
	}
}

// member reads one member of a message.
func (l *ollamaLine) member(c *cursor, key []byte) {
	switch string(key) {
	case "content", "response":
		l.text = c.filled() || l.text
	case "thinking":
		l.reasoning = c.filled() || l.reasoning
	case "tool_calls":
		for ok := c.array(); ok; ok = c.element() {
			if made := readOllamaCall(c); c.room(len(l.calls)) {
				l.calls = append(l.calls, made)
			}
		}
	case "images", "image": // output like text
		l.text = c.nonEmpty() || l.text
	case "role", "tool_name", "logprobs":
		c.skip()
	default:
		c.skipUnread(key)
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
