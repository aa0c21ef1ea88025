package llmclassify

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// shard is the traces that belong to it, in a lane for each tenant. One goroutine does all
// its work, a turn of each lane after the other.
type shard struct {
	*pool
	n    int           // shards
	news chan struct{} // has an element when there are deliveries

	lanes [maxTenants + 1]atomic.Pointer[lane] // by tenant
	// mu guards the creation of lanes
	mu    sync.Mutex
	count atomic.Int32 // of lanes: no index is higher

	// replaying: what an earlier process held is being read. It is guarded by mu.
	replaying bool
}

// replay lets the lanes know that what an earlier process held is being read. It is called
// before there is a lane.
func (s *shard) replay() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replaying = true
}

// replayed lets the lanes know that they have all of that, once they have received what is
// on its way to them.
func (s *shard) replayed() {
	s.mu.Lock()
	s.replaying = false
	s.mu.Unlock()
	for l := range s.all {
		l.inbox.put(&delivery{replayed: true})
	}
}

// newShard makes one of n shards.
func newShard(p *pool, n int) *shard {
	return &shard{pool: p, n: n, news: make(chan struct{}, 1)}
}

// lane is the lane of a tenant.
func (s *shard) lane(t *tenant) *lane {
	if l := s.lanes[t.index].Load(); l != nil {
		return l
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.lanes[t.index].Load(); l != nil {
		return l
	}
	l := newLane(s.pool, t, s.n, s.wake)
	if s.budget.shared { // until the shard knows what is free
		l.limitTables(s.maxFactBytes / s.n / floors / (maxTenants + 1))
	}
	if s.replaying {
		l.buffer.Replay()
	}
	s.lanes[t.index].Store(l)
	s.count.Store(max(s.count.Load(), t.index+1))
	s.wake() // to share the memory with it
	return l
}

// wake lets the shard look at its lanes.
func (s *shard) wake() {
	select {
	case s.news <- struct{}{}:
	default:
	}
}

// all yields the lanes.
func (s *shard) all(yield func(*lane) bool) {
	for i := range s.count.Load() {
		if l := s.lanes[i].Load(); l != nil && !yield(l) {
			return
		}
	}
}

// run does the shard's work until quit is closed. Without work it forgets, now and then,
// what is old.
func (s *shard) run(ctx context.Context, quit <-chan struct{}) {
	idle := s.maxHold
	t := s.clock.NewTimer(idle)
	defer t.Stop()
	for {
		if s.turn(ctx) {
			select {
			case <-quit:
				return
			default:
				continue
			}
		}
		wait := idle
		if at, ok := s.next(); ok {
			wait = min(max(at.Sub(s.clock.Now()), 0), idle)
		}
		t.Reset(wait)
		select {
		case <-quit:
			return
		case <-s.news:
		case <-t.C():
			s.rotate()
		}
	}
}

// rotate forgets what is old enough.
func (s *shard) rotate() {
	now := s.clock.Now()
	s.origins.Rotate(now)
	for l := range s.all {
		l.rotate(now)
	}
}

// turn gives each lane a turn. It reports whether one of them did anything.
func (s *shard) turn(ctx context.Context) (worked bool) {
	if s.budget.shared {
		s.shareMemory()
	}
	for l := range s.all {
		worked = l.turn(ctx) || worked
	}
	return worked
}

// next is when something is due; false when nothing waits.
func (s *shard) next() (next time.Time, waits bool) {
	for l := range s.all {
		if at, ok := l.next(); ok && (!waits || at.Before(next)) {
			next, waits = at, true
		}
	}
	return next, waits
}
