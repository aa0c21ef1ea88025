package classify

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/semconv"
)

// The page for people who translate summaries has every sentence that can be in one.
func TestSummariesPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference/summaries.md")
	require.NoError(t, err)
	has := func(text string) {
		t.Helper()
		assert.Contains(t, string(page), text)
	}
	k := &risk{tool: "TOOL", failedTool: "TOOL"}
	for _, key := range semconv.SummaryKeyValues() {
		has("`" + key.String() + "` | " + strings.ReplaceAll(stateWords(key, k), "TOOL", "{tool}"))
	}
	causes := make([]string, 0, len(causeWords))
	for cause, words := range causeWords {
		causes = append(causes, "| `"+cause.String()+"` | "+words+" |")
	}
	slices.Sort(causes)
	for _, row := range causes {
		has(row)
	}
	for class, row := range table {
		for cause := range strings.FieldsSeq(row.causes) {
			c, ok := semconv.ParseCause(cause)
			require.True(t, ok)
			cl, ok := semconv.ParseClass(class)
			require.True(t, ok)
			first := broke(&Diagnosis{Class: cl, Cause: c}, k)
			if at := strings.LastIndex(first, " ("); at > 0 {
				first = first[:at]
			}
			has(strings.ReplaceAll(first, "TOOL", "{tool}"))
		}
	}
	for _, phase := range semconv.PhaseValues() {
		if words := during(&Diagnosis{Class: semconv.ClassStreamInterrupted, Phase: phase}); words != "" {
			has("| `" + phase.String() + "` | " + words + " |")
		}
	}
	for _, reason := range semconv.RetryReasonValues() {
		for _, safety := range semconv.RetrySafetyValues() {
			d := &Diagnosis{Retry: Retry{Safety: safety, Reason: reason}}
			has(strings.ReplaceAll(advice(d, k), "TOOL", "{tool}"))
		}
	}
}
