package dialect

import (
	"maps"
	"strings"
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
			"a whole answer of a producer without finish reasons", arize("openinference.instrumentation.langchain", "LLM", statusOK, m{"llm.invocation_parameters": whole, "llm.token_count.completion": 6}),
			[]truth{success},
			well,
			classify.Request{Failed: classify.No},
		},
		{
			"no tokens, and not known to have streamed", arize("openinference.instrumentation.cohere", "LLM", statusOK, m{"llm.invocation_parameters": whole}),
			[]truth{cut, stopped, success},
			unknown,
			classify.Request{},
		},
		{
			"tokens of a provider that counts them at the beginning", arize(oiMessages, "LLM", statusOK, m{"llm.provider": "anthropic", "llm.token_count.completion": 1}),
			[]truth{cut, stopped, success},
			unknown,
			classify.Request{},
		},
		{
			"OK was set before the stream broke", arize("openinference.instrumentation.agno", "LLM", statusOK, m{"llm.token_count.completion": 6}, event{class: "httpx.ReadError", message: "CANARY"}),
			[]truth{cut},
			unknown,
			classify.Request{},
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
			"finished with nothing, with recorded content", arize(oiOpenAI, "LLM", statusUnset, m{
				"llm.finish_reason": "stop", "llm.output_messages.0.message.role": "assistant", "llm.output_messages.0.message.content": "",
			}),
			[]truth{vacant},
			empty(medium), emptied(classify.FinishStop, classify.Corroborated),
		},
		{
			"finished without a token", arize(oiMessages, "LLM", statusOK, m{"llm.finish_reason": "end_turn", "llm.token_count.prompt": 42, "llm.token_count.completion": 0}),
			[]truth{vacant},
			empty(medium), emptied(classify.FinishStop, classify.Corroborated),
		},
		{
			"finished with a part that is no text", arize(oiOpenAI, "LLM", statusUnset, m{
				"llm.finish_reason": "stop", "llm.output_messages.0.message.content": "", "llm.output_messages.0.message.contents.0.message_content.type": "image",
			}),
			[]truth{success},
			well, answered(classify.FinishStop),
		},
		{
			"nothing came, and no finish reason: it may have been aborted", arize(oiOpenAI, "LLM", statusUnset, m{
				"llm.output_messages.0.message.role": "assistant", "llm.output_messages.0.message.content": "",
			}),
			[]truth{vacant, stopped, cut},
			unknown,
			classify.Request{},
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
	assert.Equal(t, &classify.Run{Start: start, End: end, Ended: classify.Yes, OKUnproven: true}, facts.Run)
}

// The SDK marks an agent that it stopped with a fixed message and the limit, and with no type.
func TestOpenAIAgentsThatStopped(t *testing.T) {
	for message, want := range map[string]string{
		`Max turns exceeded: {"max_turns":2}`:                       "MaxTurnsExceeded",
		`Max turns exceeded`:                                        "MaxTurnsExceeded",
		`Guardrail tripwire triggered: {"guardrail":"no homework"}`: "InputGuardrailTripwireTriggered",
		`Error in agent run: {"error":"boom"}`:                      "",
	} {
		span := arize(oiAgents, "AGENT", statusError, map[string]any{"graph.node.id": "agent"})
		span.message = message
		_, _, facts := span.read(t)
		assert.Equal(t, classify.Yes, facts.Run.Failed, message)
		assert.Equal(t, want, facts.Run.ErrorType, message)
	}
}

