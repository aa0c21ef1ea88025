package dialect

import (
	"fmt"
	"maps"
	"testing"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
)

const (
	traceloopJS     = "@traceloop/instrumentation-openai"
	traceloopPython = "opentelemetry.instrumentation.openai.v1"
)

func traceloop(scope string, status ptrace.StatusCode, attrs map[string]any, events ...event) shape {
	return shape{scope: scope, name: "openai.chat", kind: ptrace.SpanKindClient, status: status, attrs: attrs, events: events}
}

func TestOpenLLMetryRequest(t *testing.T) {
	// now is the form of JavaScript's instrumentations since 0.22, before is the older one.
	now := func(reasons ...any) map[string]any {
		m := map[string]any{
			"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "gpt-test",
			"gen_ai.input.messages": canary, "gen_ai.output.messages": canary, "gen_ai.usage.output_tokens": 1,
		}
		if reasons != nil {
			m["gen_ai.response.finish_reasons"] = reasons
		}
		return m
	}
	before := func(more map[string]any) map[string]any {
		m := map[string]any{
			"llm.request.type": "chat", "gen_ai.system": "OpenAI", "gen_ai.request.model": "gpt-test", "llm.usage.total_tokens": 12,
			"gen_ai.prompt.0.content": canary, "gen_ai.completion.0.content": canary,
		}
		maps.Copy(m, more)
		return m
	}
	type m = map[string]any
	calls := answered(classify.FinishToolCalls)
	calls.CallIDs = []string{"call_1"}
	readError := failedWith(classify.Request{Ended: semconv.StreamEndReadError, Basis: classify.Corroborated})
	withFinish := func(r classify.Request, f classify.Finish) classify.Request { r.Finish = f; return r }

	checkRequests(t, OpenLLMetry{}, []requestCase{
		{"stop proves nothing", traceloop(traceloopJS, statusUnset, now("stop")), []truth{success, cut, stopped}, unknown, classify.Request{}},
		{"nor does it under OK", traceloop(traceloopJS, statusOK, now("stop")), []truth{success, cut, stopped}, unknown, classify.Request{}},
		{"calls", traceloop(traceloopJS, statusUnset, now("tool_calls")), []truth{success}, well, answered(classify.FinishToolCalls)},
		{
			"length", traceloop(traceloopJS, statusUnset, now("length")),
			[]truth{limited},
			verdict{semconv.ClassOutputLimited, semconv.CauseMaxOutputTokens, medium, never},
			answered(classify.FinishMaxTokens),
		},
		{"Responses: ended with its headers", traceloop(traceloopJS, statusUnset, now()), []truth{success, cut, inBand, stopped}, unknown, classify.Request{}},
		{
			"messages: the body broke", traceloop("@traceloop/instrumentation-anthropic", statusError, now(), event{class: "TypeError", message: "terminated"}),
			[]truth{cut},
			interrupted(semconv.CauseUnknown, medium), readError,
		},
		{
			"refused, by its class", traceloop(traceloopJS, statusError, now(), event{class: "AuthenticationError", message: canary}),
			[]truth{refusal},
			ofProvider(semconv.CauseAuthentication, never), said(semconv.ProviderErrorKindAuthentication, "AuthenticationError"),
		},
		{
			"Error, and nothing else", traceloop(traceloopJS, statusError, now(), event{class: "Error", message: canary}),
			[]truth{cut, passing, refusal, unsent, stopped},
			unclassified, failedWith(classify.Request{}),
		},
		{
			"Python: stop is the provider's", traceloop(traceloopPython, statusOK, now("stop")), []truth{success}, well, answered(classify.FinishStop),
		},
		{
			"Python's other packages",
			traceloop("opentelemetry.instrumentation.anthropic", statusOK, func() m { a := now("stop"); a["gen_ai.is_streaming"] = true; return a }()),
			[]truth{success},
			well, answered(classify.FinishStop),
		},
		{
			"older: stop of a completion", traceloop("", statusOK, before(m{"gen_ai.completion.0.finish_reason": "stop", "llm.is_streaming": true})),
			[]truth{success},
			well, answered(classify.FinishStop),
		},
		{
			"older: a call, with its id", traceloop("", statusOK, before(m{
				"gen_ai.completion.0.finish_reason": "tool_calls", "gen_ai.completion.0.tool_calls.0.id": "call_1", "gen_ai.completion.0.tool_calls.0.arguments": canary,
			})),
			[]truth{success},
			well, calls,
		},
		{
			"older: stop reason of a message", traceloop("", statusOK, before(m{"llm.response.stop_reason": "end_turn"})), []truth{success}, well, answered(classify.FinishStop),
		},
		{
			"older: finish reason of a response", traceloop("", statusOK, before(m{"llm.response.finish_reason": "max_tokens"})),
			[]truth{limited},
			verdict{semconv.ClassOutputLimited, semconv.CauseMaxOutputTokens, medium, never},
			answered(classify.FinishMaxTokens),
		},
		{"a cut stream may read OK", traceloop("", statusOK, before(m{"llm.is_streaming": true})), []truth{success, cut}, unknown, classify.Request{}},
		{
			"a stream without a finish reason", traceloop("", statusUnset, before(m{"gen_ai.is_streaming": true, "llm.response.finish_reason": "None"})),
			[]truth{cut},
			interrupted(semconv.CauseCleanEOF, low),
			classify.Request{Ended: semconv.StreamEndEOF},
		},
		{
			"older: a stream without a finish reason", traceloop("", statusUnset, before(m{"llm.is_streaming": true})),
			[]truth{cut},
			interrupted(semconv.CauseCleanEOF, low),
			classify.Request{Ended: semconv.StreamEndEOF},
		},
		{
			"older: a finish reason under two keys", traceloop("", statusOK, before(m{"llm.response.finish_reason": "stop", "gen_ai.completion.0.finish_reason": "length"})),
			[]truth{limited},
			verdict{semconv.ClassOutputLimited, semconv.CauseMaxOutputTokens, medium, never},
			answered(classify.FinishMaxTokens),
		},
		{
			"older and newer: both are invented", traceloop(traceloopJS, statusOK, func() m { a := now("stop"); a["gen_ai.completion.0.finish_reason"] = "stop"; return a }()),
			[]truth{success, cut, inBand, stopped},
			unknown,
			classify.Request{},
		},
		{
			"a whole answer's stop", traceloop("", statusOK, func() m { a := now("stop"); a["gen_ai.is_streaming"] = false; return a }()),
			[]truth{success},
			well, answered(classify.FinishStop),
		},
		{
			"finish reason error", traceloop("", statusError, func() m { a := now("error"); a["gen_ai.is_streaming"] = true; return a }()),
			[]truth{cut, stopped, inBand},
			unclassified, withFinish(failedWith(classify.Request{}), classify.FinishMissing),
		},
	})
}

