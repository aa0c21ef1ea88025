package wire

// geminiChunk is what one payload says. Its slices are the payload's own.
type geminiChunk struct {
	id, model  []byte
	candidates few[geminiDelta]
	parts      few[geminiPart]
	blocked    []byte
	usage      geminiUsage
	fault      fault
	answer     bool // it has candidates, or says why there are none
	doubt      bool // a member that is not known says something
}

// geminiDelta is the part of a chunk that is about one candidate.
type geminiDelta struct {
	index  int
	finish []byte
	parts  int // how many of the chunk's parts are its
}

type geminiPart struct {
	kind      geminiKind
	filled    bool // of a text: there is some
	thought   bool
	unshaped  bool // some of it was read where a shape has no hole
	continues bool // of a call: its input goes on in the next part
	id, name  []byte
}

type geminiKind uint8

const (
	geminiOther geminiKind = iota
	geminiText
	geminiCall
	geminiServerTool
)

// geminiUsage are Google's counts by the names below; -1 where nothing was said.
type geminiUsage [5]int

const (
	geminiPrompt uint8 = iota
	geminiToolPrompt
	geminiCandidates
	geminiThoughts
	geminiCached
)

var unknownGeminiUsage = geminiUsage{-1, -1, -1, -1, -1}

// counts are the counts as the GenAI conventions have them: the input with what a
// provider's tool added to it, the output with its reasoning.
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

// read parses a payload into ch.
func (r *geminiReader) read(data []byte, ch *geminiChunk) verdict {
	r.shapes.begin()
	c := cursor{b: data}
	r.readAnswer(&c, ch, false)
	v := c.verdict()
	if v != progress {
		return v
	}
	// One without candidates says something beside the answer, or has the answer where
	// the place is not known.
	r.t.Unread = r.t.Unread || c.doubtful || ch.doubt && !ch.answer && !ch.fault.seen
	return v
}

// readAnswer reads an answer. Code Assist wraps it: {"response":{…},"traceId":…}.
func (r *geminiReader) readAnswer(c *cursor, ch *geminiChunk, wrapped bool) {
	for key, ok := c.object(); ok; key, ok = c.key() {
		switch string(key) {
		case "responseId":
			ch.id = c.str()
		case "modelVersion":
			ch.model = c.str()
		case "candidates":
			ch.answer = true
			for ok := c.array(); ok; ok = c.element() {
				r.readCandidate(c, ch)
			}
		case "usageMetadata":
			r.readUsage(c, ch.usage[:])
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
				r.readAnswer(c, ch, true)
			}
		case "createTime", "traceId", "remainingCredits", "modelStatus", "metadata":
			c.skip()
		default:
			ch.doubt = c.suspect(key) || ch.doubt
		}
	}
}

func (r *geminiReader) readCandidate(c *cursor, ch *geminiChunk) {
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
						r.readPart(c, ch, &d)
					}
				case "role":
					c.skip()
				default:
					c.doubt(key)
				}
			}
		case "safetyRatings", "citationMetadata", "groundingMetadata", "groundingAttributions", "urlContextMetadata",
			"logprobsResult", "avgLogprobs", "tokenCount", "finishMessage":
			c.skip()
		default:
			c.doubt(key)
		}
	}
	if c.room(ch.candidates.n) {
		ch.candidates.add(d)
	}
}

func (r *geminiReader) readPart(c *cursor, ch *geminiChunk, d *geminiDelta) {
	var p geminiPart
	for key, ok := c.object(); ok; key, ok = c.key() {
		switch string(key) {
		case "text":
			p.kind = geminiText
			p.filled = r.shapes.filled(c, whatText) || p.filled
		case "thought":
			p.thought = c.boolean()
		case "inlineData", "fileData": // a picture, speech: output like a text
			if c.something() {
				p.kind, p.filled, p.unshaped = geminiText, true, true
			}
		case "functionCall":
			if c.peek() == '{' {
				p.kind = geminiCall
			}
			r.readCall(c, &p)
		case "executableCode", "toolCall":
			if c.something() {
				p.kind = geminiServerTool
			}
		case "thoughtSignature", "codeExecutionResult", "toolResponse", "videoMetadata", "mediaResolution", "partMetadata":
			c.skip()
		default:
			c.doubt(key)
		}
	}
	if c.room(ch.parts.n) {
		ch.parts.add(p)
		d.parts++
	}
}

func (r *geminiReader) readCall(c *cursor, p *geminiPart) {
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
				r.readPartialArg(c)
			}
		case "args":
			c.skip()
		default:
			c.doubt(key)
		}
	}
}

// readPartialArg reads a piece of an argument, of which nothing counts.
func (r *geminiReader) readPartialArg(c *cursor) {
	for key, ok := c.object(); ok; key, ok = c.key() {
		switch string(key) {
		case "jsonPath", "stringValue":
			r.shapes.filled(c, whatOther)
		case "numberValue":
			r.shapes.number(c)
		default:
			c.skip()
		}
	}
}

func (r *geminiReader) readUsage(c *cursor, u []int) {
	for key, ok := c.object(); ok; key, ok = c.key() {
		switch string(key) {
		case "promptTokenCount":
			r.shapes.count(c, u, geminiPrompt)
		case "toolUsePromptTokenCount":
			r.shapes.count(c, u, geminiToolPrompt)
		case "candidatesTokenCount":
			r.shapes.count(c, u, geminiCandidates)
		case "thoughtsTokenCount":
			r.shapes.count(c, u, geminiThoughts)
		case "cachedContentTokenCount":
			r.shapes.count(c, u, geminiCached)
		case "totalTokenCount":
			r.shapes.number(c)
		default:
			c.skip()
		}
	}
}

// learn takes the chunk's shape if it is a piece of one candidate and nothing else.
func (r *geminiReader) learn(data []byte, ch *geminiChunk) {
	if ch.candidates.n != 1 || ch.parts.n != 1 || len(ch.blocked) > 0 || ch.fault.seen {
		return
	}
	d, p := ch.candidates.at(0), ch.parts.at(0)
	if len(d.finish) > 0 || len(p.id) > 0 || len(p.name) > 0 || p.unshaped || !learnable(d.index) {
		return
	}
	r.shapes.learn(nil, data, geminiPiece{int32(d.index), p.kind, p.thought, p.continues})
}
