package wire

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// The finish reasons that mean more than the end of the output: those that may cut the
// input of a call, and those that are an error.
func TestReasons(t *testing.T) {
	cuts := strings.Fields(`length content_filter error model_length abort insufficient_system_resource
		max_tokens refusal model_context_window_exceeded max_output_tokens
		content_filtered guardrail_intervened malformed_model_output malformed_tool_use
		MISSING_THOUGHT_SIGNATURE MAX_TOKENS MALFORMED_FUNCTION_CALL UNEXPECTED_TOOL_CALL TOO_MANY_TOOL_CALLS OTHER SAFETY
		RECITATION LANGUAGE BLOCKLIST PROHIBITED_CONTENT SPII MALFORMED_RESPONSE safety sensitive network_error NO_IMAGE`)
	fails := strings.Fields(`error insufficient_system_resource MALFORMED_FUNCTION_CALL UNEXPECTED_TOOL_CALL TOO_MANY_TOOL_CALLS
		MALFORMED_RESPONSE MISSING_THOUGHT_SIGNATURE malformed_model_output malformed_tool_use abort network_error NO_IMAGE`)
	whole := strings.Fields(`stop STOP end_turn tool_use tool_calls function_call stop_sequence completed unknown`)
	for _, reason := range slices.Concat(cuts, fails, whole, []string{""}) {
		assert.Equal(t, slices.Contains(cuts, reason), cutsInput([]byte(reason)), reason)
		assert.Equal(t, slices.Contains(fails, reason), isFailure([]byte(reason)), reason)
	}
}

// Before the first event of a body that does not begin with a framing, at most 64 KiB of a
// line are kept.
func TestStrayLineIsBounded(t *testing.T) {
	p := openAIChat{}
	event := func(size int) string {
		const frame = `data: {"x":""}`
		return `data: {"x":"` + strings.Repeat("y", size-len(frame)) + `"}`
	}
	for _, tt := range []struct {
		size   int
		events int
	}{{64<<10 - 1, 1}, {64 << 10, 1}, {64<<10 + 1, 0}, {128 << 10, 0}} {
		body := "<br />\n\n" + event(tt.size) + "\n\n"
		for name, s := range map[string]*State{
			"at once": decode(p, "text/html", body), "in pieces": decode(p, "text/html", body, 5, 1000, 60_000),
		} {
			assert.Equal(t, tt.events, s.Events, "%d bytes, %s", tt.size, name)
		}
		assert.Equal(t, 1, decode(p, sseType, event(tt.size)+"\n\n").Events, "a body of events has no such bound")
	}
}
