package llmclassify

import (
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/generations"
)

// refusals are the LLM spans that came in calls which were refused, and have not come again:
// their senders still have them, or have lost them. Runs of their traces that do not announce
// their numbers wait for them, and lack parts without them. It is safe for concurrent use.
type refusals struct {
	period time.Duration
	total  *atomic.Int64 // how many spans there are, with those of other lanes

	// mu guards everything declared below
	mu      sync.Mutex
	spans   *generations.Cache[spanKey, struct{}]
	byTrace map[pcommon.TraceID]int // how many of spans
	lost    time.Time               // when some of spans were forgotten to make room
}

// refusedSize is the memory of a span in bytes, with its share of the maps.
const refusedSize = 128

// newRefusals keeps spans for at least one period and at most two, in at most this many bytes.
func newRefusals(period time.Duration, bytes int, total *atomic.Int64) *refusals {
	r := &refusals{
		period: period, total: total,
		spans:   generations.NewCache[spanKey, struct{}](period, bytes/2),
		byTrace: make(map[pcommon.TraceID]int),
	}
	r.spans.SizeOf = func(struct{}) int { return refusedSize }
	r.spans.Removed = func(span spanKey) { r.count(span.trace, -1) }
	return r
}

// count counts a span of a trace (1), or one that is not there any more (-1).
func (r *refusals) count(trace pcommon.TraceID, change int) {
	r.total.Add(int64(change))
	if r.byTrace[trace] += change; r.byTrace[trace] == 0 {
		delete(r.byTrace, trace)
	}
}

// add adds a span of a call that was refused.
func (r *refusals) add(now time.Time, span spanKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.spans.Rotate(now)
	r.spans.Take(span)
	before := r.spans.Len()
	if r.spans.Put(now, span, struct{}{}) {
		r.count(span.trace, 1)
	}
	if r.spans.Len() <= before { // some were forgotten for it, or it is too large itself
		r.lost = now
	}
}

// remove removes a span that has come again.
func (r *refusals) remove(span spanKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.spans.Take(span)
}

// awaits reports whether there are spans of a trace.
func (r *refusals) awaits(trace pcommon.TraceID) bool {
	if r.total.Load() == 0 {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.byTrace[trace] > 0
}

// mayLack reports whether there may have been spans of a run that began at this time, and
// were forgotten to make room.
func (r *refusals) mayLack(now time.Time, from pcommon.Timestamp) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return forgottenLately(now, r.lost, r.period, from)
}

// rotate forgets what is old enough.
func (r *refusals) rotate(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.spans.Rotate(now)
}

// setLimit changes the bytes.
func (r *refusals) setLimit(bytes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.spans.SetLimit(bytes / 2)
}

// size is the estimated memory in bytes.
func (r *refusals) size() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.spans.Size()
}

// noteRefused notes the LLM spans of a call that was refused.
func (p *classifier) noteRefused(q *partition) {
	q.eachSpan(func(l *lane, span spanKey) { l.refused.add(q.now, span) })
}

// noteTaken notes that the LLM spans of a call were taken over: they are not awaited any more.
// It is called when the shards have them.
func (p *classifier) noteTaken(q *partition) {
	if p.refused.Load() > 0 {
		q.eachSpan(func(l *lane, span spanKey) { l.refused.remove(span) })
	}
}

// eachSpan visits the LLM spans of a call, with the lanes of their traces.
func (q *partition) eachSpan(visit func(*lane, spanKey)) {
	for i := range q.found {
		f := &q.found[i]
		trace := q.traces[f.trace]
		visit(q.shards.of(q.tenants[q.owners[f.trace]], trace), spanKey{trace, f.item.ID})
	}
	for t := range q.complete.candidates {
		if !q.complete.has(t) {
			continue
		}
		c := &q.complete.candidates[t]
		for _, it := range c.Items {
			visit(q.laneOf(c.Trace), spanKey{c.Trace, it.ID})
		}
	}
}
