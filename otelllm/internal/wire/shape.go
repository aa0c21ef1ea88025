package wire

import "slices"

// shape is the form of a delta, learnt from one payload and recognised in the next.
// The deltas of a stream differ in a few values: the text itself, a sequence
// number, padding. The rest (ids, type, index, most of the bytes) repeats. A payload
// that has the same bytes around values of the same sort says the same thing and is
// as well-formed as the one learnt from, so it need not be parsed. A shape holds
// nothing of the values.
type shape struct {
	literal []byte // what lies around the holes, end to end
	holes   [maxHoles]hole
	nHoles  int
	off     bool // nothing is learnt: for tests that compare

	// The holes of the payload that was parsed or matched last.
	spans    [maxHoles]span
	n        int
	overflow bool
}

// hole is a place where a value may differ.
type hole struct {
	at   int // where it is in literal
	what what
	of   uint8
}

// what is what the value in a hole means.
type what uint8

const (
	whatNumber    what = iota // a number that means nothing here
	whatCount                 // a number that the reader wants: see count
	whatOther                 // a string that means nothing here
	whatText                  // visible text
	whatReasoning             // reasoning
)

// span is where in a payload the value of a hole is.
type span struct {
	start, end int
	what       what
	of         uint8 // of a whatCount: what it counts
}

// filled says which sorts of strings had something in them.
type filled uint8

func (f filled) has(w what) bool { return f&(1<<w) != 0 }

const (
	maxHoles = 6
	maxShape = 2 << 10
)

// begin prepares for the parsing of a payload.
func (s *shape) begin() { s.n, s.overflow = 0, false }

// filled reads a value as [cursor.filled] does. If it is a string it is a hole.
func (s *shape) filled(c *cursor, w what) bool {
	if c.peek() != '"' {
		c.skip()
		return false
	}
	start := c.i + 1
	if _, ok := c.pass(); !ok {
		return false
	}
	s.add(span{start: start, end: c.i - 1, what: w})
	return c.i-1 > start
}

// number consumes a value. If it is a plain number it is a hole.
func (s *shape) number(c *cursor) {
	c.peek()
	start := c.i
	c.skip()
	if end := endOfDigits(c.b, start); !c.bad && end == c.i && end > start {
		s.add(span{start: start, end: end, what: whatNumber})
	}
}

// count reads a number that counts something, as [cursor.count] does, into to[of].
// If it is a plain number it is a hole whose value a match reads again.
func (s *shape) count(c *cursor, to []int, of uint8) {
	c.peek()
	start := c.i
	to[of] = c.count()
	if !c.bad && to[of] >= 0 {
		s.add(span{start, c.i, whatCount, of})
	}
}

// recount reads the counts of the payload data that has matched just now into to.
func (s *shape) recount(data []byte, to []int) {
	for _, sp := range s.spans[:s.nHoles] {
		if sp.what == whatCount {
			n := 0
			for _, digit := range data[sp.start:sp.end] {
				n = n*10 + int(digit-'0')
			}
			to[sp.of] = n
		}
	}
}

func (s *shape) add(sp span) {
	if s.n == maxHoles {
		s.overflow = true
		return
	}
	s.spans[s.n] = sp
	s.n++
}

// learn takes the form of the payload that was parsed since begin.
func (s *shape) learn(data []byte) {
	s.literal, s.nHoles = s.literal[:0], 0
	if s.off || s.overflow || len(data) > maxShape+s.values() {
		return
	}
	s.literal = slices.Grow(s.literal, len(data))
	at := 0
	for i, sp := range s.spans[:s.n] {
		s.literal = append(s.literal, data[at:sp.start]...)
		s.holes[i] = hole{at: len(s.literal), what: sp.what, of: sp.of}
		at = sp.end
	}
	s.nHoles = s.n
	s.literal = append(s.literal, data[at:]...)
}

// texts is how many holes of the payload are texts.
func (s *shape) texts() (n int) {
	for _, sp := range s.spans[:s.n] {
		if sp.what == whatText {
			n++
		}
	}
	return n
}

// values is how many bytes of the payload lie in holes.
func (s *shape) values() (n int) {
	for _, sp := range s.spans[:s.n] {
		n += sp.end - sp.start
	}
	return n
}

// match reports whether data has the form learnt last.
func (s *shape) match(data []byte) (f filled, ok bool) {
	if len(s.literal) == 0 {
		return 0, false
	}
	at, from := 0, 0
	for i, h := range s.holes[:s.nHoles] {
		n := h.at - from
		if len(data)-at < n || string(data[at:at+n]) != string(s.literal[from:h.at]) {
			return 0, false
		}
		at += n
		from = h.at
		end := 0
		if h.what <= whatCount {
			end = endOfDigits(data, at)
			if end == at || h.what == whatCount && end-at > maxDigits {
				return 0, false
			}
		} else {
			// The quotes are part of the literal.
			end = endOfString(data, at)
			if end > at {
				f |= 1 << h.what
			}
		}
		s.spans[i] = span{at, end, h.what, h.of}
		at = end
	}
	return f, string(data[at:]) == string(s.literal[from:])
}

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

// endOfString is the place of the closing quote of the string whose content begins
// at i, or of the first byte that a string cannot hold.
func endOfString(b []byte, i int) int {
	for {
		i = plainEnd(b, i)
		if i == len(b) || b[i] != '\\' {
			return i
		}
		n := escapeLen(b[i:])
		if n == 0 {
			return i
		}
		i += n
	}
}
