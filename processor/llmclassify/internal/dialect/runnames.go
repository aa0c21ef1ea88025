package dialect

import (
	"cmp"
	"unsafe"

	"go.opentelemetry.io/collector/pdata/ptrace"
	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"
)

// RunNames are what people know a run by.
type RunNames struct {
	Agent, Conversation string // "": not recorded
}

// RunNamesOf reads the names of a span's run, whichever dialect reads the span. It returns
// nil if the span has none.
func RunNamesOf(span ptrace.Span) *RunNames {
	var n RunNames
	for key, v := range span.Attributes().All() {
		switch key {
		case string(otelsemconv.GenAIAgentNameKey):
			n.Agent = text(v)
		case string(otelsemconv.GenAIConversationIDKey):
			n.Conversation = text(v)
		case keySessionID:
			if n.Conversation == "" {
				n.Conversation = text(v)
			}
		}
	}
	if n == (RunNames{}) {
		return nil
	}
	return &n
}

// Add adds the names that are not known yet. Others may be nil.
func (n *RunNames) Add(others *RunNames) {
	if others != nil {
		n.Agent, n.Conversation = cmp.Or(n.Agent, others.Agent), cmp.Or(n.Conversation, others.Conversation)
	}
}

// Write writes the names that are known onto a span.
func (n RunNames) Write(span ptrace.Span) {
	if n.Agent != "" {
		span.Attributes().PutStr(string(otelsemconv.GenAIAgentNameKey), n.Agent)
	}
	if n.Conversation != "" {
		span.Attributes().PutStr(string(otelsemconv.GenAIConversationIDKey), n.Conversation)
	}
}

// Size estimates the memory of the names in bytes.
func (n *RunNames) Size() int {
	if n == nil {
		return 0
	}
	return int(unsafe.Sizeof(*n)) + len(n.Agent) + len(n.Conversation)
}
