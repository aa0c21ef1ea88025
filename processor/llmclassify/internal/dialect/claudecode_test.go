package dialect

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
)

// claudeSpan is a span of Claude Code.
func claudeSpan(kind string, status ptrace.StatusCode, more map[string]any) shape {
	attrs := map[string]any{"session.id": "conv", "span.type": kind, "user.id": "user", "duration_ms": 250}
	maps.Copy(attrs, more)
	return shape{scope: "com.anthropic.claude_code.tracing", name: "claude_code." + kind, kind: ptrace.SpanKindInternal, status: status, message: canary, attrs: attrs}
}

// said is the span with another message, which is also its error.
func (s shape) said(message string) shape {
	s.message, s.attrs = message, maps.Clone(s.attrs)
	s.attrs["error"] = message
	return s
}

// tried is the span with its attempts.
func (s shape) tried(attempts ...int) shape {
	for _, n := range attempts {
		s.events = append(s.events, event{name: "gen_ai.request.attempt", attrs: map[string]any{"attempt": n}})
	}
	return s
}

func claudeRequestSpan(status ptrace.StatusCode, more map[string]any) shape {
	attrs := map[string]any{
		"model": "claude-opus-4-8", "gen_ai.system": "anthropic", "gen_ai.request.model": "claude-opus-4-8", "query_source": "repl_main_thread",
		"llm_request.context": "interaction", "attempt": 1, "input_tokens": 11, "output_tokens": 5,
	}
	maps.Copy(attrs, more)
	return claudeSpan("llm_request", status, attrs)
}

func TestClaudeCodeRequest(t *testing.T) {
	type m = map[string]any
	stop := func(reason string, success any) m {
		return m{
			"success": success, "ttft_ms": 90, "request_id": "req_1", "gen_ai.response.id": "req_1",
			"stop_reason": reason, "gen_ai.response.finish_reasons": []any{reason},
		}
	}
	once := func(r classify.Request) classify.Request { r.Attempt = 1; return r }
	second := func(r classify.Request) classify.Request { r.Attempt, r.FailedBefore = 2, 1; return r }
	third := func(r classify.Request) classify.Request { r.Attempt, r.FailedBefore = 3, 2; return r }
	fourth := func(r classify.Request) classify.Request {
		r = failedWith(r)
		r.Attempt, r.FailedBefore = 4, 3
		return r
	}
	broke := once(transport(semconv.TransportCauseConnectionReset, "ECONNRESET"))
	checkRequests(t, ClaudeCode{}, []requestCase{
		{"finished", claudeRequestSpan(statusUnset, stop("end_turn", true)), []truth{success}, well, once(answered(classify.FinishStop))},
		{"finished, as a word", claudeRequestSpan(statusUnset, stop("end_turn", "true")), []truth{success}, well, once(answered(classify.FinishStop))},
		{"calls", claudeRequestSpan(statusUnset, stop("tool_use", true)), []truth{success}, well, once(answered(classify.FinishToolCalls))},
		{
			"length", claudeRequestSpan(statusUnset, stop("max_tokens", true)),
			[]truth{limited},
			verdict{semconv.ClassOutputLimited, semconv.CauseMaxOutputTokens, medium, never},
			once(answered(classify.FinishMaxTokens)),
		},
		{"success without a stop reason", claudeRequestSpan(statusUnset, m{"success": true}), []truth{success, cut, vacant}, unknown, once(classify.Request{})},
		{
			"refused after all attempts", claudeRequestSpan(statusError, m{"success": false, "status_code": 529, "error": canary, "attempt": 3}),
			[]truth{passing},
			ofProvider(semconv.CauseOverloaded, confirm),
			third(refusedBy(529, semconv.ProviderErrorKindOverloaded, "")),
		},
		{
			"failed for a reason that is only in a message", claudeRequestSpan(statusError, m{"success": false, "error": canary}),
			[]truth{cut, early, unsent, inBand, stopped},
			unclassified, once(failedWith(classify.Request{})),
		},
		{
			"failed under UNSET", claudeRequestSpan(statusUnset, m{"success": "false"}),
			[]truth{cut, early, unsent, inBand, stopped},
			unclassified, once(failedWith(classify.Request{})),
		},
		{
			"failed, with the class of its error", claudeRequestSpan(statusError, m{"success": false, "error": canary, "error_class": "ECONNRESET"}),
			[]truth{cut, early},
			interrupted(semconv.CauseConnectionReset, medium), broke,
		},
		{
			"broke in the answer, and in each attempt", claudeRequestSpan(statusError, m{"success": false, "error_class": "connection_error"}).said(bunLost).tried(1, 2, 3, 1),
			[]truth{cut},
			interrupted(semconv.CauseUnknown, low), fourth(classify.Request{Ended: semconv.StreamEndReadError}),
		},
		{
			"no response, or no connection", claudeRequestSpan(statusError, m{"success": false, "error_class": "connection_error", "attempt": 3}).said("Connection error.").tried(1, 2, 3),
			[]truth{cut, early, unsent},
			unclassified, third(failedWith(classify.Request{})),
		},
		{
			"the words of something else", claudeRequestSpan(statusError, m{"success": false, "error_class": "unknown"}).said(bunLost).tried(1),
			[]truth{cut, early, unsent, inBand, stopped},
			unclassified, once(failedWith(classify.Request{})),
		},
		{"well after the stream broke", claudeRequestSpan(statusUnset, stop("end_turn", true)).tried(1, 2), []truth{success}, well, second(answered(classify.FinishStop))},
	})
}

