package wire

// cursor reads one JSON document and keeps nothing of it. It accepts exactly what
// encoding/json accepts, so that "malformed" means what an SDK would report.
//
// The caller consumes each value exactly once: by one of the readers of scalars, by
// skip, or by a loop over its members:
//
//	for key, ok := c.object(); ok; key, ok = c.key() { … }
//	for ok := c.array(); ok; ok = c.element() { … }
//
// A value of another type than asked for is skipped and reads as absent or empty. If it
// contains text in a place where content can be, it sets unread: see filled, object and
// array.
// Once the document is found to be malformed, bad is set, every loop ends and every
// reader returns nothing, so that callers check once, at the end.
type cursor struct {
	b     []byte
	i     int
	depth int
	fresh bool // the object or array was just opened: no comma is expected
	bad   bool
	badAt int // the offset where it is malformed

	values *values // records which values may differ in payloads of the same meaning; or nil

	misnamed bool // a member has a known name in another case
	unread   bool // an unknown member, or a value of another type, contains text where content can be
}

// maxDepth is the limit of nesting of encoding/json.
const maxDepth = 10000

func (c *cursor) fail() {
	if !c.bad {
		c.bad, c.badAt = true, c.i
	}
	c.i = len(c.b)
}

// peek returns the first byte of the next token, 0 at the end.
func (c *cursor) peek() byte {
	for c.i < len(c.b) {
		b := c.b[c.i]
		if b > ' ' {
			return b
		}
		if b != ' ' && b != '\n' && b != '\r' && b != '\t' {
			c.fail()
			return 0
		}
		c.i++
	}
	return 0
}

// end reports whether the document was well-formed and nothing follows it.
func (c *cursor) end() bool {
	return c.peek() == 0 && !c.bad && c.i == len(c.b)
}

// object enters an object and goes to its first member. false: there is no member, and the
// value is consumed.
func (c *cursor) object() ([]byte, bool) {
	if !c.open('{') {
		return nil, false
	}
	return c.key()
}

// array enters an array and goes to its first element. false: there is no element, and the
// value is consumed.
func (c *cursor) array() bool {
	return c.open('[') && c.element()
}

// open enters a container. false: there is another value, and it is consumed.
func (c *cursor) open(bracket byte) bool {
	if c.peek() != bracket {
		c.skipOther()
		return false
	}
	if c.depth == maxDepth {
		c.fail()
		return false
	}
	c.depth++
	c.i++
	c.fresh = true
	return true
}

// next goes to the next member of the container that bracket closes, or leaves it.
func (c *cursor) next(bracket byte) bool {
	b := c.peek()
	switch {
	case b == bracket:
		c.i++
		c.depth--
		c.fresh = false
		return false
	case c.fresh:
		c.fresh = false
		return b != 0 || c.missing()
	case b == ',':
		c.i++
		return true
	default:
		return c.missing()
	}
}

// missing marks the document as malformed: an expected token is missing.
func (c *cursor) missing() bool {
	c.fail()
	return false
}

// element goes to the next element of an array; false at its end.
func (c *cursor) element() bool {
	return c.next(']')
}

// key goes to the next member of an object and returns its name, which is valid as long
// as the document; false at its end.
func (c *cursor) key() ([]byte, bool) {
	// Nearly every name is short, has no escapes and no white space around it: one or two
	// steps of eight bytes find its end.
	b, i := c.b, c.i
	if i < len(b) && b[i] == ',' && !c.fresh {
		i++
	}
	if i+1 < len(b) && b[i] == '"' && (c.fresh || i > c.i) {
		start := i + 1
		if end := plainEnd(b, start); end+1 < len(b) && b[end] == '"' && b[end+1] == ':' {
			c.i, c.fresh = end+2, false
			return b[start:end], true
		}
	}
	if !c.next('}') {
		return nil, false
	}
	k, escaped, ok := c.name()
	if escaped {
		k = unescape(k)
	}
	return k, ok
}

// name consumes the name of a member and its colon.
func (c *cursor) name() (name []byte, escaped, ok bool) {
	if c.peek() != '"' {
		return nil, false, c.missing()
	}
	if name, escaped, ok = c.rawString(); !ok {
		return nil, false, false
	}
	if !c.at(':') && c.peek() != ':' {
		return nil, false, c.missing()
	}
	c.i++
	return name, escaped, true
}

// str reads a string; nil for any other value. The bytes are the document's own unless
// the string has escapes.
func (c *cursor) str() []byte {
	if c.peek() != '"' {
		c.skip()
		return nil
	}
	s, escaped, ok := c.rawString()
	if ok && escaped {
		s = unescape(s)
	}
	return s
}

