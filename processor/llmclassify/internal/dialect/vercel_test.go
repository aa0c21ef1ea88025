package dialect

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
)

// vercel6 is a span of ai 6.0, as its telemetry writes it.
func vercel6(operation string, status ptrace.StatusCode, more map[string]any, events ...event) shape {
	attrs := map[string]any{
		"operation.name": operation, "ai.operationId": operation, "ai.model.provider": "openai.chat", "ai.model.id": "gpt-test",
		"ai.settings.maxRetries": 2, "ai.prompt.messages": canary, "gen_ai.system": "openai.chat", "gen_ai.request.model": "gpt-test",
	}
	maps.Copy(attrs, more)
	return shape{scope: "ai", name: operation, kind: ptrace.SpanKindInternal, status: status, attrs: attrs, events: events}
}

func vercelFinish(reason string) map[string]any {
	return map[string]any{
		"ai.response.finishReason": reason, "gen_ai.response.finish_reasons": []any{reason}, "ai.response.text": canary,
		"ai.response.msToFirstChunk": 12.5, "ai.usage.outputTokens": 3,
	}
}

// vercelEmpty is the end of a request of which little is recorded.
func vercelEmpty(reason, id string, more map[string]any) map[string]any {
	m := map[string]any{
		"ai.response.finishReason": reason, "gen_ai.response.finish_reasons": []any{reason}, "ai.response.id": id, "gen_ai.response.id": id,
		"ai.response.msToFirstChunk": 38.95, "ai.response.msToFinish": 39.21, // the first chunk of any kind, also of the end
	}
	maps.Copy(m, more)
	return m
}

// empty is a completion with nothing in it.
func empty(confidence semconv.Confidence) verdict {
	return verdict{semconv.ClassEmptyCompletion, semconv.CauseNoContent, confidence, confirm}
}

