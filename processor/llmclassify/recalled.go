package llmclassify

import (
	"sync"
	"time"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/journal"
)

// recalled is the records of what earlier processes judged, for the lanes of a shard, until
// the tenant has a lane or they are too old. It is safe for concurrent use.
type recalled struct {
	// mu guards everything declared below
	mu    sync.Mutex
	until time.Time
	// byTenant is the encoded records, in order, by the key of the tenant: 0 for those of
	// which it is not known, or where there is only one.
	byTenant map[uint64][]byte
	bytes    int
}

// add adds a record, which is too old at a time.
func (c *recalled) add(r *journal.Judged, tenant uint64, until time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byTenant == nil {
		c.byTenant = make(map[uint64][]byte)
	}
	before := c.byTenant[tenant]
	c.byTenant[tenant] = r.Append(before)
	c.bytes += len(c.byTenant[tenant]) - len(before)
	c.until = until
}

// into lets a new lane remember what was judged of its tenant, and reports whether anything
// was. Without a known tenant it may be of any.
func (c *recalled) into(l *lane) (found bool) {
	c.mu.Lock()
	records := [][]byte{c.byTenant[0]}
	if own := l.tenant.key; own != 0 {
		records = append(records, c.byTenant[own])
		c.bytes -= len(c.byTenant[own])
		delete(c.byTenant, own)
	} else {
		c.byTenant, c.bytes = nil, 0 // it is the only lane
	}
	c.mu.Unlock()
	now, judged := l.clock.Now(), l.buffer.Judged()
	for _, rest := range records {
		for len(rest) > 0 {
			var r journal.Judged
			var err error
			if rest, err = r.Next(rest); err != nil {
				break // it was encoded here
			}
			found = true
			if r.MarksLost() {
				judged.RecallLost(r.At)
				continue
			}
			judged.Recall(now, r.At, r.Trace, r.Counts, r.Forgot, r.Runs, r.Spans)
		}
	}
	if found {
		judged.Recalled()
	}
	return found
}

// rotate forgets what is too old.
func (c *recalled) rotate(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !now.Before(c.until) {
		c.byTenant, c.bytes = nil, 0
	}
}

// size is the memory in bytes.
func (c *recalled) size() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bytes
}
