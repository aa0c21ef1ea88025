package worker

import (
	"context"
	"slices"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/telemetry"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/trace"
	"github.com/otelllm/otelllm-go/semconv"
)

// wholeRuns are the runs of a call that arrive whole. Such a run is not held: its call judges it, and its spans stay with
// the other spans of the call. If the next consumer refuses these, the verdict is taken back, as the sender repeats the
// call.
type wholeRuns struct {
	traces  []wholeTrace // by index in Batch.Traces; empty if none may arrive whole
	room    trace.Room
	ids     []pcommon.TraceID
	spans   int // LLM spans of ids
	endings []telemetry.Ending
}

// wholeTrace is a trace of a call that may arrive whole.
type wholeTrace struct {
	trace.Arrival // without items if it does not
	links         []trace.Link
	lane          *Lane
	releases      []trace.Release // nil if it did not arrive whole
}

func (w *wholeRuns) clear() {
	const most = 1 << 14 // larger ones are not kept
	if cap(w.traces) > most || w.room.Cap() > most {
		*w = wholeRuns{}
		return
	}
	const mostLinks = 64
	for i := range w.traces {
		links := w.traces[i].links[:0]
		if cap(links) > mostLinks {
			links = nil
		}
		w.traces[i] = wholeTrace{links: links}
	}
	w.room.Clear()
	*w = wholeRuns{traces: w.traces[:0], room: w.room, ids: w.ids[:0], endings: w.endings[:0]}
}

// expectWhole finds the traces that may arrive whole.
func (h *Handover) expectWhole() {
	arrivals, spans := h.WholeArrivals(&h.pool.Live)
	if spans == 0 {
		return
	}
	w := &h.whole
	w.traces = slices.Grow(w.traces, len(arrivals))[:len(arrivals)] // with room for links
	w.room.Grow(len(arrivals), spans)
	for t, a := range arrivals {
		w.traces[t].Arrival = a
	}
}

// judgeWhole judges the whole runs of the call. The other runs are held.
func (h *Handover) judgeWhole(ctx context.Context) {
	if len(h.whole.traces) == 0 {
		return
	}
	for i := range h.deliveries {
		h.judgeWholeOf(ctx, i)
	}
	for t := range h.whole.traces {
		w := &h.whole.traces[t]
		if w.Items != nil && w.releases == nil {
			d := h.deliveryTo(h.Owners[t], w.Trace)
			d.links = append(d.links, w.links...)
		}
	}
	h.LeaveWhole()
}

// judgeWholeOf judges the whole traces of one delivery.
func (h *Handover) judgeWholeOf(ctx context.Context, delivery int) {
	var l *Lane
	for t := range h.whole.traces {
		w := &h.whole.traces[t]
		if w.Items == nil || h.delivery(h.Owners[t], w.Trace) != delivery {
			continue
		}
		if l == nil {
			l = h.lane(delivery)
			if !l.lockFor(ctx) {
				return
			}
			defer l.unlock()
			l.takeEvidence(&h.deliveries[delivery])
			l.Buffer.Judged().Rotate(h.Now)
		}
		if l.judgeWhole(h, w) {
			w.lane = l
			h.whole.ids = append(h.whole.ids, w.Trace)
			h.whole.spans += h.CameWhole(t)
		}
	}
	if l != nil {
		l.Account()
	}
}

// takeEvidence takes the exchanges of a delivery.
func (l *Lane) takeEvidence(d *delivery) {
	for i := range d.exchanges {
		l.evidence.Add(l.Clock.Now(), &d.exchanges[i])
	}
	d.exchanges = nil
}

// judgeWhole judges the runs of a trace if it arrives whole, and reports whether it does.
func (l *Lane) judgeWhole(h *Handover, w *wholeTrace) bool {
	var whole bool
	if w.releases, whole = l.Buffer.Whole(h.Now, w.Arrival, w.links, &h.whole.room); !whole {
		return false
	}
	for _, i := range trace.JudgingOrder(w.releases) {
		if v, ok := l.Releaser.JudgeWhole(&w.releases[i]); ok {
			h.whole.endings = append(h.whole.endings, v)
		}
	}
	for i := range w.releases {
		l.Buffer.Done(&w.releases[i])
	}
	return true
}

// countWhole counts the whole runs, once they are forwarded.
func (h *Handover) countWhole(ctx context.Context) {
	alike := 0
	for i, v := range h.whole.endings {
		h.pool.Telemetry.HoldTime(ctx, 0, semconv.TriggerComplete)
		if alike++; i+1 == len(h.whole.endings) || h.whole.endings[i+1] != v {
			h.pool.Telemetry.Run(ctx, v, alike)
			alike = 0
		}
	}
}

// takeBackWhole takes back the verdicts on the whole runs.
func (h *Handover) takeBackWhole() {
	for t := range h.whole.traces {
		w := &h.whole.traces[t]
		if w.lane == nil {
			continue
		}
		w.lane.lock()
		for i := range w.releases {
			w.lane.Buffer.TakeBack(&w.releases[i])
		}
		w.lane.unlock()
	}
}