func TestVercelRequest(t *testing.T) {
	type m = map[string]any
	const do = "ai.streamText.doStream"
	calls := vercelFinish("tool-calls")
	calls["ai.response.toolCalls"] = `[{"toolCallId":"call_1","toolName":"write","input":{"toolCallId":"` + canary + `"}},{"toolCallId":"call_2"}]`
	called := answered(classify.FinishToolCalls)
	called.CallIDs = []string{"call_1", "call_2"}
	broken := vercelFinish("tool-calls")
	broken["ai.response.toolCalls"] = `[{"toolCallId":"call_1","toolName":"wri`

	checkRequests(t, Vercel{}, []requestCase{
		{"finished", vercel6(do, statusUnset, vercelFinish("stop")), []truth{success}, well, answered(classify.FinishStop)},
		{"calls", vercel6(do, statusUnset, calls), []truth{success}, well, called},
		{"calls that an attribute limit cut", vercel6(do, statusUnset, broken), []truth{success}, well, answered(classify.FinishToolCalls)},
		{
			"length", vercel6("ai.generateText.doGenerate", statusUnset, vercelFinish("length")),
			[]truth{limited},
			verdict{semconv.ClassOutputLimited, semconv.CauseMaxOutputTokens, medium, never},
			answered(classify.FinishMaxTokens),
		},
		{
			"content filter", vercel6(do, statusUnset, vercelFinish("content-filter")),
			[]truth{limited},
			verdict{semconv.ClassOutputLimited, semconv.CauseContentFilter, medium, never},
			answered(classify.FinishContentFilter),
		},
		{
			"refused or never connected, before a response", vercel6(do, statusError, nil, event{class: "AI_APICallError", message: canary}),
			[]truth{passing, refusal, unsent, early},
			unclassified, failedWith(classify.Request{}),
		},
		{
			"closed before headers", vercel6(do, statusError, nil, event{class: "AI_APICallError", message: "Cannot connect to API: other side closed"}),
			[]truth{early},
			interrupted(semconv.CauseClosedBeforeHeaders, medium),
			classify.Request{Basis: classify.Corroborated, Failed: classify.Yes, Transport: classify.Transport{Cause: semconv.TransportCauseClosedBeforeHeaders}},
		},
		{
			"the body of a whole response broke", vercel6("ai.generateText.doGenerate", statusError, nil, event{class: "AI_APICallError", message: "Failed to process successful response"}),
			[]truth{cut},
			interrupted(semconv.CauseUnknown, medium),
			classify.Request{Basis: classify.Corroborated, Failed: classify.Yes, Ended: semconv.StreamEndReadError},
		},
		{
			"an error in the stream", vercel6(do, statusUnset, vercelFinish("error")),
			[]truth{inBand},
			ofProvider(semconv.CauseUnknown, confirm),
			classify.Request{
				Basis: classify.Corroborated, Failed: classify.Yes, Finish: classify.FinishMissing,
				Provider: classify.ProviderError{Kind: semconv.ProviderErrorKindUnknown, InBand: true},
			},
		},
		{
			"just ended, or a reason without a word", vercel6(do, statusUnset, vercelFinish("other")),
			[]truth{cut, success},
			unknown,
			classify.Request{},
		},
		{
			"[DONE] and nothing else, or an end without it", vercel6(do, statusUnset, vercelEmpty("other", "aitxt-40LTJEYEIbxGy3190I4XEvyl", nil)),
			[]truth{vacant},
			empty(low), emptied(classify.FinishMissing, classify.Inferred),
		},
		{
			"just ended, after something of a response", vercel6(do, statusUnset, vercelEmpty("other", "chatcmpl-1", nil)),
			[]truth{cut, vacant},
			unknown,
			classify.Request{},
		},
		{
			"just ended, with an id of the SDK's and a text", vercel6(do, statusUnset, vercelEmpty("other", "aitxt-1", m{"ai.response.text": canary})),
			[]truth{cut},
			unknown,
			classify.Request{},
		},
		{
			"just ended, with an id of the SDK's and tokens", vercel6(do, statusUnset, vercelEmpty("other", "aitxt-1", m{"gen_ai.usage.output_tokens": 7})),
			[]truth{cut},
			unknown,
			classify.Request{},
		},
		{
			"thrown, with an id of the SDK's", vercel6(do, statusError, vercelEmpty("other", "aitxt-1", nil), event{class: "ECONNRESET", message: canary}),
			[]truth{cut},
			interrupted(semconv.CauseConnectionReset, medium), transport(semconv.TransportCauseConnectionReset, "ECONNRESET"),
		},
		{
			"finished, with an id of the SDK's", vercel6(do, statusUnset, vercelEmpty("stop", "aitxt-1", nil)),
			[]truth{success},
			well, answered(classify.FinishStop),
		},
		{
			"finished without a token", vercel6(do, statusUnset, vercelEmpty("stop", "chatcmpl-1", m{"gen_ai.usage.input_tokens": 12, "gen_ai.usage.output_tokens": 0})),
			[]truth{vacant},
			empty(medium), emptied(classify.FinishStop, classify.Corroborated),
		},
		{
			"finished, and nothing was counted", vercel6(do, statusUnset, vercelEmpty("stop", "chatcmpl-1", m{"gen_ai.usage.input_tokens": 0, "gen_ai.usage.output_tokens": 0})),
			[]truth{success}, // some servers count nothing
			well, answered(classify.FinishStop),
		},
		{
			"finished without a token, and with a text", vercel6(do, statusUnset, vercelEmpty("stop", "chatcmpl-1", m{
				"gen_ai.usage.input_tokens": 12, "gen_ai.usage.output_tokens": 0, "ai.response.text": canary,
			})),
			[]truth{success},
			well, answered(classify.FinishStop),
		},
		{
			"finished with an empty text", vercel6(do, statusUnset, vercelEmpty("stop", "chatcmpl-1", m{"gen_ai.usage.output_tokens": 1, "ai.response.text": ""})),
			[]truth{vacant},
			empty(medium), emptied(classify.FinishStop, classify.Corroborated),
		},
		{
			"finished with an object", vercel6("ai.streamObject.doStream", statusUnset, vercelEmpty("stop", "chatcmpl-1", m{"ai.response.text": "", "ai.response.object": canary})),
			[]truth{success},
			well, answered(classify.FinishStop),
		},
		{
			"finished with files", vercel6(do, statusUnset, vercelEmpty("stop", "chatcmpl-1", m{"ai.response.text": "", "ai.response.files": canary})),
			[]truth{success},
			well, answered(classify.FinishStop),
		},
		{
			"finished with reasoning", vercel6(do, statusUnset, vercelEmpty("stop", "chatcmpl-1", m{"ai.response.text": "", "ai.response.reasoning": canary})),
			[]truth{success},
			well, answered(classify.FinishStop),
		},
		{
			"finished with a call and no text", vercel6(do, statusUnset, vercelEmpty("stop", "chatcmpl-1", m{"ai.response.text": "", "ai.response.toolCalls": `[{"toolCallId":"call_1"}]`})),
			[]truth{success},
			well, func() classify.Request {
				r := answered(classify.FinishStop)
				r.CallIDs = []string{"call_1"}
				return r
			}(),
		},
		{
			"just ended, and an error that is known", vercel6(do, statusUnset, vercelFinish("other"), event{class: "ECONNRESET", message: canary}),
			[]truth{cut},
			interrupted(semconv.CauseConnectionReset, medium),
			classify.Request{Basis: classify.Typed, Transport: classify.Transport{Cause: semconv.TransportCauseConnectionReset, Code: "ECONNRESET"}},
		},
		{
			"an unknown reason, and an error that is known", vercel6(do, statusUnset, vercelFinish("unknown"), event{class: "RateLimitError"}),
			[]truth{inBand},
			ofProvider(semconv.CauseRateLimited, confirm),
			classify.Request{Basis: classify.Typed, Provider: classify.ProviderError{Kind: semconv.ProviderErrorKindRateLimited, Code: "RateLimitError"}},
		},
		{
			"aborted, and OK by OpenInference's processor", vercel6(do, statusOK, nil),
			[]truth{stopped},
			aborted(semconv.CauseUnknown, low),
			classify.Request{Ended: semconv.StreamEndCancelled, Abort: classify.Abort{Source: semconv.AbortSourceUnknown}},
		},
		{
			"aborted", vercel6(do, statusUnset, nil),
			[]truth{stopped},
			aborted(semconv.CauseUnknown, low),
			classify.Request{Ended: semconv.StreamEndCancelled, Abort: classify.Abort{Source: semconv.AbortSourceUnknown}},
		},
		{
			"aborted, as an error", vercel6(do, statusError, nil, event{class: "AbortError", message: canary}),
			[]truth{stopped},
			aborted(semconv.CauseUnknown, low),
			classify.Request{Basis: classify.Typed, Failed: classify.Yes, Ended: semconv.StreamEndCancelled, Abort: classify.Abort{Source: semconv.AbortSourceUnknown}},
		},
		{
			"AbortSignal.timeout", vercel6(do, statusError, nil, event{class: "TimeoutError", message: canary}),
			[]truth{deadline},
			aborted(semconv.CauseDeadline, medium),
			classify.Request{Basis: classify.Typed, Failed: classify.Yes, Ended: semconv.StreamEndCancelled, Abort: classify.Abort{Source: semconv.AbortSourceDeadline}},
		},
	})
}

