package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/otelllm/otelllm-go/semconv"
)

// Where there is no run, what failed is printed all the same.
func TestPrintWithoutRuns(t *testing.T) {
	call := func(failed bool) ptrace.Traces {
		td := ptrace.NewTraces()
		span := td.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans().AppendEmpty()
		span.SetTraceID(pcommon.TraceID{1})
		span.SetSpanID(pcommon.SpanID{1})
		span.SetName("chat m")
		span.Attributes().PutStr(string(otelsemconv.GenAIOperationNameKey), otelsemconv.GenAIOperationNameChat.Value.AsString())
		if failed {
			span.Attributes().PutStr(string(semconv.FailureClassKey), semconv.ClassProviderError.String())
			span.Attributes().PutStr(string(semconv.FailureSummaryKey), "The model provider reported an error.")
		}
		return td
	}
	for name, tt := range map[string]struct {
		td   ptrace.Traces
		want []string
	}{
		"a call that failed": {call(true), []string{"chat m", "  The model provider reported an error.", "No run in 1 trace: no span is an agent's run whose end is here. 1 call with a failure."}},
		"a healthy call":     {call(false), []string{"0 calls with a failure."}},
		"no call":            {ptrace.NewTraces(), []string{"No run in 1 trace: no span is an agent's run, and no failure"}},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := os.Create(filepath.Join(t.TempDir(), "out"))
			require.NoError(t, err)
			printRuns(f, []*trace{{id: pcommon.TraceID{1}, td: tt.td, spans: tt.td.SpanCount()}})
			require.NoError(t, f.Close())
			out, err := os.ReadFile(f.Name())
			require.NoError(t, err)
			for _, want := range tt.want {
				assert.Contains(t, string(out), want)
			}
		})
	}
}
