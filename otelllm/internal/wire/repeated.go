package wire

import "hash/maphash"

// repeated skips an object or array that comes again and says nothing here: one that
// has the length and the hash of the last one is as well-formed as that was. It holds
// nothing of the value. The zero value has seen none.
type repeated struct {
	length int
	sum    uint64
}

var repeatedSeed = maphash.MakeSeed()

// skipRepeated consumes a value that is long and comes again in other events.
func (c *cursor) skipRepeated() {
	if c.values == nil {
		c.skip()
		return
	}
	c.values.repeated.skip(c)
}

// skip consumes the next value of c.
func (r *repeated) skip(c *cursor) {
	c.peek()
	start := c.i
	if r.length > 0 {
		if end := start + r.length; end <= len(c.b) && maphash.Bytes(repeatedSeed, c.b[start:end]) == r.sum {
			c.i = end
			return
		}
		// Another value came. To look for the old one again and again would take far
		// longer than the payload is long.
		*r = repeated{}
	}
	c.skip()
	const short = 128 // takes no longer to read than to recognise
	if c.bad || c.i-start <= short {
		return
	}
	// Only these have an end of their own: a number might go on.
	if value := c.b[start:c.i]; value[0] == '{' || value[0] == '[' {
		*r = repeated{len(value), maphash.Bytes(repeatedSeed, value)}
	}
}
