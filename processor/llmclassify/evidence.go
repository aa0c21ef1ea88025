package llmclassify

import (
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/assemble"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/dialect"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/hold"
)

// spanKey is a span of a trace.
type spanKey struct {
	trace pcommon.TraceID
	id    pcommon.SpanID
}

// exchange is what an HTTP client's span says, and the span that it is beneath.
type exchange struct {
	above spanKey
	dialect.Exchange
}

// exchanges reads the spans of HTTP clients that are worth it before they are
// forwarded, by shard: those of traces with LLM spans here, on their way or in the
// call, and those that failed, as the request's span usually comes later than
// theirs. It returns nil where there are none.
func (p *classifier) exchanges(b *batch) (found [][]exchange) {
	for _, span := range b.https {
		id := span.TraceID()
		if id.IsEmpty() || span.ParentSpanID().IsEmpty() {
			continue
		}
		if _, here := b.index[id]; !here && span.Status().Code() != ptrace.StatusCodeError && !p.interest.has(id) {
			continue
		}
		if found == nil {
			found = make([][]exchange, len(p.shards))
		}
		shard := p.shardOf(id)
		found[shard] = append(found[shard], exchange{spanKey{id, span.ParentSpanID()}, dialect.ReadExchange(span)})
	}
	return found
}

// evidence keeps exchanges until the request's span comes, for at least one period
// and at most two. Of more than its limit within a period the older half is
// forgotten sooner.
type evidence struct {
	period        time.Duration
	limit         int // bytes, of each half
	began         time.Time
	now, previous map[spanKey]dialect.Exchange
	bytes, older  int // of now, of previous
	// watch is called for traces of which there is evidence (1) and no longer (-1).
	watch func(pcommon.TraceID, int32)
}

// exchangeSize is the memory of an exchange beside its own, with its share of the map.
const exchangeSize = 64

func newEvidence(period time.Duration, bytes int, watch func(pcommon.TraceID, int32)) *evidence {
	return &evidence{period: period, limit: bytes / 2, now: make(map[spanKey]dialect.Exchange), watch: watch}
}

// add keeps an exchange. Of several beneath one span the one that began last is kept.
func (e *evidence) add(now time.Time, x *exchange) {
	if before, ok := e.take(x.above); ok && before.Start.After(x.Start) {
		x.Exchange = before
	}
	if size := exchangeSize + x.Size(); now.Sub(e.began) >= e.period || e.bytes+size > e.limit {
		for above := range e.previous {
			e.watch(above.trace, -1)
		}
		e.began, e.previous, e.older = now, e.now, e.bytes
		e.now, e.bytes = make(map[spanKey]dialect.Exchange), 0
	}
	if size := exchangeSize + x.Size(); e.bytes+size <= e.limit {
		e.now[x.above] = x.Exchange
		e.watch(x.above.trace, 1)
		e.bytes += size
	}
}

// take takes out the exchange beneath a span.
func (e *evidence) take(above spanKey) (dialect.Exchange, bool) {
	if x, ok := e.now[above]; ok {
		delete(e.now, above)
		e.watch(above.trace, -1)
		e.bytes -= exchangeSize + x.Size()
		return x, true
	}
	x, ok := e.previous[above]
	if ok {
		delete(e.previous, above)
		e.watch(above.trace, -1)
		e.older -= exchangeSize + x.Size()
	}
	return x, ok
}

func (e *evidence) size() int { return e.bytes + e.older }

// explain adds to the facts of requests what the exchanges beneath them tell. There
// may be no evidence: e is nil.
func (e *evidence) explain(release *assemble.Release) {
	if e == nil || len(e.now)+len(e.previous) == 0 {
		return
	}
	for i := range release.Members {
		m := &release.Members[i]
		if m.Role != hold.Request {
			continue
		}
		if x, ok := e.take(spanKey{release.Trace, m.ID}); ok {
			dialect.Explain(m.Known.Facts(m.Span, dialect.Request).Request, []dialect.Exchange{x})
		}
	}
}
