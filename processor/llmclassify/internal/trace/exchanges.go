package trace

import (
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/dialect"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/generations"
)

// Exchange is an exchange in the span of an HTTP client, and the span above it.
type Exchange struct {
	Trace pcommon.TraceID
	Above pcommon.SpanID
	dialect.Exchange
}

// Evidence keeps exchanges, by the span above each, until that request's span arrives.
type Evidence struct {
	kept *generations.Cache[spanOf, dialect.Exchange]
}

// spanOf is a span of a trace.
type spanOf struct {
	trace pcommon.TraceID
	id    pcommon.SpanID
}

// exchangeSize is the memory of an exchange beside its own, with its share of the map.
const exchangeSize = 64

// NewEvidence keeps exchanges for at least one period and at most two, in at most this
// many bytes.
func NewEvidence(period time.Duration, bytes int) *Evidence {
	kept := generations.NewCache[spanOf, dialect.Exchange](period, bytes/2)
	kept.SizeOf = func(x dialect.Exchange) int { return exchangeSize + x.Size() }
	return &Evidence{kept: kept}
}

// Add keeps an exchange. Of several beneath one span the last one is kept.
func (e *Evidence) Add(now time.Time, x *Exchange) {
	above := spanOf{x.Trace, x.Above}
	if before, ok := e.kept.Take(above); ok && before.Compare(x.Exchange) > 0 {
		x.Exchange = before
	}
	e.kept.Put(now, above, x.Exchange)
}

// Rotate forgets exchanges that are old enough.
func (e *Evidence) Rotate(now time.Time) { e.kept.Rotate(now) }

// SetLimit changes the bound in bytes.
func (e *Evidence) SetLimit(bytes int) { e.kept.SetLimit(bytes / 2) }

// Size is the estimated memory in bytes.
func (e *Evidence) Size() int { return e.kept.Size() }

// Explain adds the exchanges beneath the requests of a release to their facts, and forgets them. A
// request that was delivered twice is explained twice.
func (e *Evidence) Explain(release *Release) {
	if e.kept.Len() == 0 {
		return
	}
	var taken map[pcommon.SpanID]dialect.Exchange
	for i := range release.Members {
		m := &release.Members[i]
		if m.Role != Request {
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
