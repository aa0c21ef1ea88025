package dialect

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
)

// qwenSpan is a span of Qwen Code 0.24.4, as recorded.
func qwenSpan(name, operation string, status ptrace.StatusCode, more map[string]any) shape {
	attrs := map[string]any{"session.id": "conv", "gen_ai.operation.name": operation}
	maps.Copy(attrs, more)
	return shape{scope: "qwen-code", name: "qwen-code." + name, kind: ptrace.SpanKindInternal, status: status, message: canary, attrs: attrs}
}

func qwenRequestSpan(status ptrace.StatusCode, more map[string]any) shape {
	attrs := map[string]any{
		"gen_ai.conversation.id": "conv", "gen_ai.provider.name": "openai", "gen_ai.request.model": "qwen3-coder-plus", "gen_ai.request.stream": true,
		"llm_request.context": "interaction", "attempt": 2, "request_setup_ms": 0, "duration_ms": 237,
	}
	maps.Copy(attrs, more)
	return qwenSpan("llm_request", "chat", status, attrs)
}

func TestQwenCodeRequest(t *testing.T) {
	type m = map[string]any
	const first, finish = "gen_ai.response.time_to_first_chunk", "gen_ai.response.finish_reasons"
	with := func(base, more m) m {
		all := maps.Clone(base)
		maps.Copy(all, more)
		return all
	}
	began := m{first: 0.09, "ttft_ms": 97, "gen_ai.response.id": "chatcmpl-1"}
	done := with(began, m{"success": true, "gen_ai.usage.input_tokens": 11, "gen_ai.usage.output_tokens": 5})
	failure := func(class string) m {
		return m{"success": false, "error": canary, "error_type": class, "error.type": class, "finish_reason": "error", finish: []any{"error"}}
	}
	second := func(r classify.Request) classify.Request { r.Attempt, r.FailedBefore = 2, 1; return r }
	missing := func(r classify.Request) classify.Request { r.Finish = classify.FinishMissing; return second(r) }
	refused := missing(refusedBy(429, semconv.ProviderErrorKindRateLimited, "RateLimitError"))
	serverError := func(status int, kind semconv.ProviderErrorKind) classify.Request {
		r := second(refusedBy(status, kind, "InternalServerError"))
		r.Finish = classify.FinishMissing
		return r
	}
	checkRequests(t, QwenCode{}, []requestCase{
		{"finished", qwenRequestSpan(statusUnset, with(done, m{finish: []any{"stop"}})), []truth{success}, well, second(answered(classify.FinishStop))},
		{"calls", qwenRequestSpan(statusUnset, with(done, m{finish: []any{"tool_calls"}})), []truth{success}, well, second(answered(classify.FinishToolCalls))},
		{
			"a clean end within an answer", qwenRequestSpan(statusUnset, with(began, m{"success": true})),
			[]truth{cut},
			interrupted(semconv.CauseCleanEOF, low), second(classify.Request{Ended: semconv.StreamEndEOF}),
		},
		{
			"[DONE] alone, or a clean end before anything", qwenRequestSpan(statusUnset, m{"success": true}),
			[]truth{vacant, cut},
			unknown, second(classify.Request{}),
		},
		{"success under OK", qwenRequestSpan(statusOK, m{"success": true}), []truth{vacant, cut}, unknown, second(classify.Request{})},
		{
			"cancelled", qwenRequestSpan(statusUnset, with(began, m{"success": false})),
			[]truth{stopped},
			aborted(semconv.CauseUnknown, low),
			second(classify.Request{Ended: semconv.StreamEndCancelled, Abort: classify.Abort{Source: semconv.AbortSourceUnknown}}),
		},
		{
			"reset", qwenRequestSpan(statusError, failure("TypeError:ECONNRESET")),
			[]truth{cut, early},
			interrupted(semconv.CauseConnectionReset, medium), missing(transport(semconv.TransportCauseConnectionReset, "ECONNRESET")),
		},
		{
			"the other side closed within an answer", qwenRequestSpan(statusError, with(began, failure("TypeError:UND_ERR_SOCKET"))),
			[]truth{cut},
			interrupted(semconv.CauseBodyTruncated, medium), missing(transport(semconv.TransportCauseBodyTruncated, undSocket)),
		},
		{
			"the other side closed, before the headers or after them", qwenRequestSpan(statusError, failure("TypeError:UND_ERR_SOCKET")),
			[]truth{cut, early},
			interrupted(semconv.CauseUnknown, low), missing(failedWith(classify.Request{Ended: semconv.StreamEndReadError})),
		},
		{
			"an error in the stream", qwenRequestSpan(statusError, with(began, failure("APIError"))),
			[]truth{inBand},
			ofProvider(semconv.CauseUnknown, confirm),
			missing(failedWith(classify.Request{Basis: classify.Corroborated, Provider: classify.ProviderError{Kind: semconv.ProviderErrorKindUnknown, InBand: true}})),
		},
		{
			"an error of the SDK before anything", qwenRequestSpan(statusError, failure("APIError")),
			[]truth{inBand, passing, refusal},
			unclassified, missing(failedWith(classify.Request{})),
		},
		{
			"refused", qwenRequestSpan(statusError, with(failure("RateLimitError"), m{"error_status_code": 429})),
			[]truth{passing},
			ofProvider(semconv.CauseRateLimited, confirm), refused,
		},
		{
			"overloaded, by a class that is that of every status from 500 on", qwenRequestSpan(statusError, with(failure("InternalServerError"), m{"error_status_code": 503})),
			[]truth{passing},
			ofProvider(semconv.CauseOverloaded, confirm), serverError(503, semconv.ProviderErrorKindOverloaded),
		},
		{
			"another error of the server", qwenRequestSpan(statusError, with(failure("InternalServerError"), m{"error_status_code": 500})),
			[]truth{passing},
			ofProvider(semconv.CauseServerError, confirm), serverError(500, semconv.ProviderErrorKindServerError),
		},
	})
}

