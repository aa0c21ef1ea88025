package report_test

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/cmd/otelllm/report"
	"github.com/otelllm/otelllm-go/semconv"
)

// A number that JSON does not have makes no record unreadable.
func TestRecordsAreJSON(t *testing.T) {
	td := ptrace.NewTraces()
	span(td, traceA, 1, 0, "chat gpt", 0, "gen_ai.operation.name", "chat", "llm.retry.after", math.NaN(),
		"llm.failure.evidence", []any{math.Inf(-1), map[string]any{"k": math.Inf(1)}, 1.5})
	var spans report.Spans
	spans.Add(td)
	raw, err := json.Marshal(spans.Records(traceA))
	require.NoError(t, err)
	assert.Contains(t, string(raw), `"llm.retry.after":"NaN"`)
	assert.Contains(t, string(raw), `["-Inf",{"k":"+Inf"},1.5]`)
}

// The same that is asked again after a whole answer is a repeat. At the same time it is asked by two sub-agents.
func TestAsked(t *testing.T) {
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	request := func(attempt int64, from, to time.Duration) report.Record {
		return report.Record{Kind: report.RecordRequest, Start: start.Add(from), End: start.Add(to), Attributes: map[string]any{
			string(semconv.RequestAttemptKey): attempt, string(semconv.StreamEndKey): semconv.StreamEndTerminalEvent.String(),
		}}
	}
	again := report.Record{Requests: []report.Record{request(1, 0, time.Second), request(2, time.Second, 2*time.Second), request(3, 3*time.Second, 4*time.Second)}}
	assert.Equal(t, 3, again.Asked())
	together := report.Record{Requests: []report.Record{request(1, 0, time.Second), request(2, time.Millisecond, time.Second)}}
	assert.Zero(t, together.Asked())
}
