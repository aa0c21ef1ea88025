package wire

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"slices"
)

// shapes are the forms of the deltas that came last, learnt from one payload and
// recognised in the next. The deltas of a stream differ in a few values: the text
// itself, a sequence number, padding. The rest (ids, type, index, most of the bytes)
// repeats. A payload that has the same bytes around values of the same sort says the
// same thing and is as well-formed as the one learnt from, so it need not be parsed.
// A few are kept, because streams alternate: calls side by side, items one after the
// other. They hold nothing of the values. M is what a payload of a shape means.
type shapes[M any] struct {
	values // of the payload that was parsed or matched last

	known [maxShapes]shape[M]
	size  uint16 // of all literals
	kept  uint8  // how many of known there are
	last  uint8  // the one that matched or was learnt last, which is tried first
	next  uint8  // the one to be replaced next
	off   bool   // nothing is learnt: for tests that compare
}

// shape is one form.
type shape[M any] struct {
	literal []byte // what lies around the holes, end to end, after the frame
	holes   [maxHoles]hole
	frame   uint16 // how much of it stands before the payload in an event stream
	head    uint16 // how much of it payloads of other forms begin with; 0: it is not known
	nHoles  uint8
	lines   bool // the payload came in several lines, whose ends the literal has not as they are
	means   M
}

// hole is a place where a value may differ.
type hole struct {
	at   uint16 // where it is in literal
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
	start, end int32 // no payload is longer than MaxEvent
	what       what
	of         uint8 // of a whatCount: what it counts
}

// filled says which sorts of strings had something in them.
type filled uint8

func (f filled) has(w what) bool { return f&(1<<w) != 0 }

const (
	maxHoles  = 6
	maxShapes = 4
	// maxLiterals bounds the literals of all shapes together, in bytes.
	maxLiterals = 2 << 10
)

// values are the places in a payload where a value may differ.
type values struct {
	spans    [maxHoles]span
	n        int
	overflow bool // there are more, or others, than holes can be
}

// begin prepares for the parsing of a payload.
func (s *values) begin() { s.n, s.overflow = 0, false }

// filled reads a value as [cursor.filled] does. If it is a string it is a hole.
func (s *values) filled(c *cursor, w what) bool {
	if c.peek() != '"' {
		if w == whatOther {
			c.skip()
		} else {
			c.other()
		}
		return false
	}
	start := c.i + 1
	if _, ok := c.pass(); !ok {
		return false
	}
	s.add(start, c.i-1, w, 0)
	return c.i-1 > start
}

// number consumes a value. The digits that it begins with are a hole: a fraction may
// follow any others, too.
func (s *values) number(c *cursor) {
	c.peek()
	start := c.i
	c.skip()
	if end := endOfDigits(c.b, start); end > start {
		s.add(start, end, whatNumber, 0)
	}
}

// count reads a number that counts something, as [cursor.count] does, into to[of].
// If it is a plain number it is a hole whose value a match reads again.
func (s *values) count(c *cursor, to []int, of uint8) {
	c.peek()
	start := c.i
	to[of] = c.count()
	if to[of] < 0 {
		s.overflow = true // not worth a hole of its own
		return
	}
	s.add(start, c.i, whatCount, of)
}

// recount reads the counts of the payload data that has matched just now into to.
func (s *values) recount(data []byte, to []int) {
	for _, sp := range s.spans[:s.n] {
		if sp.what == whatCount {
			n := 0
			for _, digit := range data[sp.start:sp.end] {
				n = n*10 + int(digit-'0')
			}
			to[sp.of] = n
		}
	}
}

func (s *values) add(start, end int, w what, of uint8) {
	if s.n == maxHoles {
		s.overflow = true
		return
	}
	s.spans[s.n] = span{int32(start), int32(end), w, of}
	s.n++
}

