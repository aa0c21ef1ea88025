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
	shared  bool         // among several tenants
	known   atomic.Int64 // tenants that are told apart
	used    atomic.Int64 // by spans that are held, admitted or wait to be sent again
	waiting atomic.Int64 // the part of it that waits to be sent again
	full    atomic.Bool  // the limit was reached, and half of it has not been free since
}

// newBudget makes a budget of this many bytes, for one tenant or for several that share it.
func newBudget(limit int, shared bool) *budget { return &budget{limit: int64(limit), shared: shared} }

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

// Where there are several tenants, one may use four fifths of what the others leave, so that
// there is always room for another one, and floors is the part of the limit that they may use
// in equal parts, whatever the others use.
const floors = 4

// fairPart is how much of a limit one of n tenants may use, while the others use so much. It
// does not depend on what that one uses itself: a tenant that has too much cannot lower what
// another one may use below that.
func fairPart[N int | int64](limit, others, n N) N {
	return max((limit-others)/5*4, limit/(floors*max(n, 1)))
}

// over is by how much more is used than may be, 0 or less if it is not: by all, or where
// there are tenants, by this one.
func (b *budget) over(t *tenant) int {
	used := b.used.Load()
	if !b.shared {
		return int(used - b.limit)
	}
	own := t.used.Load()
	return int(own - fairPart(b.limit, used-own, b.known.Load()))
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
