package wire

import "bytes"

// geminiChunk is the parsed form of one payload. Its slices point into the payload.
type geminiChunk struct {
	id, model  []byte
	candidates few[geminiDelta]
	parts      few[geminiPart]
	blocked    []byte
	usage      geminiUsage
	fault      fault
	answer     bool // it has candidates, or the reason why there are none
	unread     bool // an unknown member contains text
}

// geminiDelta is the part of a chunk that belongs to one candidate.
type geminiDelta struct {
	index  int
	finish []byte
	parts  int // how many of the chunk's parts belong to it
}

type geminiPart struct {
	kind      geminiKind
	filled    bool // of a text: it is not empty
	thought   bool
	continues bool // of a call: its input continues in the next part
	id, name  []byte
	tool      []byte // of a tool that Google executes: its type
}

// text reports whether the part is visible output that is not empty.
func (p *geminiPart) text() bool { return p.kind == geminiText && p.filled && !p.thought }

// reasoning reports whether the part is reasoning that is not empty.
func (p *geminiPart) reasoning() bool { return p.kind == geminiText && p.filled && p.thought }

type geminiKind uint8

const (
	geminiOther geminiKind = iota
	geminiText
	geminiCall
	geminiServerTool
)

// geminiUsage are Google's counts, indexed by the constants below. -1: not reported.
type geminiUsage [maxCounts]int

const (
	geminiPrompt uint8 = iota
	geminiToolPrompt
	geminiCandidates
	geminiThoughts
	geminiCached
)

var unknownGeminiUsage = geminiUsage{-1, -1, -1, -1, -1}

// counts returns the counts as the GenAI conventions define them: the input includes what
// a provider-executed tool added, the output includes the reasoning.
func (u *geminiUsage) counts() Usage {
	return Usage{
		Input:         sum(u[geminiPrompt], u[geminiToolPrompt]),
		Output:        sum(u[geminiCandidates], u[geminiThoughts]),
		CacheRead:     u[geminiCached],
		CacheCreation: -1,
		Reasoning:     u[geminiThoughts],
	}
}

// sum adds two counts, either of which may be unknown.
func sum(a, b int) int {
	if a < 0 || b < 0 {
		return max(a, b)
	}
	return a + b
}

// content returns the delta that the chunk is, if it is nothing but a delta of one
// candidate and token counts.
func (ch *geminiChunk) content() (d contentDelta, ok bool) {
	if ch.candidates.n != 1 || ch.parts.n != 1 || len(ch.blocked) > 0 || ch.fault.seen {
		return d, false
	}
	candidate, p := ch.candidates.at(0), ch.parts.at(0)
	if len(candidate.finish) > 0 || len(p.id) > 0 || len(p.name) > 0 || p.kind == geminiServerTool {
		return d, false
	}
	d = contentDelta{index: candidate.index, text: p.text(), reasoning: p.reasoning(), counts: ch.usage}
	if p.kind == geminiCall {
		d.input, d.last = true, !p.continues
	}
	return d, true
}

// read reads an answer. Code Assist wraps it: {"response":{…},"traceId":…}.
func (ch *geminiChunk) read(c *cursor, wrapped bool) {
	for key, ok := c.object(); ok; key, ok = c.key() {
		switch string(key) {
		case "responseId":
			ch.id = c.str()
		case "modelVersion":
			ch.model = c.str()
		case "candidates":
			ch.answer = true
			for ok := c.array(); ok; ok = c.element() {
				ch.readCandidate(c)
			}
		case "usageMetadata":
			ch.usage.read(c)
		case "promptFeedback":
			ch.answer = true
			for key, ok := c.object(); ok; key, ok = c.key() {
				if string(key) == "blockReason" {
					ch.blocked = c.str()
				} else {
					c.skip()
				}
			}
		case "error":
			ch.fault.read(c)
		case "response":
			if wrapped {
				c.skip()
			} else {
				ch.read(c, true)
			}
		case "createTime", "traceId", "remainingCredits", "modelStatus", "metadata":
			c.skip()
		default:
			ch.unread = c.checkUnread(key) || ch.unread
		}
	}
}

