package llmclassify

import (
	"encoding/binary"
	"math/bits"
	"sync/atomic"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/hold"
)

// interest says in which traces other spans are worth a look, without a lock:
// those that have LLM spans here or on their way. It may name others, too.
type interest struct {
	total atomic.Int64
	slots [1 << 16]atomic.Int32
}

// hash spreads trace ids, of which any part may be a time or a counter: every bit of
// an id counts for every bit of its hash, by a product of 128 bits.
func hash(id pcommon.TraceID) uint64 {
	a := binary.LittleEndian.Uint64(id[:8]) ^ 0x9e3779b97f4a7c15
	b := binary.LittleEndian.Uint64(id[8:]) ^ 0xd6e8feb86659fd93
	high, low := bits.Mul64(a, b)
	high, low = bits.Mul64(high^low^a, 0xa0761d6478bd642f)
	return high ^ low
}

func (i *interest) slot(id pcommon.TraceID) *atomic.Int32 {
	return &i.slots[hash(id)>>16%uint64(len(i.slots))]
}

func (i *interest) add(id pcommon.TraceID, n int32) {
	i.total.Add(int64(n))
	i.slot(id).Add(n)
}

// all is add for many: callers share the total.
func (i *interest) all(ids []pcommon.TraceID, n int32) {
	i.total.Add(int64(n) * int64(len(ids)))
	for _, id := range ids {
		i.slot(id).Add(n)
	}
}

func (i *interest) any() bool { return i.total.Load() > 0 }

func (i *interest) has(id pcommon.TraceID) bool { return i.slot(id).Load() > 0 }

// count is how many there are who are interested in the trace, or more.
func (i *interest) count(id pcommon.TraceID) int32 { return i.slot(id).Load() }

// links finds the spans of td, none of which is to be held, of traces that are worth
// a look, by the shard that the traces are of. It returns nil where there are none.
// Those of traces of b that are whole are b's.
func (p *classifier) links(td ptrace.Traces, b *batch) (found [][]hold.Link) {
	if !p.interest.any() {
		return nil
	}
	var last pcommon.TraceID // spans of a trace come in rows
	interesting, whole, shard := false, false, 0
	for _, rs := range td.ResourceSpans().All() {
		for _, ss := range rs.ScopeSpans().All() {
			for _, span := range ss.Spans().All() {
				if id := span.TraceID(); id != last {
					last, interesting = id, !id.IsEmpty() && p.interest.has(id)
					shard = p.shardOf(id)
					whole = interesting && b.whole != nil && b.isWhole(id)
				}
				if !interesting {
					continue
				}
				if whole {
					b.note(last, span.SpanID())
					continue
				}
				if found == nil {
					found = make([][]hold.Link, len(p.shards))
				}
				found[shard] = append(found[shard], hold.Link{Trace: last, ID: span.SpanID(), Parent: span.ParentSpanID()})
			}
		}
	}
	return found
}

// shardOf is the index of the shard that a trace is of.
func (p *classifier) shardOf(id pcommon.TraceID) int {
	if len(p.shards) == 1 {
		return 0
	}
	return int(hash(id) % uint64(len(p.shards))) //nolint:gosec // less than the number of shards
}
