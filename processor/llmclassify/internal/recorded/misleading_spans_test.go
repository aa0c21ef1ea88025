package recorded

import (
	"fmt"
	"maps"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/harness"
	"github.com/otelllm/otelllm-go/semconv"
)

// The spans of these tests are shaped after public reports of spans that mislead. The reports
// are named where the shape is; each shape is played for several producers.

// producers are those that record a chat, a tool and a run by the conventions.
var producers = map[string]framework{
	"pydantic-ai": pydantic, "Strands": strands, "Spring AI": spring, "Agent Framework": msAgents, "ADK": adk,
	"by hand": {"my.agent", values{}}, "OpenTelemetry for Python": {"opentelemetry.instrumentation.openai_v2", values{"gen_ai.provider.name": "openai"}},
	"LangChain by OpenLLMetry": langGraph, "OpenAI's agents for JavaScript": {"@opentelemetry/instrumentation-openai-agents", values{}},
}

// eachProducer plays spans of each producer, and returns what is said of each span.
func eachProducer(t *testing.T, play func(f framework) []framed, check func(t *testing.T, got says)) {
	t.Helper()
	for name, f := range producers {
		t.Run(name, func(t *testing.T) {
			got := whatIsSaid(t, play(f)...)
			for id, v := range got {
				assert.NotEqual(t, semconv.RetrySafetySafeAutoRetry, v.safety, "span %d", id)
			}
			check(t, got)
		})
	}
}

// The reason error on a span that did not fail says that the answer was not complete, and
// nothing of who ended it: open-telemetry/semantic-conventions-genai, gen_ai.response.finish_reasons.
func TestFinishReasonError(t *testing.T) {
	for _, reasons := range [][]any{{"error"}, {"error", "error"}, {"stop", "error"}} {
		for _, ok := range []bool{false, true} {
			eachProducer(t, func(f framework) []framed {
				chat := f.chat(2, .1, 1, values{"gen_ai.response.finish_reasons": reasons, "gen_ai.request.stream": true})
				if ok {
					chat = chat.ok()
				}
				return []framed{f.run(2), chat}
			}, func(t *testing.T, got says) {
				assert.NotContains(t, []semconv.Class{semconv.ClassLocalAbort, semconv.ClassStreamInterrupted}, got[2].class, "%v, OK %v", reasons, ok)
				assert.NotContains(t, []semconv.RunOutcome{semconv.RunOutcomeSucceeded, semconv.RunOutcomeAborted, semconv.RunOutcomeRecovered}, got[1].outcome)
			})
		}
	}
	got := whatIsSaid(t, producers["by hand"].chat(2, .1, 1, finished("error")))
	assert.Equal(t, said{
		class: semconv.ClassUnclassified, cause: semconv.CauseUnknown, origin: semconv.OriginUnknown, confidence: semconv.ConfidenceLow, safety: harness.Confirm,
	}, got[2], "a request alone")
}

