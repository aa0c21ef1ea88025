package dialect

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
)

const (
	oiOpenAI   = "@arizeai/openinference-instrumentation-openai"
	oiMessages = "@arizeai/openinference-instrumentation-anthropic"
	oiAgents   = "@arizeai/openinference-instrumentation-openai-agents"
	oiGo       = "github.com/Arize-ai/openinference/go/openinference-instrumentation-openai-go"
)

// arize is a span of an OpenInference instrumentation.
func arize(scope, kind string, status ptrace.StatusCode, more map[string]any, events ...event) shape {
	attrs := map[string]any{
		"openinference.span.kind": kind, "llm.model_name": "gpt-test", "llm.system": "openai", "input.value": canary,
		"llm.input_messages.0.message.role": "user", "llm.input_messages.0.message.content": canary,
	}
	maps.Copy(attrs, more)
	return shape{scope: scope, name: "OpenAI Chat Completions", kind: ptrace.SpanKindInternal, status: status, attrs: attrs, events: events}
}

func TestOpenInferenceRequest(t *testing.T) {
	type m = map[string]any
	const streams, whole = `{"model":"gpt-test","stream":true}`, `{"model":"gpt-test","temperature":0}`
	calls := answered(classify.FinishToolCalls)
	calls.Failed, calls.CallIDs = classify.NotObserved, []string{"call_1", "call_2"}
	checkRequests(t, OpenInference{}, []requestCase{
		{
			"streamed, finished", arize(oiOpenAI, "LLM", statusOK, m{"llm.finish_reason": "stop", "llm.invocation_parameters": streams}),
			[]truth{success},
			well, answered(classify.FinishStop),
		},
		{
			"calls", arize(oiOpenAI, "LLM", statusOK, m{
				"llm.finish_reason": "tool_calls", "llm.invocation_parameters": streams,
				"llm.output_messages.0.message.tool_calls.0.tool_call.id":                 "call_1",
				"llm.output_messages.0.message.tool_calls.1.tool_call.id":                 "call_2",
				"llm.output_messages.0.message.tool_calls.1.tool_call.function.arguments": canary,
				"llm.input_messages.1.message.tool_calls.0.tool_call.id":                  "call_0",
			}),
			[]truth{success},
			well, calls,
		},
		{
			"length", arize(oiOpenAI, "LLM", statusOK, m{"llm.finish_reason": "length"}),
			[]truth{limited},
			verdict{semconv.ClassOutputLimited, semconv.CauseMaxOutputTokens, medium, never},
			answered(classify.FinishMaxTokens),
		},
		{
			"a whole answer of a producer without finish reasons", arize("openinference.instrumentation.langchain", "LLM", statusOK, m{"llm.invocation_parameters": whole}),
			[]truth{success},
			well,
			classify.Request{Failed: classify.No},
		},
		{
			"OK without a finish reason: ended, aborted or an old version", arize(oiMessages, "LLM", statusOK, m{"llm.invocation_parameters": streams}),
			[]truth{cut, stopped, success},
			unknown,
			classify.Request{},
		},
		{
			"OK, streaming unknown", arize(oiMessages, "LLM", statusOK, nil), []truth{cut, stopped, success}, unknown, classify.Request{},
		},
		{
			"OK after a first token", arize("openinference.instrumentation.openai", "LLM", statusOK, m{"llm.invocation_parameters": whole}, event{name: "First Token Stream Event"}),
			[]truth{cut, success},
			unknown,
			classify.Request{},
		},
		{
			"the stream just ended, or was aborted", arize(oiOpenAI, "LLM", statusUnset, m{"llm.invocation_parameters": streams}, event{name: "First Token Stream Event"}),
			[]truth{cut, stopped},
			unknown,
			classify.Request{},
		},
		{
			"Responses: ended, aborted and timed out alike", arize(oiOpenAI, "LLM", statusError, m{"llm.invocation_parameters": streams}),
			[]truth{cut, stopped, timer},
			unclassified, failedWith(classify.Request{}),
		},
		{
			"the provider's class", arize(oiMessages, "LLM", statusError, nil, event{class: "OverloadedError", message: canary}),
			[]truth{passing, inBand},
			ofProvider(semconv.CauseOverloaded, confirm), said(semconv.ProviderErrorKindOverloaded, "OverloadedError"),
		},
		{
			"the body broke", arize(oiMessages, "LLM", statusError, m{"llm.invocation_parameters": streams}, event{class: "TypeError", message: "terminated"}),
			[]truth{cut},
			interrupted(semconv.CauseUnknown, medium),
			failedWith(classify.Request{Ended: semconv.StreamEndReadError, Basis: classify.Corroborated}),
		},
		{
			"a connection error of any stage", arize(oiOpenAI, "LLM", statusError, nil, event{class: "APIConnectionError", message: "Connection error."}),
			[]truth{unsent, badHost, early},
			unclassified, failedWith(classify.Request{}),
		},
		{
			"Go: refused, by its status text", func() shape {
				s := arize(oiGo, "LLM", statusError, m{"llm.invocation_parameters": whole})
				s.message = "Too Many Requests"
				return s
			}(),
			[]truth{passing},
			verdict{semconv.ClassProviderError, semconv.CauseRateLimited, low, confirm},
			func() classify.Request {
				r := refusedBy(429, semconv.ProviderErrorKindRateLimited, "")
				r.Basis = classify.Inferred
				return r
			}(),
		},
	})
}

