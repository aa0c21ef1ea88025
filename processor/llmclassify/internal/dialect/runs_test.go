package dialect

import (
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
)

// kit has the spans of one producer: a request that asks for a call, the tool's execution,
// a request that answers, one whose end is not known, and the run around them.
type kit struct {
	calls, tool, threw, answers, unclear, run shape
}

func kits() map[string]kit {
	type m = map[string]any
	const finish = "gen_ai.response.finish_reasons"
	conventions := func(scope, operation string, more m) shape {
		s := shape{scope: scope, attrs: m{"gen_ai.operation.name": operation}}
		maps.Copy(s.attrs, more)
		return s
	}
	failing := func(s shape) shape {
		s.status = statusError
		s.events = []event{{class: "PatchError", message: canary}}
		return s
	}
	all := map[string]kit{
		"vercel_ai": {
			calls: vercel6("ai.streamText.doStream", statusUnset, vercelFinish("tool-calls")), answers: vercel6("ai.streamText.doStream", statusUnset, vercelFinish("stop")),
			unclear: vercel6("ai.streamText.doStream", statusUnset, vercelFinish("other")),
			tool:    vercel6("ai.toolCall", statusUnset, m{"ai.toolCall.id": "call_1", "ai.toolCall.name": "write"}), run: vercel6("ai.streamText", statusUnset, nil),
		},
		"vercel_ai_v7": {
			calls: vercel7("chat", statusUnset, m{finish: []any{"tool-calls"}}), answers: vercel7("chat", statusUnset, m{finish: []any{"stop"}}),
			unclear: vercel7("chat", statusUnset, m{finish: []any{"other"}}),
			tool:    vercel7("execute_tool", statusUnset, m{"gen_ai.tool.call.id": "call_1"}), run: vercel7("invoke_agent", statusUnset, nil),
		},
		"openai_agents": {
			calls: arize(oiAgents, "LLM", statusOK, m{"llm.token_count.total": 9, "llm.finish_reason": "tool_calls"}), answers: arize(oiAgents, "LLM", statusOK, m{"llm.token_count.total": 9}),
			unclear: arize(oiAgents, "LLM", statusOK, nil),
			tool:    arize(oiAgents, "TOOL", statusOK, m{"tool.name": "write"}), run: arize(oiAgents, "AGENT", statusOK, m{"graph.node.id": "coder"}),
		},
		"openinference": { // as for LangChain
			calls:   arize("openinference.instrumentation.langchain", "LLM", statusOK, m{"llm.finish_reason": "tool_calls"}),
			answers: arize("openinference.instrumentation.langchain", "LLM", statusOK, m{"llm.finish_reason": "stop"}),
			unclear: arize("openinference.instrumentation.langchain", "LLM", statusOK, m{"llm.invocation_parameters": `{"stream":true}`}),
			tool:    arize("openinference.instrumentation.langchain", "TOOL", statusOK, m{"tool.name": "write"}), run: arize("openinference.instrumentation.langchain", "AGENT", statusUnset, nil),
		},
		"openllmetry": {
			calls:   traceloop(traceloopJS, statusUnset, m{"gen_ai.operation.name": "chat", finish: []any{"tool_call"}}),
			answers: traceloop(traceloopPython, statusOK, m{"llm.request.type": "chat", "gen_ai.completion.0.finish_reason": "stop"}),
			unclear: traceloop(traceloopJS, statusOK, m{"gen_ai.operation.name": "chat", finish: []any{"stop"}}),
			tool:    traceloop("traceloop.tracer", statusUnset, m{"traceloop.span.kind": "tool", "traceloop.entity.name": "write"}), run: traceloop("traceloop.tracer", statusUnset, m{"traceloop.span.kind": "workflow"}),
		},
		"openai_js": {
			calls: openAIJS(statusUnset, m{"gen_ai.system": "openai", finish: []any{"tool_calls"}}), answers: openAIJS(statusUnset, m{"gen_ai.system": "openai", finish: []any{"stop"}}),
			unclear: openAIJS(statusUnset, m{"gen_ai.provider.name": "openai", finish: []any{"stop"}}), // Responses
			tool:    conventions("my-agent", "execute_tool", m{"gen_ai.tool.call.id": "call_1"}), run: conventions("my-agent", "invoke_agent", nil),
		},
		"anthropic": {
			calls: native(sdkTS, statusOK, m{"anthropic.message.stop_reason": "tool_use"}), answers: native(sdkTS, statusOK, m{"anthropic.message.stop_reason": "end_turn"}),
			unclear: native(sdkTS, statusUnset, nil),
			tool:    native(sdkTS, statusUnset, m{"gen_ai.operation.name": "execute_tool"}), run: native(sdkTS, statusUnset, m{"gen_ai.operation.name": "invoke_agent"}),
		},
		"gen_ai": {
			calls: conventions("", "chat", m{finish: []any{"tool_calls"}}), answers: conventions("", "chat", m{finish: `["stop"]`}),
			unclear: conventions("", "chat", nil),
			tool:    conventions("", "execute_tool", nil), run: conventions("", "invoke_agent", nil),
		},
	}
	for name, k := range all {
		k.threw = failing(k.tool)
		all[name] = k
	}
	return all
}

