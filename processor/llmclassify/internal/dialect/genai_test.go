package dialect

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
)

const pythonAgents = "opentelemetry.instrumentation.openai_agents"

// OpenAI's agents SDK for Python, as OpenLLMetry and OpenTelemetry record it: one scope,
// and OK unless the SDK recorded an error.
func TestPythonAgents(t *testing.T) {
	type m = map[string]any
	const finish = "gen_ai.response.finish_reasons"
	response := func(status ptrace.StatusCode, more m) shape {
		attrs := m{"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai"}
		maps.Copy(attrs, more)
		return shape{scope: pythonAgents, name: "openai.response", kind: ptrace.SpanKindClient, status: status, attrs: attrs}
	}
	ok := func(r classify.Request) classify.Request { r.Failed = classify.No; return r }
	checkRequests(t, GenAI{}, []requestCase{
		{"completed", response(statusOK, m{finish: []any{"stop"}, "gen_ai.usage.output_tokens": 6}), []truth{success}, well, ok(answered(classify.FinishStop))},
		{"without a finish reason, counted", response(statusOK, m{"gen_ai.usage.output_tokens": 6}), []truth{success}, well, classify.Request{Failed: classify.No}},
		{
			"incomplete", response(statusOK, m{finish: []any{"incomplete"}, "gen_ai.usage.output_tokens": 6}),
			[]truth{limited},
			verdict{semconv.ClassOutputLimited, semconv.CauseUnknown, medium, never},
			ok(answered(classify.FinishLimited)),
		},
		{
			"incomplete, in a call", response(statusOK, m{finish: []any{"incomplete", "tool_call"}}),
			[]truth{limited},
			verdict{semconv.ClassOutputLimited, semconv.CauseUnknown, medium, never},
			ok(answered(classify.FinishLimited)),
		},
		{"nothing of a response: cut, or no longer read", response(statusOK, nil), []truth{cut, stopped}, unknown, classify.Request{}},
		{"an error", response(statusError, nil), []truth{cut, refusal, passing}, unclassified, failedWith(classify.Request{})},
	})
	agent := shape{scope: pythonAgents, status: statusOK, attrs: m{"gen_ai.operation.name": "invoke_agent"}}
	for _, by := range []Dialect{GenAI{scopePythonAgents}, OpenLLMetry{scopePythonAgents}} {
		_, d, facts := agent.read(t)
		assert.Equal(t, by, d)
		assert.Equal(t, &classify.Run{Start: start, End: end, Ended: classify.Yes}, facts.Run, "its OK is no success")
		agent.attrs["traceloop.span.kind"] = "agent"
	}
	tool := shape{scope: pythonAgents, status: statusError, attrs: m{"gen_ai.operation.name": "execute_tool", "traceloop.span.kind": "tool", "gen_ai.tool.name": "write"}}
	_, _, facts := tool.read(t)
	assert.Equal(t, &classify.Tool{Start: start, End: end, Name: "write", Outcome: semconv.ToolOutcomeFailed}, facts.Tool)
}

