package demo

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/semconv"
)

// The verdicts come from what happened: other answers under the same expectations are noticed.
func TestOtherVerdictsAreNoticed(t *testing.T) {
	whole := answer{events: []string{begins(), chunk(`{"content":"All is well."}`, ""), ends("stop"), done}}
	for i, s := range scenes() {
		for j := range s.answers {
			changed := scenes()[i]
			changed.answers[j] = whole
			_, err := play(t.Context(), []scene{changed})
			require.ErrorIs(t, err, ErrUnexpected, "%s: answer %d is complete", s.doing, j)
		}
		other := scenes()[i]
		other.want.safety = semconv.RetrySafetyNoRetry
		broken, err := play(t.Context(), []scene{other})
		require.ErrorIs(t, err, ErrUnexpected, s.doing)
		assert.Len(t, broken, 1, "it can be printed nevertheless")
	}
}

// The tool whose input was cut did not run, and the one that paid ran once.
func TestTools(t *testing.T) {
	broken, err := Play(t.Context())
	require.NoError(t, err)
	require.Len(t, broken, 3)
	tools := make([]int, len(broken))
	for i := range broken {
		tools[i] = len(broken[i].Run.Tools)
		require.Len(t, broken[i].Records, 1)
	}
	assert.Equal(t, []int{0, 0, 1}, tools)
	assert.Equal(t, broken[0].Before, broken[2].Before, "one error, and two opposite verdicts")
	assert.Contains(t, broken[2].Run.Verdict.Summary, payTool)
}

// Whatever the environment says for the user's own programs.
func TestEnvironment(t *testing.T) {
	for _, name := range []string{
		"OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "OTEL_SPAN_EVENT_COUNT_LIMIT", "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT",
		"OTEL_BSP_MAX_EXPORT_BATCH_SIZE",
	} {
		t.Setenv(name, "1")
	}
	t.Setenv("OTEL_TRACES_SAMPLER", "always_off")
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	_, err := Play(t.Context())
	require.NoError(t, err)
}
