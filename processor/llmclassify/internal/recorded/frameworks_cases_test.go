package recorded

import (
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/harness"
	"github.com/otelllm/otelllm-go/semconv"
)

// frameworkCases are traces of each producer: well, refused, cut, cancelled, with a tool
// that failed.
func frameworkCases() []frameworkCase {
	failed := func(s said) said { s.outcome = semconv.RunOutcomeFailed; return s }
	aborted := func(s said) said { s.outcome = semconv.RunOutcomeAborted; return s }
	fine, recovered, waits := said{outcome: semconv.RunOutcomeSucceeded}, said{outcome: semconv.RunOutcomeRecovered}, said{outcome: semconv.RunOutcomeWaiting}
	byProvider := func(cause semconv.Cause) said {
		return said{class: semconv.ClassProviderError, cause: cause, origin: semconv.OriginProvider, confidence: semconv.ConfidenceMedium, safety: harness.Confirm}
	}
	limitedRate, overloaded, ownError := byProvider(semconv.CauseRateLimited), byProvider(semconv.CauseOverloaded), byProvider(semconv.CauseServerError)
	cut := said{class: semconv.ClassStreamInterrupted, cause: semconv.CauseBodyTruncated, origin: semconv.OriginTransport, confidence: semconv.ConfidenceMedium, safety: harness.Confirm}
	ended := said{class: semconv.ClassStreamInterrupted, cause: semconv.CauseCleanEOF, origin: semconv.OriginTransport, confidence: semconv.ConfidenceLow, safety: harness.Confirm}
	stopped := said{class: semconv.ClassLocalAbort, cause: semconv.CauseUnknown, origin: semconv.OriginLocal, confidence: semconv.ConfidenceLow, safety: harness.Never}
	unknown := said{class: semconv.ClassUnclassified, cause: semconv.CauseUnknown, origin: semconv.OriginUnknown, confidence: semconv.ConfidenceLow, safety: harness.Confirm}
	unclear := unknown
	unclear.outcome = semconv.RunOutcomeIncomplete
	tool := said{class: semconv.ClassToolFailed, cause: semconv.CauseExecutionError, origin: semconv.OriginTool, confidence: semconv.ConfidenceHigh, safety: harness.Confirm}
	toolEnds := tool
	toolEnds.confidence = semconv.ConfidenceMedium

	limited := said{outcome: semconv.RunOutcomeLimited, class: semconv.ClassOutputLimited, cause: semconv.CauseMaxOutputTokens, origin: semconv.OriginProvider, confidence: semconv.ConfidenceMedium, safety: harness.Never}
	tokens := limited
	tokens.outcome = semconv.RunOutcomeUnset

	const httpError = "pydantic_ai.exceptions.ModelHTTPError"
	tooMany := "status_code: 429, model_name: model-test, body: " + secret
	reset := func(s framed) framed { return s.raising("httpx.RemoteProtocolError", secret) }
	return []frameworkCase{
		// pydantic-ai.
		{name: "pydantic well", want: says{1: fine}, spans: []framed{
			pydantic.run(4), pydantic.chat(2, 0.1, 1, finished("tool_call")), pydantic.tool(1, 2, "call_1"), pydantic.chat(4, 2.1, 3, finished("stop")),
		}},
		{name: "pydantic refused", want: says{1: failed(limitedRate), 2: limitedRate}, spans: []framed{
			pydantic.run(2).raising(httpError, tooMany), pydantic.chat(2, 0.1, 1, nil).raising(httpError, tooMany),
		}},
		{name: "pydantic cut", want: says{1: failed(cut), 2: cut}, spans: []framed{
			reset(pydantic.run(2)), reset(pydantic.chat(2, 0.1, 1, nil)),
		}},
		{name: "pydantic cut while the agent streams: the call was cancelled", want: says{1: failed(unknown)}, spans: []framed{
			reset(pydantic.run(2)), pydantic.chat(2, 0.1, 1, nil),
		}},
		{name: "pydantic cut while the agent streams, under an old API", want: says{1: failed(unknown), 2: unknown}, spans: []framed{
			reset(pydantic.run(2)), pydantic.chat(2, 0.1, 1, nil).raising("asyncio.exceptions.CancelledError", ""),
		}},
		{name: "pydantic cancelled, under an old API", want: says{1: unclear, 2: unknown}, spans: []framed{
			pydantic.run(2).raising("asyncio.exceptions.CancelledError", ""), pydantic.chat(2, 0.1, 1, nil).raising("asyncio.exceptions.CancelledError", ""),
		}},
		{name: "pydantic ended", want: says{1: failed(ended), 2: ended}, spans: []framed{
			pydantic.run(2), pydantic.chat(2, 0.1, 1, values{"gen_ai.client.operation.time_to_first_chunk": 0.3}),
		}},
		{name: "pydantic tool failed, answered", want: says{1: recovered, 3: tool}, spans: []framed{
			pydantic.run(4), pydantic.chat(2, 0.1, 1, finished("tool_call")),
			pydantic.tool(1, 2, "call_1").raising("pydantic_ai.exceptions.ToolRetryError", secret), pydantic.chat(4, 2.1, 3, finished("stop")),
		}},
		{name: "pydantic tool failed", want: says{1: failed(toolEnds), 3: tool}, spans: []framed{
			pydantic.run(3).raising("ValueError", secret), pydantic.chat(2, 0.1, 1, finished("tool_call")), pydantic.tool(1, 2, "call_1").raising("ValueError", secret),
		}},
		{name: "pydantic cancelled", want: says{1: unclear}, spans: []framed{pydantic.run(2), pydantic.chat(2, 0.1, 1, nil)}},
		{name: "pydantic approval, with content", want: says{1: waits}, spans: []framed{
			func() framed { s := pydantic.run(3); s.values["final_result"] = secret; return s }(), pydantic.chat(2, 0.1, 1, finished("tool_call")),
			deferred(pydantic.tool(1, 1.2, "call_1")),
		}},
		{name: "pydantic ended, and the run returned what there was", want: says{1: failed(ended), 2: ended}, spans: []framed{
			func() framed { s := pydantic.run(3); s.values["final_result"] = secret; return s }(),
			pydantic.chat(2, 0.1, 1, values{"gen_ai.client.operation.time_to_first_chunk": 0.3}),
		}},
		{name: "pydantic approval, without a span of the tool", want: says{}, spans: []framed{pydantic.run(3), pydantic.chat(2, 0.1, 1, finished("tool_call"))}},
		{name: "pydantic answers by a call of its output tool", want: says{}, spans: []framed{
			pydantic.run(4), pydantic.chat(2, 0.1, 1, finished("tool_call")), pydantic.tool(1, 2, "call_1"), pydantic.chat(4, 2.1, 3, finished("tool_call")),
		}},
		{name: "pydantic failed after a call", want: says{1: failed(unknown)}, spans: []framed{
			pydantic.run(3).raising("ValueError", secret), pydantic.chat(2, 0.1, 1, finished("tool_call")),
		}},
		{name: "pydantic approved in the same run", want: says{1: fine}, spans: []framed{
			pydantic.run(5), pydantic.chat(2, 0.1, 1, finished("tool_call")), deferred(pydantic.tool(1, 1.2, "call_1")),
			pydantic.chat(4, 2.1, 3, finished("stop")),
		}},
		{name: "pydantic approved in the same run, and stopped in the tool", want: says{}, spans: []framed{
			pydantic.run(5), pydantic.chat(2, 0.1, 1, finished("tool_call")), deferred(pydantic.tool(1, 1.2, "call_1")),
			func() framed { s := pydantic.tool(1, 4, "call_1"); s.ID, s.From = 5, 1.3; return s }(),
		}},
		{name: "pydantic approval", want: says{1: waits}, spans: []framed{
			pydantic.run(3), pydantic.chat(2, 0.1, 1, finished("tool_call")),
			deferred(pydantic.tool(1, 1.2, "call_1")),
		}},
		// Strands: a chat for each attempt, beneath the cycle.
		{name: "strands well", want: says{1: fine}, spans: []framed{
			strands.run(4).ok(), strands.chat(2, 0.1, 1, finished("")).ok().chose("tool_use"), strands.tool(1, 2, "tooluse_1").ok(), strands.chat(4, 2.1, 3, finished("")).ok().chose("end_turn"),
		}},
		{name: "strands throttled, then well", want: says{1: recovered, 2: limitedRate}, spans: []framed{
			strands.run(4).ok(), strands.chat(2, 0.1, 1, nil).raising("strands.types.exceptions.ModelThrottledException", secret), strands.chat(4, 2.1, 3, finished("")).ok().chose("end_turn"),
		}},
		{name: "strands throttled", want: says{1: failed(limitedRate), 2: limitedRate}, spans: []framed{
			strands.run(2).raising("strands.types.exceptions.ModelThrottledException", secret), strands.chat(2, 0.1, 1, nil).raising("strands.types.exceptions.ModelThrottledException", secret),
		}},
		{name: "strands tool failed", want: says{1: failed(toolEnds), 3: tool}, spans: []framed{
			strands.run(3).raising("ValueError", secret), strands.chat(2, 0.1, 1, finished("")).ok().chose("tool_use"), strands.tool(1, 2, "tooluse_1").raising("ValueError", secret),
		}},
		{name: "strands cut", want: says{1: failed(cut), 2: cut}, spans: []framed{reset(strands.run(2)), reset(strands.chat(2, 0.1, 1, nil))}},
		{name: "strands ended, said to be well", want: says{1: unclear}, spans: []framed{
			strands.run(2).ok(), strands.chat(2, 0.1, 1, values{"gen_ai.usage.input_tokens": 0, "gen_ai.usage.output_tokens": 0}).ok().chose("end_turn"),
		}},
		{name: "strands tool failed, answered", want: says{1: recovered, 3: tool}, spans: []framed{
			strands.run(4).ok(), strands.chat(2, 0.1, 1, finished("")).ok().chose("tool_use"), strands.tool(1, 2, "tooluse_1").raising("ValueError", secret), strands.chat(4, 2.1, 3, finished("")).ok().chose("end_turn"),
		}},
		{name: "strands waits for a person", want: says{1: waits}, spans: []framed{
			strands.run(2).ok().chose("interrupt"), strands.chat(2, 0.1, 1, finished("")).ok().chose("tool_use"),
		}},
		{name: "strands cancelled before its tools", want: says{1: aborted(stopped)}, spans: []framed{
			strands.run(3).ok().chose("cancelled"), strands.chat(2, 0.1, 1, finished("")).ok().chose("tool_use"),
		}},
		{name: "strands cancelled", want: says{1: aborted(stopped), 2: stopped}, spans: []framed{
			strands.run(2).ok(), strands.chat(2, 0.1, 1, values{"gen_ai.usage.output_tokens": 0}).ok().chose("cancelled"),
		}},
		// Microsoft's Agent Framework.
		{name: "ms well", want: says{1: fine}, spans: []framed{
			msAgents.run(4), msAgents.chat(2, 0.1, 1, finishedJSON("tool_calls")), msAgents.tool(1, 2, "call_1"), msAgents.chat(4, 2.1, 3, finishedJSON("stop")),
		}},
		{name: "ms failed", want: says{1: failed(unknown), 2: unknown}, spans: []framed{
			msAgents.run(2).raising("agent_framework.exceptions.ChatClientException", secret), msAgents.chat(2, 0.1, 1, values{"error.type": "ChatClientException"}).raising("agent_framework.exceptions.ChatClientException", secret),
		}},
		{name: "ms tool failed, answered", want: says{1: recovered, 3: tool}, spans: []framed{
			msAgents.run(4), msAgents.chat(2, 0.1, 1, finishedJSON("tool_calls")), msAgents.tool(1, 2, "call_1").raising("ValueError", secret), msAgents.chat(4, 2.1, 3, finishedJSON("stop")),
		}},
		{name: "ms ended without a finish reason", want: says{1: unclear}, spans: []framed{
			msAgents.run(2), msAgents.chat(2, 0.1, 1, values{"gen_ai.response.id": "resp_1", "gen_ai.response.model": "model-test"}),
		}},
		{name: "ms asks a person", want: says{}, spans: []framed{msAgents.run(2), msAgents.chat(2, 0.1, 1, finishedJSON("tool_calls"))}},
		{name: "ms cut", want: says{1: failed(cut), 2: cut}, spans: []framed{
			reset(msAgents.run(2)), reset(msAgents.chat(2, 0.1, 1, values{"error.type": "RemoteProtocolError"})),
		}},
		{name: "ms tool failed", want: says{1: failed(toolEnds), 3: tool}, spans: []framed{
			msAgents.run(3).raising("ValueError", secret), msAgents.chat(2, 0.1, 1, finishedJSON("tool_calls")), msAgents.tool(1, 2, "call_1").raising("ValueError", secret),
		}},
		{name: "ms cancelled", want: says{1: unclear}, spans: []framed{msAgents.run(2), msAgents.chat(2, 0.1, 1, nil)}},
		// AG2: the replies of both agents are beneath the conversation, the calls are those of one and the
		// tools those of the other. From 1.0 on a turn is as in other frameworks.
		{name: "ag2 well", want: says{1: fine}, spans: []framed{
			ag2.conversation(6), ag2.reply(7, "assistant", 0, 1), under(ag2.chat(2, 0.1, 1, finishedJSON("tool_calls")), 7),
			ag2.reply(8, "user", 1, 3), ag2.tool(8, 2, "call_1"), ag2.reply(9, "assistant", 3, 5), under(ag2.chat(4, 3.1, 4, finishedJSON("stop")), 9),
		}},
		{name: "ag2 well, a chat of a group", want: says{1: fine, 10: fine}, spans: []framed{
			ag2.conversation(8), ag2.reply(7, "chat_manager", 0, 7),
			under(func() framed { s := ag2.conversation(7); s.ID, s.Name = 10, "conversation chat_manager"; return s }(), 7),
			ag2.span(11, 10, "speaker_selection", 0.1, 0.2, values{"gen_ai.operation.name": "speaker_selection", "ag2.span.type": "speaker_selection"}),
			under(ag2.reply(9, "coder", 1, 3), 10), under(ag2.chat(4, 1.1, 2, finishedJSON("stop")), 9),
		}},
		{name: "ag2 stopped at its bound on turns", want: says{}, spans: []framed{
			ag2.conversation(6), ag2.reply(7, "assistant", 0, 1), under(ag2.chat(2, 0.1, 1, finishedJSON("tool_calls")), 7),
		}},
		{name: "ag2 refused", want: says{1: failed(limitedRate), 2: limitedRate}, spans: []framed{
			ag2.conversation(2).raising("openai.RateLimitError", secret), ag2.reply(7, "assistant", 0, 1).raising("openai.RateLimitError", secret),
			under(ag2.chat(2, 0.1, 1, values{"error.type": "RateLimitError"}).raising("openai.RateLimitError", secret), 7),
		}},
		{name: "ag2 cut", want: says{1: failed(cut), 2: cut}, spans: []framed{
			reset(ag2.conversation(2)), reset(ag2.reply(7, "assistant", 0, 1)), under(reset(ag2.chat(2, 0.1, 1, nil)), 7),
		}},
		{name: "ag2 limited", want: says{1: limited, 2: tokens}, spans: []framed{
			ag2.conversation(2), ag2.reply(7, "assistant", 0, 1), under(ag2.chat(2, 0.1, 1, finishedJSON("length")), 7),
		}},
		{name: "ag2 tool failed, answered", want: says{1: recovered, 3: tool}, spans: []framed{
			ag2.conversation(6), ag2.reply(7, "assistant", 0, 1), under(ag2.chat(2, 0.1, 1, finishedJSON("tool_calls")), 7), ag2.reply(8, "user", 1, 3),
			func() framed { s := ag2.tool(8, 2, "call_1"); s.values["error.type"] = "ExecutionError"; return s }(),
			ag2.reply(9, "assistant", 3, 5), under(ag2.chat(4, 3.1, 4, finishedJSON("stop")), 9),
		}},
		{name: "ag2 failed for another reason", want: says{1: failed(unknown)}, spans: []framed{
			ag2.conversation(6).raising("ValueError", secret), ag2.reply(7, "assistant", 0, 1), under(ag2.chat(2, 0.1, 1, finishedJSON("stop")), 7),
		}},
		{name: "ag2 1.0 well", want: says{1: fine}, spans: []framed{
			ag2Turn.run(4), ag2Turn.chat(2, 0.1, 1, finished("tool_calls")), ag2Turn.tool(1, 2, "call_1"), ag2Turn.chat(4, 2.1, 3, finished("stop")),
		}},
		{name: "ag2 1.0 tool failed", want: says{1: failed(toolEnds), 3: tool}, spans: []framed{
			ag2Turn.run(3).raising("ValueError", secret), ag2Turn.chat(2, 0.1, 1, finished("tool_calls")), ag2Turn.tool(1, 2, "call_1").raising("ValueError", secret),
		}},
		// Spring AI: there is no run; the client's span groups.
		{name: "spring well", want: says{4: fine}, spans: []framed{
			spring.span(1, 0, "spring_ai chat_client", 0, 4, values{"gen_ai.operation.name": "framework", "spring.ai.kind": "chat_client"}),
			spring.chat(2, 0.1, 1, finishedJSON("TOOL_CALLS")), spring.tool(1, 2, "call_1"), spring.chat(4, 2.1, 3, finishedJSON("STOP")),
		}},
		{name: "spring refused", want: says{2: overloaded}, spans: []framed{
			spring.span(1, 0, "spring_ai chat_client", 0, 2, values{"gen_ai.operation.name": "framework", "spring.ai.kind": "chat_client"}).raising("org.springframework.web.client.HttpServerErrorException$ServiceUnavailable", secret),
			spring.chat(2, 0.1, 1, nil).raising("org.springframework.web.client.HttpServerErrorException$ServiceUnavailable", secret),
		}},
		{name: "spring cut", want: says{2: cut}, spans: []framed{
			spring.span(1, 0, "spring_ai chat_client", 0, 2, values{"gen_ai.operation.name": "framework", "spring.ai.kind": "chat_client"}),
			spring.chat(2, 0.1, 1, values{"gen_ai.request.stream": "true"}).raising("reactor.netty.http.client.PrematureCloseException", "Connection prematurely closed DURING response"),
		}},
		{name: "spring ended without a finish reason", want: says{2: ended}, spans: []framed{
			spring.span(1, 0, "spring_ai chat_client", 0, 2, values{"gen_ai.operation.name": "framework"}),
			spring.chat(2, 0.1, 1, values{"gen_ai.request.stream": "true", "gen_ai.response.id": "resp_1", "gen_ai.usage.input_tokens": "0", "gen_ai.usage.output_tokens": "0"}),
		}},
		{name: "spring no longer read", want: says{2: stopped}, spans: []framed{
			spring.span(1, 0, "spring_ai chat_client", 0, 2, values{"gen_ai.operation.name": "framework", "spring.ai.kind": "chat_client"}),
			spring.chat(2, 0.1, 1, values{"gen_ai.request.stream": "true"}),
		}},
		// Google's ADK: the tool is beneath the call that asked for it.
		{name: "adk well", want: says{1: fine}, spans: []framed{
			adk.span(9, 0, "invocation", 0, 4.1, nil), under(adk.run(4), 9),
			adkCall(2, 0.1, 2.2, finished("stop")), adk.tool(2, 2, "adk-1"), adkCall(4, 2.3, 3, finished("stop")),
		}},
		{name: "adk well, with the model's client instrumented", want: says{1: fine}, spans: []framed{
			adk.run(4), adkCall(2, 0.1, 2.2, finished("stop")),
			adk.span(5, 2, "generate_content gemini-test", 0.2, 1, values{"gen_ai.operation.name": "generate_content", "gen_ai.response.finish_reasons": []any{"stop"}}),
			adk.tool(2, 2, "<not specified>"), adkCall(4, 2.3, 3, finished("stop")),
			adk.span(6, 4, "generate_content gemini-test", 2.4, 2.9, values{"gen_ai.operation.name": "generate_content", "gen_ai.response.finish_reasons": []any{"stop"}}),
		}},
		{name: "adk refused", want: says{1: failed(overloaded), 2: overloaded}, spans: []framed{
			adk.run(2).raising("google.genai.errors.ServerError", "503 UNAVAILABLE. "+secret), adkCall(2, 0.1, 1, nil).raising("google.genai.errors.ServerError", "503 UNAVAILABLE. "+secret),
		}},
		{name: "adk cut", want: says{1: failed(cut), 2: cut}, spans: []framed{reset(adk.run(2)), reset(adkCall(2, 0.1, 1, values{}))}},
		{name: "adk tool failed", want: says{1: failed(toolEnds), 3: tool}, spans: []framed{
			adk.run(3).raising("ValueError", secret), adkCall(2, 0.1, 2.2, finished("stop")), adk.tool(2, 2, "<not specified>").raising("ValueError", secret),
		}},
		{name: "adk asks a person", want: says{1: fine}, spans: []framed{adk.run(2), adkCall(2, 0.1, 1, finished("stop"))}},
		{name: "adk tool failed, answered", want: says{1: recovered, 3: tool}, spans: []framed{
			adk.run(4), adkCall(2, 0.1, 2.2, finished("stop")), adk.tool(2, 2, "adk-1").raising("ValueError", secret), adkCall(4, 2.3, 3, finished("stop")),
		}},
		{name: "adk ended without a finish reason", want: says{1: unclear}, spans: []framed{adk.run(2), adkCall(2, 0.1, 1, values{})}},
		{name: "adk cancelled", want: says{1: unclear}, spans: []framed{adk.run(2), adkCall(2, 0.1, 1, nil)}},
		// Anthropic's SDK for Python over its API, whose spans are beneath the SDK's.
		{name: "claude well", want: says{1: fine}, spans: []framed{
			claudePy.run(4).ok(), claudePy.chat(2, 0.1, 1, claudeDone("tool_use")).ok(), claudeAPI(5, 2, 0.2, 0.9, claudeDone("tool_use")).ok(),
			claudePy.tool(1, 2, "toolu_1").ok(), claudePy.chat(4, 2.1, 3, claudeDone("end_turn")).ok(), claudeAPI(6, 4, 2.2, 2.9, claudeDone("end_turn")).ok(),
		}},
		{name: "claude overloaded", want: says{1: failed(overloaded), 2: overloaded, 5: overloaded}, spans: []framed{
			claudePy.run(2).raising("", ""), failing(claudePy.chat(2, 0.1, 1, nil), "overloaded_error", 529), failing(claudeAPI(5, 2, 0.2, 0.9, nil), "overloaded_error", 529),
		}},
		{name: "claude cut, the API was well", want: says{1: failed(unknown), 2: unknown}, spans: []framed{
			claudePy.run(2).raising("", ""), failing(claudePy.chat(2, 0.1, 1, nil), "api_error", 200), claudeAPI(5, 2, 0.2, 0.9, claudeDone("end_turn")).ok(),
		}},
		{name: "claude broke, the API says why", want: says{1: failed(unknown), 2: unknown, 5: overloaded}, spans: []framed{
			claudePy.run(2).raising("", ""), failing(claudePy.chat(2, 0.1, 1, nil), "api_error", 200), failing(claudeAPI(5, 2, 0.2, 0.9, nil), "overloaded_error", 200),
		}},
		{name: "claude broke, the API was cancelled", want: says{1: failed(unknown), 2: unknown, 5: stopped}, spans: []framed{
			claudePy.run(2).raising("", ""), failing(claudePy.chat(2, 0.1, 1, nil), "api_error", 200), claudeAPI(5, 2, 0.2, 0.9, values{"http.response.status_code": 200}),
		}},
		{name: "claude tool failed", want: says{1: failed(toolEnds), 3: tool}, spans: []framed{
			claudePy.run(3).raising("", ""), claudePy.chat(2, 0.1, 1, claudeDone("tool_use")).ok(), failing(claudePy.tool(1, 2, "toolu_1"), "tool_error", 0),
		}},
		{name: "claude cancelled", want: says{1: aborted(stopped), 2: stopped, 5: stopped}, spans: []framed{
			claudePy.run(2), claudePy.chat(2, 0.1, 1, values{"http.response.status_code": 200}), claudeAPI(5, 2, 0.2, 0.9, values{"http.response.status_code": 200}),
		}},
		{name: "claude tool failed, answered", want: says{1: recovered, 3: tool}, spans: []framed{
			claudePy.run(4).ok(), claudePy.chat(2, 0.1, 1, claudeDone("tool_use")).ok(), failing(claudePy.tool(1, 2, "toolu_1"), "tool_error", 0), claudePy.chat(4, 2.1, 3, claudeDone("end_turn")).ok(),
		}},
		{name: "claude API alone", want: says{5: ownError}, spans: []framed{failing(claudeAPI(5, 0, 0.2, 0.9, nil), "api_error", 500)}},
		// vLLM beneath a client of the conventions.
		{name: "vllm well", want: says{1: fine}, spans: []framed{
			msAgents.run(2), msAgents.chat(2, 0.1, 1, finishedJSON("stop")), vllm.span(5, 2, "llm_request", 0.2, 0.9, nil).kindOf(ptrace.SpanKindServer).served("vllm"),
		}},
		{name: "vllm, the client's stream was cut", want: says{1: failed(cut), 2: cut}, spans: []framed{
			reset(msAgents.run(2)), reset(msAgents.chat(2, 0.1, 1, nil)), vllm.span(5, 2, "llm_request", 0.2, 1.5, nil).kindOf(ptrace.SpanKindServer).served("vllm"),
		}},
		{name: "vllm alone", want: says{}, spans: []framed{vllm.span(5, 0, "llm_request", 0.2, 0.9, nil).kindOf(ptrace.SpanKindServer).served("vllm")}},
		// The coming container of a turn.
		{name: "turn well", want: says{9: fine, 1: fine}, spans: []framed{
			msAgents.span(9, 0, "handle_conversation_turn", 0, 4.1, values{"gen_ai.operation.name": "handle_conversation_turn"}), under(msAgents.run(4), 9),
			msAgents.chat(2, 0.1, 1, finishedJSON("stop")),
		}},
		{name: "command failed, answered", want: says{1: recovered, 3: tool}, spans: []framed{
			msAgents.run(4), msAgents.chat(2, 0.1, 1, finishedJSON("tool_calls")),
			func() framed { s := msAgents.tool(1, 2, "call_1"); s.values["error.type"] = "127"; return s }(), msAgents.chat(4, 2.1, 3, finishedJSON("stop")),
		}},
	}
}