// Ids of calls are read whole or not at all.
func TestVercelCalls(t *testing.T) {
	many := strings.Repeat(`{"toolCallId":"call"},`, classify.MaxIDs)
	for name, c := range map[string]struct {
		value any
		want  []string
	}{
		"two":               {`[{"toolCallId":"a"},{"toolCallId":"b"}]`, []string{"a", "b"}},
		"none":              {`[]`, nil},
		"no string":         {int64(3), nil},
		"no list":           {`{"toolCallId":"a"}`, nil},
		"one without an id": {`[{"toolCallId":"a"},{"toolName":"write"}]`, nil},
		"as many as fit":    {"[" + strings.TrimSuffix(many, ",") + "]", slices.Repeat([]string{"call"}, classify.MaxIDs)},
		"too many":          {"[" + many + `{"toolCallId":"b"}]`, nil},
		"an id too long":    {`[{"toolCallId":"` + strings.Repeat("a", maxString+1) + `"}]`, nil},
		"too long":          {`[{"toolCallId":"a","input":"` + strings.Repeat("x", maxJSON) + `"}]`, nil},
	} {
		attrs := vercelFinish("tool-calls")
		attrs["ai.response.toolCalls"] = c.value
		_, _, facts := vercel6("ai.streamText.doStream", statusUnset, attrs).read(t)
		assert.Equal(t, c.want, facts.Request.CallIDs, name)
	}
}

