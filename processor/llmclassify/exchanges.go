package llmclassify

import (
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/assemble"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/dialect"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/generations"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/hold"
)

// spanKey is a span of a trace.
type spanKey struct {
	trace pcommon.TraceID
	id    pcommon.SpanID
}

// exchange is what the span of an HTTP client shows, and the span that it is beneath.
type exchange struct {
	above spanKey
	dialect.Exchange
}

// exchanges are exchanges by the span that each is beneath: of several beneath one span
// the last one, see [dialect.Exchange.Compare].
type exchanges map[spanKey]dialect.Exchange

func (e *exchanges) add(x *exchange) {
	if before, ok := (*e)[x.above]; ok && before.Compare(x.Exchange) > 0 {
		return
	}
	if *e == nil {
		*e = make(exchanges)
	}
	(*e)[x.above] = x.Exchange
}

// explain adds to the facts of requests what the exchanges beneath them show. These are
// taken out.
func (e exchanges) explain(release *assemble.Release) {
	if len(e) == 0 {
		return
	}
	explain(release, func(above spanKey) (dialect.Exchange, bool) {
		x, ok := e[above]
		delete(e, above)
		return x, ok
	})
}

// evidence keeps exchanges, by the span that each is beneath, until that request's span
// comes.
type evidence struct {
	kept *generations.Cache[spanKey, dialect.Exchange]
	// watch is called for traces of which there is evidence (1) and no longer (-1).
	watch func(pcommon.TraceID, int32)
}

// exchangeSize is the memory of an exchange beside its own, with its share of the map.
const exchangeSize = 64

// newEvidence keeps exchanges for at least one period and at most two, in at most this
// many bytes.
func newEvidence(period time.Duration, bytes int, watch func(pcommon.TraceID, int32)) *evidence {
	kept := generations.NewCache[spanKey, dialect.Exchange](period, bytes/2)
	kept.SizeOf = func(x dialect.Exchange) int { return exchangeSize + x.Size() }
	kept.Removed = func(above spanKey) { watch(above.trace, -1) }
	return &evidence{kept: kept, watch: watch}
}

// add keeps an exchange. Of several beneath one span the last one is kept.
func (e *evidence) add(now time.Time, x *exchange) {
	if before, ok := e.kept.Take(x.above); ok && before.Compare(x.Exchange) > 0 {
		x.Exchange = before
	}
	if e.kept.Put(now, x.above, x.Exchange) {
		e.watch(x.above.trace, 1)
	}
}

// setLimit changes the bytes.
func (e *evidence) setLimit(bytes int) { e.kept.SetLimit(bytes / 2) }

func (e *evidence) size() int { return e.kept.Size() }

// explain adds to the facts of requests what the exchanges beneath them show. These are
// taken out.
func (e *evidence) explain(release *assemble.Release) {
	if e.kept.Len() > 0 {
		explain(release, e.kept.Take)
	}
}

// explain takes the exchanges beneath the requests of a release. A request that was
// delivered twice is explained twice.
func explain(release *assemble.Release, take func(above spanKey) (dialect.Exchange, bool)) {
	var taken map[pcommon.SpanID]dialect.Exchange
	for i := range release.Members {
		m := &release.Members[i]
		if m.Role != hold.Request {
			continue
		}
		x, ok := take(spanKey{release.Trace, m.ID})
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
