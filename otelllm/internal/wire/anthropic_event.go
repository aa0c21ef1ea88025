package wire

import "bytes"

// messagesEvent is the parsed form of one payload. Its slices point into the payload.
type messagesEvent struct {
	typ     []byte
	index   int
	block   messagesBlock
	delta   messagesDelta
	message messagesObject
	fault   fault
	unread  bool // an unknown member contains text
}

// messagesObject is a message: that of message_start, or a whole body. The usage of
// message_delta is also read into it.
type messagesObject struct {
	id, model, stop []byte
	content         []messagesBlock
	usage           messagesUsage
}

type messagesBlock struct {
	typ, id, name []byte
	filled        bool // it has text, reasoning or redacted reasoning
	unread        bool // an unknown member contains text
	input         inputPart
}

// serverTool returns the name of the tool that the provider executes, as that of an offered
// one. That of a tool on an MCP server is the server's own.
func (b *messagesBlock) serverTool() []byte {
	switch {
	case string(b.typ) == "mcp_tool_use":
		return []byte("mcp")
	case string(b.typ) != "server_tool_use":
		return bytes.TrimSuffix(b.typ, []byte("_tool_use"))
	case bytes.HasPrefix(b.name, []byte("tool_search")):
		return []byte("tool_search") // tool_search_tool_regex, tool_search_tool_bm25
	default:
		return b.name
	}
}

type messagesDelta struct {
	typ, stop []byte
	input     inputPart
	filled    bool
	nonEmpty  bool // it has a member
}

// read parses a payload, an event or a whole message.
func (ev *messagesEvent) read(c *cursor) {
	ev.message.usage = unknownMessagesUsage
	for key, ok := c.object(); ok; key, ok = c.key() {
		switch string(key) {
		case "type":
			ev.typ = c.str()
		case "index":
			ev.index = c.count()
		case "delta":
			ev.delta.read(c)
		case "content_block":
			ev.block = readMessagesBlock(c)
		case "message":
			if c.peek() == '"' { // of an error that is flat
				ev.unread = c.hasText() || ev.unread
				continue
			}
			for key, ok := c.object(); ok; key, ok = c.key() {
				ev.unread = ev.message.member(c, key) || ev.unread
			}
		case "error":
			ev.fault.read(c)
		case "request_id", "sequence_number":
			c.skip()
		default:
			ev.unread = ev.message.member(c, key) || ev.unread
		}
	}
}

// member reads one member of a message. unread: it is unknown and contains text.
func (m *messagesObject) member(c *cursor, key []byte) (unread bool) {
	switch string(key) {
	case "id":
		m.id = c.str()
	case "model":
		m.model = c.str()
	case "stop_reason":
		m.stop = c.str()
	case "content":
		for ok := c.array(); ok; ok = c.element() {
			if b := readMessagesBlock(c); c.room(len(m.content)) {
				m.content = append(m.content, b)
			}
		}
	case "usage":
		m.usage.read(c)
	case "type", "role", "stop_sequence", "stop_details", "container", "context_management":
		c.skip()
	default:
		return c.checkUnread(key)
	}
	return false
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
		case "content":
			filled := c.nonEmpty() // of a compaction; the results of a provider-executed tool are not output
			b.filled = b.filled || filled && string(b.typ) == "compaction"
		case "input":
			b.input = c.inputPart()
		case "signature", "citations", "tool_use_id", "caller", "server_name", "is_error", "cache_control":
			c.skip()
		default:
			b.unread = c.checkUnread(key) || b.unread
		}
	}
	return b
}

func (d *messagesDelta) read(c *cursor) {
	for key, ok := c.object(); ok; key, ok = c.key() {
		d.nonEmpty = true
		switch string(key) {
		case "type":
			d.typ = c.str()
		case "text", "thinking":
			d.filled = c.filled() || d.filled
		case "partial_json":
			d.input = c.inputPart()
		case "stop_reason":
			d.stop = c.str()
		case "signature", "citation", "content", "encrypted_content", "stop_sequence", "stop_details", "container":
			c.skip()
		default:
			c.skipUnread(key)
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
