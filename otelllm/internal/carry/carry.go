// Package carry buffers the beginning of an event until its end arrives. Most events
// are short, and their buffer stays with the stream. A long event must not occupy
// memory for the rest of the stream, so its buffer comes from a pool: allocating one
// that grows with each Read, and collecting it, takes longer than decoding the event.
// The memory that all streams of a process hold in this way is bounded.
package carry

import (
	"sync"
	"sync/atomic"
)

// Keep is the capacity in bytes up to which a buffer stays with its stream.
const Keep = 4 << 10

// Most bounds the capacity in bytes of all buffers together that are larger than Keep.
const Most = 64 << 20

// held is the total capacity of these buffers.
var held atomic.Int64

// Held is the total capacity in bytes of all buffers that are larger than [Keep].
func Held() int64 { return held.Load() }

// The pools of buffers, by capacity. Larger buffers are allocated each time.
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

// Append is append(to, b...). Nothing else may refer to the memory of to, which goes
// back to its pool once it is too small. ok is false if all streams together would hold
// more than [Most]: then to is returned unchanged. The caller has to return the buffer
// with [Reset] or [Drop].
func Append(to, b []byte) (sum []byte, ok bool) {
	n := len(to) + len(b)
	if n <= cap(to) {
		return append(to, b...), true
	}
	if n <= Keep { // append might choose a larger capacity
		small := make([]byte, 0, min(Keep, max(n, 2*cap(to))))
		return append(append(small, to...), b...), true
	}
	if n > large {
		return grow(to, b)
	}
	pool, size := &mediums, medium
	if n > medium {
		pool, size = &larges, large
	}
	if !take(size) {
		return to, false
	}
	grown := append(*pool.Get().(*[]byte), to...)
	Reset(to)
	return append(grown, b...), true
}

// grow makes a buffer that is larger than those of the pools. It doubles, so that the
// bytes of an event that arrives in small pieces are copied only a few times.
func grow(to, b []byte) ([]byte, bool) {
	size := max(len(to)+len(b), 2*cap(to))
	if !take(size) {
		if size = len(to) + len(b); !take(size) {
			return to, false
		}
	}
	grown := append(make([]byte, 0, size), to...)
	Drop(to)
	return append(grown, b...), true
}

// take adds a buffer of this capacity to held, unless that exceeds [Most].
func take(size int) bool {
	if held.Add(int64(size)) > Most {
		held.Add(-int64(size))
		return false
	}
	return true
}

// Reset returns an empty buffer for the next event. It uses the memory of b if b is not
// larger than [Keep]. Nothing may refer to the content of b any more.
func Reset(b []byte) []byte {
	if cap(b) <= Keep {
		return b[:0]
	}
	Drop(b)
	return nil
}

// Drop returns a buffer. Nothing may refer to the content of b any more.
func Drop(b []byte) {
	if cap(b) <= Keep {
		return
	}
	held.Add(-int64(cap(b)))
	switch cap(b) {
	case medium:
		lend(&mediums, b)
	case large:
		lend(&larges, b)
	}
}

// lend puts b into a pool.
func lend(pool *sync.Pool, b []byte) {
	b = b[:0]
	pool.Put(&b)
}