func TestVercelOthers(t *testing.T) {
	tool := map[string]any{"ai.toolCall.name": "write", "ai.toolCall.id": "call_1", "ai.toolCall.args": canary, "ai.toolCall.result": canary}
	_, d, facts := vercel6("ai.toolCall", statusUnset, tool).read(t)
	assert.Equal(t, Vercel{}, d)
	assert.Equal(t, &classify.Tool{Start: start, End: end, CallID: "call_1", Name: "write"}, facts.Tool, "the result may tell of a failure")
	_, _, facts = vercel6("ai.toolCall", statusError, tool, event{class: "Error", message: canary}).read(t)
	assert.Equal(t, &classify.Tool{Start: start, End: end, CallID: "call_1", Name: "write", Outcome: semconv.ToolOutcomeFailed, ErrorType: "Error"}, facts.Tool)

	_, _, facts = vercel6("ai.streamText", statusUnset, vercelFinish("stop")).read(t)
	assert.Equal(t, &classify.Run{Start: start, End: end, Ended: classify.Yes}, facts.Run)
	_, _, facts = vercel6("ai.streamText", statusUnset, vercelFinish("tool-calls")).read(t)
	assert.Equal(t, classify.No, facts.Run.Failed, "its caller may go on")
	_, _, facts = vercel6("ai.streamText", statusError, nil, event{class: "AI_RetryError", message: canary}).read(t)
	assert.Equal(t, &classify.Run{Start: start, End: end, Ended: classify.Yes, Failed: classify.Yes, ErrorType: "AI_RetryError", Error: facts.Run.Error}, facts.Run)

	for _, other := range []string{"ai.embed", "ai.embed.doEmbed", "ai.rerank", "agent_step"} {
		head, d, _ := vercel6(other, statusUnset, nil).read(t)
		assert.Equal(t, Other, head.Kind, other)
		assert.Nil(t, d)
	}
}

// vercel7 is a span of ai 7.0 with @ai-sdk/otel.
func vercel7(operation string, status ptrace.StatusCode, more map[string]any, events ...event) shape {
	attrs := map[string]any{
		"gen_ai.operation.name": operation, "gen_ai.provider.name": "openai", "gen_ai.request.model": "gpt-test", "gen_ai.input.messages": canary,
	}
	maps.Copy(attrs, more)
	return shape{scope: "gen_ai", name: operation + " gpt-test", kind: ptrace.SpanKindClient, status: status, attrs: attrs, events: events}
}

