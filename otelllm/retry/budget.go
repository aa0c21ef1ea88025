package retry

import (
	"math"
	"sync"
)

// A retry takes one of the tokens of its host. A call that succeeds returns those that it took, or
// a tenth of one if it took none.
const (
	tokens   = 100
	returned = 0.1
)

// maxHosts bounds the hosts that a Budget keeps: of more, those with the most tokens taken.
const maxHosts = 1024

// Budget bounds the retries of all callers of a host, so that they do not multiply an outage: while
// a host is down they send no more than 100 retries together, and after that one for every ten
// calls that succeed. The first attempt of a call is never held back. The zero value is ready for
// use. It is safe for concurrent use, and not to be copied.
type Budget struct {
	mu    sync.Mutex
	taken map[string]float64 // by host; a full bucket is not here
}

// processBudget is that of policies without one.
var processBudget Budget

// take takes a token for a retry. It reports false if the bucket is empty.
func (b *Budget) take(host string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.leaves(host) {
		return false
	}
	if b.taken == nil {
		b.taken = map[string]float64{}
	}
	if _, known := b.taken[host]; !known && len(b.taken) == maxHosts {
		b.forget()
	}
	b.taken[host]++
	return true
}

// has reports whether there is a token.
func (b *Budget) has(host string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.leaves(host)
}

// leaves reports whether a token can be taken.
func (b *Budget) leaves(host string) bool { return b.taken[host]+1 <= tokens }

// forget forgets the host of which the fewest tokens are taken.
func (b *Budget) forget() {
	fewest, least := "", math.Inf(1)
	for host, taken := range b.taken {
		if taken < least {
			fewest, least = host, taken
		}
	}
	delete(b.taken, fewest)
}

// succeeded returns the tokens of a call that succeeded after so many retries.
func (b *Budget) succeeded(host string, retries int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	taken, known := b.taken[host]
	if !known {
		return
	}
	if taken -= max(float64(retries), returned); taken <= 0 {
		delete(b.taken, host)
		return
	}
	b.taken[host] = taken
}
