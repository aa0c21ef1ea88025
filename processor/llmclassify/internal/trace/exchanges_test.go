package trace

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/dialect"
)

// What HTTP clients saw never takes more than its bound, and the newest stays.
func TestEvidenceIsBounded(t *testing.T) {
	e := NewEvidence(time.Minute, 1000)
	span := ptrace.NewSpan()
	span.Attributes().PutStr(string(otelsemconv.ErrorTypeKey), "ECONNRESET")
	at := func(n int) spanOf { return spanOf{pcommon.TraceID{1, byte(n)}, pcommon.SpanID{1, byte(n >> 8)}} }
	for n := range 1000 {
		e.Add(time.Unix(0, 0), &Exchange{at(n).trace, at(n).id, dialect.ReadExchange(span)})
		require.LessOrEqual(t, e.Size(), 1000)
	}
	_, ok := e.kept.Take(at(999))
	assert.True(t, ok, "the newest is there")
	_, ok = e.kept.Take(at(0))
	assert.False(t, ok)
}