// filled consumes a value and reports whether it is a string that is not empty. The
// caller must not read the string otherwise: see fastPath.
func (c *cursor) filled() bool {
	if c.peek() != '"' {
		c.skipOther()
		return false
	}
	start := c.i + 1
	if _, ok := c.pass(); !ok || c.i-1 == start {
		return false
	}
	c.values.add(start, c.i-1, holeFilled, 0)
	return true
}

// boolean consumes a value and reports whether it is true.
func (c *cursor) boolean() bool {
	is := c.peek() == 't'
	c.skip()
	return is && !c.bad
}

// number reads the text of a number; nil for any other value.
func (c *cursor) number() []byte {
	b := c.peek()
	start := c.i
	c.skip()
	if c.bad || b != '-' && b-'0' > 9 {
		return nil
	}
	return c.b[start:c.i]
}

// maxDigits bounds a number that counts something.
const maxDigits = 12

// count reads a number that counts something; -1 for any other value.
func (c *cursor) count() int {
	n := 0
	digits := c.number()
	if len(digits) == 0 || len(digits) > maxDigits {
		return -1
	}
	for _, d := range digits {
		if d-'0' > 9 {
			return -1
		}
		n = n*10 + int(d-'0')
	}
	return n
}

// text reads a string or a number as it is written; nil for any other value.
func (c *cursor) text() []byte {
	if c.peek() == '"' {
		return c.str()
	}
	return c.number()
}

// nonEmpty consumes a value and reports whether it is anything but null, false, or an
// empty string, object or array.
func (c *cursor) nonEmpty() bool {
	switch b := c.peek(); b {
	case '"':
		return c.filled()
	case '{', '[':
		some := false
		c.open(b)
		for c.next(b + 2) { // ']' and '}' are two above their openings
			some = true
			if b == '{' {
				c.name()
			}
			c.skip()
		}
		if some {
			c.values.reject() // what is in it mostly differs, and has no holes
		}
		return some && !c.bad
	case 'n', 'f':
		c.skip()
		return false
	default:
		c.skip()
		return !c.bad
	}
}

// skip consumes one value.
func (c *cursor) skip() {
	switch b := c.peek(); b {
	case '"':
		c.pass()
	case '{', '[':
		c.skipNested()
	case 't':
		c.literal("true")
	case 'f':
		c.literal("false")
	case 'n':
		c.literal("null")
	default:
		c.skipNumber()
	}
}

func (c *cursor) literal(word string) {
	if end := endOfWord(c.b, c.i, word); end > 0 {
		c.i = end
	} else {
		c.fail()
	}
}

// skipNumber consumes -?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?
func (c *cursor) skipNumber() {
	// Nearly every number has only digits, and is a member or an element.
	end := endOfDigits(c.b, c.i)
	if end > c.i && end < len(c.b) && (c.b[end] == ',' || c.b[end] == '}' || c.b[end] == ']') {
		c.i = end
		return
	}
	if c.at('-') {
		c.i++
	}
	if c.at('0') {
		c.i++
	} else if !c.digits() {
		c.fail()
		return
	}
	if c.at('.') {
		c.i++
		if !c.digits() {
			c.fail()
			return
		}
	}
	if c.at('e') || c.at('E') {
		c.i++
		if c.at('+') || c.at('-') {
			c.i++
		}
		if !c.digits() {
			c.fail()
		}
	}
}

func (c *cursor) at(b byte) bool {
	return c.i < len(c.b) && c.b[c.i] == b
}

// digits consumes digits and reports whether there were any.
func (c *cursor) digits() bool {
	start := c.i
	for c.i < len(c.b) && c.b[c.i]-'0' <= 9 {
		c.i++
	}
	return c.i > start
}

// room reports whether one more element of a list may be kept, after n. If not, a part of
// the payload is unread.
func (c *cursor) room(n int) bool {
	c.unread = c.unread || n >= maxListed
	return n < maxListed
}

// maxListed bounds how many elements are read from one list of a payload: a list of
// millions of empty objects must not become millions of structs.
const maxListed = 4096

// endOfDigits is the end of the digits at i, or i when they are not a JSON number.
func endOfDigits(b []byte, i int) int {
	end := i
	for end < len(b) && b[end]-'0' <= 9 {
		end++
	}
	if end-i > 1 && b[i] == '0' {
		return i
	}
	return end
}