// Ids of calls are bounded, and no id stays none.
func TestOpenLLMetryCalls(t *testing.T) {
	attrs := map[string]any{"llm.request.type": "chat", "gen_ai.completion.0.finish_reason": "tool_calls", "gen_ai.completion.0.tool_calls.999.id": ""}
	for i := range classify.MaxIDs + 5 {
		attrs[fmt.Sprintf("gen_ai.completion.0.tool_calls.%d.id", i)] = fmt.Sprintf("call_%d", i)
	}
	_, _, facts := traceloop("", statusOK, attrs).read(t)
	assert.Len(t, facts.Request.CallIDs, classify.MaxIDs)
	assert.NotContains(t, facts.Request.CallIDs, "")
}

func TestOpenLLMetryOthers(t *testing.T) {
	for kind, want := range map[string]Kind{"workflow": Run, "agent": Run, "tool": Tool, "handoff": Tool, "task": Other, "unknown": Other} {
		head, _, _ := traceloop("", statusUnset, map[string]any{"traceloop.span.kind": kind}).read(t)
		assert.Equal(t, want, head.Kind, kind)
	}
	head, _, _ := traceloop("", statusUnset, map[string]any{"llm.request.type": "rerank"}).read(t)
	assert.Equal(t, Other, head.Kind)
	_, _, facts := traceloop("", statusUnset, map[string]any{"traceloop.span.kind": "tool", "traceloop.entity.name": "write", "traceloop.entity.input": canary}).read(t)
	assert.Equal(t, &classify.Tool{Start: start, End: end, Name: "write"}, facts.Tool)
	_, _, facts = traceloop("", statusError, map[string]any{"traceloop.span.kind": "workflow"}, event{class: "ValueError", message: canary}).read(t)
	assert.Equal(t, &classify.Run{Start: start, End: end, Ended: classify.Yes, Failed: classify.Yes, ErrorType: "ValueError", Error: facts.Run.Error}, facts.Run)
}