// learn takes the form of the payload that was parsed since begin, and what it means.
// name is the event's, which is part of its form in an event stream. It reports whether
// that could be learnt.
func (s *shapes[M]) learn(name, data []byte, means M) bool {
	frame := len(dataField)
	if len(name) > 0 {
		frame += len(eventField) + len(name) + 1
	}
	size := frame + len(data) - s.length()
	if s.off || s.overflow || size > maxLiterals {
		return false
	}
	sh := s.room(size)
	sh.means, sh.frame, sh.head, sh.nHoles = means, uint16(frame), 0, uint8(s.n)
	b := sh.literal
	if len(name) > 0 {
		b = append(append(append(b, eventField...), name...), '\n')
	}
	b = append(b, dataField...)
	at := int32(0)
	for i, sp := range s.spans[:s.n] {
		b = append(b, data[at:sp.start]...)
		sh.holes[i] = hole{at: uint16(len(b)), what: sp.what, of: sp.of}
		at = sp.end
	}
	sh.literal = append(b, data[at:]...)
	sh.lines = bytes.IndexByte(sh.literal[frame:], '\n') >= 0
	return true
}

// learnHead says that payloads of other forms, too, begin as the one that was learnt
// just now does: with its first n bytes, but for the values in them.
func (s *shapes[M]) learnHead(n int) {
	sh := &s.known[s.last]
	at := int(sh.frame) + n
	for _, sp := range s.spans[:s.n] {
		if int(sp.start) < n {
			at -= int(sp.end - sp.start)
		}
	}
	sh.head = uint16(at)
}

// head is how long the head is that a payload begins with, if it is that of the shape
// that came last; 0 if it is not. The values are then those of the head.
func (s *shapes[M]) head(data []byte) int {
	sh := &s.known[s.last]
	holes := sh.holes[:sh.nHoles]
	for len(holes) > 0 && holes[len(holes)-1].at >= sh.head {
		holes = holes[:len(holes)-1]
	}
	_, n := s.matches(data, sh.literal[:sh.head], int(sh.frame), holes)
	return n
}

// learnable reports whether a shape can hold an index as an int32: those of a real
// stream are small.
func learnable(index int) bool { return index == int(int32(index)) }

const (
	eventField = "event: "
	dataField  = "data: "
)

// room makes room for a literal of this size. What was recognised longest ago goes,
// more or less.
func (s *shapes[M]) room(size int) *shape[M] {
	if s.kept < maxShapes && int(s.size)+size <= maxLiterals {
		s.last = s.kept
		s.kept++
	} else {
		s.last = s.victim(s.last)
	}
	sh := &s.known[s.last]
	s.size = uint16(int(s.size) + size - len(sh.literal)) // at most twice maxLiterals
	sh.literal = sh.literal[:0]
	if cap(sh.literal) < size || cap(sh.literal) > 2*size {
		sh.literal = slices.Grow([]byte(nil), size)
	}
	for s.size > maxLiterals {
		if s.next = (s.next + 1) % s.kept; s.next != s.last {
			s.drop(s.next)
		}
	}
	return sh
}

// victim is the shape to be replaced, another than keep if there is one.
func (s *shapes[M]) victim(keep uint8) uint8 {
	if s.kept == 0 {
		s.kept = 1
	}
	if s.next = (s.next + 1) % s.kept; s.next == keep {
		s.next = (s.next + 1) % s.kept
	}
	return s.next
}

// reset forgets all shapes. The memory of small ones stays.
func (s *shapes[M]) reset() {
	const small = maxLiterals / maxShapes
	var literals [maxShapes][]byte
	for i := range s.known {
		if literal := s.known[i].literal; cap(literal) <= small {
			literals[i] = literal[:0]
		}
	}
	*s = shapes[M]{}
	for i := range s.known {
		s.known[i].literal = literals[i]
	}
}

// forget drops the shapes that mean what of says.
func (s *shapes[M]) forget(of func(means *M) bool) {
	for i := range s.kept {
		if of(&s.known[i].means) {
			s.drop(i)
		}
	}
}

