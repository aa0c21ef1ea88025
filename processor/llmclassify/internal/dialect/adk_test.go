package dialect

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
)

const adkScope = "gcp.vertex.agent"

// adkCall is a call_llm of google-adk: it has the attributes of the last part of an answer
// that it got, and none if it got none.
func adkCall(status ptrace.StatusCode, more map[string]any, events ...event) shape {
	attrs := map[string]any{}
	if more != nil {
		attrs = map[string]any{
			"gen_ai.system": "gcp.vertex.agent", "gen_ai.request.model": "gemini-test", "gcp.vertex.agent.invocation_id": "e-1",
			"gcp.vertex.agent.session_id": "s-1", "gcp.vertex.agent.event_id": "ev-1", "gcp.vertex.agent.llm_request": canary, "gcp.vertex.agent.llm_response": canary,
		}
		maps.Copy(attrs, more)
	}
	return shape{scope: adkScope, name: "call_llm", kind: ptrace.SpanKindInternal, status: status, attrs: attrs, events: events}
}

func TestADKRequest(t *testing.T) {
	type m = map[string]any
	const finish = "gen_ai.response.finish_reasons"
	said := func(kind semconv.ProviderErrorKind, class string) classify.Request {
		r := said(kind, class)
		r.Basis = classify.Corroborated
		return r
	}
	checkRequests(t, ADK{}, []requestCase{
		{"an answer", adkCall(statusUnset, m{finish: []any{"stop"}, "gen_ai.usage.input_tokens": 12, "gen_ai.usage.output_tokens": 6}), []truth{success}, well, answered(classify.FinishStop)},
		{
			"a limit", adkCall(statusUnset, m{finish: []any{"max_tokens"}, "gen_ai.usage.output_tokens": 6}),
			[]truth{limited},
			verdict{semconv.ClassOutputLimited, semconv.CauseMaxOutputTokens, medium, never},
			answered(classify.FinishMaxTokens),
		},
		{
			"HTTP 429", adkCall(statusError, nil, event{class: "google.genai.errors.ClientError", message: "429 RESOURCE_EXHAUSTED. " + canary}),
			[]truth{passing},
			ofProvider(semconv.CauseRateLimited, confirm), said(semconv.ProviderErrorKindRateLimited, "google.genai.errors.ClientError"),
		},
		{
			"503, by a status or in the stream", adkCall(statusError, m{}, event{class: "google.genai.errors.ServerError", message: "503 UNAVAILABLE. " + canary}),
			[]truth{passing, inBand},
			ofProvider(semconv.CauseOverloaded, confirm), said(semconv.ProviderErrorKindOverloaded, "google.genai.errors.ServerError"),
		},
		{
			"a message that begins with a number, of another class", adkCall(statusError, nil, event{class: "ValueError", message: "429 RESOURCE_EXHAUSTED. x"}),
			[]truth{refusal, passing},
			unclassified, failedWith(classify.Request{}),
		},
		{
			"cut", adkCall(statusError, m{}, event{class: "httpx.RemoteProtocolError", message: canary}),
			[]truth{cut},
			interrupted(semconv.CauseBodyTruncated, medium), transport(semconv.TransportCauseBodyTruncated, "httpx.RemoteProtocolError"),
		},
		{"ended without a finish reason, or no longer read", adkCall(statusUnset, m{}), []truth{cut, stopped}, unknown, classify.Request{}},
		{"cancelled before an answer", adkCall(statusUnset, nil), []truth{stopped}, unknown, classify.Request{}},
	})
}

func TestADKOthers(t *testing.T) {
	tool := func(status ptrace.StatusCode, id, errorType string, events ...event) *classify.Tool {
		attrs := map[string]any{
			"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "write", "gen_ai.tool.type": "FunctionTool", "gen_ai.tool.call.id": id,
			"gcp.vertex.agent.tool_call_args": canary, "gcp.vertex.agent.tool_response": canary,
		}
		if errorType != "" {
			attrs["error.type"] = errorType
		}
		_, d, facts := shape{scope: adkScope, name: "execute_tool write", status: status, attrs: attrs, events: events}.read(t)
		assert.Equal(t, ADK{}, d)
		return facts.Tool
	}
	assert.Equal(t, &classify.Tool{Start: start, End: end, Name: "write", CallID: "adk-1"}, tool(statusUnset, "adk-1", ""))
	assert.Equal(t, &classify.Tool{Start: start, End: end, Name: "write"}, tool(statusUnset, "<not specified>", ""), "no id")
	assert.Equal(t, &classify.Tool{Start: start, End: end, Name: "write", Outcome: semconv.ToolOutcomeFailed, ErrorType: "ValueError"},
		tool(statusError, "<not specified>", "", event{class: "ValueError", message: canary}))
	assert.Equal(t, semconv.ToolOutcomeFailed, tool(statusUnset, "adk-1", "MCP_TOOL_ERROR").Outcome, "reported without being raised")

	for name, tt := range map[string]struct {
		span shape
		kind Kind
	}{
		"the group of runs":      {shape{name: "invocation"}, Other},
		"a run":                  {shape{name: "invoke_agent root", attrs: map[string]any{"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "root"}}, Run},
		"a run, earlier":         {shape{name: "agent_run [root]"}, Run},
		"the group, later":       {shape{name: "invoke_workflow root", attrs: map[string]any{"gen_ai.operation.name": "invoke_workflow"}}, Run},
		"a model call within":    {shape{name: "generate_content gemini-test", attrs: map[string]any{"gen_ai.operation.name": "generate_content"}}, Request},
		"tools that were merged": {shape{name: "execute_tool (merged)", attrs: map[string]any{"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "(merged tools)"}}, Other},
		"live data":              {shape{name: "send_data", attrs: map[string]any{"gcp.vertex.agent.data": canary}}, Other},
		"of another scope":       {shape{scope: "my-agent", name: "call_llm"}, Other},
	} {
		if tt.span.scope == "" {
			tt.span.scope = adkScope
		}
		head, _, _ := tt.span.read(t)
		assert.Equal(t, tt.kind, head.Kind, name)
	}
	_, _, facts := shape{scope: adkScope, name: "agent_run [root]", status: statusError, events: []event{{class: "ValueError"}}}.read(t)
	assert.Equal(t, &classify.Run{Start: start, End: end, Ended: classify.Yes, Failed: classify.Yes, ErrorType: "ValueError", Error: facts.Run.Error}, facts.Run)
}
