package wire

// converseEvent is the parsed form of one payload. Its slices point into the payload.
type converseEvent struct {
	index   int
	start   converseBlock
	delta   converseBlock
	content []converseBlock // of a whole answer
	stop    []byte
	usage   messagesUsage
	fault   fault
	unread  bool // an unknown member contains text
}

// converseBlock is a block of content, or a part of one.
type converseBlock struct {
	kind          converseKind
	filled        bool // of a text or reasoning: it is not empty
	nonEmpty      bool // it has a member
	id, name, typ []byte
	input         inputPart
}

type converseKind uint8

const (
	converseOther converseKind = iota
	converseText
	converseReasoning
	converseTool
)

// content returns the delta that the block is, if it does not begin a call.
func (b *converseBlock) content(index int) contentDelta {
	return contentDelta{
		index:     index,
		text:      b.kind == converseText && b.filled,
		thinking:  b.kind == converseReasoning,
		reasoning: b.kind == converseReasoning && b.filled,
		input:     b.kind == converseTool,
		part:      b.input,
	}
}

// read parses a payload, an event or a whole answer.
func (ev *converseEvent) read(c *cursor) {
	ev.usage = unknownMessagesUsage
	for key, ok := c.object(); ok; key, ok = c.key() {
		switch string(key) {
		case "contentBlockIndex":
			ev.index = c.count()
		case "delta":
			ev.delta = readConverseBlock(c)
		case "start":
			ev.start = readConverseBlock(c)
		case "stopReason":
			ev.stop = c.str()
		case "usage":
			readConverseUsage(c, &ev.usage)
		case "output":
			ev.readOutput(c)
		case "error":
			ev.fault.read(c)
		case "p": // padding
			c.skipVarying()
		case "role", "metrics", "trace", "performanceConfig", "serviceTier", "additionalModelResponseFields", "message":
			c.skip()
		default:
			ev.unread = c.checkUnread(key) || ev.unread
		}
	}
}

func (ev *converseEvent) readOutput(c *cursor) {
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
				if b := readConverseBlock(c); c.room(len(ev.content)) {
					ev.content = append(ev.content, b)
				}
			}
		}
	}
}

func readConverseBlock(c *cursor) converseBlock {
	var b converseBlock
	for key, ok := c.object(); ok; key, ok = c.key() {
		b.nonEmpty = true
		switch string(key) {
		case "text":
			b.kind = converseText
			b.filled = c.filled() || b.filled
		case "image", "video", "audio": // output like text
			if c.nonEmpty() {
				b.kind, b.filled = converseText, true
			}
		case "reasoningContent":
			b.kind = converseReasoning
			b.readReasoning(c)
		case "toolUse":
			b.kind = converseTool
			b.readTool(c)
		case "citationsContent": // text with its citations
			b.readCitations(c)
		case "citation", "citations", "toolResult", "cachePoint":
			c.skip()
		default:
			c.skipUnread(key)
		}
	}
	return b
}

// readCitations reads a text with citations, of a whole answer.
func (b *converseBlock) readCitations(c *cursor) {
	for key, ok := c.object(); ok; key, ok = c.key() {
		if string(key) != "content" {
			c.skip()
			continue
		}
		if c.hasText() {
			b.kind, b.filled = converseText, true
		}
	}
}

func (b *converseBlock) readReasoning(c *cursor) {
	for key, ok := c.object(); ok; key, ok = c.key() {
		switch string(key) {
		case "text", "redactedContent":
			b.filled = c.filled() || b.filled
		case "reasoningText": // of a whole answer
			b.readReasoning(c)
		case "signature":
			c.skipVarying()
		default:
			c.skipUnread(key)
		}
	}
}

func (b *converseBlock) readTool(c *cursor) {
	for key, ok := c.object(); ok; key, ok = c.key() {
		switch string(key) {
		case "toolUseId":
			b.id = c.str()
		case "name":
			b.name = c.str()
		case "type":
			b.typ = c.str()
		case "input":
			b.input = c.inputPart()
		default:
			c.skipUnknown(key)
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
