package stamp

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
)

const arrived = "Its run was judged before this arrived."

func TestCorrected(t *testing.T) {
	ask := classify.Retry{Safety: classify.UserConfirmedRetry, Reason: semconv.RetryReasonToolSideEffect}
	never := classify.Retry{Safety: classify.NoRetry, Reason: semconv.RetryReasonUserAbort}
	stopped := reset
	stopped.Retry = classify.Retry{Safety: classify.NoRetry, Reason: semconv.RetryReasonNotTransient}
	long := reset
	long.Summary = strings.Repeat("a", 500)
	twice := arrived + " Ask before repeating the run: a tool with side effects could run twice."
	late := attrs{"llm.classification.trigger": "late"}
	for _, tt := range []struct {
		name   string
		before attrs
		d      *classify.Diagnosis
		run    classify.Retry
		want   attrs
	}{
		{"nothing failed in it", nil, nil, ask, merged(late, attrs{
			"llm.retry.safety": "user_confirmed_retry", "llm.retry.reason": "tool_side_effect", "llm.failure.summary": twice,
		})},
		{"it failed", nil, &reset, ask, merged(failureAttrs(), late, attrs{
			"llm.retry.safety": "user_confirmed_retry", "llm.retry.reason": "tool_side_effect", "llm.failure.summary": "The connection was lost. " + twice,
		})},
		{"its own verdict is more careful", nil, &stopped, ask, merged(failureAttrs(), late, attrs{
			"llm.retry.safety": "no_retry", "llm.retry.reason": "not_transient", "llm.failure.summary": "The connection was lost. " + twice,
		})},
		{"the run must not be repeated", nil, &stopped, never, merged(failureAttrs(), late, attrs{
			"llm.retry.safety": "no_retry", "llm.retry.reason": "user_abort", "llm.failure.summary": "The connection was lost. " + arrived + " Do not repeat the run.",
		})},
		{"there is no room for both", nil, &long, ask, merged(failureAttrs(), late, attrs{
			"llm.retry.safety": "user_confirmed_retry", "llm.retry.reason": "tool_side_effect", "llm.failure.summary": twice,
		})},
		{"judged before", attrs{"llm.failure.class": "local_abort"}, nil, ask, attrs{"llm.failure.class": "local_abort"}},
		{"the client's verdict gives way", attrs{"llm.classification.trigger": "client", "llm.failure.class": "local_abort"}, nil, ask, merged(late, attrs{
			"llm.retry.safety": "user_confirmed_retry", "llm.retry.reason": "tool_side_effect", "llm.failure.summary": twice,
		})},
	} {
		t.Run(tt.name, func(t *testing.T) {
			span := ptrace.NewSpan()
			require.NoError(t, span.Attributes().FromRaw(tt.before))
			Corrected(span, tt.d, tt.run, OwnRun, semconv.TriggerLate)
			assert.Equal(t, tt.want, span.Attributes().AsRaw())
		})
	}
}

// The page for translators has each sentence of a correction.
func TestCorrectionsPage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "docs", "reference", "summaries.md"))
	require.NoError(t, err)
	text := strings.ReplaceAll(string(page), "\n", " ")
	assert.Contains(t, text, arrived)
	for _, reason := range semconv.RetryReasonValues() {
		for _, safety := range []semconv.RetrySafety{classify.UserConfirmedRetry, classify.NoRetry} {
			said, ok := strings.CutPrefix(correction(classify.Retry{Safety: safety, Reason: reason}, "Its run"), arrived+" ")
			require.True(t, ok)
			assert.Contains(t, text, "| "+said+" |", reason)
		}
	}
}
