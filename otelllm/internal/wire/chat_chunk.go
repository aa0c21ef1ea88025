package wire

// chatChunk is the parsed form of one payload. Its slices point into the payload.
type chatChunk struct {
	id, model []byte
	choices   few[chatDelta]
	fragments few[chatFragment]
	usage     Usage
	fault     fault
	unread    bool // it contains text, but not in a place where an answer is
	executed  []executedTool
	deferred  bool // it has the id of a request whose answer is available later
}

// chatDelta is the part of a chunk that belongs to one choice.
type chatDelta struct {
	index           int
	text, reasoning bool
	refused         bool // the text is a refusal
	finish          []byte
	fragments       int // how many of the chunk's fragments belong to it
}

// executedTool is a tool that the provider reports as executed.
type executedTool struct {
	place int // among those of the answer, from 1
	typ   []byte
}

// chatFragment is a part of a call's input.
type chatFragment struct {
	index    int
	id, name []byte
	input    inputPart
	custom   bool // its input is text of any form
}

// legacyIndex is the index of the single call of a function_call.
const legacyIndex = -1

// content returns the delta that the chunk is, if it is nothing but a delta of one choice.
func (ch *chatChunk) content() (d contentDelta, ok bool) {
	if ch.choices.n != 1 || ch.fragments.n > 1 || ch.usage != unknownUsage || ch.fault.seen {
		return d, false
	}
	choice := ch.choices.at(0)
	d = contentDelta{index: choice.index, text: choice.text, refusal: choice.refused, reasoning: choice.reasoning}
	if ch.fragments.n > 0 {
		f := ch.fragments.at(0)
		if len(f.id) > 0 || len(f.name) > 0 {
			return d, false // it begins a call
		}
		d.call, d.input, d.part = f.index, true, f.input
	}
	return d, len(choice.finish) == 0 && len(ch.executed) == 0
}

// read parses a payload. A chunk and a whole completion differ in the name of one member:
// delta or message. isError: it is an error by its object. aside: it has unknown members
// and no choices.
func (ch *chatChunk) read(c *cursor) (isError, aside bool) {
	var chosen, unknown bool
	for key, ok := c.object(); ok; key, ok = c.key() {
		switch string(key) {
		case "id":
			ch.id = c.str()
		case "model":
			ch.model = c.str()
		case "choices":
			chosen = c.peek() == '[' // null is as good as none
			for ok := c.array(); ok; ok = c.element() {
				ch.readChoice(c)
			}
		case "usage":
			ch.usage = readChatUsage(c)
		case "error":
			ch.fault.read(c)
		case "base_resp":
			ch.fault.readBase(c)
		case "x_groq":
			ch.readGroq(c)
		case "object":
			isError = string(c.str()) == "error"
		case "created":
			c.skipVarying()
		case "obfuscation":
			c.skipVarying()
		case "request_id":
			ch.deferred = c.filled()
		case "system_fingerprint", "service_tier", "provider":
			c.skip()
		default:
			unknown = true
			c.skipUnknown(key)
		}
	}
	return isError, unknown && !chosen
}

// chatHeading are the members that identify the source of a chunk.
var chatHeading = []string{"id", "model", "object", "request_id", "system_fingerprint", "service_tier", "provider", "x_groq"}

// readGroq reads Groq's additions to a chunk: the usage of a stream, and why it stopped
// early, which is a text or a code.
func (ch *chatChunk) readGroq(c *cursor) {
	for key, ok := c.object(); ok; key, ok = c.key() {
		switch string(key) {
		case "usage":
			if u := readChatUsage(c); ch.usage == unknownUsage {
				ch.usage = u
			}
		case "error":
			if c.peek() != '"' {
				ch.fault.read(c)
			} else if why := c.str(); len(why) > 0 {
				ch.fault.seen = true
				if safeName(why) != redacted {
					ch.fault.code = why
				}
			}
		default:
			c.skip()
		}
	}
}

func (ch *chatChunk) readChoice(c *cursor) {
	var (
		d      chatDelta
		native []byte
	)
	for key, ok := c.object(); ok; key, ok = c.key() {
		switch string(key) {
		case "index":
			d.index = max(c.count(), 0)
		case "delta", "message":
			ch.readDelta(c, &d)
		case "text": // of Completions
			d.text = c.filled() || d.text
		case "finish_reason":
			if d.finish = c.str(); noFinish(d.finish) {
				d.finish = nil
			}
		case "native_finish_reason": // of OpenRouter
			native = c.str()
		case "error": // of OpenRouter, in an answer that does not stream
			ch.fault.read(c)
		case "logprobs", "stop_reason", "matched_stop", "stop_sequence", "finish_details",
			"content_filter_results", "content_filter_result", "content_filter_offsets", "usage", "seed",
			"token_ids", "prompt_token_ids", "prompt_logprobs":
			c.skip()
		default:
			c.skipUnread(key)
		}
	}
	if len(d.finish) > 0 && !cutsInput(d.finish) && cutsInput(native) {
		// OpenRouter has written a stop for a limit or a failure of its provider
		// (reVrost/go-openrouter#43, earendil-works/pi#8511).
		d.finish = native
	}
	if c.room(ch.choices.n) {
		ch.choices.add(d)
	}
}

