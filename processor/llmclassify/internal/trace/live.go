package trace

import (
	"encoding/binary"
	"math/bits"
	"sync/atomic"

	"go.opentelemetry.io/collector/pdata/pcommon"
)

// Live counts, without a lock, the traces of LLM spans that are buffered or on their way to a lane: other spans are links
// for these traces alone. Several traces share one count, which is never too low.
type Live struct {
	total atomic.Int64
	slots [1 << 16]atomic.Int32
}

// Hash spreads trace ids. Any part of an id may be a time or a counter, so every bit of the id counts for every bit of its
// hash, by a product of 128 bits.
func Hash(id pcommon.TraceID) uint64 {
	a := binary.LittleEndian.Uint64(id[:8]) ^ 0x9e3779b97f4a7c15
	b := binary.LittleEndian.Uint64(id[8:]) ^ 0xd6e8feb86659fd93
	high, low := bits.Mul64(a, b)
	high, low = bits.Mul64(high^low^a, 0xa0761d6478bd642f)
	return high ^ low
}

func (l *Live) slot(id pcommon.TraceID) *atomic.Int32 {
	return &l.slots[Hash(id)>>16%uint64(len(l.slots))]
}

// Add adds n for a trace.
func (l *Live) Add(id pcommon.TraceID, n int32) {
	l.total.Add(int64(n))
	l.slot(id).Add(n)
}

// AddAll adds n for each trace, with one change of the total, which all callers share.
func (l *Live) AddAll(ids []pcommon.TraceID, n int32) {
	l.total.Add(int64(n) * int64(len(ids)))
	for _, id := range ids {
		l.slot(id).Add(n)
	}
}

// Any reports whether any trace is live.
func (l *Live) Any() bool { return l.total.Load() > 0 }

// Alone reports whether a trace that was added is live because of that alone.
func (l *Live) Alone(id pcommon.TraceID) bool { return l.slot(id).Load() == 1 }

// Has reports whether a trace is live, or one that shares its count.
func (l *Live) Has(id pcommon.TraceID) bool { return l.slot(id).Load() > 0 }
