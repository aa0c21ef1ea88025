package worker

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/tenant"
)

// shard is the traces that belong to it, in a lane for each tenant. One goroutine does all its work, a turn of each lane
// after the other.
type shard struct {
	*Pool
	n    int           // number of shards
	news chan struct{} // has an element when there are deliveries

	lanes [tenant.Max + 1]atomic.Pointer[Lane] // by tenant
	// mu guards the creation of lanes
	mu    sync.Mutex
	count atomic.Int32 // of lanes: no index is higher

	// replaying: the spans of an earlier process are being read. It is guarded by mu.
	replaying bool
}

// replay begins the replay of an earlier process's spans. It is called before there is a lane.
func (s *shard) replay() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replaying = true
}

// replayed ends the replay in each lane, after the deliveries on their way to it.
func (s *shard) replayed() {
	s.mu.Lock()
	s.replaying = false
	s.mu.Unlock()
	for l := range s.All {
		l.Inbox.put(&delivery{replayed: true})
	}
}

// newShard makes one of n shards.
func newShard(p *Pool, n int) *shard {
	return &shard{Pool: p, n: n, news: make(chan struct{}, 1)}
}

// Lane returns the lane of a tenant.
func (s *shard) Lane(t *tenant.Tenant) *Lane {
	if l := s.lanes[t.Index].Load(); l != nil {
		return l
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.lanes[t.Index].Load(); l != nil {
		return l
	}
	l := newLane(s.Pool, t, s.n, s.wake)
	if s.Budget.Shared { // until the shard knows the free memory
		l.limitTables(s.MaxFactBytes / s.n / tenant.Floors / (tenant.Max + 1))
	}
	if s.replaying {
		l.Buffer.Replay()
	}
	s.lanes[t.Index].Store(l)
	s.count.Store(max(s.count.Load(), t.Index+1))
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

// All yields the lanes.
func (s *shard) All(yield func(*Lane) bool) {
	for i := range s.count.Load() {
		if l := s.lanes[i].Load(); l != nil && !yield(l) {
			return
		}
	}
}

// Run does the shard's work until quit is closed. Without work it forgets old entries now and then.
func (s *shard) Run(ctx context.Context, quit <-chan struct{}) {
	idle := s.MaxHold
	t := s.Clock.NewTimer(idle)
	defer t.Stop()
	for {
		if s.Turn(ctx) {
			select {
			case <-quit:
				return
			default:
				continue
			}
		}
		wait := idle
		if at, ok := s.Next(); ok {
			wait = min(max(at.Sub(s.Clock.Now()), 0), idle)
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

// rotate forgets entries that are old enough.
func (s *shard) rotate() {
	now := s.Clock.Now()
	s.Origins.Rotate(now)
	for l := range s.All {
		l.Rotate(now)
	}
}

// Turn gives each lane a turn. It reports whether one of them did anything.
func (s *shard) Turn(ctx context.Context) (worked bool) {
	if s.Budget.Shared {
		s.ShareMemory()
	}
	for l := range s.All {
		worked = l.Turn(ctx) || worked
	}
	return worked
}

// Next is the time of the next due work; false when nothing waits.
func (s *shard) Next() (next time.Time, waits bool) {
	for l := range s.All {
		if at, ok := l.Next(); ok && (!waits || at.Before(next)) {
			next, waits = at, true
		}
	}
	return next, waits
}

// A lane's tables are the ids of judged runs and spans, the history of traces, and the evidence. Together they take at most
// six sixteenths of the memory for facts. A run or span in none of them is judged with care, as after the start of a
// process.

// perTables is factBytes/tables, if all tables are full.
const perTables = 16. / 6

// TableBytes is the estimated memory of the tables.
func (l *Lane) TableBytes() int {
	return l.Buffer.Judged().Size() + l.Buffer.History().Size() + int(l.evidenceBytes.Load())
}

// limitTables bounds the tables, each to its part of factBytes.
func (l *Lane) limitTables(factBytes int) {
	l.Buffer.Judged().SetLimit(factBytes)
	l.Buffer.History().SetLimit(factBytes / 16)
	l.evidence.SetLimit(factBytes / 16)
}

// ShareMemory bounds the facts and the tables of each tenant.
func (s *shard) ShareMemory() {
	limit := max(s.MaxFactBytes/s.n, 1)
	facts, tables, lanes := 0, 0, 0
	for l := range s.All {
		l.lock() // calls have one lane at a time
		defer l.unlock()
		facts += l.Buffer.FactBytes()
		tables += l.TableBytes()
		lanes++
	}
	for l := range s.All {
		l.Buffer.SetMaxFactBytes(tenant.FairPart(limit, facts-l.Buffer.FactBytes(), lanes))
		l.limitTables(tenant.FairPart(limit, int(perTables*float64(tables-l.TableBytes())), lanes))
	}
}
