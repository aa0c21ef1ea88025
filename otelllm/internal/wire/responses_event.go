package wire

// responsesEvent is the parsed form of one payload. Its slices point into the payload.
type responsesEvent struct {
	typ         []byte
	outputIndex int
	itemID      []byte
	delta       bool      // it has a delta that is not empty
	input       inputPart // the delta, if it is one of the input of a call
	whole       inputPart // the input of a call, at its end
	text        bool      // it has a text that is not empty
	unread      bool      // an unknown member contains text
	item        responsesItem
	part        responsesPart
	response    responsesObject
	fault       fault
	flat        fault // an error whose members are those of the event
}

// responsesObject is a response: the payload of an event, or a whole body.
type responsesObject struct {
	id, model, status, reason []byte
	object                    []byte // its type; of a whole body alone
	output                    []responsesItem
	hasOutput                 bool
	nonEmpty                  bool // it has a member
	unread                    bool // an unknown member contains text
	usage                     Usage
	fault                     fault
}

// read parses a payload.
func (ev *responsesEvent) read(c *cursor) {
	ev.begin()
	for key, ok := c.object(); ok; key, ok = c.key() {
		if string(key) == "response" {
			ev.readResponse(c)
		} else {
			ev.member(c, key)
		}
	}
}

// readResponse reads the response of an event, or a whole body.
func (ev *responsesEvent) readResponse(c *cursor) {
	ev.response.usage = unknownUsage
	for key, ok := c.object(); ok; key, ok = c.key() {
		if string(key) == "tools" {
			c.skipRepeated() // most of the bytes of every event that has the response
		} else {
			ev.response.member(c, key)
		}
	}
}

// begin initializes ev before a payload is read.
func (ev *responsesEvent) begin() { ev.outputIndex = -1 }

// member reads one member of a payload, other than the response.
func (ev *responsesEvent) member(c *cursor, key []byte) {
	switch string(key) {
	case "type":
		ev.typ = c.str()
	case "output_index":
		ev.outputIndex = c.count()
	case "item_id":
		ev.itemID = c.str()
	case "delta":
		ev.input = c.deltaPart()
		ev.delta = ev.input.filled || ev.delta
	case "arguments":
		ev.whole = c.inputPart()
	case "sequence_number":
		c.skipVarying()
	case "obfuscation":
		c.skipVarying()
	case "item":
		ev.item = readItem(c)
	case "error":
		ev.fault.read(c)
	case "code", "message", "status", "retry_after":
		ev.flat.member(c, key)
	case "text", "refusal", "transcript":
		ev.text = c.filled() || ev.text
		ev.part.refused = ev.part.refused || ev.text && string(key) == "refusal"
	case "part":
		ev.part = readPart(c)
	case "content_index", "summary_index", "annotation_index", "command_index", "partial_image_index", "event_id",
		"logprobs", "annotation", "param", "headers", "event_type", "stream_id":
		c.skip()
	default:
		ev.unread = c.checkUnread(key) || ev.unread
	}
}

// failure returns the error of an error event.
func (ev *responsesEvent) failure() *fault {
	if ev.fault.seen {
		return &ev.fault
	}
	return &ev.flat
}

// member reads one member of a response object.
func (o *responsesObject) member(c *cursor, key []byte) {
	o.nonEmpty = true
	switch string(key) {
	case "id":
		o.id = c.str()
	case "model":
		o.model = c.str()
	case "status":
		o.status = c.str()
	case "error":
		o.fault.read(c)
	case "incomplete_details":
		for key, ok := c.object(); ok; key, ok = c.key() {
			if string(key) == "reason" {
				o.reason = c.str()
			} else {
				c.skip()
			}
		}
	case "stop_reason": // of Bifrost, which leaves out the status then: maximhq/bifrost#4679
		if reason := c.str(); len(o.reason) == 0 && cutsInput(reason) {
			o.reason = reason
		}
	case "status_details": // of the Realtime API
		for key, ok := c.object(); ok; key, ok = c.key() {
			switch string(key) {
			case "reason":
				o.reason = c.str()
			case "error":
				o.fault.read(c)
			default:
				c.skip()
			}
		}
	case "output":
		o.hasOutput = c.peek() == '['
		for ok := c.array(); ok; ok = c.element() {
			if item := readItem(c); c.room(len(o.output)) {
				o.output = append(o.output, item)
			}
		}
	case "usage":
		o.usage = readResponsesUsage(c)
	case "object":
		o.object = c.str()
	case "previous_response_id", "instructions", "metadata", "reasoning", "text", "tool_choice", "truncation",
		"user", "service_tier", "safety_identifier", "prompt_cache_key", "prompt_cache_retention", "conversation",
		"prompt", "content_filters", "moderation", "tool_usage", "background":
		c.skip()
	default:
		o.unread = c.checkUnread(key) || o.unread
	}
}

func readResponsesUsage(c *cursor) Usage {
	u := unknownUsage
	for key, ok := c.object(); ok; key, ok = c.key() {
		switch string(key) {
		case "input_tokens":
			u.Input = c.count()
		case "output_tokens":
			u.Output = c.count()
		case "input_tokens_details", "input_token_details": // the latter of the Realtime API
			u.CacheRead = readMember(c, "cached_tokens")
		case "output_tokens_details", "output_token_details":
			u.Reasoning = readMember(c, "reasoning_tokens")
		default:
			c.skip()
		}
	}
	return u
}