func TestGenAIRequest(t *testing.T) {
	const (
		unset = ptrace.StatusCodeUnset
		ok    = ptrace.StatusCodeOk
		err   = ptrace.StatusCodeError
	)
	list := func(s ...any) []any { return s }
	for _, tt := range []struct {
		name       string
		status     ptrace.StatusCode
		attrs      map[string]any
		exceptions []string
		want       classify.Request // without times
	}{
		{"nothing known", unset, nil, nil, classify.Request{Phase: semconv.PhaseUnknown}},
		{
			"finished", unset,
			map[string]any{"gen_ai.response.finish_reasons": list("stop")},
			nil,
			classify.Request{Phase: semconv.PhaseStreamEnd, Ended: semconv.StreamEndTerminalEvent, Basis: classify.Typed, Finish: classify.FinishStop},
		},
		{
			"finished after an exception that was got over", unset,
			map[string]any{"gen_ai.response.finish_reasons": list("stop")},
			[]string{"RateLimitError"},
			classify.Request{Phase: semconv.PhaseStreamEnd, Ended: semconv.StreamEndTerminalEvent, Basis: classify.Typed, Finish: classify.FinishStop},
		},
		{
			"stream without a finish reason", unset,
			map[string]any{"gen_ai.request.stream": true},
			nil,
			classify.Request{Phase: semconv.PhaseUnknown, Ended: semconv.StreamEndEOF},
		},
		{
			"stream of a producer that counts and records no finish reason", unset,
			map[string]any{"gen_ai.request.stream": true, "gen_ai.usage.output_tokens": 20},
			nil,
			classify.Request{Phase: semconv.PhaseUnknown},
		},
		{
			"stream with an empty list, counted", unset,
			map[string]any{"gen_ai.request.stream": true, "gen_ai.response.finish_reasons": list(), "gen_ai.usage.output_tokens": 20},
			nil,
			classify.Request{Phase: semconv.PhaseUnknown, Ended: semconv.StreamEndEOF, Finish: classify.FinishMissing},
		},
		{
			"stream with an empty list", unset,
			map[string]any{"gen_ai.request.stream": true, "gen_ai.response.finish_reasons": list()},
			nil,
			classify.Request{Phase: semconv.PhaseUnknown, Ended: semconv.StreamEndEOF, Finish: classify.FinishMissing},
		},
		{
			"stream without a finish reason, said to be well", ok,
			map[string]any{"gen_ai.request.stream": true},
			nil,
			classify.Request{Phase: semconv.PhaseUnknown}, // it may no longer have been read
		},
		{
			"stream without a finish reason, said to be well, and counted", ok,
			map[string]any{"gen_ai.request.stream": true, "gen_ai.usage.output_tokens": 5},
			nil,
			classify.Request{Phase: semconv.PhaseUnknown, Failed: classify.No},
		},
		{
			"no stream, said to be well", ok,
			nil,
			nil,
			classify.Request{Phase: semconv.PhaseUnknown, Failed: classify.No},
		},
		{
			"stream without a finish reason and without a token", unset,
			map[string]any{"gen_ai.request.stream": true, "gen_ai.usage.input_tokens": 12, "gen_ai.usage.output_tokens": 0},
			nil,
			emptied(classify.FinishNotObserved, classify.Inferred),
		},
		{
			"stream with an empty list and without a token", unset,
			map[string]any{"gen_ai.request.stream": true, "gen_ai.response.finish_reasons": list(), "gen_ai.usage.input_tokens": 12, "gen_ai.usage.output_tokens": 0},
			nil,
			emptied(classify.FinishMissing, classify.Inferred),
		},
		{
			"the same of a provider that counts at the beginning", unset,
			map[string]any{"gen_ai.provider.name": "anthropic", "gen_ai.request.stream": true, "gen_ai.usage.input_tokens": 12, "gen_ai.usage.output_tokens": 0},
			nil,
			classify.Request{Phase: semconv.PhaseUnknown, Ended: semconv.StreamEndEOF},
		},
		{
			"finished without a token", unset,
			map[string]any{"gen_ai.response.finish_reasons": `["stop"]`, "gen_ai.usage.input_tokens": 12, "gen_ai.usage.output_tokens": 0},
			nil,
			emptied(classify.FinishStop, classify.Corroborated),
		},
		{
			"finished without parts", unset,
			map[string]any{"gen_ai.response.finish_reasons": list("stop"), "gen_ai.output.messages": `[{"role":"assistant","parts":[]}]`},
			nil,
			emptied(classify.FinishStop, classify.Corroborated),
		},
		{
			"calls without a token counted", unset,
			map[string]any{"gen_ai.response.finish_reasons": list("tool_calls"), "gen_ai.usage.input_tokens": 12, "gen_ai.usage.output_tokens": 0},
			nil,
			answered(classify.FinishToolCalls),
		},
		{
			"an error of a limit", err,
			map[string]any{"gen_ai.response.finish_reasons": list("length"), "error.type": "LengthFinishReasonError"},
			nil,
			classify.Request{Phase: semconv.PhaseStreamEnd, Ended: semconv.StreamEndTerminalEvent, Basis: classify.Corroborated, Failed: classify.Yes, Finish: classify.FinishMaxTokens},
		},
		{
			"an error of a limit that has no name", err,
			map[string]any{"gen_ai.response.finish_reasons": list("incomplete"), "error.type": "RuntimeError"},
			nil,
			classify.Request{Phase: semconv.PhaseStreamEnd, Ended: semconv.StreamEndTerminalEvent, Basis: classify.Corroborated, Failed: classify.Yes, Finish: classify.FinishLimited},
		},
		{
			"a broken connection beside a limit", err,
			map[string]any{"gen_ai.response.finish_reasons": list("length"), "error.type": "ECONNRESET"},
			nil,
			func() classify.Request {
				r := transport(semconv.TransportCauseConnectionReset, "ECONNRESET")
				r.Phase, r.Finish = semconv.PhaseUnknown, classify.FinishMaxTokens
				return r
			}(),
		},
		{
			"finish reason error", unset,
			map[string]any{"gen_ai.response.finish_reasons": list("error")},
			nil,
			classify.Request{Phase: semconv.PhaseUnknown, Failed: classify.Yes, Finish: classify.FinishMissing},
		},
		{
			"finish reason interrupted", unset,
			map[string]any{"gen_ai.response.finish_reasons": list("interrupted")},
			nil,
			classify.Request{Phase: semconv.PhaseUnknown, Ended: semconv.StreamEndEOF, Basis: classify.Corroborated, Finish: classify.FinishMissing},
		},
		{
			"failed, and nothing says how", err,
			map[string]any{"gen_ai.request.stream": true, "gen_ai.response.finish_reasons": list("error")},
			[]string{"Error", "AI_APICallError"},
			classify.Request{Phase: semconv.PhaseUnknown, Failed: classify.Yes, Finish: classify.FinishMissing},
		},
		{
			"status", err,
			map[string]any{"http.response.status_code": 429, "error.type": "RateLimitError"},
			nil,
			classify.Request{
				Phase: semconv.PhaseResponseStarted, Ended: semconv.StreamEndHTTPError, Basis: classify.Typed, Failed: classify.Yes, Status: 429,
				Provider: classify.ProviderError{Kind: semconv.ProviderErrorKindRateLimited, Code: "RateLimitError"},
			},
		},
		{
			"status with a code that says more", err,
			map[string]any{"http.response.status_code": 429, "error.type": "insufficient_quota"},
			nil,
			classify.Request{
				Phase: semconv.PhaseResponseStarted, Ended: semconv.StreamEndHTTPError, Basis: classify.Typed, Failed: classify.Yes, Status: 429,
				Provider: classify.ProviderError{Kind: semconv.ProviderErrorKindQuotaExhausted, Code: "insufficient_quota"},
			},
		},
		{
			"status as error.type", err,
			map[string]any{"error.type": "503"},
			nil,
			classify.Request{
				Phase: semconv.PhaseResponseStarted, Ended: semconv.StreamEndHTTPError, Basis: classify.Typed, Failed: classify.Yes, Status: 503,
				Provider: classify.ProviderError{Kind: semconv.ProviderErrorKindOverloaded, Code: "503"},
			},
		},
		{
			"class of the SDK", err,
			map[string]any{"error.type": "openai.AuthenticationError"},
			nil,
			classify.Request{
				Phase: semconv.PhaseUnknown, Basis: classify.Typed, Failed: classify.Yes,
				Provider: classify.ProviderError{Kind: semconv.ProviderErrorKindAuthentication, Code: "openai.AuthenticationError"},
			},
		},
		{
			"transport code", err,
			map[string]any{"error.type": "ECONNRESET"},
			nil,
			classify.Request{
				Phase: semconv.PhaseUnknown, Basis: classify.Typed, Failed: classify.Yes,
				Transport: classify.Transport{Cause: semconv.TransportCauseConnectionReset, Code: "ECONNRESET"},
			},
		},
		{
			"transport code in an exception", err, nil,
			[]string{"httpx.RemoteProtocolError"},
			classify.Request{
				Phase: semconv.PhaseUnknown, Basis: classify.Typed, Failed: classify.Yes,
				Transport: classify.Transport{Cause: semconv.TransportCauseBodyTruncated, Code: "httpx.RemoteProtocolError"},
			},
		},
		{
			"cancelled", err,
			map[string]any{"error.type": "asyncio.exceptions.CancelledError"},
			nil,
			classify.Request{
				Phase: semconv.PhaseUnknown, Ended: semconv.StreamEndCancelled, Basis: classify.Typed, Failed: classify.Yes,
				Abort: classify.Abort{Source: semconv.AbortSourceUnknown},
			},
		},
		{
			"any timeout", err,
			map[string]any{"error.type": "APITimeoutError"},
			nil,
			classify.Request{Phase: semconv.PhaseUnknown, Failed: classify.Yes},
		},
		{
			"a text that holds a name is no name", err,
			map[string]any{"error.type": "RateLimitError: slow down"},
			nil,
			classify.Request{Phase: semconv.PhaseUnknown, Failed: classify.Yes},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			attrs := map[string]any{"gen_ai.operation.name": "chat"}
			maps.Copy(attrs, tt.attrs)
			s := span(t, attrs)
			s.Status().SetCode(tt.status)
			s.Status().SetMessage("rate limit exceeded, connection reset by peer") // never read
			for _, exception := range tt.exceptions {
				e := s.Events().AppendEmpty()
				e.SetName("exception")
				e.Attributes().PutStr("exception.type", exception)
				e.Attributes().PutStr("exception.message", "overloaded_error ECONNRESET")
			}
			tt.want.Start, tt.want.End = start, end
			got := read(t, s).Request
			tt.want.Error = got.Error // see TestErrorOf
			assert.Equal(t, &tt.want, got)
		})
	}
}

