package dialect

import (
	"strings"

	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/otelllm/classify"
)

// OpenAIAgents reads the spans of OpenAI's agents SDK through OpenInference (scopes
// @arizeai/openinference-instrumentation-openai-agents and
// openinference.instrumentation.openai_agents): LLM spans generation and response,
// TOOL with tool.name and no id, AGENT; CHAIN turn only groups spans. A TOOL without a
// name is a handoff, as the span's own name shows, and is not a tool. Neither is the
// root a run, an AGENT without graph.node.id for the whole trace: it is OK however the
// agents beneath it ended, which are the runs.
//
// An exception event has a message and no type, so that few errors can be identified.
// The OK of an AGENT is not success: an agent goes on with what a broken stream brought.
// No finish reason is recorded. The usage of a response comes with its last event, so
// that OK with a count of tokens is success, and OK without one is not known. Whether a
// request streamed, phases and histories are not recorded.
type OpenAIAgents struct{}

var _ Dialect = OpenAIAgents{}

// Name implements [Dialect].
func (OpenAIAgents) Name() string { return "openai_agents" }

func (OpenAIAgents) claims() claims { return claims{scopes: scopesOf(scopeOpenAIAgents)} }

// Recognise implements [Dialect]. Only the scope identifies its spans.
func (OpenAIAgents) Recognise(s *AttributeScan) Head {
	return s.head(openInferenceKind(s))
}

// Read implements [Dialect].
func (OpenAIAgents) Read(span ptrace.Span, into Facts) {
	switch {
	case into.Request != nil:
		openAIAgentsRequest(span, into.Request)
	case into.Tool != nil:
		openInferenceTool(span, into.Tool)
		into.Tool.Handoff = openAIAgentsHandoff(span, into.Tool)
	case into.Run != nil:
		readRunWithoutOK(span, into.Run)
	}
}

// The name of a span or a tool that hands over to another agent: the SDK's type of span,
// with the agent if it is known, and the name that the SDK gives the tool by which the
// model asks for it.
const (
	nameHandoff       = "handoff"
	nameHandoffTo     = "handoff to "
	toolHandoffPrefix = "transfer_to_"
)

func openAIAgentsHandoff(span ptrace.Span, t *classify.Tool) bool {
	if t.Name != "" {
		return strings.HasPrefix(t.Name, toolHandoffPrefix)
	}
	return span.Name() == nameHandoff || strings.HasPrefix(span.Name(), nameHandoffTo)
}

func openAIAgentsRequest(span ptrace.Span, r *classify.Request) {
	var e ending
	e.begin(span, r)
	usage := false
	for key, v := range span.Attributes().All() {
		switch key {
		case keyOITokens, keyOITokensOfAnswer:
			usage = usage || count(v).N() > 0
		default:
			if openInferenceCall(key) {
				addID(&r.CallIDs, v)
				continue
			}
			e.read(key, v, r)
		}
	}
	e.end(span, r)
	if r.Failed == classify.No && !usage {
		r.Failed = classify.NotObserved
	}
	e.conclude(r)
}