// A response in the background: it is requested, fetched until it is there, and the state is what
// counts. open-telemetry/semantic-conventions-genai, pull request 353.
func TestFetchedResponse(t *testing.T) {
	f := producers["OpenTelemetry for Python"]
	state := func(id byte, operation, state string, more values) framed {
		if state != "" {
			more["gen_ai.response.status"] = state
		}
		more["gen_ai.operation.name"], more["gen_ai.response.id"] = operation, "resp_1"
		s := f.chat(id, float64(id), float64(id)+.5, more)
		s.Name = operation + " model-test"
		return s
	}
	for _, tt := range []struct {
		name  string
		last  framed
		want  semconv.RunOutcome
		cause semconv.Cause
	}{
		{"completed", state(5, "fetch_response", "completed", values{}), semconv.RunOutcomeSucceeded, 0},
		{"completed, with the reason", state(5, "fetch_response", "completed", values{"gen_ai.response.finish_reasons": []any{"stop"}}), semconv.RunOutcomeSucceeded, 0},
		{"in progress", state(5, "fetch_response", "in_progress", values{}), semconv.RunOutcomeWaiting, 0},
		{"queued", state(5, "fetch_response", "queued", values{}), semconv.RunOutcomeWaiting, 0},
		{"incomplete", state(5, "fetch_response", "incomplete", values{"gen_ai.response.finish_reasons": []any{"length"}}), semconv.RunOutcomeLimited, semconv.CauseMaxOutputTokens},
		{"incomplete, without the reason", state(5, "fetch_response", "incomplete", values{}), semconv.RunOutcomeLimited, semconv.CauseUnknown},
		{"failed", state(5, "fetch_response", "failed", values{"gen_ai.response.finish_reasons": []any{"error"}}), semconv.RunOutcomeFailed, semconv.CauseUnknown},
		{"failed, and the span is OK", state(5, "fetch_response", "failed", values{}).ok(), semconv.RunOutcomeFailed, semconv.CauseUnknown},
		{"cancelled", state(5, "fetch_response", "cancelled", values{"gen_ai.response.finish_reasons": []any{"error"}}), semconv.RunOutcomeFailed, semconv.CauseCancelled},
		{"the fetch failed", failing(state(5, "fetch_response", "", values{}), "InternalServerError", 503), semconv.RunOutcomeFailed, semconv.CauseOverloaded},
		{"a state that is not known here", state(5, "fetch_response", "half_way", values{}), semconv.RunOutcomeIncomplete, semconv.CauseUnknown},
	} {
		got := whatIsSaid(t, f.run(7), state(2, "chat", "queued", values{}), state(3, "fetch_response", "queued", values{}),
			state(4, "fetch_response", "in_progress", values{}), tt.last)
		assert.Equal(t, tt.want, got[1].outcome, tt.name)
		assert.Equal(t, tt.cause, got[1].cause, tt.name)
		for id := byte(2); id < 5; id++ {
			assert.Equal(t, said{}, got[id], "%s: span %d", tt.name, id)
		}
	}
	got := whatIsSaid(t, f.run(7), state(2, "chat", "queued", values{}), failing(state(3, "fetch_response", "", values{}), "ServiceUnavailableError", 503),
		state(5, "fetch_response", "completed", values{}))
	assert.Equal(t, semconv.RunOutcomeRecovered, got[1].outcome, "a poll that failed, and one that did not")
}

// A tool that waits for a person or a job is no failure, however the framework says so:
// pydantic/pydantic-ai 4530, pydantic/logfire 1515, langfuse/langfuse 14034, DataDog/dd-trace-py
// 16614, langchain-ai/langsmith-sdk 1127.
func TestWaitingTools(t *testing.T) {
	for _, class := range []string{
		"pydantic_ai.exceptions.ApprovalRequired", "pydantic_ai.exceptions.CallDeferred", "ApprovalRequired", "langgraph.errors.GraphInterrupt",
		"langgraph.errors.NodeInterrupt", "crewai.flow.async_feedback.types.HumanFeedbackPending", "workflows.runtime.types.step_function.WaitingForEvent",
		"haystack.core.errors.BreakpointException", "HITLBreakpointException", "genkit.blocks.tools.ToolInterruptError",
		"google.adk.workflow._errors.NodeInterruptedError", "strands.types.interrupt.InterruptException", "WorkflowSuspension",
		"mcp.shared.exceptions.UrlElicitationRequiredError",
	} {
		t.Run(class, func(t *testing.T) {
			eachProducer(t, func(f framework) []framed {
				return []framed{f.run(2), f.chat(2, .1, 1, finished("tool_calls")), f.tool(1, 1.5, "call_1").raising(class, secret)}
			}, func(t *testing.T, got says) {
				assert.Equal(t, says{1: {outcome: semconv.RunOutcomeWaiting}, 2: {}, 3: {}}, got)
			})
			got := whatIsSaid(t, pydantic.run(2).raising(class, secret), pydantic.chat(2, .1, 1, finished("tool_calls")))
			assert.Equal(t, semconv.RunOutcomeWaiting, got[1].outcome, "the run raises it")
		})
	}
	for _, class := range []string{"skyward.NodeInterruptedError", "orange.InterruptException", "sync.BreakpointException", "ApprovalDenied"} {
		f := producers["by hand"]
		got := whatIsSaid(t, f.run(2), f.chat(2, .1, 1, finished("tool_calls")), f.tool(1, 1.5, "call_1").raising(class, secret))
		assert.Equal(t, semconv.ClassToolFailed, got[3].class, "%s means something else", class)
	}
}

