package record

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// Metrics have the response's model only if it is a version of the requested one: otherwise the
// provider could create series.
func TestResponseModelOfMetrics(t *testing.T) {
	for _, tt := range []struct {
		asked, answered string
		want            bool
	}{
		{"gpt-5", "gpt-5", true},
		{"gpt-5", "gpt-5-2026-01-01", true},
		{"gpt-4", "gpt-4-0613", true},
		{"claude-sonnet-4-5", "claude-sonnet-4-5-20250929", true},
		{"claude-sonnet-4-5", "claude-sonnet-4-5@20250929", true},
		{"claude-3-5-haiku-latest", "claude-3-5-haiku-20241022", true},
		{"mistral-large-latest", "mistral-large-2411", true},
		{"command-a", "command-a-03-2025", true},
		{"gemini-2.5-flash-preview", "gemini-2.5-flash-preview-09-2025", true},
		{"models/gemini-2.5-flash", "gemini-2.5-flash", true},
		{"openai/gpt-5", "gpt-5-2026-01-01", true},
		{"claude-3-5-haiku", "claude-3-5-haiku-latest", true},
		{"", "gpt-5", false},
		{"gpt-5", "", false},
		{"gpt-5", "gpt-5-mini", false},
		{"gpt-5", "gpt-5-x", false},
		{"gpt-5", "gpt-5-", false},
		{"gpt-5", "gpt-52026", false},
		{"gpt-5", "gpt-5-2026-13-01", false},
		{"gpt-5", "gpt-5-4711-01-01", false},
		{"gpt-5", "gpt-5-0000", false},
		{"gpt-5", "gpt-5-2026-01-01-4711", false},
		{"gpt-5-2026-01-01", "gpt-5", false},
		{"my-deployment", "gpt-5-2026-01-01", false},
		{"-latest", "20260101", false},
		{"team/", "-0613", false},
	} {
		assert.Equal(t, tt.want, sameModel(tt.asked, tt.answered), "asked for %q, answered by %q", tt.asked, tt.answered)
	}
}
