package page

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/otelllm/otelllm-go/semconv"
)

// Every value that the page names has words.
func TestWordsAreComplete(t *testing.T) {
	names := func(table string, values ...string) {
		for _, v := range values {
			assert.NotEmpty(t, words[table][v], "%s %s", table, v)
		}
		if table != "cause" {
			assert.Len(t, words[table], len(values), table)
		}
	}
	names("outcome", stringsOf(semconv.RunOutcomeValues())...)
	names("class", stringsOf(semconv.ClassValues())...)
	names("origin", stringsOf(semconv.OriginValues())...)
	names("safety", stringsOf(semconv.RetrySafetyValues())...)
	names("reason", stringsOf(semconv.RetryReasonValues())...)
	names("effect", stringsOf(semconv.ToolEffectValues())...)
	names("tool", stringsOf(semconv.ToolOutcomeValues())...)
	names("end", stringsOf(semconv.StreamEndValues())...)
}

func stringsOf[T interface{ String() string }](values []T) []string {
	list := make([]string, len(values))
	for i, v := range values {
		list[i] = v.String()
	}
	return list
}

func TestCutKeepsRunesWhole(t *testing.T) {
	long := strings.Repeat("a", maxRowText-1) + "🤖"
	assert.Equal(t, long[:maxRowText-1], cut(long))
	assert.Equal(t, "short", cut("short"))
	assert.LessOrEqual(t, len(cut(strings.Repeat("\xff", 1000))), maxRowText)
}

// The policy has no hole that the page does not need.
func TestPolicyIsNarrow(t *testing.T) {
	for name, s := range map[string]shell{"file": fileShell, "live": liveShell} {
		_, policy, _ := strings.Cut(s.before, `http-equiv="Content-Security-Policy" content="`)
		policy, _, _ = strings.Cut(policy, `"`)
		assert.Contains(t, policy, "default-src 'none'", name)
		assert.NotContains(t, policy, "unsafe", name)
		assert.NotContains(t, policy, "http", name)
		assert.Equal(t, name == "live", strings.Contains(policy, "'self'"), name)
		assert.NotContains(t, s.before+s.after, "{{", name)
	}
}
