package tenant

import (
	"errors"
	"sync/atomic"
)

// ErrFull is returned for spans that cannot be held: if the sender sends them again later,
// nothing is lost.
var ErrFull = errors.New("max_held_bytes is reached and the next consumer does not accept spans: send them again later")

// Budget is the memory that all shards share, in bytes.
type Budget struct {
	Limit   int64
	Shared  bool         // among several tenants
	known   atomic.Int64 // tenants that are told apart
	Used    atomic.Int64 // by spans that are held, admitted or wait to be sent again
	waiting atomic.Int64 // the part of it that waits to be sent again
	full    atomic.Bool  // the limit was reached, and half of it has not been free since
}

// NewBudget makes a budget of this many bytes, for one tenant or for several that share it.
func NewBudget(limit int, shared bool) *Budget { return &Budget{Limit: int64(limit), Shared: shared} }

// Reached reports whether the limit is reached for the first time since half of it was
// free. It is called after every change.
func (b *Budget) Reached(now bool) bool {
	if now {
		return !b.full.Swap(true)
	}
	if b.full.Load() && b.Used.Load() < b.Limit/2 {
		b.full.Store(false)
	}
	return false
}

// Add adds n bytes of a tenant, which may be negative.
func (b *Budget) Add(t *Tenant, n int) {
	b.Used.Add(int64(n))
	t.Used.Add(int64(n))
}

// AddWaiting adds n bytes, which may be negative, to those that wait to be sent again.
func (b *Budget) AddWaiting(n int) { b.waiting.Add(int64(n)) }

// Tight reports whether held spans are to be packed at once.
func (b *Budget) Tight() bool { return b.Used.Load() > b.Limit/4 }

// Floors is the part of the limit that tenants may use in equal parts, whatever the others use. One may use
// four fifths of what the others leave, so that there is always room for another one.
const Floors = 4

// FairPart is how much of a limit one of n tenants may use, while the others use so much. It
// does not depend on what that one uses itself: a tenant that has too much cannot lower what
// another one may use below that.
func FairPart[N int | int64](limit, others, n N) N {
	return max((limit-others)/5*4, limit/(Floors*max(n, 1)))
}

// Over is by how much more is used than may be, 0 or less if it is not: by all, or where
// there are tenants, by this one.
func (b *Budget) Over(t *Tenant) int {
	used := b.Used.Load()
	if !b.Shared {
		return int(used - b.Limit)
	}
	own := t.Used.Load()
	return int(own - FairPart(b.Limit, used-own, b.known.Load()))
}

// Admit takes n bytes of a tenant before anything is forwarded. While spans wait because
// the next consumer fails, it refuses what is over the limit, as eviction would free
// nothing. What was admitted is given back with add.
func (b *Budget) Admit(t *Tenant, n int) error {
	if n == 0 {
		return nil
	}
	b.Add(t, n)
	if b.Over(t) > 0 && b.waiting.Load() > 0 {
		b.Add(t, -n)
		return ErrFull
	}
	return nil
}
