package llmagentlogs

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/semconv"
)

// What is made of turns, and what llm_classify says of it.
func TestTurns(t *testing.T) {
	type want struct {
		parts                  []string
		end                    string // how the run ended, "" if it is not made
		outcome, class, safety string // of the run
	}
	concat := slices.Concat[[]entry]
	one := func(e ...entry) []entry { return e }
	tool := entry{name: "tool_result", attributes: attributes{"prompt.id": "prompt-1", "tool_name": "Bash", "tool_use_id": "toolu_1", "success": "true", "duration_ms": 20, "tool_input": canary("input")}}
	codex := func(parts ...[]entry) plog.Logs { return codexLogs(t, "c1", at(0, concat(parts...)...)...) }
	claudeCode := func(entries ...entry) plog.Logs { return claudeLogs(t, "s1", at(0, entries...)...) }
	for _, tt := range []struct {
		name string
		logs plog.Logs
		want want
	}{
		{"an answer", codex(one(unattended, prompt), answer()), want{[]string{"chat", "run"}, "answer", "succeeded", "", ""}},
		{"a prompt alone", codex(one(unattended, prompt)), want{}},
		{"nothing before the prompt counts", codex(one(unattended), answer()), want{}},
		{
			"a tool", codex(one(unattended, prompt), calls(), one(decided("approved"), ranTool("call_1", true)), answer()),
			want{[]string{"chat", "tool", "chat", "run"}, "answer", "succeeded", "", ""},
		},
		{
			"a tool that failed, and the model knows", codex(one(unattended, prompt), calls(), one(ranTool("call_1", false)), answer()),
			want{[]string{"chat", "tool failed", "chat", "run"}, "answer", "recovered", "", ""},
		},
		{
			"a call that a person denied", codex(one(attended, prompt), calls(), one(decided("denied")), answer(), one(entry{name: "codex.user_prompt", at: time.Hour})),
			want{[]string{"chat", "tool rejected", "chat", "run"}, "answer", "recovered", "", ""},
		},
		{
			"denied, with a result", codex(one(attended, prompt), calls(), one(decided("denied"), ranTool("call_1", false)), answer()),
			want{[]string{"chat", "tool rejected", "chat", "run"}, "unclear", "", "", ""},
		},
		{"people may be asked", codex(one(attended, prompt), answer()), want{[]string{"chat", "run"}, "unclear", "", "", ""}},
		{
			"the next prompt says that the turn is over", codex(one(attended, prompt), answer(), one(prompt), answer()),
			want{[]string{"chat", "run", "chat", "run"}, "answer", "succeeded", "", ""},
		},
		{"calls that nothing executed", codex(one(unattended, prompt), calls()), want{[]string{"chat", "run"}, "idle", "incomplete", "run_abandoned", "user_confirmed_retry"}},
		{"the records end in a tool", codex(one(unattended, prompt), calls(), one(ranTool("call_1", true))), want{[]string{"chat", "tool", "run"}, "unclear", "", "", ""}},
		{"the records end in a response", codex(one(unattended, prompt, headers, sse("output_text.delta"))), want{[]string{"chat", "run"}, "unclear", "", "", ""}},
		{
			"the records end in an attempt after a failed one",
			codex(one(unattended, prompt, headers, sse("output_text.delta"), broken(closedEarly), headers, sse("created"))),
			want{[]string{"chat error", "chat", "run"}, "idle", "failed", "stream_interrupted", "user_confirmed_retry"},
		},
		{
			"text, then the end of the stream", codex(one(unattended, prompt, headers, sse("output_text.delta"), broken(closedEarly))),
			want{[]string{"chat error", "run error"}, "failure", "failed", "stream_interrupted", "user_confirmed_retry"},
		},
		{
			"no text in the records is not no text", codex(one(unattended, prompt, headers, sse("created"), broken(resetByPeer))),
			want{[]string{"chat error", "run error"}, "failure", "failed", "stream_interrupted", "user_confirmed_retry"},
		},
		{
			"tried again", codex(one(unattended, prompt, headers, sse("created"), broken(resetByPeer)), answer()),
			want{[]string{"chat error", "chat", "run"}, "answer", "recovered", "", ""},
		},
		{"401", codex(one(unattended, prompt, status(401))), want{[]string{"chat error", "run error"}, "failure", "failed", "provider_error", "no_retry"}},
		{"503", codex(one(unattended, prompt, status(503))), want{[]string{"chat error", "run error"}, "failure", "failed", "provider_error", "user_confirmed_retry"}},
		{
			"a tool ran, then 503", codex(one(unattended, prompt), calls(), one(ranTool("call_1", true), status(503))),
			want{[]string{"chat", "tool", "chat error", "run error"}, "failure", "failed", "provider_error", "user_confirmed_retry"},
		},
		{
			"Claude Code, from its documentation: a tool",
			claudeCode(claude("user_prompt", nil), claude("api_request", attributes{"duration_ms": 20}), tool, claude("api_request", attributes{"duration_ms": 20}), entry{name: "user_prompt", attributes: attributes{"prompt.id": "prompt-2"}}),
			want{[]string{"chat", "tool", "chat", "run"}, "answer", "succeeded", "", ""},
		},
		{
			"Claude Code: it gave up",
			claudeCode(claude("user_prompt", nil), claude("api_error", attributes{"status_code": 529, "attempt": 11, "error": canary("error")}), claude("api_retries_exhausted", nil)),
			want{[]string{"chat error", "run error"}, "failure", "failed", "provider_error", "user_confirmed_retry"},
		},
		{
			"Claude Code: no status",
			claudeCode(claude("user_prompt", nil), claude("api_error", attributes{"error": canary("error"), "attempt": 3}), claude("api_retries_exhausted", nil)),
			want{[]string{"chat error", "run error"}, "failure", "failed", "unclassified", "user_confirmed_retry"},
		},
		{
			"Claude Code: refused",
			claudeCode(claude("user_prompt", nil), claude("api_request", nil), claude("api_refusal", nil), entry{name: "user_prompt", attributes: attributes{"prompt.id": "prompt-2"}}),
			want{[]string{"chat", "run"}, "answer", "limited", "output_limited", "no_retry"},
		},
		{
			"Claude Code: a rejected call",
			claudeCode(claude("user_prompt", nil), claude("api_request", nil), claude("tool_decision", attributes{"decision": "reject", "tool_use_id": "toolu_1", "tool_name": "Bash"}), claude("api_request", nil)),
			want{[]string{"chat", "tool rejected", "chat", "run"}, "unclear", "", "", ""},
		},
		{
			"Claude Code: a title is not the conversation's",
			claudeCode(claude("user_prompt", nil), claude("api_request", nil), claude("api_error", attributes{"query_source": "generate_session_title", "status_code": 400}), entry{name: "user_prompt", attributes: attributes{"prompt.id": "prompt-2"}}),
			want{[]string{"chat", "run"}, "answer", "succeeded", "", ""},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			made := madeOf(t, defaultConfig(), tt.logs)
			spans := spansOf(made...)
			assert.Equal(t, tt.want.parts, partsOf(spans))
			if tt.want.end == "" {
				return
			}
			runs := runsOf(spans)
			require.NotEmpty(t, runs)
			assert.Equal(t, tt.want.end, value(runs[0], semconv.RunEndKey))
			judged := runsOf(judge(t, made...))
			require.Len(t, judged, len(runs))
			slices.SortFunc(judged, func(a, b ptrace.Span) int { return int(a.StartTimestamp()) - int(b.StartTimestamp()) })
			assert.Equal(t, tt.want.outcome, value(judged[0], semconv.RunOutcomeKey))
			assert.Equal(t, tt.want.class, value(judged[0], semconv.FailureClassKey))
			assert.Equal(t, tt.want.safety, value(judged[0], semconv.RetrySafetyKey))
		})
	}
}

