package wire

import "hash/maphash"

// repeated skips an object or array that is ignored and that comes again in later
// payloads: one with the length and the hash of the last one is as well-formed. It holds
// nothing of the value. The zero value knows no value.
type repeated struct {
	length int
	sum    uint64
}

var repeatedSeed = maphash.MakeSeed()

// skip consumes the next value of c.
func (r *repeated) skip(c *cursor) {
	c.peek()
	start := c.i
	if r.length > 0 {
		if end := start + r.length; end <= len(c.b) && maphash.Bytes(repeatedSeed, c.b[start:end]) == r.sum {
			c.i = end
			return
		}
		// It is another value. Looking for the old one again and again would cost more than
		// reading the payload.
		*r = repeated{}
	}
	c.skip()
	const short = 128 // is skipped as fast as it is hashed
	if c.bad || c.i-start <= short {
		return
	}
	// Only these have an end of their own: a number might continue.
	if value := c.b[start:c.i]; value[0] == '{' || value[0] == '[' {
		*r = repeated{len(value), maphash.Bytes(repeatedSeed, value)}
	}
}
