package recorded

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/otelllm/otelllm-go/semconv"
)

var langGraph = framework{"opentelemetry.instrumentation.langchain", values{}}

func (f framework) agent(id, parent byte, name string, from, to float64) framed {
	return f.span(id, parent, "invoke_agent "+name, from, to, values{"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": name})
}

func (f framework) beneath(parent byte, s framed) framed { s.Parent = parent; return s }

// A graph waits for a person: the tool that asks raises GraphInterrupt, which OpenLLMetry records as an
// error of the tool and OpenInference as an exception beside OK.
func TestLangGraphInterrupt(t *testing.T) {
	root := langGraph.span(1, 0, "LangGraph.workflow", 0, 4, values{"traceloop.span.kind": "workflow", "traceloop.entity.name": "LangGraph"})
	chat := langGraph.call(2, .1, 1, finished("tool_calls"))
	tool := langGraph.span(3, 1, "execute_tool ask", 1.1, 2, values{
		"gen_ai.operation.name": "execute_tool", "traceloop.span.kind": "tool", "gen_ai.tool.name": "ask", "error.type": "GraphInterrupt",
	}).raising("langgraph.errors.GraphInterrupt", secret)
	got := whatIsSaid(t, root, chat, tool)
	assert.Equal(t, semconv.RunOutcomeWaiting, got[1].outcome, "%v", got)
	assert.Equal(t, semconv.ClassUnset, got[3].class)

	agent := langGraph.agent(1, 0, "agent", 0, 4).raising("langgraph.errors.NodeInterrupt", secret)
	got = whatIsSaid(t, agent, chat)
	assert.Equal(t, semconv.RunOutcomeWaiting, got[1].outcome, "%v", got)

	f := openInferenceFor("langchain")
	asked := f.span(3, 1, "ask", 1.1, 2, values{"openinference.span.kind": "TOOL", "tool.name": "ask"}).raising("langgraph.errors.GraphInterrupt", secret).ok()
	got = whatIsSaid(t, f.oiAgent(4).ok(), f.oiLLM(values{"llm.finish_reason": "tool_calls"}).ok(), asked)
	assert.Equal(t, said{outcome: semconv.RunOutcomeWaiting}, got[1], "%v", got)
}

// An agent hands over: it raises ParentCommand to the graph around it, which OpenLLMetry records as
// an error. The next agent answers. A graph that does not handle it fails with it, and the application:
// nothing is said of a run whose last event it is.
func TestLangGraphHandover(t *testing.T) {
	tool := langGraph.span(4, 2, "execute_tool transfer_to_writer", 1.1, 1.2, values{
		"gen_ai.operation.name": "execute_tool", "traceloop.span.kind": "tool", "gen_ai.tool.name": "transfer_to_writer",
	})
	researcher := langGraph.agent(2, 1, "researcher", .1, 1.3).raising("langgraph.errors.ParentCommand", secret)
	for name, handover := range map[string]framed{"": tool, "the tool raises it, too": tool.raising("langgraph.errors.ParentCommand", secret)} {
		got := whatIsSaid(t, langGraph.agent(1, 0, "supervisor", 0, 4),
			researcher, langGraph.beneath(2, langGraph.call(3, .2, 1, finished("tool_calls"))), handover,
			langGraph.agent(5, 1, "writer", 1.4, 3), langGraph.beneath(5, langGraph.call(6, 1.5, 2.9, finished("stop"))))
		for id := range byte(7) {
			assert.Equal(t, semconv.ClassUnset, got[id].class, "%s: %d of %v", name, id, got)
		}
		assert.Equal(t, semconv.RunOutcomeUnset, got[2].outcome, name)
		assert.Equal(t, semconv.RunOutcomeSucceeded, got[5].outcome, name)
	}
}

// ParentCommand that no graph handles leaves the outermost graph and reaches the application: nothing was
// handed over (langchain-ai/langgraph issues 6409 and 4832).
func TestLangGraphHandoverThatFails(t *testing.T) {
	const raised = "langgraph.errors.ParentCommand"
	root := langGraph.span(1, 0, "LangGraph.workflow", 0, 4, values{"traceloop.span.kind": "workflow", "traceloop.entity.name": "LangGraph"})
	for name, spans := range map[string][]framed{
		"an agent":   {langGraph.agent(1, 0, "agent", 0, 4).raising(raised, secret), langGraph.call(3, .2, 1, finished("tool_calls"))},
		"a workflow": {root.raising(raised, secret), langGraph.call(3, .2, 1, finished("tool_calls"))},
		"an agent in a workflow": {
			root.raising(raised, secret), langGraph.agent(2, 1, "researcher", .1, 1.3).raising(raised, secret),
			langGraph.beneath(2, langGraph.call(3, .2, 1, finished("tool_calls"))),
		},
	} {
		got := whatIsSaid(t, spans...)
		assert.NotEqual(t, semconv.RunOutcomeSucceeded, got[1].outcome, "%s: %v", name, got)
	}
}
