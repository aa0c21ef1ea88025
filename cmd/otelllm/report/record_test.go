package report_test

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/cmd/otelllm/report"
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
