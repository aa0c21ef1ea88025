package judge

import (
	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/trace"
)

// finder returns a function that finds members by id: the first of several, or -1.
func finder(members []trace.Member) func(pcommon.SpanID) int {
	const few = 32 // up to this number, members are searched one by one
	if len(members) <= few {
		return func(id pcommon.SpanID) int {
			if id.IsEmpty() {
				return -1
			}
			for i := range members {
				if members[i].ID == id {
					return i
				}
			}
			return -1
		}
	}
	byID := make(map[pcommon.SpanID]int, len(members))
	for i := range members {
		if _, ok := byID[members[i].ID]; !ok {
			byID[members[i].ID] = i
		}
	}
	return func(id pcommon.SpanID) int {
		if i, ok := byID[id]; ok {
			return i
		}
		return -1
	}
}

// anyMember reports whether a condition holds for a member that is not foreign.
func anyMember(members []trace.Member, condition func(*trace.Member) bool) bool {
	for i := range members {
		if m := &members[i]; !m.Foreign && condition(m) {
			return true
		}
	}
	return false
}
