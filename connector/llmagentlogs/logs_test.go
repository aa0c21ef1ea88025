package llmagentlogs

import (
	"maps"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
)

// entry is one record: when it was made, what it has, and the agent's span that it names.
type entry struct {
	at         time.Duration
	name       string
	attributes map[string]any
	trace      pcommon.TraceID
	span       pcommon.SpanID
}

type attributes = map[string]any

// codexLogs are records of Codex, in one conversation.
func codexLogs(tb testing.TB, conversation string, entries ...entry) plog.Logs {
	tb.Helper()
	return logsOf(tb, "codex_exec", "codex_otel.log_only", attributes{"conversation.id": conversation, "model": "gpt-5.5"}, entries)
}

// claudeLogs are records of Claude Code, as its documentation describes them.
func claudeLogs(tb testing.TB, session string, entries ...entry) plog.Logs {
	tb.Helper()
	ld := logsOf(tb, "claude-code", "com.anthropic.claude_code.events", attributes{"session.id": session, "user.email": canary("mail")}, entries)
	for i, lr := range ld.ResourceLogs().At(0).ScopeLogs().At(0).LogRecords().All() {
		lr.Attributes().PutInt("event.sequence", int64(i))
	}
	return ld
}

func geminiLogs(tb testing.TB, session string, entries ...entry) plog.Logs {
	tb.Helper()
	return logsOf(tb, "gemini-cli", "gemini-cli", attributes{"session.id": session, "interactive": false}, entries)
}

// canary is content, which must not be in any span.
func canary(of string) string { return "CANARY-" + of + "-8f1c" }

func logsOf(tb testing.TB, service, scope string, common attributes, entries []entry) plog.Logs {
	tb.Helper()
	ld := plog.NewLogs()
	rl := ld.ResourceLogs().AppendEmpty()
	require.NoError(tb, rl.Resource().Attributes().FromRaw(attributes{
		"service.name": service, "service.version": "1.2.3", "host.name": canary("host"),
		"process.command_args": []any{"agent", "-p", canary("argument")},
	}))
	sl := rl.ScopeLogs().AppendEmpty()
	sl.Scope().SetName(scope)
	for _, e := range entries {
		lr := sl.LogRecords().AppendEmpty()
		lr.SetTimestamp(pcommon.NewTimestampFromTime(t0.Add(e.at)))
		lr.SetTraceID(e.trace)
		lr.SetSpanID(e.span)
		lr.Body().SetStr(canary("body"))
		require.NoError(tb, lr.Attributes().FromRaw(e.attributes))
		for key, value := range common {
			require.NoError(tb, lr.Attributes().PutEmpty(key).FromRaw(value))
		}
		lr.Attributes().PutStr("event.name", e.name)
		lr.Attributes().PutStr("prompt", canary("prompt"))
		lr.Attributes().PutStr("new.attribute", canary("new"))
	}
	return ld
}

// at places entries one after the other, 100 ms apart.
func at(start time.Duration, entries ...entry) []entry {
	for i := range entries {
		entries[i].at = start + time.Duration(i)*100*time.Millisecond
	}
	return entries
}

func sse(kind string) entry {
	return entry{name: "codex.sse_event", attributes: attributes{"event.kind": "response." + kind, "duration_ms": "1"}}
}

func broken(message string) entry {
	return entry{name: "codex.sse_event", attributes: attributes{"event.kind": "response.completed", "error.message": message}}
}

const (
	closedEarly = "stream disconnected before completion: stream closed before response.completed"
	resetByPeer = "stream disconnected before completion: IO error: Connection reset by peer (os error 104)"
)

var (
	unattended = entry{name: "codex.conversation_starts", attributes: attributes{"approval_policy": "never", "provider_name": "openai"}}
	attended   = entry{name: "codex.conversation_starts", attributes: attributes{"approval_policy": "on-request", "provider_name": "openai"}}
	prompt     = entry{name: "codex.user_prompt", attributes: attributes{"prompt_length": "11"}}
	headers    = entry{name: "codex.api_request", attributes: attributes{"http.response.status_code": 200, "duration_ms": "50"}}
	completed  = entry{name: "codex.sse_event", attributes: attributes{"event.kind": "response.completed", "input_token_count": "11", "output_token_count": "5"}}
)

func status(code int) entry {
	return entry{name: "codex.api_request", attributes: attributes{
		"http.response.status_code": code, "duration_ms": "50", "error.message": canary("error"),
	}}
}

func ranTool(call string, won bool) entry {
	return entry{name: "codex.tool_result", attributes: attributes{
		"call_id": call, "tool_name": "exec_command", "success": strconv.FormatBool(won), "duration_ms": "80",
		"arguments": canary("input"), "output": canary("output"),
	}}
}

// decided is the decision on call_1.
func decided(decision string) entry {
	return entry{name: "codex.tool_decision", attributes: attributes{"call_id": "call_1", "tool_name": "exec_command", "decision": decision}}
}

// answer is a request that is answered with text.
func answer() []entry {
	return []entry{headers, sse("created"), sse("output_text.delta"), sse("output_text.done"), completed}
}

// calls is a request that is answered with a call.
func calls() []entry {
	return []entry{headers, sse("created"), sse("function_call_arguments.delta"), sse("function_call_arguments.done"), completed}
}

// sent is a request over WebSocket, of which Codex records nothing more until its end.
var sent = entry{name: "codex.websocket_request", attributes: attributes{"success": "true", "duration_ms": "1"}}

func gemini(name string, more attributes) entry {
	a := attributes{"prompt_id": "prompt-1"}
	maps.Copy(a, more)
	return entry{name: "gemini_cli." + name, attributes: a}
}

var (
	geminiConfig   = entry{name: "gemini_cli.config", attributes: attributes{"approval_mode": "yolo"}}
	geminiPrompt   = gemini("user_prompt", nil)
	geminiRequest  = gemini("api_request", attributes{"role": "main"})
	geminiResponse = gemini("api_response", attributes{"role": "main", "status_code": 200, "duration_ms": 50})
	geminiTool     = gemini("tool_call", attributes{"function_name": "run_shell_command", "success": true, "decision": "accept", "duration_ms": 50})
	geminiExit     = entry{name: "gemini_cli.plan.approval_mode_duration"}
	geminiSwitch   = entry{name: "gemini_cli.plan.approval_mode_switch"}
)

func claude(name string, more attributes) entry {
	a := attributes{"prompt.id": "prompt-1"}
	maps.Copy(a, more)
	return entry{name: name, attributes: a} // the short name, as an attribute
}
