package judge

import (
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/trace"
)

// anyMember reports whether a condition holds for a member that is not foreign.
func anyMember(members []trace.Member, condition func(*trace.Member) bool) bool {
	for i := range members {
		if m := &members[i]; !m.Foreign && condition(m) {
			return true
		}
	}
	return false
}
