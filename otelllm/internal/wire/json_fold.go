package wire

import "slices"

// Members are matched by their exact names, as the providers write them. encoding/json
// ignores the case of letters, so a client that uses it also finds content under
// "Content". Only a faulty gateway writes such names: a payload with one is rewritten
// with the right names, and read again.

// memberNames maps the names of the members that the readers know from lower case to
// their exact form. No two protocols differ in the case of one of them.
var memberNames = func() map[string]string {
	names := map[string]string{}
	for _, name := range [...]string{
		"id", "model", "object", "type", "index", "error", "code", "message", "status", "name", "usage",
		"choices", "delta", "text", "finish_reason", "content", "refusal", "audio", "images", "reasoning_content", "reasoning",
		"reasoning_details", "tool_calls", "function_call", "function", "custom", "arguments", "input", "action", "operation", "executed_tools", "x_groq", "thinking",
		"response", "item", "item_id", "call_id", "output_index", "output", "part", "summary", "encrypted_content", "incomplete_details",
		"content_block", "stop_reason", "partial_json", "data", "bytes",
		"candidates", "parts", "finishReason", "promptFeedback", "blockReason", "functionCall", "inlineData", "fileData", "thought",
		"willContinue", "executableCode", "toolCall", "usageMetadata", "modelVersion", "responseId",
		"contentBlockIndex", "start", "stopReason", "toolUse", "toolUseId", "reasoningContent", "reasoningText", "redactedContent",
		"done", "done_reason", "environment", "execution",
		"tool_plan", "tool_call_id", "outputs", "event_type", "interaction", "step", "steps",
	} {
		names[string(lowered(nil, []byte(name)))] = name
	}
	return names
}()

// maxMemberName is longer than any name in memberNames.
const maxMemberName = 32

// lowered appends name to dst with its ASCII letters in lower case.
func lowered(dst, name []byte) []byte {
	for _, b := range name {
		if 'A' <= b && b <= 'Z' {
			b |= 0x20
		}
		dst = append(dst, b)
	}
	return dst
}

// memberName returns the known name that encoding/json would match with name; "" if that
// is name itself, or if no known name matches.
func memberName(name []byte) string {
	if len(name) > maxMemberName {
		return ""
	}
	var buf [maxMemberName]byte
	known := memberNames[string(lowered(buf[:0], name))]
	if known == string(name) {
		return ""
	}
	return known
}

// canonical returns a well-formed document with the exact names of the members.
func canonical(data []byte) []byte {
	c := cursor{b: data}
	out := make([]byte, 0, len(data)+len(data)/8)
	from := 0
	for {
		switch b := c.peek(); {
		case b == 0:
			return append(out, data[from:]...)
		case b == '{', b == '[', b == '}', b == ']', b == ',', b == ':':
			c.i++
		case b == '"':
			start := c.i
			s, escaped, ok := c.rawString()
			if !ok {
				return append(out, data[from:]...)
			}
			// A string before a colon is a name.
			if c.peek() != ':' {
				continue
			}
			end := start + 1 + len(s)
			if escaped {
				s = unescape(s)
			}
			if name := memberName(s); name != "" {
				out = append(append(out, data[from:start+1]...), name...)
				from = end
			}
		default:
			c.skip()
		}
	}
}

// skipUnknown consumes the value of an unknown member in a place where no content can be.
func (c *cursor) skipUnknown(name []byte) {
	c.misnamed = c.misnamed || memberName(name) != ""
	c.skip()
}

// skipUnread consumes the value of an unknown member in a place where content can be. If
// it contains text, the document is unread.
func (c *cursor) skipUnread(name []byte) { c.unread = c.checkUnread(name) || c.unread }

// skipOther consumes a value of another type than expected in a place where content can
// be. If it contains text, the document is unread.
func (c *cursor) skipOther() { c.unread = c.hasText() || c.unread }

// checkUnread consumes the value of an unknown member and reports whether it contains
// text. Whether that is unread content depends on what else the caller reads.
func (c *cursor) checkUnread(name []byte) bool {
	c.misnamed = c.misnamed || memberName(name) != ""
	return c.hasText()
}

// hasText consumes a value and reports whether it contains a string that is not empty, at
// any depth. Numbers and booleans are not content.
func (c *cursor) hasText() bool {
	switch b := c.peek(); b {
	case '"':
		s, _, _ := c.rawString()
		return len(s) > 0
	case '{', '[':
		found := false
		if !c.open(b) {
			return false
		}
		for c.next(b + 2) { // ']' and '}' are two above their openings
			if b == '{' {
				c.name()
			}
			found = c.hasText() || found
		}
		return found && !c.bad
	default:
		c.skip()
		return false
	}
}

// hasTextBeside reports whether a well-formed object contains a string that is not empty,
// outside of these members.
func hasTextBeside(data []byte, but []string) bool {
	found := false
	c := cursor{b: data}
	for key, ok := c.object(); ok; key, ok = c.key() {
		if slices.Contains(but, string(key)) {
			c.skip()
		} else {
			found = c.hasText() || found
		}
	}
	return found
}
