package hold

import (
	"encoding/binary"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/generations"
)

// spanMemory is a set of spans of two generations. Spans of a trace are added together, so
// that the trace is stored once for all of them and a span takes four bytes: spans of one
// trace that have these bytes in common are taken for one another.
type spanMemory struct {
	generations.Of[traceSpans]
	limit int // of one generation, in spans
}

func newSpanMemory(now time.Time, period time.Duration, limit int) spanMemory {
	return spanMemory{generations.Of[traceSpans]{Period: period, Began: now}, limit}
}

func (m *spanMemory) add(trace uint64, span pcommon.SpanID) {
	if m.Now.cost >= m.limit {
		m.Turn()
	}
	m.Now.add(trace, span)
}

// recall adds a span that has been remembered for this long already.
func (m *spanMemory) recall(old time.Duration, trace uint64, span pcommon.SpanID) {
	switch {
	case old < m.Period:
		m.add(trace, span)
	case old < 2*m.Period && m.Previous.cost < m.limit:
		m.Previous.add(trace, span)
	}
}

func (m *spanMemory) remove(trace uint64, span pcommon.SpanID) {
	m.Now.remove(trace, span)
	m.Previous.remove(trace, span)
}

func (m *spanMemory) contains(trace uint64, span pcommon.SpanID) bool {
	return m.Now.find(trace, span) != nil || m.Previous.find(trace, span) != nil
}

// traceSpans is spans by the hash of their trace. Its zero value is empty.
type traceSpans struct {
	traces hashes
	at     []uint32 // by slot of traces: the index of the trace's newest row
	// rows are stored one behind the other, each as: the index of the trace's row before
	// it, how many spans it has, the marks of the spans, 0 for one that was removed.
	// Index 0 is not a row.
	rows []uint32
	last uint64 // the trace of the last row
	head int    // the index of the last row
	cost int    // of all, in spans
}

// rowCost is the memory of a row with its share of the tables, in spans.
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

// find returns the place of a span, nil if it is not in the set.
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
