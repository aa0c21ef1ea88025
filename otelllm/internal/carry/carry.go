// Package carry keeps the beginning of an event until its end has come, where a
// stream is cut within it. Most are short, and their buffer stays with the stream. A
// long one must not cost its memory for the rest of the stream: its buffer is lent,
// because to make one that grows with each Read, and to clear it away, takes longer
// than to decode the event. What all streams of a process hold so is bounded.
package carry

import (
	"sync"
	"sync/atomic"
)

// Keep is the capacity in bytes up to which a buffer stays with its stream.
const Keep = 4 << 10

// Most bounds the capacity in bytes of all buffers together that are larger than Keep.
const Most = 64 << 20

// held is the capacity of these buffers.
var held atomic.Int64

// Held is the capacity in bytes of all buffers that are larger than [Keep].
func Held() int64 { return held.Load() }

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
// lent to others once it has become too small. ok is false where that would go beyond
// what all streams together may hold: then to is returned as it was. A buffer has to
// be given back by [Reset] or [Drop].
func Append(to, b []byte) (sum []byte, ok bool) {
	n := len(to) + len(b)
	if n <= cap(to) {
		return append(to, b...), true
	}
	if n <= Keep { // append by itself might make it larger than that
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

// grow makes a buffer that is longer than those that are lent. It doubles, so that the
// bytes of an event that comes in small pieces are copied a few times only.
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

// take accounts for a buffer of this capacity, unless that is too much.
func take(size int) bool {
	if held.Add(int64(size)) > Most {
		held.Add(-int64(size))
		return false
	}
	return true
}

// Reset is an empty buffer for the next event, with the memory of b unless that is
// much. Nothing may refer to what b held any more.
func Reset(b []byte) []byte {
	if cap(b) <= Keep {
		return b[:0]
	}
	Drop(b)
	return nil
}

// Drop gives a buffer back. Nothing may refer to what b held any more.
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

// lend has the memory of b used again.
func lend(pool *sync.Pool, b []byte) {
	b = b[:0]
	pool.Put(&b)
}
