package trace

import (
	"math/bits"
	"slices"
	"time"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/generations"
)

// spanMemory is a set of hashes of spans, in two generations, in a few bytes each. The cost of a search does not depend on
// the number of spans, nor on their traces.
type spanMemory struct {
	generations.Of[marks]
	limit int // of one generation
}

func newSpanMemory(now time.Time, period time.Duration, limit int) spanMemory {
	return spanMemory{generations.Of[marks]{Period: period, Began: now}, limit}
}

func (m *spanMemory) add(h spanHash) {
	if m.Now.n >= m.limit {
		m.Turn()
	}
	m.Now.add(h, m.limit)
}

func (m *spanMemory) contains(h spanHash) bool {
	return m.Now.find(h) != nil || m.Previous.find(h) != nil
}

// spanHash is two uniformly distributed hashes: of a span with its trace, and of the trace.
type spanHash struct{ span, trace uint64 }

// mark returns the stored half of the span's hash.
func (h spanHash) mark() uint32 { return max(uint32(h.span>>32), removedMark+1) }

// marks is a set of spans. It stores 32 bits of each span's hash; the other 32 bits and the trace select the place. So
// tables cannot grow: another one is added, three times as large as all others. Its zero value is empty.
type marks struct {
	tables []markTable
	n      int // spans in all tables
	room   int // how many more the last table may have
}

// markTable is at most three quarters full. The first spans of a trace share a line, so that one access to memory reaches
// all of them. Spans that find it full are in the first line with a free place, starting from a line that their own hash
// selects.
type markTable []markLine

// markLine is as many marks as a line of the processor's cache has room for. Free places are at its end.
type markLine [16]uint32

const (
	// freeMark is in places without a span, and removedMark in places of removed spans.
	freeMark, removedMark = 0, 1
	// minMarks is how many spans the first table may have.
	minMarks = 192
)

// place returns the place of a mark in a line, or a free one, or nil if the line is full.
func (l *markLine) place(mark uint32) *uint32 {
	for i := range l {
		if at := &l[i]; *at == freeMark || *at == mark {
			return at
		}
	}
	return nil
}

// line returns the index of the line that a hash selects, by its upper bits.
func (t markTable) line(hash uint64) int {
	high, _ := bits.Mul64(hash, uint64(len(t)))
	return int(high) //nolint:gosec // less than the length
}

// place returns the place of a span, or a free one.
func (t markTable) place(h spanHash) *uint32 {
	mark := h.mark()
	if at := t[t.line(h.trace)].place(mark); at != nil {
		return at
	}
	for i := t.line(h.span << 32); ; {
		if at := t[i].place(mark); at != nil {
			return at
		}
		if i++; i == len(t) {
			i = 0
		}
	}
}

// add adds a span, with room for about limit of them: a limit that grows little by little makes few tables. A span in an
// earlier table is added again.
func (m *marks) add(h spanHash, limit int) {
	if m.room == 0 {
		m.room = max(min(max(3*m.n, minMarks), limit-m.n), m.n/8, 1)
		m.tables = append(m.tables, make(markTable, m.room*4/3/len(markLine{})+1))
	}
	if at := m.tables[len(m.tables)-1].place(h); *at == freeMark {
		*at = h.mark()
		m.n++
		m.room--
	}
}

// find returns the place of a span in the newest table that has it, nil if it is not in the set.
func (m *marks) find(h spanHash) *uint32 {
	for _, table := range slices.Backward(m.tables) {
		if at := table.place(h); *at != freeMark {
			return at
		}
	}
	return nil
}