// What a producer says of a tool in attributes of its own: Rig and others.
func TestToolOutcomeAttributes(t *testing.T) {
	f := producers["by hand"]
	const failed, rejected, invalid, late, stopped = semconv.CauseExecutionError, semconv.CauseRejected, semconv.CauseInvalidInput, semconv.CauseTimeout, semconv.CauseUnknown
	for _, tt := range []struct {
		attrs values
		cause semconv.Cause // 0: it did not fail
	}{
		{values{"gen_ai.tool.call.outcome": "success"}, 0},
		{values{"gen_ai.tool.call.outcome": "error"}, failed},
		{values{"gen_ai.tool.call.outcome": "ERROR"}, failed},
		{values{"gen_ai.tool.call.outcome": "failed"}, failed},
		{values{"gen_ai.tool.call.outcome": "error", "gen_ai.tool.error.type": "network"}, failed},
		{values{"gen_ai.tool.call.outcome": "error", "gen_ai.tool.error.type": "timeout"}, late},
		{values{"gen_ai.tool.call.outcome": "error", "gen_ai.tool.error.type": "invalid_args"}, invalid},
		{values{"gen_ai.tool.call.outcome": "error", "gen_ai.tool.error.type": "cancelled"}, stopped},
		{values{"gen_ai.tool.call.outcome": "denied", "gen_ai.tool.error.type": "permission_denied"}, rejected},
		{values{"gen_ai.tool.error.type": "provider"}, failed},
		{values{"gen_ai.tool.call.outcome": "timeout"}, late},
		{values{"gen_ai.tool.call.outcome": "skipped"}, 0},
		{values{"gen_ai.tool.call.outcome": "approval_required"}, 0},
		{values{"gen_ai.tool.call.outcome": "of a later version"}, 0},
		{values{"gen_ai.tool.call.outcome": 7}, 0},
	} {
		tool := f.tool(1, 1.5, "call_1")
		maps.Copy(tool.values, tt.attrs)
		got := whatIsSaid(t, f.run(4), f.chat(2, .1, 1, finished("tool_calls")), tool, f.chat(4, 2, 3, finished("stop")))
		assert.Equal(t, tt.cause, got[3].cause, "%v", tt.attrs)
		want := semconv.RunOutcomeSucceeded
		if tt.cause != 0 && tt.cause != stopped {
			want = semconv.RunOutcomeRecovered
		}
		assert.Equal(t, want, got[1].outcome, "%v: the model answered", tt.attrs)
		if tt.cause == failed {
			got = whatIsSaid(t, f.run(4), f.chat(2, .1, 1, finished("tool_calls")), tool)
			assert.Equal(t, semconv.ClassToolFailed, got[1].class, "%v: the run ends on it", tt.attrs)
		}
	}
	tool := f.tool(1, 1.5, "call_1").raising("ValueError", secret)
	tool.values["gen_ai.tool.call.outcome"] = "success"
	got := whatIsSaid(t, f.run(4), f.chat(2, .1, 1, finished("tool_calls")), tool)
	assert.Equal(t, semconv.ClassToolFailed, got[3].class, "an error outweighs it")
}

