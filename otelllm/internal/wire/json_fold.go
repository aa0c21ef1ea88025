package wire

import "slices"

// Members are matched by their exact names, as the providers write them. Go's
// encoding/json does not look at the case of letters, so a client that uses it finds
// content under "Content" as well. Only a gateway writes such names that has
// something wrong: a payload with one is written anew under the right names, and read
// again.

// memberNames are the members that the readers know by name, by what they are in lower
// case. No two protocols write one of them in different ways.
var memberNames = func() map[string]string {
	names := map[string]string{}
	for _, name := range [...]string{
		"id", "model", "object", "type", "index", "error", "code", "message", "status", "name", "usage",
		"choices", "delta", "text", "finish_reason", "content", "refusal", "audio", "images", "reasoning_content", "reasoning",
		"reasoning_details", "tool_calls", "function_call", "function", "custom", "arguments", "executed_tools", "x_groq", "thinking",
		"response", "item", "item_id", "call_id", "output_index", "output", "part", "summary", "encrypted_content", "incomplete_details",
		"content_block", "stop_reason", "partial_json", "data", "bytes",
		"candidates", "parts", "finishReason", "promptFeedback", "blockReason", "functionCall", "inlineData", "fileData", "thought",
		"willContinue", "executableCode", "toolCall", "usageMetadata", "modelVersion", "responseId",
		"contentBlockIndex", "start", "stopReason", "toolUse", "toolUseId", "reasoningContent", "reasoningText", "redactedContent",
		"done", "done_reason", "environment", "execution",
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

// memberName is the name that encoding/json would take name for; "" where it is no
// other than name itself, or not known.
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

// canonical is a well-formed document with the members under their right names.
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
			// A string that a colon follows is a name: a value is followed by none.
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

// unknown consumes the value of a member whose name is not known, where nothing can be
// that counts.
func (c *cursor) skipUnknown(name []byte) {
	c.misnamed = c.misnamed || memberName(name) != ""
	c.skip()
}

// doubt consumes the value of a member whose name is not known, where content can be.
func (c *cursor) skipUnread(name []byte) { c.unread = c.checkUnread(name) || c.unread }

// other consumes a value of another type than the one that is due, where content can be.
func (c *cursor) skipOther() { c.unread = c.hasText() || c.unread }

// suspect is doubt where it hangs on what is around the member. It reports whether it
// says something.
func (c *cursor) checkUnread(name []byte) bool {
	c.misnamed = c.misnamed || memberName(name) != ""
	return c.hasText()
}

// wordy consumes a value and reports whether there is a string in it, anywhere, with
// something in it. A number or a flag is no content.
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

// verdict is what was made of a document that c has walked through.
func (c *cursor) verdict() verdict {
	switch {
	case !c.end():
		return malformed
	case c.misnamed:
		return misnamed
	default:
		return progress
	}
}

// wordyBut reports whether a well-formed object has a string in it, anywhere but under
// these members.
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