// bunLost is the message of Bun's fetch, in which Claude Code runs.
const bunLost = "ECONNRESET: The socket connection was closed unexpectedly. For more information, pass `verbose: true` in the second argument to fetch()"

func TestClaudeCodeTool(t *testing.T) {
	type m = map[string]any
	of := func(outcome semconv.ToolOutcome, errorType string) classify.Tool {
		return classify.Tool{Start: start, End: end, CallID: "toolu_1", Outcome: outcome, ErrorType: errorType}
	}
	for _, c := range []struct {
		name   string
		status ptrace.StatusCode
		attrs  m
		want   classify.Tool
	}{
		{"succeeded", statusUnset, m{"success": true}, of(semconv.ToolOutcomeSucceeded, "")},
		{"not recorded", statusUnset, nil, of(semconv.ToolOutcomeUnset, "")},
		{"OK, which is never written", statusOK, nil, of(semconv.ToolOutcomeUnset, "")},
		{"failed", statusError, m{"success": false, "error": "Error:ENOENT"}, of(semconv.ToolOutcomeFailed, "Error:ENOENT")},
		{"failed, with a message", statusError, m{"success": "false", "error": canary}, of(semconv.ToolOutcomeFailed, "")},
	} {
		attrs := m{"tool_use_id": "toolu_1", "gen_ai.tool.call.id": "toolu_1"}
		maps.Copy(attrs, c.attrs)
		head, d, facts := claudeSpan("tool.execution", c.status, attrs).read(t)
		assert.Equal(t, Head{Kind: Tool, Session: keyOf("conv")}, head, c.name)
		assert.Equal(t, ClaudeCode{}, d)
		assert.Equal(t, &c.want, facts.Tool, c.name)
	}
	rejected := claudeSpan("tool.blocked_on_user", statusUnset, m{"decision": "reject", "source": "user_reject"})
	head, _, facts := rejected.read(t)
	assert.Equal(t, Tool, head.Kind)
	assert.Equal(t, semconv.ToolOutcomeRejected, facts.Tool.Outcome)
}

func TestClaudeCodeSpans(t *testing.T) {
	head, d, facts := claudeSpan("interaction", statusUnset, map[string]any{"gen_ai.operation.name": "invoke_agent", "user_prompt": canary, "interaction.sequence": 1}).read(t)
	assert.Equal(t, Head{Kind: Run, Session: keyOf("conv")}, head)
	assert.Equal(t, ClaudeCode{}, d)
	assert.Equal(t, &classify.Run{Start: start, End: end, Ended: classify.Yes}, facts.Run)
	for _, other := range []shape{
		claudeSpan("tool", statusUnset, map[string]any{"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "Bash", "tool_name": "Bash", "tool_use_id": "toolu_1", "full_command": canary}),
		claudeSpan("tool.blocked_on_user", statusUnset, map[string]any{"decision": "accept"}),
		claudeRequestSpan(statusError, map[string]any{"query_source_safe": "generate_session_title", "success": false}),
		claudeSpan("hook", statusError, map[string]any{"hook_event": "PreToolUse"}),
		{scope: "agent", name: "claude_code.interaction"},
	} {
		head, d, _ := other.read(t)
		assert.Equal(t, Other, head.Kind, other.name)
		assert.Nil(t, d)
	}
}