// The loser of a hedge is cancelled once the other attempt was answered:
// open-telemetry/opentelemetry-specification 4677.
func TestHedgedRequests(t *testing.T) {
	for name, loser := range map[string]func(s framed) framed{
		"CancelledError": func(s framed) framed { return s.raising("asyncio.exceptions.CancelledError", "") },
		"AbortError":     func(s framed) framed { return failing(s, "AbortError", 0) },
		"no reason came": func(s framed) framed { s.values["gen_ai.response.finish_reasons"] = []any{"error"}; return s },
		"GeneratorExit":  func(s framed) framed { return s.raising("GeneratorExit", "") },
	} {
		for times, ends := range map[string][2]float64{"cancelled after the answer": {2, 2.01}, "cancelled as the answer began": {2, 1}, "both at once": {2, 2}} {
			for _, ok := range []bool{false, true} {
				t.Run(fmt.Sprint(name, ", ", times, ", the run is OK: ", ok), func(t *testing.T) {
					f := producers["by hand"]
					run := f.run(3)
					if ok {
						run = run.ok()
					}
					got := whatIsSaid(t, run, f.chat(2, .1, ends[0], finished("stop")), loser(f.chat(3, .5, ends[1], values{})))
					assert.Equal(t, semconv.RunOutcomeSucceeded, got[1].outcome)
				})
			}
		}
		f := producers["by hand"]
		got := whatIsSaid(t, f.run(9), f.chat(2, .1, 2, finished("stop")), loser(f.chat(3, .5, 8, values{})))
		assert.NotEqual(t, semconv.RunOutcomeSucceeded, got[1].outcome, "%s: cancelled long after", name)
		got = whatIsSaid(t, f.run(9), f.chat(2, .1, 1, finished("stop")), loser(f.chat(3, 1.1, 1.5, values{})))
		assert.NotEqual(t, semconv.RunOutcomeSucceeded, got[1].outcome, "%s: the next step", name)
		got = whatIsSaid(t, f.run(9).raising("ValueError", ""), f.chat(2, .1, 2, finished("stop")), loser(f.chat(3, .5, 2, values{})))
		assert.NotEqual(t, semconv.RunOutcomeSucceeded, got[1].outcome, "%s: the run failed", name)
	}
}

// An attempt that ran into its own deadline, and a fallback that answered:
// langchain-ai/open-swe 2863.
func TestDeadlineThenFallback(t *testing.T) {
	for _, class := range []string{"TimeoutError", "asyncio.exceptions.TimeoutError", "builtins.TimeoutError"} {
		eachProducer(t, func(f framework) []framed {
			return []framed{f.run(4), f.chat(2, .1, 1, values{}).raising(class, secret), f.chat(4, 1.5, 3, finished("stop"))}
		}, func(t *testing.T, got says) {
			assert.Equal(t, semconv.RunOutcomeRecovered, got[1].outcome, class)
		})
	}
}

