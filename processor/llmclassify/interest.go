package llmclassify

import (
	"encoding/binary"
	"math/bits"
	"sync/atomic"

	"go.opentelemetry.io/collector/pdata/pcommon"
)

// interest counts, without a lock, who is interested in a trace. Several traces share
// one count: it is never too low, and may be too high.
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

// addAll adds n for each trace, with one change of the total, which all callers share.
func (i *interest) addAll(ids []pcommon.TraceID, n int32) {
	i.total.Add(int64(n) * int64(len(ids)))
	for _, id := range ids {
		i.slot(id).Add(n)
	}
}

func (i *interest) any() bool { return i.total.Load() > 0 }

func (i *interest) has(id pcommon.TraceID) bool { return i.count(id) > 0 }

// count is how many are interested in the trace, or more.
func (i *interest) count(id pcommon.TraceID) int32 { return i.slot(id).Load() }
