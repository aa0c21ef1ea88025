package llmclassify

import (
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/assemble"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/generations"
)

// awaited are the LLM spans that calls have brought, and that a lane does not have: those of
// calls that are on their way to it, and those of calls that were refused and have not come
// again. Their senders still have these, or have lost them. It is safe for concurrent use.
type awaited struct {
	period  time.Duration
	refused *atomic.Int64 // how many refused spans there are, with those of other lanes

	// mu guards everything declared below
	mu      sync.Mutex
	spans   *generations.Cache[spanKey, struct{}] // of calls that were refused
	byTrace map[pcommon.TraceID]awaitedTrace
	lost    time.Time // when some of spans were forgotten to make room
}

// awaitedTrace is what is awaited of a trace.
type awaitedTrace struct {
	calls, spans    int       // calls on their way, and refused spans
	called, refused time.Time // when the last of them came
}

// refusedSize is the memory of a refused span in bytes, with its share of the maps.
const refusedSize = 128

// newAwaited keeps refused spans for at least one period and at most two, in at most this
// many bytes.
func newAwaited(period time.Duration, bytes int, refused *atomic.Int64) *awaited {
	a := &awaited{
		period: period, refused: refused,
		spans:   generations.NewCache[spanKey, struct{}](period, bytes/2),
		byTrace: make(map[pcommon.TraceID]awaitedTrace),
	}
	a.spans.SizeOf = func(struct{}) int { return refusedSize }
	a.spans.Removed = func(span spanKey) {
		t := a.byTrace[span.trace]
		t.spans--
		a.set(span.trace, t)
		a.refused.Add(-1)
	}
	return a
}

// set changes what is awaited of a trace.
func (a *awaited) set(trace pcommon.TraceID, t awaitedTrace) {
	if t.calls == 0 && t.spans == 0 {
		delete(a.byTrace, trace)
		return
	}
	a.byTrace[trace] = t
}

// call notes that a call with spans of a trace is on its way to the lane (1), or was refused (-1).
func (a *awaited) call(now time.Time, trace pcommon.TraceID, change int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	t := a.byTrace[trace]
	t.calls += change
	t.called = now
	a.set(trace, t)
}

// refuse notes a span of a call that was refused.
func (a *awaited) refuse(now time.Time, span spanKey) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.spans.Rotate(now)
	a.spans.Take(span)
	before := a.spans.Len()
	if a.spans.Put(now, span, struct{}{}) {
		t := a.byTrace[span.trace]
		t.spans++
		t.refused = now
		a.set(span.trace, t)
		a.refused.Add(1)
	}
	if a.spans.Len() <= before && now.After(a.lost) { // some were forgotten for it, or it is too large itself
		a.lost = now
	}
}

// arrived notes that spans of a call, which was on its way, are with the lane now.
func (a *awaited) arrived(arrivals []assemble.Arrival) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range arrivals {
		trace := arrivals[i].Trace
		t := a.byTrace[trace]
		t.calls--
		a.set(trace, t)
		if a.spans.Len() == 0 {
			continue
		}
		for _, it := range arrivals[i].Items {
			a.spans.Take(spanKey{trace, it.ID})
		}
	}
}

// completed notes that a span which need not be held has come again.
func (a *awaited) completed(span spanKey) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.spans.Take(span)
}

// of reports whether spans of a trace are awaited, and when the last of them came.
func (a *awaited) of(trace pcommon.TraceID) (last time.Time, awaits bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	t, awaits := a.byTrace[trace]
	if t.calls > 0 && t.called.After(t.refused) {
		return t.called, true
	}
	return t.refused, awaits
}

// mayLack reports whether refused spans of a run that began at this time may have been
// forgotten to make room.
func (a *awaited) mayLack(now time.Time, from pcommon.Timestamp) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return forgottenLately(now, a.lost, a.period, from)
}

// rotate forgets what is old enough.
func (a *awaited) rotate(now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.spans.Rotate(now)
}

// setLimit changes the bytes.
func (a *awaited) setLimit(bytes int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.spans.SetLimit(bytes / 2)
}

// size is the estimated memory of the refused spans in bytes.
func (a *awaited) size() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.spans.Size()
}

// expect notes that the spans of a call which are to be held are on their way (1), or are not
// any more as the call was refused (-1).
func (q *partition) expect(change int) {
	for t, n := range q.counts {
		if n > 0 && !q.complete.has(t) {
			q.awaitedOf(t).call(q.now, q.traces[t], change)
		}
	}
}

// awaitedOf is what the lane of a trace awaits.
func (q *partition) awaitedOf(trace int) *awaited {
	return q.shards.of(q.tenants[q.owners[trace]], q.traces[trace]).awaited
}

// noteRefused notes the LLM spans of a call that was refused.
func (p *classifier) noteRefused(q *partition) {
	now := p.clock.Now()
	for i := range q.found {
		f := &q.found[i]
		q.awaitedOf(f.trace).refuse(now, spanKey{q.traces[f.trace], f.item.ID})
	}
	q.eachComplete(func(a *awaited, span spanKey) { a.refuse(now, span) })
	q.expect(-1)
}

// noteComplete notes that spans of complete runs, which may have been refused before, are not
// awaited any more.
func (p *classifier) noteComplete(q *partition) {
	if p.refused.Load() > 0 {
		q.eachComplete((*awaited).completed)
	}
}

// eachComplete visits the spans of complete runs.
func (q *partition) eachComplete(visit func(*awaited, spanKey)) {
	for t := range q.complete.candidates {
		if q.complete.has(t) {
			for _, it := range q.complete.candidates[t].Items {
				visit(q.awaitedOf(t), spanKey{q.traces[t], it.ID})
			}
		}
	}
}