func TestOpenInferenceOthers(t *testing.T) {
	for kind, want := range map[string]Kind{
		"LLM": Request, "TOOL": Tool, "AGENT": Run, "CHAIN": Other, "RETRIEVER": Other, "EMBEDDING": Other, "GUARDRAIL": Other, "": Other,
	} {
		head, _, _ := arize("", kind, statusOK, nil).read(t)
		assert.Equal(t, want, head.Kind, kind)
	}
	_, _, facts := arize(oiOpenAI, "TOOL", statusOK, map[string]any{"tool.id": "call_1", "tool.name": "write"}).read(t)
	assert.Equal(t, &classify.Tool{Start: start, End: end, CallID: "call_1", Name: "write", Outcome: semconv.ToolOutcomeSucceeded}, facts.Tool)
	_, _, facts = arize(oiOpenAI, "TOOL", statusUnset, map[string]any{"tool_call.id": "call_1", "tool.name": "write"}).read(t)
	assert.Equal(t, &classify.Tool{Start: start, End: end, CallID: "call_1", Name: "write"}, facts.Tool)
	_, _, facts = arize(oiOpenAI, "AGENT", statusOK, nil).read(t)
	assert.Equal(t, &classify.Run{Start: start, End: end, Ended: classify.Yes, Failed: classify.No}, facts.Run)
}

func TestOpenAIAgents(t *testing.T) {
	type m = map[string]any
	ok := classify.Request{Failed: classify.No}
	called := ok
	called.CallIDs = []string{"call_1"}
	checkRequests(t, OpenAIAgents{}, []requestCase{
		{"response", arize(oiAgents, "LLM", statusOK, m{"llm.token_count.total": 12}), []truth{success}, well, ok},
		{
			"generation with a call",
			arize("openinference.instrumentation.openai_agents", "LLM", statusOK, m{
				"llm.token_count.completion": 3, "llm.output_messages.0.message.tool_calls.0.tool_call.id": "call_1",
			}),
			[]truth{success},
			well, called,
		},
		{"OK without usage", arize(oiAgents, "LLM", statusOK, nil), []truth{cut, success}, unknown, classify.Request{}},
		{
			"the stream broke", arize(oiAgents, "LLM", statusError, nil, event{message: `Error streaming response: {"error":"TypeError: terminated"}`}),
			[]truth{cut},
			verdict{semconv.ClassStreamInterrupted, semconv.CauseUnknown, low, confirm},
			failedWith(classify.Request{Ended: semconv.StreamEndReadError}),
		},
		{
			"another error", arize(oiAgents, "LLM", statusError, nil, event{message: `Error streaming response: {"error":"` + canary + `"}`}),
			[]truth{cut, passing, refusal, inBand},
			unclassified, failedWith(classify.Request{}),
		},
	})
	agent := map[string]any{"graph.node.id": "coder"}
	_, d, facts := arize(oiAgents, "AGENT", statusOK, agent).read(t)
	assert.Equal(t, OpenAIAgents{}, d)
	assert.Equal(t, &classify.Run{Start: start, End: end, Ended: classify.Yes}, facts.Run, "an agent goes on after a broken stream")
	_, _, facts = arize(oiAgents, "AGENT", statusError, agent, event{message: canary}).read(t)
	assert.Equal(t, &classify.Run{Start: start, End: end, Ended: classify.Yes, Failed: classify.Yes}, facts.Run)
	head, d, _ := arize(oiAgents, "AGENT", statusOK, nil).read(t)
	assert.Equal(t, Head{}, head, "the root is OK, whatever happened")
	assert.Nil(t, d)
	_, _, facts = arize(oiAgents, "TOOL", statusOK, map[string]any{"tool.name": "write", "output.value": canary}).read(t)
	assert.Equal(t, &classify.Tool{Start: start, End: end, Name: "write", Outcome: semconv.ToolOutcomeSucceeded}, facts.Tool)
	for name, tt := range map[string]struct {
		span, tool string
		want       bool
	}{
		"to an agent":               {"handoff to billing", "", true},
		"to an agent not known":     {"handoff", "", true},
		"asked for as a tool":       {"transfer_to_billing", "transfer_to_billing", true},
		"a tool":                    {"write", "write", false},
		"a tool that is called so":  {"handoff to", "handoff_notes", false},
		"a span without any name":   {"", "", false},
		"a function without a name": {"handoffs", "", false},
	} {
		attrs := map[string]any{}
		if tt.tool != "" {
			attrs["tool.name"] = tt.tool
		}
		s := arize(oiAgents, "TOOL", statusError, attrs)
		s.name = tt.span
		_, _, facts = s.read(t)
		assert.Equal(t, &classify.Tool{Start: start, End: end, Name: tt.tool, Handoff: tt.want, Outcome: semconv.ToolOutcomeFailed}, facts.Tool, name)
		s.scope = oiOpenAI
		_, _, facts = s.read(t)
		assert.False(t, facts.Tool.Handoff, "%s, of a producer that has none", name)
	}
	head, _, _ = arize(oiAgents, "CHAIN", statusOK, nil).read(t)
	assert.Equal(t, Other, head.Kind, "a turn is glue")
}
