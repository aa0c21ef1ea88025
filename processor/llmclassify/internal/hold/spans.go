package hold

import (
	"encoding/binary"

	"go.opentelemetry.io/collector/pdata/pcommon"
)

// spanMemory remembers spans by their trace, as [memory] remembers hashes. Spans of
// a trace come together, so that a trace is looked for once and a span takes four
// bytes: of two spans of one trace that are alike in those, one is taken for the
// other.
type spanMemory struct {
	period        age
	limit         int // spans
	began         age
	now, previous traceSpans
}

func (m *spanMemory) rotate(now age) {
	if now-m.began >= m.period {
		m.turn(now)
	}
}

func (m *spanMemory) turn(now age) {
	m.began, m.previous, m.now = now, m.now, traceSpans{}
}

func (m *spanMemory) add(trace uint64, span pcommon.SpanID) {
	if m.now.cost >= m.limit {
		m.turn(m.began)
	}
	m.now.add(trace, span)
}

// recall adds what has been remembered for so long already.
func (m *spanMemory) recall(old age, trace uint64, span pcommon.SpanID) {
	switch {
	case old < m.period:
		m.add(trace, span)
	case old < 2*m.period && m.previous.cost < m.limit:
		m.previous.add(trace, span)
	}
}

func (m *spanMemory) remove(trace uint64, span pcommon.SpanID) {
	m.now.remove(trace, span)
	m.previous.remove(trace, span)
}

func (m *spanMemory) contains(trace uint64, span pcommon.SpanID) bool {
	return m.now.find(trace, span) != nil || m.previous.find(trace, span) != nil
}

// traceSpans is spans by the hash of their trace. Its zero value is empty.
type traceSpans struct {
	traces hashes
	at     []uint32 // by slot of traces: where the newest row of the trace is
	// rows are one behind the other: where the row of the trace before it is, how many
	// spans it has, the spans, of which 0 means no span. No span is at 0.
	rows []uint32
	last uint64 // the trace of the last row
	head int    // where the last row is
	cost int    // of all, in spans
}

// rowCost is what a row takes with its share of the tables, in spans.
const rowCost = 4

// mark is four bytes of a span's id, never 0.
func mark(span pcommon.SpanID) uint32 {
	return uint32(binary.LittleEndian.Uint64(span[:])*0x9e3779b97f4a7c15>>32) | 1
}

func (t *traceSpans) add(trace uint64, span pcommon.SpanID) {
	if t.head == 0 || t.last != trace {
		t.begin(trace)
	}
	t.rows[t.head+1]++
	t.rows = append(t.rows, mark(span))
	t.cost++
}

// begin begins a row.
func (t *traceSpans) begin(trace uint64) {
	if len(t.rows) == 0 {
		t.rows = append(t.rows, 0)
	}
	before := t.traces.slots
	slot := t.traces.add(trace)
	if len(before) != len(t.traces.slots) { // the table has grown
		at := make([]uint32, len(t.traces.slots))
		for i, trace := range before {
			if trace != 0 {
				at[t.traces.find(trace)] = t.at[i]
			}
		}
		t.at = at
	}
	t.head, t.last = len(t.rows), trace
	t.rows = append(t.rows, t.at[slot], 0)
	t.at[slot] = uint32(t.head) //nolint:gosec // below the limit of spans
	t.cost += rowCost
}

// find is where a span is, nil where it is not there.
func (t *traceSpans) find(trace uint64, span pcommon.SpanID) *uint32 {
	slot := t.traces.find(trace)
	if slot < 0 {
		return nil
	}
	for row := t.at[slot]; row != 0; row = t.rows[row] {
		spans := t.rows[row+2:][:t.rows[row+1]]
		for i := range spans {
			if spans[i] == mark(span) {
				return &spans[i]
			}
		}
	}
	return nil
}

func (t *traceSpans) remove(trace uint64, span pcommon.SpanID) {
	if at := t.find(trace, span); at != nil {
		*at = 0
	}
}
