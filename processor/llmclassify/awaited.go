package llmclassify

import (
	"sync"
	"time"

	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/assemble"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/generations"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/hold"
)

// awaited are the LLM spans that calls have brought, and that a lane does not have: those of
// calls that are on their way to it, and those of calls that were refused and have not come
// again. Their senders still have these, or have lost them. It is safe for concurrent use.
type awaited struct {
	period time.Duration

	// mu guards everything declared below
	mu      sync.Mutex
	calls   map[pcommon.TraceID]onTheWay
	most    int // that calls has had
	refused *generations.Cache[pcommon.TraceID, *refusedSpans]
	lost    time.Time // when some of refused were forgotten to make room
}

// onTheWay are the calls with spans of a trace that are on their way to its lane.
type onTheWay struct {
	calls    int
	last     time.Time         // when the last of them came
	from, to pcommon.Timestamp // when the first and the last of their spans began
}

// refusedSpans are those of a trace.
type refusedSpans struct {
	spans map[refusedSpan]struct{}
	last  time.Time // when the last of them came that is to come again
	size  int       // estimated memory in bytes
}

// refusedSpan is a span of a call that was refused. Two different ones may have one id.
type refusedSpan struct {
	id, owner pcommon.SpanID // see hold.AwaitedSpan
	start     pcommon.Timestamp
}

// Estimated memory in bytes of the refused spans of a trace, and of each of them beside.
const (
	refusedTraceSize = 320
	refusedSize      = 48
)

// manyTraces is how many traces of calls on their way are too many to keep the memory for them.
const manyTraces = 1 << 10

// maxAwaited is how many spans of a trace are told apart when a run is judged. Of more, any may
// be of any run.
const maxAwaited = 64

// newAwaited keeps refused spans for at least one period and at most two, in at most this
// many bytes.
func newAwaited(period time.Duration, bytes int) *awaited {
	a := &awaited{
		period:  period,
		calls:   make(map[pcommon.TraceID]onTheWay),
		refused: generations.NewCache[pcommon.TraceID, *refusedSpans](period, bytes/2),
	}
	a.refused.SizeOf = func(r *refusedSpans) int { return r.size }
	return a
}

// call notes that a call with spans of a trace is on its way to the lane. They began at these
// times.
func (a *awaited) call(now time.Time, trace pcommon.TraceID, from, to pcommon.Timestamp) {
	a.mu.Lock()
	defer a.mu.Unlock()
	way, known := a.calls[trace]
	if known {
		from, to = min(from, way.from), max(to, way.to)
	}
	a.calls[trace] = onTheWay{calls: way.calls + 1, last: now, from: from, to: to}
	a.most = max(a.most, len(a.calls))
}

// end notes that a call is not on its way any more. It is called under the lock.
func (a *awaited) end(trace pcommon.TraceID) {
	way := a.calls[trace]
	if way.calls--; way.calls > 0 {
		a.calls[trace] = way
		return
	}
	delete(a.calls, trace)
	if len(a.calls) == 0 && a.most > manyTraces { // a map keeps the memory that it once had
		a.calls, a.most = make(map[pcommon.TraceID]onTheWay), 0
	}
}

// refuse notes spans of a call that was on its way and was refused, and whether they are
// expected to come again.
func (a *awaited) refuse(now time.Time, trace pcommon.TraceID, items []*assemble.Item, comesAgain bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.end(trace)
	a.refused.Rotate(now)
	r, known := a.refused.Take(trace)
	if !known {
		r = &refusedSpans{spans: make(map[refusedSpan]struct{}, len(items))}
	}
	for _, it := range items {
		r.spans[refusedSpanOf(it)] = struct{}{}
	}
	if comesAgain && now.After(r.last) {
		r.last = now
	}
	r.size = max(r.size, refusedTraceSize+refusedSize*len(r.spans))
	before := a.refused.Len()
	a.refused.Put(now, trace, r)
	if a.refused.Len() <= before && now.After(a.lost) { // some were forgotten for it, or it is too large itself
		a.lost = now
	}
}

