package llmclassify

import (
	"context"
	"slices"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/packed"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/trace"
	"github.com/otelllm/otelllm-go/semconv"
)

// expectWhole finds the traces that may come whole: a run of it announces its parts, and nothing else of the trace is
// here or on its way.
func (q *partition) expectWhole(live *liveTraces) {
	spans := 0
	for t, counted := range q.counted {
		if q.counted[t] = counted && live.alone(q.traces[t]); q.counted[t] {
			spans += q.counts[t]
		}
	}
	if spans == 0 {
		return
	}
	w := &q.whole
	w.traces = slices.Grow(w.traces, len(q.traces))[:len(q.traces)] // with room for links
	w.items, w.pointers = resized(w.items, spans), resized(w.pointers, spans)
	w.room.Grow(len(q.traces), spans)
	pointers := w.pointers
	for t, counted := range q.counted {
		if counted {
			n := q.counts[t]
			w.traces[t].Arrival = trace.Arrival{Trace: q.traces[t], Items: pointers[:0:n]}
			pointers = pointers[n:]
		}
	}
	q.fillWhole()
}

// fillWhole makes the items of the traces that may come whole. Their spans stay where they are.
func (q *partition) fillWhole() {
	free, rest := q.whole.items, q.found
	for _, s := range q.scopes {
		body := packed.Loose(s.scope.Spans())
		for i := range rest[:s.n] {
			f := &rest[i]
			if !q.counted[f.trace] {
				continue
			}
			it := &free[0]
			free = free[1:]
			f.fill(it)
			it.Known.Body = body(f.index)
			a := &q.whole.traces[f.trace].Arrival
			a.Items = append(a.Items, it)
		}
		rest = rest[s.n:]
	}
}

// judgeWhole judges the runs of a call that come whole. What is left in q.found is to be held.
func (p *classifier) judgeWhole(ctx context.Context, q *partition) {
	if len(q.whole.traces) == 0 {
		return
	}
	for i := range q.deliveries {
		q.judgeWholeOf(ctx, i)
	}
	for t := range q.whole.traces {
		w := &q.whole.traces[t]
		if q.counted[t] && w.releases == nil {
			d := q.deliveryTo(q.owners[t], w.Trace)
			d.links = append(d.links, w.links...)
		}
	}
	q.leaveHeld()
}

// judgeWholeOf judges the traces of one delivery that come whole.
func (q *partition) judgeWholeOf(ctx context.Context, delivery int) {
	var l *lane
	for t, counted := range q.counted {
		if !counted || q.delivery(q.owners[t], q.traces[t]) != delivery {
			continue
		}
		if l == nil {
			l = q.lane(delivery)
			if !l.lockFor(ctx) {
				return
			}
			defer l.unlock()
			l.takeEvidence(&q.deliveries[delivery])
			l.buffer.Judged().Rotate(q.now)
		}
		if w := &q.whole.traces[t]; l.judgeWhole(q, w) {
			w.lane = l
			q.whole.ids = append(q.whole.ids, w.Trace)
			q.whole.spans += q.counts[t]
			q.counts[t] = 0
		}
	}
	if l != nil {
		l.account()
	}
}

// leaveHeld takes the spans that came whole out of those that are to be held.
func (q *partition) leaveHeld() {
	found, scopes, rest := q.found[:0], q.scopes[:0], q.found
	for _, s := range q.scopes {
		list := rest[:s.n]
		rest = rest[s.n:]
		s.n = 0
		for i := range list {
			if q.counts[list[i].trace] > 0 {
				found = append(found, list[i])
				s.n++
			} else {
				q.size -= list[i].size
			}
		}
		if s.n > 0 {
			scopes = append(scopes, s)
		}
	}
	clear(q.found[len(found):])
	clear(q.scopes[len(scopes):])
	q.found, q.scopes = found, scopes
}

// takeEvidence takes the exchanges of a delivery.
func (l *lane) takeEvidence(d *delivery) {
	for i := range d.exchanges {
		l.evidence.add(l.clock.Now(), &d.exchanges[i])
	}
	d.exchanges = nil
}

// judgeWhole judges the runs of a trace if it comes whole, and reports whether it does.
func (l *lane) judgeWhole(q *partition, w *wholeTrace) bool {
	var whole bool
	if w.releases, whole = l.buffer.Whole(q.now, w.Arrival, w.links, &q.whole.room); !whole {
		return false
	}
	for _, i := range trace.JudgingOrder(w.releases) {
		release := &w.releases[i]
		l.releaser.open(release)
		trigger := triggerOf[release.Reason]
		d := l.releaser.judgeAndStamp(release, trigger)
		if v, ok := endingOf(release, &d, trigger); ok {
			q.whole.endings = append(q.whole.endings, v)
		}
	}
	for i := range w.releases {
		l.buffer.Done(&w.releases[i])
	}
	return true
}

// countWhole counts the runs that came whole, once they are forwarded.
func (p *classifier) countWhole(ctx context.Context, q *partition) {
	alike := 0
	for i, v := range q.whole.endings {
		p.telemetry.holdTime(ctx, 0, semconv.TriggerComplete)
		if alike++; i+1 == len(q.whole.endings) || q.whole.endings[i+1] != v {
			p.telemetry.run(ctx, v, alike)
			alike = 0
		}
	}
}

// takeBackWhole takes back the verdicts on the runs that came whole.
func (p *classifier) takeBackWhole(q *partition) {
	for t := range q.whole.traces {
		w := &q.whole.traces[t]
		if w.lane == nil {
			continue
		}
		w.lane.lock()
		for i := range w.releases {
			w.lane.buffer.TakeBack(&w.releases[i])
		}
		w.lane.unlock()
	}
}