func TestGenAITool(t *testing.T) {
	for _, tt := range []struct {
		status    ptrace.StatusCode
		errorType string
		want      semconv.ToolOutcome
		abort     semconv.AbortSource
	}{
		{ptrace.StatusCodeUnset, "", semconv.ToolOutcomeUnset, semconv.AbortSourceUnset},
		{ptrace.StatusCodeOk, "", semconv.ToolOutcomeSucceeded, semconv.AbortSourceUnset},
		{ptrace.StatusCodeError, "ValueError", semconv.ToolOutcomeFailed, semconv.AbortSourceUnset},
		{ptrace.StatusCodeError, "tool_error", semconv.ToolOutcomeFailed, semconv.AbortSourceUnset},
		{ptrace.StatusCodeError, "TimeoutError", semconv.ToolOutcomeTimedOut, semconv.AbortSourceUnset},
		{ptrace.StatusCodeError, "CancelledError", semconv.ToolOutcomeInterrupted, semconv.AbortSourceUnknown},
	} {
		attrs := map[string]any{"gen_ai.operation.name": "execute_tool", "gen_ai.tool.call.id": "call_1", "gen_ai.tool.name": "grep"}
		if tt.errorType != "" {
			attrs["error.type"] = tt.errorType
		}
		s := span(t, attrs)
		s.Status().SetCode(tt.status)
		assert.Equal(t, &classify.Tool{
			Start: start, End: end, CallID: "call_1", Name: "grep", Outcome: tt.want, ErrorType: tt.errorType,
			Abort: classify.Abort{Source: tt.abort},
		}, read(t, s).Tool, tt.errorType)
	}
}