func refusedSpanOf(it *assemble.Item) refusedSpan {
	owner := it.Run
	if owner.IsEmpty() {
		owner = it.Parent
	}
	return refusedSpan{id: it.ID, owner: owner, start: it.Start}
}

// arrived notes that spans of a trace, which were on their way, are with the lane now, or were
// judged with their call.
func (a *awaited) arrived(trace pcommon.TraceID, items []*assemble.Item) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.end(trace)
	if a.refused.Len() == 0 {
		return
	}
	r, known := a.refused.Peek(trace)
	if !known {
		return
	}
	for _, it := range items {
		delete(r.spans, refusedSpanOf(it))
	}
	if len(r.spans) == 0 {
		a.refused.Take(trace)
	}
}

// of returns what is awaited of a trace.
func (a *awaited) of(trace pcommon.TraceID) (w hold.Awaited) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if way, known := a.calls[trace]; known {
		w.Last = way.last
		w.Spans = append(w.Spans, hold.AwaitedSpan{From: way.from, To: way.to})
	}
	r, known := a.refused.Peek(trace)
	if !known {
		return w
	}
	if r.last.After(w.Last) {
		w.Last = r.last
	}
	for s := range r.spans {
		if len(w.Spans) == maxAwaited {
			w.More = true
			break
		}
		w.Spans = append(w.Spans, hold.AwaitedSpan{ID: s.id, Owner: s.owner, From: s.start, To: s.start})
	}
	return w
}

// mayLack reports whether refused spans of what began at this time may have been forgotten to
// make room.
func (a *awaited) mayLack(now time.Time, from pcommon.Timestamp) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return forgottenLately(now, a.lost, a.period, from)
}

// rotate forgets what is old enough.
func (a *awaited) rotate(now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refused.Rotate(now)
}

// setLimit changes the bytes.
func (a *awaited) setLimit(bytes int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refused.SetLimit(bytes / 2)
}

// size is the estimated memory of the refused spans in bytes.
func (a *awaited) size() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.refused.Size()
}

// awaitedOf is what the lane of a trace awaits, by the index of the trace.
func (q *partition) awaitedOf(trace int) *awaited {
	return q.shards.of(q.tenants[q.owners[trace]], q.traces[trace]).awaited
}

// expect notes that the LLM spans of a call are on their way.
func (q *partition) expect() {
	q.begun = resized(q.begun, len(q.traces))
	for i := range q.found {
		began, start := &q.begun[q.found[i].trace], assemble.Clock(q.found[i].span.StartTimestamp())
		if began.spans == 0 {
			began.from = start
		}
		began.spans++
		began.from, began.to = min(began.from, start), max(began.to, start)
	}
	for t := range q.traces {
		if b := q.begun[t]; b.spans > 0 {
			q.awaitedOf(t).call(q.now, q.traces[t], b.from, b.to)
		}
	}
}

// begun is when the spans of a trace began: the first and the last of them.
type begun struct {
	spans    int
	from, to pcommon.Timestamp
}

// noteRefused notes the LLM spans of a call that was refused. After a permanent error its sender
// does not send it again.
func (p *classifier) noteRefused(q *partition, err error) {
	items := make([][]*assemble.Item, len(q.traces))
	for t := range q.complete.candidates {
		if q.complete.has(t) {
			items[t] = q.complete.candidates[t].Items
		}
	}
	for i := range q.found {
		f := &q.found[i]
		items[f.trace] = append(items[f.trace], f.item)
	}
	now, comesAgain := p.clock.Now(), !consumererror.IsPermanent(err)
	for t := range items {
		if len(items[t]) > 0 {
			q.awaitedOf(t).refuse(now, q.traces[t], items[t], comesAgain)
		}
	}
}

// noteComplete notes that the complete runs of a call were judged.
func (q *partition) noteComplete() {
	for t := range q.complete.candidates {
		if q.complete.has(t) {
			q.awaitedOf(t).arrived(q.traces[t], q.complete.candidates[t].Items)
		}
	}
}
