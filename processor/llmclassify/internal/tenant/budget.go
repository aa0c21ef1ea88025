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
	waiting atomic.Int64 // the part of Used that waits to be sent again
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

// AddWaiting adds n bytes, which may be negative, to the bytes that wait to be sent again.
func (b *Budget) AddWaiting(n int) { b.waiting.Add(int64(n)) }

// Tight reports whether held spans should be packed at once.
func (b *Budget) Tight() bool { return b.Used.Load() > b.Limit/4 }

// Floors is the divisor of the limit whose result tenants share in equal parts, regardless of the others. A tenant may also
// use four fifths of the memory that the others leave free, so that there is always room for another one.
const Floors = 4

// FairPart is how much of a limit one of n tenants may use, given the use of the others. It does not depend on the tenant's
// own use: a tenant that has too much cannot lower the part of another one below that.
func FairPart[N int | int64](limit, others, n N) N {
	return max((limit-others)/5*4, limit/(Floors*max(n, 1)))
}

// Over is the excess of the used memory over its limit, 0 or less below it: of all memory, or, with several
// tenants, of this one's.
func (b *Budget) Over(t *Tenant) int {
	used := b.Used.Load()
	if !b.Shared {
		return int(used - b.Limit)
	}
	own := t.Used.Load()
	return int(own - FairPart(b.Limit, used-own, b.known.Load()))
}

// Admit takes n bytes of a tenant before anything is forwarded. While spans wait because the next consumer fails, it
// refuses bytes over the limit, as eviction would free nothing. Admitted bytes are given back with Add.
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