func (ch *chatChunk) readDelta(c *cursor, d *chatDelta) {
	for key, ok := c.object(); ok; key, ok = c.key() {
		switch string(key) {
		case "content":
			d.readContent(c)
		case "refusal":
			if c.nonEmpty() {
				d.text, d.refused = true, true
			}
		case "audio":
			d.readAudio(c)
		case "images": // of OpenRouter: output like text
			d.text = c.nonEmpty() || d.text
		case "executed_tools": // of Groq
			place := 0
			for ok := c.array(); ok; ok = c.element() {
				place++
				if e := readExecuted(c, place); c.room(len(ch.executed)) {
					ch.executed = append(ch.executed, e)
				}
			}
		case "reasoning_content", "reasoning", "reasoning_details":
			d.reasoning = c.nonEmpty() || d.reasoning
		case "tool_calls":
			ch.readFragments(c, d)
		case "function_call":
			if c.peek() == '{' {
				ch.readFragment(c, d, legacyIndex)
			} else {
				c.skipOther()
			}
		case "role", "index", "id", "name", "prefix", "annotations", "citations", "context", "channel", "tool_call_id",
			"reasoning_signature", "reasoning_opaque", "encrypted_content", "logprobs":
			c.skip()
		default:
			c.skipUnread(key)
		}
	}
}

// readAudio reads audio: output like text, unless it has only an id.
func (d *chatDelta) readAudio(c *cursor) {
	for key, ok := c.object(); ok; key, ok = c.key() {
		switch string(key) {
		case "data", "transcript":
			d.text = c.filled() || d.text
		case "id":
			c.skip()
		default:
			c.skipUnread(key)
		}
	}
}

// readContent reads a content, which is a string or, from Mistral, a list of parts.
func (d *chatDelta) readContent(c *cursor) {
	if c.peek() != '[' {
		d.text = c.filled() || d.text
		return
	}
	for ok := c.array(); ok; ok = c.element() {
		var thinking, text bool
		for key, ok := c.object(); ok; key, ok = c.key() {
			switch string(key) {
			case "thinking":
				thinking = c.nonEmpty()
			case "text", "refusal":
				text = c.filled() || text
			case "image_url", "input_audio", "file":
				text = c.nonEmpty() || text
			case "type", "reference_ids", "annotations", "signature":
				c.skip()
			default:
				c.skipUnread(key)
			}
		}
		d.reasoning = d.reasoning || thinking
		d.text = d.text || text
	}
}

func (ch *chatChunk) readFragments(c *cursor, d *chatDelta) {
	place := 0
	for ok := c.array(); ok; ok = c.element() {
		// Mistral sends whole calls without an index: the position in the list is used.
		ch.readFragment(c, d, place)
		place++
	}
}

func (ch *chatChunk) readFragment(c *cursor, d *chatDelta, index int) {
	f := chatFragment{index: index}
	for key, ok := c.object(); ok; key, ok = c.key() {
		switch string(key) {
		case "index":
			if n := c.count(); n >= 0 {
				f.index = n
			}
		case "id":
			f.id = c.str()
		case "name": // of a function_call
			f.name = c.str()
		case "arguments": // of a function_call
			f.input = c.inputPart()
		case "function":
			f.readFunction(c)
		case "custom":
			f.custom = c.peek() == '{'
			f.readFunction(c)
		case "type", "extra_content", "provider_specific_fields", "thought_signature":
			c.skip()
		default: // it may have the input
			c.skipUnread(key)
		}
	}
	if c.room(ch.fragments.n) {
		ch.fragments.add(f)
		d.fragments++
	}
}

// readFunction reads a function object, or that of a custom tool.
func (f *chatFragment) readFunction(c *cursor) {
	for key, ok := c.object(); ok; key, ok = c.key() {
		switch string(key) {
		case "name":
			f.name = c.str()
		case "arguments", "input":
			f.input = c.inputPart()
		case "type", "description", "thought_signature":
			c.skip()
		default: // it may have the input
			c.skipUnread(key)
		}
	}
}

func readChatUsage(c *cursor) Usage {
	u := unknownUsage
	for key, ok := c.object(); ok; key, ok = c.key() {
		switch string(key) {
		case "prompt_tokens":
			u.Input = c.count()
		case "completion_tokens":
			u.Output = c.count()
		case "prompt_tokens_details":
			u.CacheRead = readMember(c, "cached_tokens")
		case "completion_tokens_details":
			u.Reasoning = readMember(c, "reasoning_tokens")
		default:
			c.skip()
		}
	}
	return u
}

// readExecuted reads a tool that the provider has executed. Place is its place in the list,
// which counts if it has no index.
func readExecuted(c *cursor, place int) executedTool {
	e := executedTool{place: place}
	for key, ok := c.object(); ok; key, ok = c.key() {
		switch string(key) {
		case "index":
			if n := c.count(); n >= 0 {
				e.place = n + 1
			}
		case "type":
			e.typ = c.str()
		default:
			c.skip()
		}
	}
	return e
}