func TestVercel7Request(t *testing.T) {
	type m = map[string]any
	done := func(reason string) map[string]any {
		return map[string]any{
			"gen_ai.response.finish_reasons": []any{reason}, "gen_ai.client.operation.time_to_first_chunk": 0.25,
			"gen_ai.client.operation.duration": 2, "gen_ai.output.messages": canary,
		}
	}
	streamEvents := []event{{name: "gen_ai.stream.first_chunk"}, {name: "gen_ai.stream.finish"}}
	checkRequests(t, Vercel7{}, []requestCase{
		{"finished", vercel7("chat", statusUnset, done("stop"), streamEvents...), []truth{success}, well, answered(classify.FinishStop)},
		{"calls", vercel7("chat", statusUnset, done("tool-calls")), []truth{success}, well, answered(classify.FinishToolCalls)},
		{
			"thrown, content off", vercel7("chat", statusError, nil, event{class: "Error", message: "AI SDK operation failed"}),
			[]truth{cut, passing, refusal, unsent, stopped},
			unclassified, failedWith(classify.Request{}),
		},
		{
			"refused, content on", vercel7("chat", statusError, nil, event{class: "AI_APICallError", message: canary}),
			[]truth{passing, refusal, unsent},
			unclassified, failedWith(classify.Request{}),
		},
		{
			"given up, content on", vercel7("chat", statusError, nil, event{class: "AI_RetryError", message: canary}),
			[]truth{passing, refusal, unsent},
			unclassified, failedWith(classify.Request{}),
		},
		{
			"reset, content on", vercel7("chat", statusError, map[string]any{"http.response.status_code": 200},
				event{class: "AI_APICallError", message: "Failed to process successful response"}),
			[]truth{cut},
			interrupted(semconv.CauseUnknown, medium),
			classify.Request{Basis: classify.Corroborated, Failed: classify.Yes, Ended: semconv.StreamEndReadError, Status: 200},
		},
		{
			"an error in the stream", vercel7("chat", statusError, done("error")),
			[]truth{inBand},
			ofProvider(semconv.CauseUnknown, confirm),
			classify.Request{
				Basis: classify.Corroborated, Failed: classify.Yes, Finish: classify.FinishMissing,
				Provider: classify.ProviderError{Kind: semconv.ProviderErrorKindUnknown, InBand: true},
			},
		},
		{
			"thrown beside a finish reason", vercel7("chat", statusError, done("error"), event{class: "Error", message: canary}),
			[]truth{cut, inBand},
			unclassified, failedWith(classify.Request{Finish: classify.FinishMissing}),
		},
		{
			"just ended", vercel7("chat", statusUnset, done("interrupted")),
			[]truth{cut},
			interrupted(semconv.CauseCleanEOF, medium),
			classify.Request{Basis: classify.Corroborated, Ended: semconv.StreamEndEOF, Finish: classify.FinishMissing},
		},
		{
			"just ended, and nothing came", vercel7("chat", statusUnset, m{"gen_ai.response.finish_reasons": []any{"interrupted"}, "gen_ai.response.id": "aitxt-1"}),
			[]truth{vacant},
			empty(low), emptied(classify.FinishMissing, classify.Inferred),
		},
		{
			"just ended after its usage, and nothing came",
			vercel7("chat", statusUnset, m{"gen_ai.response.finish_reasons": []any{"interrupted"}, "gen_ai.response.id": "chatcmpl-1", "gen_ai.usage.output_tokens": 1}),
			[]truth{vacant},
			empty(low), emptied(classify.FinishMissing, classify.Inferred),
		},
		{
			"finished without a token", vercel7("chat", statusUnset, m{
				"gen_ai.response.finish_reasons": []any{"stop"}, "gen_ai.usage.input_tokens": 12, "gen_ai.usage.output_tokens": 0,
			}),
			[]truth{vacant},
			empty(medium), emptied(classify.FinishStop, classify.Corroborated),
		},
		{
			"finished, and the tokens were not counted well", vercel7("chat", statusUnset, m{
				"gen_ai.response.finish_reasons": []any{"stop"}, "gen_ai.usage.input_tokens": 12, "gen_ai.usage.output_tokens": 0,
				"gen_ai.client.operation.time_to_first_chunk": 0.25,
			}),
			[]truth{success},
			well, answered(classify.FinishStop),
		},
		{
			"finished without parts", vercel7("chat", statusUnset, m{
				"gen_ai.response.finish_reasons": []any{"stop"}, "gen_ai.usage.output_tokens": 1,
				"gen_ai.output.messages": `[{"role":"assistant","parts":[],"finish_reason":"stop"}]`,
			}),
			[]truth{vacant},
			empty(medium), emptied(classify.FinishStop, classify.Corroborated),
		},
		{
			"not streamed: one token", vercel7("chat", statusUnset, m{"gen_ai.response.finish_reasons": []any{"stop"}, "gen_ai.usage.input_tokens": 12, "gen_ai.usage.output_tokens": 1}),
			[]truth{success},
			well, answered(classify.FinishStop),
		},
		{
			"aborted", vercel7("chat", statusUnset, nil),
			[]truth{stopped},
			aborted(semconv.CauseUnknown, low),
			classify.Request{Ended: semconv.StreamEndCancelled, Abort: classify.Abort{Source: semconv.AbortSourceUnknown}},
		},
	})

	for reason, want := range map[string]classify.Fact{"tool-calls": classify.No, "stop": classify.NotObserved, "error": classify.NotObserved} {
		_, _, facts := vercel7("invoke_agent", statusUnset, map[string]any{"gen_ai.response.finish_reasons": []any{reason}}).read(t)
		assert.Equal(t, want, facts.Run.Failed, reason)
	}
	for operation, kind := range map[string]Kind{"execute_tool": Tool, "invoke_agent": Run, "agent_step": Other, "embeddings": Other} {
		head, _, _ := vercel7(operation, statusUnset, nil).read(t)
		assert.Equal(t, kind, head.Kind, operation)
	}
	_, _, facts := vercel7("execute_tool", statusError, map[string]any{"gen_ai.tool.call.id": "call_1", "gen_ai.tool.name": "write", "gen_ai.execute_tool.duration": 0.1},
		event{class: "Error", message: "AI SDK operation failed"}).read(t)
	assert.Equal(t, &classify.Tool{Start: start, End: end, CallID: "call_1", Name: "write", Outcome: semconv.ToolOutcomeFailed, ErrorType: "Error"}, facts.Tool)

	// The attributes that are named as the conventions' metrics are not the SDK's own:
	// pydantic-ai has them, too.
	for _, s := range []shape{vercel7("chat", statusUnset, done("stop")), vercel7("chat", statusUnset, nil), vercel7("execute_tool", statusUnset, map[string]any{"gen_ai.execute_tool.duration": 0.1})} {
		for _, scope := range []string{"", "pydantic-ai", "my-agent"} {
			s.scope = scope
			_, d, _ := s.read(t)
			assert.Equal(t, "gen_ai", d.Name(), scope)
		}
	}
	pydantic := vercel7("chat", statusUnset, map[string]any{"gen_ai.client.operation.time_to_first_chunk": 0.2, "gen_ai.request.stream": true})
	pydantic.scope = "pydantic-ai"
	_, _, facts = pydantic.read(t)
	assert.Zero(t, facts.Request.Abort, "a span without a finish reason was not aborted because of that")
}
