package llmclassify

import (
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/assemble"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/hold"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/packed"
)

// packAfter is how long spans are held as they came. Most runs whose spans come in
// more than one call, because exporters cut their batches by number and by time (5 s
// is the SDKs' default), are complete by then: to pack and unpack their spans would
// take more time than all else that is done to them.
const packAfter = 10 * time.Second

// looseQueue is traces of which spans are held as they came, in the order in which
// these did.
type looseQueue struct {
	epoch time.Time
	list  []looseSpans
	head  int // what is before it has been taken out
}

type looseSpans struct {
	trace pcommon.TraceID
	at    time.Duration // since the queue's epoch
}

func (q *looseQueue) push(trace pcommon.TraceID, at time.Time) {
	if q.head > len(q.list)/2 {
		q.list, q.head = append(q.list[:0], q.list[q.head:]...), 0
	}
	q.list = append(q.list, looseSpans{trace, at.Sub(q.epoch)})
}

// first is when the first came, false where none is there.
func (q *looseQueue) first() (at time.Time, ok bool) {
	if q.head == len(q.list) {
		return time.Time{}, false
	}
	return q.epoch.Add(q.list[q.head].at), true
}

// pop takes out the first, which is there.
func (q *looseQueue) pop() pcommon.TraceID {
	trace := q.list[q.head].trace
	if q.head++; q.head == len(q.list) {
		q.list, q.head = nil, 0 // a burst's memory goes with it
	}
	return trace
}

// loosen queues what stays of a delivery, and returns how many spans it had.
func (s *shard) loosen(at time.Time, arrivals []assemble.Arrival) (spans int) {
	for _, a := range arrivals {
		spans += len(a.Items)
		for _, it := range a.Items {
			if it.Held() {
				s.loose.push(a.Trace, at)
				break
			}
		}
	}
	return spans
}

// packs is when spans are to be packed, false when none are loose.
func (s *shard) packs() (time.Time, bool) {
	at, ok := s.loose.first()
	if ok && !s.p.budget.tight() {
		at = at.Add(packAfter)
	}
	return at, ok
}

// pack makes small what has been held for packAfter, and sooner where memory is
// short: about limit spans of it, so that callers need not wait for all.
func (s *shard) pack(now time.Time, limit int) {
	for limit > 0 {
		at, ok := s.packs()
		if !ok || at.After(now) {
			return
		}
		limit -= 1 + s.packTrace(s.loose.pop())
		s.account()
	}
}

// packTrace packs the spans of a trace that are loose, and returns how many they are.
// The spans of a trace have about the same fate: they are packed together.
func (s *shard) packTrace(trace pcommon.TraceID) (spans int) {
	var bodies [packed.MaxSpans]*packed.Span
	var items [packed.MaxSpans]*assemble.Item
	n := 0
	flush := func() {
		if n == 0 {
			return
		}
		if size := packed.Pack(bodies[:n]); size > 0 {
			size += hold.ItemSize + hold.TraceSize/n
			for _, it := range items[:n] {
				s.buffer.Resize(it, size)
			}
		}
		n = 0
	}
	s.buffer.Fresh(trace, func(it *assemble.Item) {
		if !it.Known.Body.Loose() {
			return
		}
		bodies[n], items[n] = &it.Known.Body, it
		spans++
		if n++; n == len(items) {
			flush()
		}
	})
	flush()
	return spans
}