// runOf is the run of these spans, one second after the other.
func runOf(t *testing.T, around shape, parts ...shape) *classify.Run {
	t.Helper()
	_, _, facts := around.read(t)
	require.NotNil(t, facts.Run)
	run := *facts.Run
	run.End = start.Add(time.Duration(len(parts)) * time.Second)
	for i, s := range parts {
		from := start.Add(time.Duration(i) * time.Second)
		switch _, _, facts := s.read(t); {
		case facts.Request != nil:
			facts.Request.Start, facts.Request.End = from, from.Add(time.Second)
			run.Requests = append(run.Requests, *facts.Request)
		default:
			require.NotNil(t, facts.Tool)
			facts.Tool.Start, facts.Tool.End = from, from.Add(time.Second)
			run.Tools = append(run.Tools, *facts.Tool)
		}
	}
	return &run
}

// A tool that threw and whose failure the model answered is no failure of the run.
func TestToolAnsweredInEveryDialect(t *testing.T) {
	for name, k := range kits() {
		t.Run(name, func(t *testing.T) {
			d := classify.Judge(runOf(t, k.run, k.calls, k.tool, k.answers)).Run
			assert.Equal(t, semconv.RunOutcomeSucceeded, d.Outcome, "a healthy agent: %s", d.Summary)

			d = classify.Judge(runOf(t, k.run, k.calls, k.threw, k.answers)).Run
			assert.Equal(t, semconv.RunOutcomeRecovered, d.Outcome, d.Summary)
			assert.Equal(t, 1, d.RecoveredFailures)

			d = classify.Judge(runOf(t, k.run, k.calls, k.threw, k.calls, k.threw, k.answers)).Run
			assert.Equal(t, semconv.RunOutcomeRecovered, d.Outcome, d.Summary)
			assert.Equal(t, 2, d.RecoveredFailures)

			v := classify.Judge(runOf(t, k.run, k.calls, k.threw, k.unclear))
			assert.Equal(t, semconv.RunOutcomeIncomplete, v.Run.Outcome, "how it went on is not known: %s", v.Run.Summary)
			assert.Equal(t, semconv.ClassUnclassified, v.Run.Class)
			assert.GreaterOrEqual(t, v.Run.Retry.Safety, confirm)
			assert.Equal(t, semconv.ClassToolFailed, v.Tools[0].Class, "the tool itself failed")

			well := k.run
			well.status = statusOK
			d = classify.Judge(runOf(t, well, k.calls, k.threw, k.unclear)).Run
			switch name {
			case "openai_agents", "vercel_ai", "vercel_ai_v7": // whose OK says nothing
				assert.Equal(t, semconv.RunOutcomeIncomplete, d.Outcome, d.Summary)
			case "openinference": // whose OK says little
				assert.Equal(t, semconv.RunOutcomeUnset, d.Outcome, d.Summary)
			default:
				assert.Equal(t, semconv.RunOutcomeRecovered, d.Outcome, d.Summary)
			}

			d = classify.Judge(runOf(t, k.run, k.calls, k.threw)).Run
			assert.Equal(t, semconv.ClassToolFailed, d.Class, "nothing followed: %s", d.Summary)
		})
	}
}

