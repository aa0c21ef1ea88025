package wire

// values records which values of a payload may differ in payloads of the same meaning, for
// the fast path. A nil values records nothing.
type values struct {
	spans    [maxHoles]span
	n        int
	overflow bool // there are more values than holes, or a value for which no hole is possible

	repeated repeated // of all payloads, not of the last one
}

const (
	// maxHoles bounds the values of one payload that may differ.
	maxHoles = 6
	// maxCounts bounds the counts among them.
	maxCounts = 5
)

// span is the place of one value in the payload.
type span struct {
	start, end int32 // no payload is longer than MaxEvent
	kind       holeKind
	count      uint8
}

type holeKind uint8

const (
	holeNumber holeKind = iota // the digits of a number that is ignored
	holeCount                  // the digits of a count, which match reads
	holeString                 // a string that is ignored
	holeFilled                 // a string that is not empty
	holeInput                  // a string that is a part of the input of a call
)

func (v *values) add(start, end int, kind holeKind, count uint8) {
	switch {
	case v == nil:
	case v.n == maxHoles:
		v.overflow = true
	default:
		v.spans[v.n] = span{int32(start), int32(end), kind, count}
		v.n++
	}
}

// reject records that the payload is not worth learning.
func (v *values) reject() {
	if v != nil {
		v.overflow = true
	}
}

// reset prepares for the next payload.
func (v *values) reset() {
	if v != nil {
		v.n, v.overflow = 0, false
	}
}

// length is the number of bytes in the values.
func (v *values) length() (n int) {
	for _, sp := range v.spans[:v.n] {
		n += int(sp.end - sp.start)
	}
	return n
}

// skipVarying consumes a value that the caller ignores and that differs from event to
// event. Of a number only the leading digits differ: a fraction stays part of the form.
func (c *cursor) skipVarying() {
	b := c.peek()
	start := c.i
	c.skip()
	switch {
	case c.bad:
	case b == '"':
		c.values.add(start+1, c.i-1, holeString, 0)
	case b-'0' <= 9:
		c.values.add(start, endOfDigits(c.b, start), holeNumber, 0)
	}
}

// varyingCount is [cursor.count] of a value that differs from event to event. index is
// where contentDelta.counts has it.
func (c *cursor) varyingCount(index uint8) int {
	c.peek()
	start := c.i
	n := c.count()
	if n < 0 {
		c.values.reject() // null and the like: rare, so not worth a kind of hole
	} else {
		c.values.add(start, c.i, holeCount, index)
	}
	return n
}

// skipRepeated consumes a value that is long and comes again in other events.
func (c *cursor) skipRepeated() {
	if c.values == nil {
		c.skip()
		return
	}
	c.values.repeated.skip(c)
}
