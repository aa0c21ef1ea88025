package wire

import "hash/maphash"

// repeated recognises an object or array that has been read before, byte for byte, so
// that it need not be read again: it is as well-formed as it was, and says the same.
// It holds nothing of the value. The zero value has seen none.
type repeated struct {
	length int
	sum    uint64
}

var repeatedSeed = maphash.MakeSeed()

// pass consumes the next value of c and reports true, if it is the one that was seen.
func (r *repeated) pass(c *cursor) bool {
	c.peek()
	end := c.i + r.length
	if r.length == 0 || end > len(c.b) || maphash.Bytes(repeatedSeed, c.b[c.i:end]) != r.sum {
		return false
	}
	c.i = end
	return true
}

// learn takes the value that c has just consumed, from start on. One that is short
// takes no longer to read than to recognise.
func (r *repeated) learn(c *cursor, start int) {
	const short = 128
	if value := c.b[start:c.i]; !c.bad && len(value) > short && (value[0] == '{' || value[0] == '[') {
		*r = repeated{len(value), maphash.Bytes(repeatedSeed, value)}
	}
}