func TestOpenAIAgents(t *testing.T) {
	type m = map[string]any
	ok := classify.Request{Failed: classify.No}
	called := ok
	called.CallIDs = []string{"call_1"}
	tokens := func(prompt, completion int, more m) m {
		a := m{"llm.token_count.prompt": prompt, "llm.token_count.completion": completion, "llm.token_count.total": prompt + completion}
		maps.Copy(a, more)
		return a
	}
	made := classify.Request{Finish: classify.FinishMissing} // of an end that never came
	with := func(failed classify.Fact, r classify.Request) classify.Request { r.Failed = failed; return r }
	asError := func(f classify.Finish) classify.Request {
		r := failedWith(answered(f))
		r.Basis = classify.Corroborated
		return r
	}
	limit := func(c semconv.Cause) verdict { return verdict{semconv.ClassOutputLimited, c, medium, never} }
	nothing := verdict{semconv.ClassEmptyCompletion, semconv.CauseNoContent, medium, confirm}
	none := with(classify.No, emptied(classify.FinishNotObserved, classify.Corroborated))
	const (
		incomplete = `{"id":"resp_1","incomplete_details":{"reason":"max_output_tokens"},"model":"gpt-test"}`
		whole      = `{"id":"resp_1","model":"gpt-test","metadata":{"about":"incomplete_details"}}`
		state      = `OpenAI Responses request ended with unsuccessful terminal state "`
	)
	choices := func(of string) m { return m{"output.value": `[{"id":"chatcmpl-1","choices":[` + of + `]}]`} }
	checkRequests(t, OpenAIAgents{}, []requestCase{
		// As versions from 0.2.8 on record them.
		{"a finish reason", arize(oiAgents, "LLM", statusOK, tokens(42, 6, m{"llm.finish_reason": "stop"})), []truth{success}, well, with(classify.No, answered(classify.FinishStop))},
		{
			"a finish reason, and calls",
			arize(oiAgents, "LLM", statusOK, tokens(42, 6, m{"llm.finish_reason": "tool_calls", "llm.output_messages.0.message.tool_calls.0.tool_call.id": "call_1"})),
			[]truth{success},
			well, func() classify.Request {
				r := with(classify.No, answered(classify.FinishToolCalls))
				r.CallIDs = []string{"call_1"}
				return r
			}(),
		},
		{
			"Chat Completions: length", arize(oiAgents, "LLM", statusOK, tokens(42, 6, m{"llm.finish_reason": "length"})),
			[]truth{limited},
			limit(semconv.CauseMaxOutputTokens), with(classify.No, answered(classify.FinishMaxTokens)),
		},
		{
			"Chat Completions: a filter", arize(oiAgents, "LLM", statusOK, tokens(42, 6, m{"llm.finish_reason": "content_filter"})),
			[]truth{limited},
			limit(semconv.CauseContentFilter), with(classify.No, answered(classify.FinishContentFilter)),
		},
		{
			"Responses: length is an error of the SDK's", arize(oiAgents, "LLM", statusError, tokens(42, 6, m{"llm.finish_reason": "length"}), event{message: state + `response.incomplete".`}),
			[]truth{limited},
			limit(semconv.CauseMaxOutputTokens), asError(classify.FinishMaxTokens),
		},
		{
			"Responses: incomplete, and no reason", arize(oiAgents, "LLM", statusOK, tokens(42, 6, m{"llm.finish_reason": "incomplete"})),
			[]truth{limited},
			limit(semconv.CauseUnknown), with(classify.No, answered(classify.FinishLimited)),
		},
		{
			"Responses: failed, and then OK", arize(oiAgents, "LLM", statusOK, tokens(42, 6, m{"llm.finish_reason": "error"})),
			[]truth{inBand},
			unknown, made,
		},
		{
			"Responses: cancelled", arize(oiAgents, "LLM", statusOK, tokens(42, 6, m{"llm.finish_reason": "cancelled"})),
			[]truth{inBand, stopped},
			unknown, made,
		},
		{
			"a finish reason that the SDK made up: no usage came", arize(oiAgents, "LLM", statusOK, tokens(0, 0, m{"llm.finish_reason": "stop", "llm.output_messages.0.message.content": canary})),
			[]truth{cut, stopped},
			unknown, made,
		},
		{
			"a call that the SDK made up of half an input",
			arize(oiAgents, "LLM", statusOK, tokens(0, 0, m{"llm.finish_reason": "tool_calls", "llm.output_messages.0.message.tool_calls.0.tool_call.id": "call_1"})),
			[]truth{cut},
			unknown, made,
		},
		{
			"no output", arize(oiAgents, "LLM", statusOK, tokens(12, 0, nil)),
			[]truth{vacant},
			nothing, none,
		},
		{
			"no output, with recorded content", arize(oiAgents, "LLM", statusOK, tokens(12, 1, choices(""))),
			[]truth{vacant},
			nothing, none,
		},
		{
			"no output, Responses", arize(oiAgents, "LLM", statusOK, tokens(12, 1, m{"llm.finish_reason": "stop", "output.value": `{"status":"completed","output":[]}`})),
			[]truth{vacant},
			nothing, with(classify.No, emptied(classify.FinishStop, classify.Corroborated)),
		},
		{
			"output of another kind than messages", arize(oiAgents, "LLM", statusOK, tokens(12, 9, m{"llm.finish_reason": "stop", "output.value": `{"status":"completed","output":[{"type":"web_search_call"}]}`})),
			[]truth{success},
			well, with(classify.No, answered(classify.FinishStop)),
		},
		{
			"hidden output", arize(oiAgents, "LLM", statusOK, tokens(12, 1, m{"llm.finish_reason": "stop", "output.value": "__REDACTED__"})),
			[]truth{success},
			well, with(classify.No, answered(classify.FinishStop)),
		},
		// As earlier ones do, and those for Python.
		{
			"Responses: length, in what is recorded of the response", arize(oiAgents, "LLM", statusOK, tokens(42, 6, m{"llm.invocation_parameters": incomplete})),
			[]truth{limited},
			limit(semconv.CauseMaxOutputTokens), with(classify.No, answered(classify.FinishMaxTokens)),
		},
		{
			"Responses: length as an error", arize(oiAgents, "LLM", statusError, tokens(42, 6, nil), event{message: state + `response.incomplete".`}),
			[]truth{limited},
			verdict{semconv.ClassOutputLimited, semconv.CauseUnknown, low, never},
			func() classify.Request {
				r := asError(classify.FinishLimited)
				r.Basis = classify.Inferred
				return r
			}(),
		},
		{
			"Responses: an error in the stream", arize(oiAgents, "LLM", statusError, nil, event{message: state + `error".`}),
			[]truth{inBand},
			verdict{semconv.ClassProviderError, semconv.CauseUnknown, low, confirm},
			failedWith(classify.Request{Provider: classify.ProviderError{Kind: semconv.ProviderErrorKindUnknown, InBand: true}}),
		},
		{
			"Responses: whole", arize(oiAgents, "LLM", statusOK, tokens(42, 6, m{"llm.invocation_parameters": whole})),
			[]truth{success},
			well, ok,
		},
		{
			"Responses: parameters that are cut", arize(oiAgents, "LLM", statusOK, tokens(42, 6, m{"llm.invocation_parameters": incomplete[:40]})),
			[]truth{limited},
			unknown, made,
		},
		{
			"Responses: length, in the response itself",
			arize(oiAgents, "LLM", statusOK, tokens(42, 6, m{
				"llm.output_messages.0.message.contents.0.message_content.text": canary,
				"output.value": `{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"output":[{"type":"message"}]}`,
			})),
			[]truth{limited},
			limit(semconv.CauseMaxOutputTokens), with(classify.No, answered(classify.FinishMaxTokens)),
		},
		{
			"Responses: failed, in the response itself", arize(oiAgents, "LLM", statusOK, tokens(42, 6, m{"output.value": `{"status":"failed","output":[{"type":"message"}]}`})),
			[]truth{inBand},
			unknown, made,
		},
		{
			"Responses: incomplete, in the response itself", arize(oiAgents, "LLM", statusOK, tokens(42, 6, m{"output.value": `{"status":"incomplete","output":[{"type":"message"}]}`})),
			[]truth{limited},
			limit(semconv.CauseUnknown), with(classify.No, answered(classify.FinishLimited)),
		},
		{
			"Chat Completions: length, in the response itself",
			arize(oiAgents, "LLM", statusOK, tokens(42, 6, choices(`{"index":0,"finish_reason":"length","message":{"content":"`+canary+`"}}`))),
			[]truth{limited},
			limit(semconv.CauseMaxOutputTokens), with(classify.No, answered(classify.FinishMaxTokens)),
		},
		{
			"Chat Completions for Python: messages", arize(oiAgents, "LLM", statusOK, tokens(42, 6, m{"output.value": `[{"role":"assistant","content":"` + canary + `"}]`})),
			[]truth{success},
			well, ok,
		},
		{"response", arize(oiAgents, "LLM", statusOK, m{"llm.token_count.total": 12}), []truth{success}, well, ok},
		{
			"generation with a call",
			arize("openinference.instrumentation.openai_agents", "LLM", statusOK, m{
				"llm.token_count.completion": 3, "llm.output_messages.0.message.tool_calls.0.tool_call.id": "call_1",
			}),
			[]truth{success},
			well, called,
		},
		{"OK without usage", arize(oiAgents, "LLM", statusOK, nil), []truth{cut, stopped, success}, unknown, made},
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
	for _, scope := range []string{oiAgents, "openinference.instrumentation.openai_agents"} {
		tripped := arize(scope, "AGENT", statusError, nil)
		tripped.message = "Guardrail tripwire triggered: {'guardrail': 'MathGuardrail'}"
		head, _, facts = tripped.read(t)
		assert.Equal(t, Run, head.Kind, "an agent that failed is not the root, also without graph.node.id")
		v := classify.Judge(&classify.Run{Ended: classify.Yes, Failed: facts.Run.Failed, Requests: []classify.Request{*answeredBy(t, scope)}})
		assert.Equal(t, semconv.RunOutcomeFailed, v.Run.Outcome, "something failed that is not recorded")
		assert.Equal(t, confirm, v.Run.Retry.Safety)
	}
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
		"to an agent, by its name":  {"handoff to billing", "handoff_to_billing", true},
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
	// The class of a tool's error stands in the message that the SDK makes of it.
	for message, want := range map[string]classify.Tool{
		`Error running tool: {"tool_name":"write","error":"AbortError: This operation was aborted"}`: {
			Outcome: semconv.ToolOutcomeInterrupted, ErrorType: "AbortError", Abort: classify.Abort{Source: semconv.AbortSourceUnknown},
		},
		`Error running tool (non-fatal): {"tool_name":"write","error":"TimeoutError: ` + canary + `"}`: {Outcome: semconv.ToolOutcomeTimedOut, ErrorType: "TimeoutError"},
		`Error running tool: {"tool_name":"write","error":"Error: AbortError"}`:                        {Outcome: semconv.ToolOutcomeFailed},
		`Error running tool: {"tool_name":"write","error":"PatchError: ` + canary + `"}`:               {Outcome: semconv.ToolOutcomeFailed},
		`Error running tool: {"error":"AbortError`:                                                     {Outcome: semconv.ToolOutcomeFailed},
		`The tool said: Error running tool: {"error":"AbortError: "}`:                                  {Outcome: semconv.ToolOutcomeFailed},
		canary: {Outcome: semconv.ToolOutcomeFailed},
		"Error running tool: " + strings.Repeat(" ", maxEmpty) + `{"error":"AbortError: "}`: {Outcome: semconv.ToolOutcomeFailed},
	} {
		s := arize(oiAgents, "TOOL", statusError, m{"tool.name": "write"}, event{message: message})
		s.message = message
		_, _, facts = s.read(t)
		want.Start, want.End, want.Name = start, end, "write"
		assert.Equal(t, &want, facts.Tool, message)
	}
	head, _, _ = arize(oiAgents, "CHAIN", statusOK, nil).read(t)
	assert.Equal(t, Other, head.Kind, "a turn is glue")
}

// answeredBy is a request of an agent that was answered.
func answeredBy(t *testing.T, scope string) *classify.Request {
	t.Helper()
	_, _, facts := arize(scope, "LLM", statusOK, map[string]any{"llm.token_count.total": 12, "llm.token_count.completion": 6}).read(t)
	return facts.Request
}
