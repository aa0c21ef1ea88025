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
	Provider, Model     string // of a request; "": not recorded
}

// RunNamesOf reads the names of a span's run, whichever dialect reads the span.
func RunNamesOf(span ptrace.Span) (n RunNames) {
	n.Provider, n.Model = ModelOf(span)
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
	return n
}

// ModelOf reads the provider and the model of a request; "": not recorded.
func ModelOf(span ptrace.Span) (provider, model string) {
	found := false // the provider, under the current key
	for key, v := range span.Attributes().All() {
		switch key {
		case string(otelsemconv.GenAIProviderNameKey):
			provider = text(v)
			found = provider != ""
		case string(otelsemconv.GenAIRequestModelKey):
			model = text(v)
		case keyGenAISystem:
			if provider == "" {
				provider = text(v)
			}
		default:
			continue
		}
		if found && model != "" {
			break
		}
	}
	return provider, model
}

// Add adds the names of the agent and the conversation that are not known yet. Others may
// be nil.
func (n *RunNames) Add(others *RunNames) {
	if others != nil {
		n.Agent, n.Conversation = cmp.Or(n.Agent, others.Agent), cmp.Or(n.Conversation, others.Conversation)
	}
}

// Write writes the names that are known onto a span that has none of them.
func (n RunNames) Write(span ptrace.Span) {
	if n.Agent != "" {
		span.Attributes().PutStr(string(otelsemconv.GenAIAgentNameKey), n.Agent)
	}
	if n.Conversation != "" {
		span.Attributes().PutStr(string(otelsemconv.GenAIConversationIDKey), n.Conversation)
	}
	n.WriteModel(span)
}

// WriteModel writes the provider and the model that are known onto a span, unless its
// producer did.
func (n RunNames) WriteModel(span ptrace.Span) {
	attrs := span.Attributes()
	has := func(key string) bool { _, ok := attrs.Get(key); return ok }
	if n.Provider != "" && !has(string(otelsemconv.GenAIProviderNameKey)) && !has(keyGenAISystem) {
		attrs.PutStr(string(otelsemconv.GenAIProviderNameKey), n.Provider)
	}
	if n.Model != "" && !has(string(otelsemconv.GenAIRequestModelKey)) {
		attrs.PutStr(string(otelsemconv.GenAIRequestModelKey), n.Model)
	}
}

// Size estimates the memory of the names in bytes.
func (n *RunNames) Size() int {
	if n == nil {
		return 0
	}
	return int(unsafe.Sizeof(*n)) + len(n.Agent) + len(n.Conversation) + len(n.Provider) + len(n.Model)
}