func (ch *geminiChunk) readCandidate(c *cursor) {
	var d geminiDelta
	for key, ok := c.object(); ok; key, ok = c.key() {
		switch string(key) {
		case "index":
			d.index = max(c.count(), 0)
		case "finishReason":
			if d.finish = c.str(); string(d.finish) == "FINISH_REASON_UNSPECIFIED" {
				d.finish = nil
			}
		case "content":
			for key, ok := c.object(); ok; key, ok = c.key() {
				switch string(key) {
				case "parts":
					for ok := c.array(); ok; ok = c.element() {
						ch.readPart(c, &d)
					}
				case "role":
					c.skip()
				default:
					c.skipUnread(key)
				}
			}
		case "safetyRatings", "citationMetadata", "groundingMetadata", "groundingAttributions", "urlContextMetadata",
			"logprobsResult", "avgLogprobs", "tokenCount", "finishMessage":
			c.skip()
		default:
			c.skipUnread(key)
		}
	}
	if c.room(ch.candidates.n) {
		ch.candidates.add(d)
	}
}

func (ch *geminiChunk) readPart(c *cursor, d *geminiDelta) {
	var p geminiPart
	for key, ok := c.object(); ok; key, ok = c.key() {
		switch string(key) {
		case "text":
			p.kind = geminiText
			p.filled = c.filled() || p.filled
		case "thought":
			p.thought = c.boolean()
		case "inlineData", "fileData": // an image or audio: output like text
			if c.nonEmpty() {
				p.kind, p.filled = geminiText, true
			}
		case "functionCall":
			if c.peek() == '{' {
				p.kind = geminiCall
			}
			p.readCall(c)
		case "executableCode":
			if c.nonEmpty() {
				p.kind, p.tool = geminiServerTool, []byte("code_execution")
			}
		case "toolCall":
			p.readToolCall(c)
		case "thoughtSignature", "codeExecutionResult", "toolResponse", "videoMetadata", "mediaResolution", "partMetadata":
			c.skip()
		default:
			c.skipUnread(key)
		}
	}
	if c.room(ch.parts.n) {
		ch.parts.add(p)
		d.parts++
	}
}

// readToolCall reads a call that Google executes. Its toolType has the name of the offered
// tool in capitals, and for a search what it searches for.
func (p *geminiPart) readToolCall(c *cursor) {
	if c.peek() != '{' {
		if c.nonEmpty() {
			p.kind = geminiServerTool
		}
		return
	}
	for key, ok := c.object(); ok; key, ok = c.key() {
		p.kind = geminiServerTool
		if string(key) != "toolType" {
			c.skip()
			continue
		}
		p.tool = bytes.ToLower(c.str())
		if bytes.HasPrefix(p.tool, []byte("google_search_")) {
			p.tool = []byte("google_search")
		}
	}
}

func (p *geminiPart) readCall(c *cursor) {
	for key, ok := c.object(); ok; key, ok = c.key() {
		switch string(key) {
		case "id":
			p.id = c.str()
		case "name":
			p.name = c.str()
		case "willContinue":
			p.continues = c.boolean()
		case "partialArgs":
			for ok := c.array(); ok; ok = c.element() {
				readPartialArg(c)
			}
		case "args":
			c.skip()
		default:
			c.skipUnread(key)
		}
	}
}

// readPartialArg skips a part of an argument.
func readPartialArg(c *cursor) {
	for key, ok := c.object(); ok; key, ok = c.key() {
		switch string(key) {
		case "jsonPath", "stringValue":
			c.skipVarying()
		case "numberValue":
			c.skipVarying()
		default:
			c.skip()
		}
	}
}

func (u *geminiUsage) read(c *cursor) {
	for key, ok := c.object(); ok; key, ok = c.key() {
		switch string(key) {
		case "promptTokenCount":
			u[geminiPrompt] = c.varyingCount(geminiPrompt)
		case "toolUsePromptTokenCount":
			u[geminiToolPrompt] = c.varyingCount(geminiToolPrompt)
		case "candidatesTokenCount":
			u[geminiCandidates] = c.varyingCount(geminiCandidates)
		case "thoughtsTokenCount":
			u[geminiThoughts] = c.varyingCount(geminiThoughts)
		case "cachedContentTokenCount":
			u[geminiCached] = c.varyingCount(geminiCached)
		case "totalTokenCount":
			c.skipVarying()
		default:
			c.skip()
		}
	}
}