func TestGenAIRun(t *testing.T) {
	s := span(t, map[string]any{"gen_ai.operation.name": "invoke_agent", "llm.run.requests": "2"})
	assert.Equal(t, &classify.Run{Start: start, End: end, Ended: classify.Yes, Failed: classify.No}, read(t, s).Run,
		"a run that says how many requests it has is ours, whatever it says")

	s = span(t, map[string]any{"gen_ai.operation.name": "invoke_agent"})
	assert.Equal(t, &classify.Run{Start: start, End: end, Ended: classify.Yes}, read(t, s).Run, "UNSET is no success")
	s.Status().SetCode(ptrace.StatusCodeError)
	s.Attributes().PutStr("error.type", "AbortError")
	assert.Equal(t, &classify.Run{
		Start: start, End: end, Ended: classify.Yes, Failed: classify.Yes, ErrorType: "AbortError", Error: classify.IdentifyError("AbortError", ""),
		Abort: classify.Abort{Source: semconv.AbortSourceUnknown},
	}, read(t, s).Run)
}

// No name says two things, and a bare timeout says nothing of whose it was.
func TestFailures(t *testing.T) {
	for name, f := range failures {
		set := 0
		for _, is := range []bool{
			f.transport != semconv.TransportCauseUnset, f.provider != semconv.ProviderErrorKindUnset,
			f.abort != semconv.AbortSourceUnset, f.watchdog != semconv.WatchdogKindUnset,
			f.end != semconv.StreamEndUnset, f.unstaged, f.timer,
		} {
			if is {
				set++
			}
		}
		assert.Equal(t, 1, set, name)
	}
	for _, name := range []string{"", "timeout", "Error", "TypeError", "APIError", "APIStatusError", "AI_APICallError", "openai."} {
		_, ok := failureOf(name)
		assert.False(t, ok, name)
	}
	f, ok := failureOf("HPE_INVALID_CONSTANT")
	assert.True(t, ok)
	assert.Equal(t, semconv.TransportCauseMalformedEvent, f.transport)
	f, ok = failureOf("overloaded_error")
	assert.True(t, ok)
	assert.Equal(t, semconv.ProviderErrorKindOverloaded, f.provider)
}
