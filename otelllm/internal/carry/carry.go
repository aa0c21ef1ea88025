// Package carry keeps the beginning of an event until its end has come, where a
// stream is cut within it. Most are short, and their buffer stays with the stream. A
// long one must not cost its memory for the rest of the stream: its buffer is lent,
// because to make one that grows with each Read, and to clear it away, takes longer
// than to decode the event.
package carry

import "sync"

// Keep is the capacity in bytes up to which a buffer stays with its stream.
const Keep = 4 << 10

// The buffers that are lent, by their capacity. Beyond the largest the runtime makes
// them, as append does.
var (
	mediums = sync.Pool{New: func() any { return made(medium) }}
	larges  = sync.Pool{New: func() any { return made(large) }}
)

const (
	medium = 16 << 10
	large  = 64 << 10
)

func made(size int) *[]byte {
	b := make([]byte, 0, size)
	return &b
}

// Append is append(to, b...). Nothing else may refer to the memory of to, which is
// lent to others once it has become too small.
func Append(to, b []byte) []byte {
	n := len(to) + len(b)
	if n <= cap(to) || n <= Keep || n > large {
		return append(to, b...)
	}
	pool := &mediums
	if n > medium {
		pool = &larges
	}
	grown := append(*pool.Get().(*[]byte), to...)
	Reset(to)
	return append(grown, b...)
}

// Reset is an empty buffer for the next event, with the memory of b unless that is
// much. Nothing may refer to what b held any more.
func Reset(b []byte) []byte {
	if cap(b) <= Keep {
		return b[:0]
	}
	switch cap(b) {
	case medium:
		lend(&mediums, b)
	case large:
		lend(&larges, b)
	}
	return nil
}

// lend has the memory of b used again.
func lend(pool *sync.Pool, b []byte) {
	b = b[:0]
	pool.Put(&b)
}
