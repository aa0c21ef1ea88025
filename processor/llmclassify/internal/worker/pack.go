package worker

import (
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/packed"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/trace"
)

// PackAfter is how long spans are held before they are packed. Exporters limit their batches by number and by time (5 s is
// the SDKs' default), and most runs whose spans arrive in several calls are complete after that: to pack and unpack their
// spans would take more time than all other work on them.
const PackAfter = 10 * time.Second

// packQueue is the traces with unpacked spans, in the order in which these arrived.
type packQueue struct {
	epoch time.Time
	list  []unpackedTrace
	head  int // index of the first trace that is still queued
}

type unpackedTrace struct {
	trace pcommon.TraceID
	at    time.Duration // since the queue's epoch
}

// add queues the traces of a delivery with held spans, and returns how many spans the delivery has.
func (q *packQueue) add(at time.Time, arrivals []trace.Arrival) (spans int) {
	for _, a := range arrivals {
		spans += len(a.Items)
		for _, it := range a.Items {
			if it.Held() {
				q.push(a.Trace, at)
				break
			}
		}
	}
	return spans
}

func (q *packQueue) push(trace pcommon.TraceID, at time.Time) {
	if q.head > len(q.list)/2 {
		q.list, q.head = append(q.list[:0], q.list[q.head:]...), 0
	}
	q.list = append(q.list, unpackedTrace{trace, at.Sub(q.epoch)})
}

// due is when the first trace has to be packed: after PackAfter, or at once if memory is tight; false if the queue is
// empty.
func (q *packQueue) due(tight bool) (at time.Time, waits bool) {
	if q.head == len(q.list) {
		return time.Time{}, false
	}
	at = q.epoch.Add(q.list[q.head].at)
	if !tight {
		at = at.Add(PackAfter)
	}
	return at, true
}

// pop takes out the first trace, which must be there.
func (q *packQueue) pop() pcommon.TraceID {
	trace := q.list[q.head].trace
	if q.head++; q.head == len(q.list) {
		q.list, q.head = nil, 0 // frees the memory of a burst
	}
	return trace
}

// packTrace packs the unpacked held spans of a trace, and returns their number. The spans of a trace are mostly released at
// the same time: they are packed together.
func packTrace(buffer *trace.Buffer, id pcommon.TraceID) (spans int) {
	var bodies [packed.MaxSpans]*packed.Span
	var items [packed.MaxSpans]*trace.Item
	n := 0
	flush := func() {
		if n == 0 {
			return
		}
		if size := packed.Pack(bodies[:n]); size > 0 {
			size += trace.ItemSize + trace.TraceSize/n
			for _, it := range items[:n] {
				buffer.Resize(it, size)
			}
		}
		n = 0
	}
	buffer.Fresh(id, func(it *trace.Item) {
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
