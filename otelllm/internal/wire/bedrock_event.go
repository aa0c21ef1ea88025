package wire

// converseEvent is what one payload says. Its slices are the payload's own.
type converseEvent struct {
	index   int
	start   converseBlock
	delta   converseBlock
	content []converseBlock // of a whole answer
	stop    []byte
	usage   messagesUsage
	fault   fault
	doubt   bool // a member that is not known says something
}

// converseBlock is a block of content, or a piece of one.
type converseBlock struct {
	kind          converseKind
	filled        bool // of a text or reasoning: there is some
	unshaped      bool // it was read where a shape has no hole
	says          bool // there is anything in it
	id, name, typ []byte
}

type converseKind uint8

const (
	converseOther converseKind = iota
	converseText
	converseReasoning
	converseTool
)

// read parses a payload, an event or a whole answer, into ev.
func (r *converseReader) read(data []byte, ev *converseEvent) verdict {
	ev.usage = unknownMessagesUsage
	r.shapes.begin()
	c := cursor{b: data}
	for key, ok := c.object(); ok; key, ok = c.key() {
		switch string(key) {
		case "contentBlockIndex":
			ev.index = c.count()
		case "delta":
			ev.delta = r.readBlock(&c)
		case "start":
			ev.start = r.readBlock(&c)
		case "stopReason":
			ev.stop = c.str()
		case "usage":
			readConverseUsage(&c, &ev.usage)
		case "output":
			r.readOutput(&c, ev)
		case "error":
			ev.fault.read(&c)
		case "p": // padding
			r.shapes.filled(&c, whatOther)
		case "role", "metrics", "trace", "performanceConfig", "serviceTier", "additionalModelResponseFields", "message":
			c.skip()
		default:
			ev.doubt = c.suspect(key) || ev.doubt
		}
	}
	v := c.verdict()
	r.t.Unread = r.t.Unread || v == progress && c.doubtful
	return v
}

func (r *converseReader) readOutput(c *cursor, ev *converseEvent) {
	for key, ok := c.object(); ok; key, ok = c.key() {
		if string(key) != "message" {
			c.skip()
			continue
		}
		for key, ok := c.object(); ok; key, ok = c.key() {
			if string(key) != "content" {
				c.skip()
				continue
			}
			for ok := c.array(); ok; ok = c.element() {
				if b := r.readBlock(c); c.room(len(ev.content)) {
					ev.content = append(ev.content, b)
				}
			}
		}
	}
}

func (r *converseReader) readBlock(c *cursor) converseBlock {
	var b converseBlock
	for key, ok := c.object(); ok; key, ok = c.key() {
		b.says = true
		switch string(key) {
		case "text":
			b.kind = converseText
			b.filled = r.shapes.filled(c, whatText) || b.filled
		case "image", "video", "audio": // output like a text
			if c.something() {
				b.kind, b.filled, b.unshaped = converseText, true, true
			}
		case "reasoningContent":
			b.kind = converseReasoning
			r.readReasoning(c, &b)
		case "toolUse":
			b.kind = converseTool
			r.readTool(c, &b)
		case "citationsContent": // text with its citations
			b.unshaped = true
			r.readCitations(c, &b)
		case "citation", "citations", "toolResult", "cachePoint":
			c.skip()
		default:
			c.doubt(key)
		}
	}
	return b
}

// readCitations reads a text that is cited, of a whole answer.
func (r *converseReader) readCitations(c *cursor, b *converseBlock) {
	for key, ok := c.object(); ok; key, ok = c.key() {
		if string(key) != "content" {
			c.skip()
			continue
		}
		if c.wordy() {
			b.kind, b.filled = converseText, true
		}
	}
}

func (r *converseReader) readReasoning(c *cursor, b *converseBlock) {
	for key, ok := c.object(); ok; key, ok = c.key() {
		switch string(key) {
		case "text", "redactedContent":
			b.filled = r.shapes.filled(c, whatText) || b.filled
		case "reasoningText": // of a whole answer
			r.readReasoning(c, b)
		case "signature":
			r.shapes.filled(c, whatOther)
		default:
			c.doubt(key)
		}
	}
}

func (r *converseReader) readTool(c *cursor, b *converseBlock) {
	for key, ok := c.object(); ok; key, ok = c.key() {
		switch string(key) {
		case "toolUseId":
			b.id = c.str()
		case "name":
			b.name = c.str()
		case "type":
			b.typ = c.str()
		case "input":
			r.shapes.filled(c, whatOther)
		default:
			c.unknown(key)
		}
	}
}

func readConverseUsage(c *cursor, u *messagesUsage) {
	for key, ok := c.object(); ok; key, ok = c.key() {
		switch string(key) {
		case "inputTokens":
			u.input = c.count()
		case "outputTokens":
			u.output = c.count()
		case "cacheReadInputTokens":
			u.cacheRead = c.count()
		case "cacheWriteInputTokens":
			u.cacheCreation = c.count()
		default:
			c.skip()
		}
	}
}
