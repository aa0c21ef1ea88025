package llmclassify

import (
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/dialect"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/generations"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/trace"
)

// exchange is what the span of an HTTP client shows, and the span that it is beneath.
type exchange struct {
	trace pcommon.TraceID
	above pcommon.SpanID
	dialect.Exchange
}

// evidence keeps exchanges, by the span that each is beneath, until that request's span
// comes.
type evidence struct {
	kept *generations.Cache[spanOf, dialect.Exchange]
}

// spanOf is a span of a trace.
type spanOf struct {
	trace pcommon.TraceID
	id    pcommon.SpanID
}

// exchangeSize is the memory of an exchange beside its own, with its share of the map.
const exchangeSize = 64

// newEvidence keeps exchanges for at least one period and at most two, in at most this
// many bytes.
func newEvidence(period time.Duration, bytes int) *evidence {
	kept := generations.NewCache[spanOf, dialect.Exchange](period, bytes/2)
	kept.SizeOf = func(x dialect.Exchange) int { return exchangeSize + x.Size() }
	return &evidence{kept: kept}
}

// add keeps an exchange. Of several beneath one span the last one is kept.
func (e *evidence) add(now time.Time, x *exchange) {
	above := spanOf{x.trace, x.above}
	if before, ok := e.kept.Take(above); ok && before.Compare(x.Exchange) > 0 {
		x.Exchange = before
	}
	e.kept.Put(now, above, x.Exchange)
}

// rotate forgets what is old enough.
func (e *evidence) rotate(now time.Time) { e.kept.Rotate(now) }

// setLimit changes the bytes.
func (e *evidence) setLimit(bytes int) { e.kept.SetLimit(bytes / 2) }

// size is the estimated memory in bytes.
func (e *evidence) size() int { return e.kept.Size() }

// explain adds the exchanges beneath the requests of a release to their facts, and forgets them. A
// request that was delivered twice is explained twice.
func (e *evidence) explain(release *trace.Release) {
	if e.kept.Len() == 0 {
		return
	}
	var taken map[pcommon.SpanID]dialect.Exchange
	for i := range release.Members {
		m := &release.Members[i]
		if m.Role != trace.Request {
			continue
		}
		x, ok := e.kept.Take(spanOf{release.Trace, m.ID})
		switch {
		case ok && taken == nil:
			taken = map[pcommon.SpanID]dialect.Exchange{m.ID: x}
		case ok:
			taken[m.ID] = x
		default:
			x, ok = taken[m.ID]
		}
		if ok {
			m.Known.Explain(m.Span, x)
		}
	}
}
