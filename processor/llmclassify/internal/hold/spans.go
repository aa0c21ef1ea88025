package hold

import (
	"math/bits"
	"slices"
	"time"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/generations"
)

// spanMemory is a set of hashes of spans, of two generations, in a few bytes each. What it
// takes to find one does not depend on how many there are, nor of which traces they are.
type spanMemory struct {
	generations.Of[marks]
	limit int // of one generation
}

func newSpanMemory(now time.Time, period time.Duration, limit int) spanMemory {
	return spanMemory{generations.Of[marks]{Period: period, Began: now}, limit}
}

func (m *spanMemory) add(key uint64) {
	if m.Now.n >= m.limit {
		m.Turn()
	}
	m.Now.add(key, m.limit)
}

// recall adds a span that has been remembered for this long already.
func (m *spanMemory) recall(old time.Duration, key uint64) {
	switch {
	case old < m.Period:
		m.add(key)
	case old < 2*m.Period && m.Previous.n < m.limit:
		m.Previous.add(key, m.limit)
	}
}

// remove takes back what was added last.
func (m *spanMemory) remove(key uint64) {
	if !m.Now.remove(key) {
		m.Previous.remove(key)
	}
}

func (m *spanMemory) contains(key uint64) bool {
	return m.Now.find(key) != nil || m.Previous.find(key) != nil
}

// marks is a set of uniformly distributed hashes, of each of which it stores 32 bits. The
// other 32 bits are its place. So tables cannot grow: another one is added, three times as
// large as all others.
// Its zero value is empty.
type marks struct {
	tables [][]uint32 // with open addressing and linear probing, at most three quarters full
	n      int        // hashes in all tables, with those that were removed
	room   int        // how many more the last table may have
}

const (
	// freeMark and removedMark are in slots without a hash.
	freeMark, removedMark = 0, 1
	// minMarks is how many hashes the first table may have.
	minMarks = 192
)

// markOf returns the part of a hash that is stored.
func markOf(key uint64) uint32 { return max(uint32(key>>32), removedMark+1) }

// slot returns the place of a hash in a table, or a free one.
func slot(table []uint32, key uint64) *uint32 {
	high, _ := bits.Mul64(key<<32, uint64(len(table)))
	for i := int(high); ; { //nolint:gosec // less than the length
		if at := &table[i]; *at == freeMark || *at == markOf(key) {
			return at
		}
		if i++; i == len(table) {
			i = 0
		}
	}
}

// add adds a hash, with room for no more than limit of them. One that is in an earlier table
// is added again.
func (m *marks) add(key uint64, limit int) {
	if m.room == 0 {
		m.room = max(min(max(3*m.n, minMarks), limit-m.n), 1)
		m.tables = append(m.tables, make([]uint32, m.room*4/3+1))
	}
	if at := slot(m.tables[len(m.tables)-1], key); *at == freeMark {
		*at = markOf(key)
		m.n++
		m.room--
	}
}

// find returns the place of a hash, the one that was added last, nil if it is not in the set.
func (m *marks) find(key uint64) *uint32 {
	for _, table := range slices.Backward(m.tables) {
		if at := slot(table, key); *at != freeMark {
			return at
		}
	}
	return nil
}

// remove removes a hash. It reports whether it was in the set.
func (m *marks) remove(key uint64) bool {
	at := m.find(key)
	if at == nil {
		return false
	}
	*at = removedMark
	return true
}