// A run that is marked with the error of an attempt from which it recovered:
// open-telemetry/opentelemetry-js-contrib 3699.
func TestCopiedError(t *testing.T) {
	const text = "Error code: 429 - rate limit reached for requests"
	marked := func(s framed, errorType, message string) framed {
		s.Status = ptrace.StatusCodeError
		if errorType != "" {
			s.values["error.type"] = errorType
		}
		s.raised, s.words = "", message
		return s
	}
	f := producers["OpenAI's agents for JavaScript"]
	for _, tt := range []struct {
		name         string
		attempt, run [2]string
		last         values
		want         semconv.RunOutcome
	}{
		{"the type", [2]string{"RateLimitError"}, [2]string{"RateLimitError"}, finished("stop"), semconv.RunOutcomeRecovered},
		{"the type with its package", [2]string{"openai.RateLimitError"}, [2]string{"RateLimitError"}, finished("stop"), semconv.RunOutcomeRecovered},
		{"the code of a connection", [2]string{"ECONNRESET"}, [2]string{"ECONNRESET"}, finished("stop"), semconv.RunOutcomeRecovered},
		{"another type", [2]string{"RateLimitError"}, [2]string{"ValueError"}, finished("stop"), semconv.RunOutcomeFailed},
		{"a type that says little", [2]string{"ValueError"}, [2]string{"ValueError"}, finished("stop"), semconv.RunOutcomeFailed},
		{"the last answer asked for a tool", [2]string{"RateLimitError"}, [2]string{"RateLimitError"}, finished("tool_calls"), semconv.RunOutcomeFailed},
		{"the last answer is not known", [2]string{"RateLimitError"}, [2]string{"RateLimitError"}, values{}, semconv.RunOutcomeFailed},
	} {
		got := whatIsSaid(t, marked(f.run(4), tt.run[0], ""), marked(f.chat(2, .1, 1, values{}), tt.attempt[0], ""), f.chat(4, 1.5, 3, tt.last))
		assert.Equal(t, tt.want, got[1].outcome, tt.name)
	}
	td := framedTraces(t, []framed{marked(f.run(4), "", ""), marked(f.chat(2, .1, 1, values{}), "", ""), f.chat(4, 1.5, 3, finished("stop"))})
	for _, message := range []string{text, "failed"} {
		h := harness.New(t, harness.DefaultConfig(), nil)
		in := ptrace.NewTraces()
		td.CopyTo(in)
		for id, span := range harness.SpansOf(in) {
			if id != harness.SpanID(4) {
				span.Status().SetMessage(message)
			}
		}
		require.NoError(t, h.ConsumeTraces(t.Context(), in))
		h.Pass(t, harness.MaxHold)
		want := semconv.RunOutcomeRecovered
		if message != text {
			want = semconv.RunOutcomeFailed
		}
		assert.Equal(t, want, saidOf(harness.SpansOf(h.Out())[harness.SpanID(1)]).outcome, message)
	}
}

