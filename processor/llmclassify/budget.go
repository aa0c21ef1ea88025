package llmclassify

import (
	"errors"
	"sync/atomic"
)

// errFull is returned for spans that cannot be held: if the sender sends them again later,
// nothing is lost.
var errFull = errors.New("max_held_bytes is reached and the next consumer does not accept spans: send them again later")

// budget is the memory that all shards share, in bytes.
type budget struct {
	limit   int64
	tenants bool         // it is shared among several
	known   atomic.Int64 // tenants that are told apart
	used    atomic.Int64 // by spans that are held, admitted or wait to be sent again
	waiting atomic.Int64 // the part of it that waits to be sent again
	full    atomic.Bool  // the limit was reached, and half of it has not been free since
}

// reached reports whether the limit is reached for the first time since half of it was
// free. It is called after every change.
func (b *budget) reached(now bool) bool {
	if now {
		return !b.full.Swap(true)
	}
	if b.full.Load() && b.used.Load() < b.limit/2 {
		b.full.Store(false)
	}
	return false
}

func (b *budget) add(t *tenant, n int) {
	b.used.Add(int64(n))
	t.used.Add(int64(n))
}

func (b *budget) addWaiting(n int) { b.waiting.Add(int64(n)) }

// tight reports whether held spans are to be packed at once.
func (b *budget) tight() bool { return b.used.Load() > b.limit/4 }

// share is how many times of what is free a tenant may use, where there are several: one
// alone uses four fifths, so that there is always room for another one.
const share = 4

// floors is the part of the limit that tenants may use in equal parts, whatever the others
// use: what waits to be sent again cannot be evicted, and may have taken all.
const floors = 4

// over is by how much more is used than may be, 0 or less if it is not: by all, or where
// there are tenants, by this one.
func (b *budget) over(t *tenant) int {
	used := b.used.Load()
	if !b.tenants {
		return int(used - b.limit)
	}
	floor := b.limit / (floors * max(b.known.Load(), 1))
	return int(t.used.Load() - max(share*(b.limit-used), floor))
}

// admit takes n bytes of a tenant before anything is forwarded. While spans wait because
// the next consumer fails, it refuses what is over the limit, as eviction would free
// nothing. What was admitted is given back with add.
func (b *budget) admit(t *tenant, n int) error {
	if n == 0 {
		return nil
	}
	b.add(t, n)
	if b.over(t) > 0 && b.waiting.Load() > 0 {
		b.add(t, -n)
		return errFull
	}
	return nil
}