func TestQwenCodeTool(t *testing.T) {
	type m = map[string]any
	for _, c := range []struct {
		status ptrace.StatusCode
		attrs  m
		want   semconv.ToolOutcome
	}{
		{statusUnset, m{"success": true}, semconv.ToolOutcomeSucceeded},
		{statusUnset, m{}, semconv.ToolOutcomeUnset},
		{statusOK, m{}, semconv.ToolOutcomeUnset},
		{statusUnset, m{"success": false}, semconv.ToolOutcomeFailed},
		{statusUnset, m{"success": false, "tool.failure_kind": "cancelled"}, semconv.ToolOutcomeInterrupted},
		{statusError, m{"success": false, "tool.failure_kind": "timeout"}, semconv.ToolOutcomeTimedOut},
		{statusError, m{"success": false, "tool.failure_kind": "tool_error"}, semconv.ToolOutcomeFailed},
		{statusError, m{"success": false, "tool.failure_kind": "tool_exception"}, semconv.ToolOutcomeFailed},
		{statusError, m{"success": false, "tool.failure_kind": "post_hook_stopped"}, semconv.ToolOutcomeFailed},
		{statusError, m{"success": false, "tool.failure_kind": "pre_hook_blocked"}, semconv.ToolOutcomeRejected},
		{statusError, m{"success": false, "tool.failure_kind": "invocation_guard_denied"}, semconv.ToolOutcomeRejected},
		{statusError, m{"success": false, "tool.failure_kind": "permission_denied"}, semconv.ToolOutcomeRejected},
		{statusError, m{"success": false, "tool.failure_kind": "permission_hook_denied"}, semconv.ToolOutcomeRejected},
		{statusError, m{"success": false, "tool.failure_kind": "plan_mode_blocked"}, semconv.ToolOutcomeRejected},
		{statusError, m{"success": false, "tool.failure_kind": "non_interactive_denied"}, semconv.ToolOutcomeRejected},
		{statusError, m{"success": false, "tool.failure_kind": "background_agent_denied"}, semconv.ToolOutcomeRejected},
		{statusUnset, m{"success": false, "tool.failure_kind": "of a later version"}, semconv.ToolOutcomeFailed},
	} {
		attrs := m{"gen_ai.tool.call.id": "call_1", "gen_ai.tool.name": "run_shell_command", "gen_ai.tool.description": canary}
		maps.Copy(attrs, c.attrs)
		head, d, facts := qwenSpan("tool", "execute_tool", c.status, attrs).read(t)
		assert.Equal(t, Head{Kind: Tool, Session: keyOf("conv")}, head)
		assert.Equal(t, QwenCode{}, d)
		want := classify.Tool{Start: start, End: end, CallID: "call_1", Name: "run_shell_command", Outcome: c.want}
		if c.want == semconv.ToolOutcomeInterrupted {
			want.Abort.Source = semconv.AbortSourceUnknown
		}
		assert.Equal(t, &want, facts.Tool, c.attrs)
	}
}

func TestQwenCodeRun(t *testing.T) {
	type m = map[string]any
	for _, c := range []struct {
		status ptrace.StatusCode
		attrs  m
		want   classify.Run
	}{
		{statusUnset, m{"qwen-code.turn_status": "ok"}, classify.Run{}},
		{statusOK, m{"qwen-code.turn_status": "ok"}, classify.Run{}},
		{statusUnset, m{"qwen-code.turn_status": "cancelled"}, classify.Run{Abort: classify.Abort{Source: semconv.AbortSourceUnknown}}},
		{statusError, m{"qwen-code.turn_status": "error", "error.type": "unexpected_exit"}, classify.Run{Failed: classify.Yes, ErrorType: "unexpected_exit", Error: classify.IdentifyError("unexpected_exit", canary)}},
	} {
		head, _, facts := qwenSpan("interaction", "invoke_agent", c.status, c.attrs).read(t)
		assert.Equal(t, Run, head.Kind)
		c.want.Start, c.want.End, c.want.Ended = start, end, classify.Yes
		assert.Equal(t, &c.want, facts.Run)
	}
	for _, within := range []string{"tool.execution", "hook", "tool.blocked_on_user"} {
		s := qwenSpan(within, "", statusError, m{"success": false, "error.type": "hook_error"})
		delete(s.attrs, "gen_ai.operation.name")
		head, _, _ := s.read(t)
		assert.Equal(t, Other, head.Kind, within)
	}
}