// partsOf are the spans in short: chat, tool or run, what became of the tool, and error.
func partsOf(spans []ptrace.Span) (parts []string) {
	for _, span := range spans {
		part := map[string]string{"chat": "chat", "execute_tool": "tool", "invoke_agent": "run"}[value(span, "gen_ai.operation.name")]
		if outcome := value(span, semconv.ToolOutcomeKey); outcome != "" && outcome != semconv.ToolOutcomeSucceeded.String() {
			part += " " + outcome
		} else if span.Status().Code() == ptrace.StatusCodeError {
			part += " error"
		}
		parts = append(parts, part)
	}
	return parts
}

func runsOf(spans []ptrace.Span) (runs []ptrace.Span) {
	for _, span := range spans {
		if operationIs(span, "invoke_agent") {
			runs = append(runs, span)
		}
	}
	return runs
}

// undici has one code for a connection that the other side closed. With it go the causes
// that llm_classify takes from it in spans: docs/vocabulary-of-others.md.
func TestOtherSideClosed(t *testing.T) {
	for message, want := range map[string]string{
		"terminated":   "body_truncated",
		"anything":     "body_truncated",
		"fetch failed": "closed_before_headers",
		"exception TypeError: fetch failed sending request": "closed_before_headers",
	} {
		made := madeOf(t, defaultConfig(), geminiLogs(t, "s1", at(0, geminiConfig, geminiPrompt, geminiRequest,
			gemini("api_error", attributes{"error.type": "TypeError", "error.message": message, "role": "main"}),
			gemini("network_retry_attempt", attributes{"error_type": "UND_ERR_SOCKET"}))...))
		var causes []string
		for _, span := range judge(t, made...) {
			if cause := value(span, semconv.FailureCauseKey); cause != "" {
				causes = append(causes, cause)
				assert.Equal(t, "user_confirmed_retry", value(span, semconv.RetrySafetyKey))
			}
		}
		assert.Equal(t, []string{want, want}, causes, message)
	}
	made := madeOf(t, defaultConfig(), claudeLogs(t, "s1", at(0, claude("user_prompt", nil), claude("api_error", attributes{"error": "UND_ERR_SOCKET: other side closed"}))...))
	for _, span := range judge(t, made...) {
		if operationIs(span, "chat") {
			assert.Equal(t, "body_truncated", value(span, semconv.FailureCauseKey))
		}
	}
}
