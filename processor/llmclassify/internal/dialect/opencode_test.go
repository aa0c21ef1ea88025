package dialect

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
)

// The loop is the run; the SDK's operations are steps of it.
func TestOpencode(t *testing.T) {
	loop := func(status ptrace.StatusCode) shape {
		return shape{scope: "opencode", name: "SessionPrompt.loop", kind: ptrace.SpanKindInternal, status: status}
	}
	in := func(s shape) shape { s.scope = "opencode"; return s }
	head, d, facts := loop(ptrace.StatusCodeOk).read(t)
	assert.Equal(t, Head{Kind: Run}, head)
	assert.Equal(t, Opencode{}, d)
	assert.Equal(t, &classify.Run{Start: start, End: end, Ended: classify.Yes}, facts.Run, "it is OK whatever happened")
	_, _, facts = loop(statusError).read(t)
	assert.Equal(t, classify.Yes, facts.Run.Failed)

	interrupted := loop(ptrace.StatusCodeOk)
	interrupted.attrs = map[string]any{"status.interrupted": true, "span.label": "interrupted"}
	_, _, facts = interrupted.read(t)
	assert.Equal(t, semconv.AbortSourceUnknown, facts.Run.Abort.Source)

	for _, other := range []shape{
		in(vercel6("ai.streamText", statusUnset, vercelFinish("stop"))),
		in(vercel6("ai.toolCall", statusUnset, map[string]any{"ai.toolCall.name": "bash", "ai.toolCall.id": "call_1"})),
		{scope: "opencode", name: "SessionPrompt.prompt"},
		{scope: "agent", name: "SessionPrompt.loop"},
	} {
		head, d, _ := other.read(t)
		assert.Equal(t, Other, head.Kind, other.name)
		assert.Nil(t, d)
	}
	head, d, _ = in(vercel6("ai.streamText.doStream", statusUnset, map[string]any{"session.id": "ses_1"})).read(t)
	assert.Equal(t, Head{Kind: Request, Session: keyOf("ses_1")}, head)
	assert.Equal(t, Vercel{}, d)
}

// Tool.execute is one execution of a call of the AI SDK.
func TestOpencodeTool(t *testing.T) {
	tool := func(status ptrace.StatusCode, more map[string]any) shape {
		attrs := map[string]any{"tool.name": "bash", "tool.call_id": "call_1", "session.id": "ses_1", "message.id": "msg_1"}
		maps.Copy(attrs, more)
		return shape{scope: "opencode", name: "Tool.execute", kind: ptrace.SpanKindInternal, status: status, attrs: attrs}
	}
	want := classify.Tool{Start: start, End: end, CallID: "call_1", Name: "bash", Outcome: semconv.ToolOutcomeSucceeded}
	head, d, facts := tool(statusOK, nil).read(t)
	assert.Equal(t, Head{Kind: Tool, Session: keyOf("ses_1")}, head)
	assert.Equal(t, Opencode{}, d)
	assert.Equal(t, &want, facts.Tool)
	want.Outcome = semconv.ToolOutcomeFailed
	_, _, facts = tool(statusError, nil).read(t)
	assert.Equal(t, &want, facts.Tool)
	want.Outcome, want.Abort.Source = semconv.ToolOutcomeInterrupted, semconv.AbortSourceUnknown
	_, _, facts = tool(statusOK, map[string]any{"status.interrupted": true}).read(t)
	assert.Equal(t, &want, facts.Tool, "interrupted work is OK, too")
}

// A span names its conversation and its response in the words of any producer.
func TestKeys(t *testing.T) {
	chat := func(attrs map[string]any) Head {
		attrs["gen_ai.operation.name"] = "chat"
		head, _, _ := shape{scope: "agent", name: "chat", attrs: attrs}.read(t)
		return head
	}
	conversation := chat(map[string]any{"gen_ai.conversation.id": "c", "session.id": "s", "gen_ai.response.id": "r"})
	assert.Equal(t, Head{Kind: Request, Session: keyOf("c"), Response: keyOf("r")}, conversation)
	assert.Equal(t, keyOf("s"), chat(map[string]any{"session.id": "s"}).Session)
	assert.Equal(t, Head{Kind: Request}, chat(map[string]any{"session.id": 1, "gen_ai.response.id": ""}))
	assert.NotEqual(t, keyOf("c"), keyOf("s"))
}