func (s *shapes[M]) drop(i uint8) {
	s.size -= uint16(len(s.known[i].literal))
	s.known[i] = shape[M]{}
}

// length is how many bytes of the payload lie in holes.
func (s *values) length() (n int) {
	for _, sp := range s.spans[:s.n] {
		n += int(sp.end - sp.start)
	}
	return n
}

// match is what a payload means if it has the form of a known shape; nil if it has not.
func (s *shapes[M]) match(data []byte) (means *M, f filled) {
	if s.kept == 0 || len(data) == 0 {
		return nil, 0
	}
	i := s.last
	for {
		sh := &s.known[i]
		if f, n := s.matches(data, sh.literal, int(sh.frame), sh.holes[:sh.nHoles]); n == len(data) {
			s.last = i
			return &sh.means, f
		}
		if i++; i == s.kept {
			i = 0
		}
		if i == s.last {
			return nil, 0
		}
	}
}

// take is what the event means that p begins with, as it comes over the wire: its
// lines, if it has the form of a known shape; nil if it has not. n is its length.
func (s *shapes[M]) take(p []byte) (means *M, f filled, n int) {
	if s.kept == 0 {
		return nil, 0, 0
	}
	i := s.last
	for {
		sh := &s.known[i]
		if !sh.lines {
			f, n := s.matches(p, sh.literal, 0, sh.holes[:sh.nHoles])
			if end := endOfEvent(p[n:]); n > 0 && end > 0 {
				s.last = i
				return &sh.means, f, n + end
			}
		}
		if i++; i == s.kept {
			i = 0
		}
		if i == s.last {
			return nil, 0, 0
		}
	}
}

// endOfEvent is how long the end of an event is that p begins with: that of its last
// line and a blank one. 0 if it is not one, or is one that no server writes.
func endOfEvent(p []byte) int {
	switch {
	case len(p) >= 2 && p[0] == '\n' && p[1] == '\n':
		return 2
	case len(p) >= 4 && string(p[:4]) == "\r\n\r\n":
		return 4
	default:
		return 0
	}
}

// matches is how many bytes of data have the form of the literal, from a place in it
// on, with these holes; 0 if they have not.
func (s *values) matches(data, literal []byte, from int, holes []hole) (f filled, n int) {
	if len(literal) == 0 {
		return 0, 0 // it was dropped
	}
	at := 0
	for i, h := range holes {
		hole := int(h.at)
		n := hole - from
		if len(data)-at < n || string(data[at:at+n]) != string(literal[from:hole]) {
			return 0, 0
		}
		at += n
		from = hole
		end := 0
		if h.what <= whatCount {
			end = endOfDigits(data, at)
			if end == at || h.what == whatCount && end-at > maxDigits {
				return 0, 0
			}
		} else {
			// The quotes are part of the literal.
			end = endOfString(data, at)
			if end > at {
				f |= 1 << h.what
			}
		}
		s.spans[i] = span{int32(at), int32(end), h.what, h.of}
		at = end
	}
	s.n = len(holes)
	n = len(literal) - from
	if len(data)-at < n || string(data[at:at+n]) != string(literal[from:]) {
		return 0, 0
	}
	return f, at + n
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
	for start := i; ; {
		if i+8 <= len(b) {
			marks := special(binary.LittleEndian.Uint64(b[i : i+8]))
			if marks == 0 {
				if i += 8; i-start >= longString {
					i = skipPlain(b, i)
				}
				continue
			}
			i += bits.TrailingZeros64(marks) / 8
		} else {
			i = plainEnd(b, i)
		}
		switch {
		case i == len(b) || b[i] != '\\':
			return i
		case i+1 < len(b) && plainEscapes[b[i+1]]:
			i += 2
		default:
			n := escapeLen(b[i:])
			if n == 0 {
				return i
			}
			i += n
		}
	}
}