// A request whose stream is no longer read is no success, as each producer records it.
func TestNotReadOn(t *testing.T) {
	type m = map[string]any
	streams := m{"llm.invocation_parameters": `{"stream":true}`}
	for name, tt := range map[string]struct {
		request, run shape
	}{
		"vercel_ai":                {vercel6("ai.streamText.doStream", statusUnset, nil), kits()["vercel_ai"].run},
		"vercel_ai_v7":             {vercel7("chat", statusUnset, nil), kits()["vercel_ai_v7"].run},
		"openai_agents":            {arize(oiAgents, "LLM", statusOK, nil), kits()["openai_agents"].run},
		"openai_agents, zeros":     {arize(oiAgents, "LLM", statusOK, m{"llm.token_count.total": 0, "llm.finish_reason": "stop"}), kits()["openai_agents"].run},
		"openinference":            {arize(oiOpenAI, "LLM", statusUnset, streams), kits()["openinference"].run},
		"openinference, OK":        {arize(oiMessages, "LLM", statusOK, streams), kits()["openinference"].run},
		"openllmetry":              {traceloop(traceloopJS, statusUnset, m{"gen_ai.operation.name": "chat", "gen_ai.response.finish_reasons": []any{"stop"}}), kits()["openllmetry"].run},
		"openllmetry, Python":      {traceloop(traceloopPython, statusOK, m{"llm.request.type": "chat", "llm.is_streaming": true}), kits()["openllmetry"].run},
		"openai_js":                {openAIJS(statusUnset, m{"gen_ai.system": "openai", "gen_ai.response.finish_reasons": []any{}}), kits()["openai_js"].run},
		"anthropic":                {native(sdkTS, statusUnset, nil), kits()["anthropic"].run},
		"go_compile":               {otelc(statusError, "stream aborted", m{"gen_ai.response.finish_reasons": []any{"error"}}), kits()["gen_ai"].run},
		"gen_ai":                   {shape{attrs: m{"gen_ai.operation.name": "chat", "gen_ai.request.stream": true}}, kits()["gen_ai"].run},
		"gen_ai, OK":               {shape{status: statusOK, attrs: m{"gen_ai.operation.name": "chat", "gen_ai.request.stream": true}}, kits()["gen_ai"].run},
		"gen_ai, GeneratorExit":    {shape{status: statusError, attrs: m{"gen_ai.operation.name": "chat", "error.type": "GeneratorExit"}}, kits()["gen_ai"].run},
		"gen_ai, without a status": {shape{attrs: m{"gen_ai.operation.name": "chat", "error.type": "GeneratorExit"}}, kits()["gen_ai"].run},
		"gen_ai, AbortError":       {shape{status: statusError, attrs: m{"gen_ai.operation.name": "chat"}, events: []event{{class: "AbortError", message: canary}}}, kits()["gen_ai"].run},
	} {
		for _, before := range [][]shape{nil, {kits()["gen_ai"].calls, kits()["gen_ai"].tool}} {
			v := classify.Judge(runOf(t, tt.run, append(before, tt.request)...))
			assert.NotEqual(t, semconv.RunOutcomeSucceeded, v.Run.Outcome, name)
			assert.NotEqual(t, semconv.RunOutcomeRecovered, v.Run.Outcome, name)
			assert.GreaterOrEqual(t, v.Run.Retry.Safety, confirm, name)
			assert.NotEqual(t, semconv.OriginProvider, v.Run.Origin, name)
		}
	}
}