// An eBPF instrumentation sees a limited part of a stream: what it did not capture says nothing.
// open-telemetry/opentelemetry-ebpf-instrumentation 2174 and 2267.
func TestLimitedCapture(t *testing.T) {
	http := values{"http.request.method": "POST", "url.full": "https://api.openai.com/v1/chat/completions", "http.response.status_code": 200, "gen_ai.provider.name": "openai"}
	for name, scope := range map[string]string{
		"OBI": "go.opentelemetry.io/obi", "Beyla": "github.com/grafana/beyla/v3", "before the move": "github.com/open-telemetry/opentelemetry-ebpf-instrumentation",
		"in the resource": "", "in the resource, older": "",
	} {
		f := framework{scope, http}
		for what, more := range map[string]values{
			"no finish reason":      {"gen_ai.request.stream": true},
			"an empty list of them": {"gen_ai.request.stream": true, "gen_ai.response.finish_reasons": []any{}},
			"no tokens":             {"gen_ai.request.stream": true, "gen_ai.usage.input_tokens": 9, "gen_ai.usage.output_tokens": 0},
			"the reason error":      {"gen_ai.request.stream": true, "gen_ai.response.finish_reasons": []any{"error"}},
			"nothing at all":        {},
		} {
			td := framedTraces(t, []framed{f.chat(2, .1, 1, more)})
			resource := td.ResourceSpans().At(0).Resource().Attributes()
			switch name {
			case "in the resource":
				resource.PutStr("otel.scope.name", "go.opentelemetry.io/obi")
			case "in the resource, older":
				resource.PutStr("otel.library.name", "go.opentelemetry.io/obi")
			}
			h := harness.New(t, harness.DefaultConfig(), nil)
			require.NoError(t, h.ConsumeTraces(t.Context(), td))
			h.Pass(t, harness.MaxHold)
			assert.Equal(t, said{}, saidOf(harness.SpansOf(h.Out())[harness.SpanID(2)]), "%s: %s", name, what)
		}
	}
	f := framework{"go.opentelemetry.io/obi", http}
	got := whatIsSaid(t, failing(f.chat(2, .1, 1, values{}), "rate_limit_exceeded", 429))
	assert.Equal(t, semconv.CauseRateLimited, got[2].cause, "a status was on the wire")
	got = whatIsSaid(t, f.chat(2, .1, 1, finished("length")))
	assert.Equal(t, semconv.CauseMaxOutputTokens, got[2].cause, "and so was a reason")
	unanswered := f.chat(2, .1, 1, values{})
	delete(unanswered.values, "http.response.status_code")
	unanswered.Status = ptrace.StatusCodeError
	assert.Equal(t, said{}, whatIsSaid(t, unanswered)[2], "an error in older versions: the response was not captured")
	call := f.span(3, 2, "execute_tool write", .1, 1, values{"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "write", "gen_ai.tool.call.id": "call_1"})
	got = whatIsSaid(t, f.chat(2, .1, 1, finished("tool_calls")), call)
	assert.Equal(t, says{2: {}, 3: {}}, got, "a call in a response is no execution, and no run")
}

// OpenInference sets OK on ADK's spans before the call ends; the exception of it is recorded
// beside OK: Arize-ai/openinference 3415.
func TestOKStatusBesideAnException(t *testing.T) {
	tool := adk.tool(2, 1.5, "call_1").raising("ValueError", secret).ok()
	tool.values["openinference.span.kind"] = "TOOL"
	got := whatIsSaid(t, adk.run(4), adkCall(2, .1, 2, finished("tool_calls")), tool)
	assert.Equal(t, semconv.ClassToolFailed, got[3].class)

	call := adkCall(2, .1, 2, values{"openinference.span.kind": "LLM"}).raising("httpx.RemoteProtocolError", secret).ok()
	got = whatIsSaid(t, adk.run(4).ok(), call)
	assert.Equal(t, semconv.ClassStreamInterrupted, got[2].class)
	assert.Equal(t, semconv.RunOutcomeFailed, got[1].outcome)

	f := openInferenceFor("google_adk")
	llm := f.oiLLM(values{"llm.token_count.completion": 6, "llm.finish_reason": "tool_calls"}).ok()
	other := f.span(3, 1, "write", 1.1, 2, values{"openinference.span.kind": "TOOL", "tool.name": "write"}).raising("ValueError", secret).ok()
	got = whatIsSaid(t, f.oiAgent(4).ok(), llm, other)
	assert.NotEqual(t, semconv.RunOutcomeSucceeded, got[1].outcome)
}

// A 500 that a proxy answers with, although the proxy's own request was answered, is the proxy's:
// PrimeIntellect-ai/verifiers 1196. Its span is beneath the agent's, of its service or of another.
func TestErrorOfAProxy(t *testing.T) {
	f := producers["by hand"]
	for _, service := range []string{"", "proxy"} {
		for status, kind := range map[int]semconv.Cause{500: semconv.CauseServerError, 502: semconv.CauseServerError, 503: semconv.CauseOverloaded, 504: semconv.CauseTimeout} {
			failed := failing(f.chat(2, .1, 2, values{}), strconv.Itoa(status), status)
			proxy := under(f.chat(3, .2, 1.9, finished("stop")), 2).served(service)
			got := whatIsSaid(t, f.run(3), failed, proxy)
			for _, id := range []byte{1, 2} {
				assert.Equal(t, semconv.ClassProviderError, got[id].class, "service %q, status %d, span %d", service, status, id)
				assert.Equal(t, kind, got[id].cause, "service %q, status %d, span %d", service, status, id)
				assert.Equal(t, semconv.OriginGateway, got[id].origin, "service %q, status %d, span %d", service, status, id)
			}
			assert.Equal(t, said{}, got[3])
			refusedBeneath := failing(under(f.chat(3, .2, 1.9, values{}), 2).served(service), "500", 500)
			got = whatIsSaid(t, f.run(3), failed, refusedBeneath)
			assert.Equal(t, semconv.OriginProvider, got[2].origin, "service %q, status %d: the provider's own", service, status)
		}
	}
	refused := failing(f.chat(2, .1, 2, values{}), "401", 401)
	got := whatIsSaid(t, f.run(3), refused, under(f.chat(3, .2, 1.9, finished("stop")), 2).served("proxy"))
	assert.Equal(t, semconv.CauseAuthentication, got[2].cause)
}
