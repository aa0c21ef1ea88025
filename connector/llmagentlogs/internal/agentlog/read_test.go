package agentlog

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"

	"github.com/otelllm/otelllm-go/semconv"
)

const at = pcommon.Timestamp(1_795_359_281_680_000_000)

const ms = pcommon.Timestamp(1_000_000)

func recordOf(tb testing.TB, attributes map[string]any) plog.LogRecord {
	tb.Helper()
	lr := plog.NewLogRecord()
	lr.SetTimestamp(at)
	require.NoError(tb, lr.Attributes().FromRaw(attributes))
	return lr
}

func TestRead(t *testing.T) {
	none := Event{InputTokens: -1, OutputTokens: -1, Time: at, Start: at}
	event := func(agent Agent, kind Kind, change func(*Event)) Event {
		e := none
		e.Agent, e.Kind = agent, kind
		if change != nil {
			change(&e)
		}
		return e
	}
	codex := func(name string, more map[string]any) map[string]any {
		more["event.name"], more["conversation.id"] = name, "c1"
		return more
	}
	gemini := func(name string, more map[string]any) map[string]any {
		if more == nil {
			more = map[string]any{}
		}
		more["event.name"], more["session.id"], more["prompt_id"] = "gemini_cli."+name, "c1", "p1"
		return more
	}
	claude := func(name string, more map[string]any) map[string]any {
		more["event.name"], more["session.id"], more["prompt.id"] = "claude_code."+name, "c1", "p1"
		return more
	}
	inTurn := func(change func(*Event)) func(*Event) {
		return func(e *Event) {
			e.Turn = "p1"
			if change != nil {
				change(e)
			}
		}
	}
	for _, tt := range []struct {
		name string
		from map[string]any
		want Event
	}{
		{
			"Codex asks nobody", codex("codex.conversation_starts", map[string]any{"approval_policy": "never", "provider_name": "openai"}),
			event(Codex, Session, func(e *Event) { e.Unattended, e.Provider = true, "openai" }),
		},
		{"Codex asks", codex("codex.conversation_starts", map[string]any{"approval_policy": "on-request"}), event(Codex, Session, nil)},
		{"a prompt", codex("codex.user_prompt", map[string]any{"prompt": "text"}), event(Codex, Prompt, nil)},
		{
			"headers", codex("codex.api_request", map[string]any{"duration_ms": "151", "http.response.status_code": 200, "model": "gpt-5.5", "auth.request_id": "req_1", "attempt": "0"}),
			event(Codex, Began, func(e *Event) {
				e.Start, e.Status, e.Model, e.RequestID = at-151*ms, 200, "gpt-5.5", "req_1"
			}),
		},
		{
			"429", codex("codex.api_request", map[string]any{"http.response.status_code": int64(429), "error.message": "http 429", "attempt": "2"}),
			event(Codex, Refused, func(e *Event) {
				e.Status, e.Attempt = 429, 3
				e.Failure = Failure{Failed: true, End: semconv.StreamEndHTTPError, Provider: semconv.ProviderErrorKindRateLimited}
			}),
		},
		{
			"refused", codex("codex.api_request", map[string]any{"error.message": "error sending request for url (http://secret/): tcp connect error: Connection refused (os error 111)"}),
			event(Codex, Refused, func(e *Event) {
				e.Failure = Failure{Failed: true, End: semconv.StreamEndNoResponse, Cause: semconv.TransportCauseConnectRefused, Code: "ECONNREFUSED"}
			}),
		},
		{
			"no response", codex("codex.api_request", map[string]any{"error.message": "anything else"}),
			event(Codex, Refused, func(e *Event) { e.Failure = Failure{Failed: true, End: semconv.StreamEndNoResponse} }),
		},
		{
			"text", codex("codex.sse_event", map[string]any{"event.kind": "response.output_text.delta", "duration_ms": "14"}),
			event(Codex, Progress, func(e *Event) { e.Part = Text }),
		},
		{
			"an item", codex("codex.sse_event", map[string]any{"event.kind": "response.output_item.added"}),
			event(Codex, Progress, func(e *Event) { e.Part = ItemBegan }),
		},
		{
			"the end of an item", codex("codex.sse_event", map[string]any{"event.kind": "response.output_item.done"}),
			event(Codex, Progress, func(e *Event) { e.Part = ItemEnded }),
		},
		{"an unknown event", codex("codex.sse_event", map[string]any{"event.kind": "response.new_thing"}), event(Codex, Progress, nil)},
		{
			"input", codex("codex.sse_event", map[string]any{"event.kind": "response.function_call_arguments.delta"}),
			event(Codex, Progress, func(e *Event) { e.Part = InputBegan }),
		},
		{
			"input is complete", codex("codex.sse_event", map[string]any{"event.kind": "response.function_call_arguments.done"}),
			event(Codex, Progress, func(e *Event) { e.Part = InputCompleted }),
		},
		{
			"search", codex("codex.sse_event", map[string]any{"event.kind": "response.web_search_call.in_progress"}),
			event(Codex, Progress, func(e *Event) { e.Part = ProviderTool }),
		},
		{
			"reasoning", codex("codex.sse_event", map[string]any{"event.kind": "response.reasoning_summary_text.delta"}),
			event(Codex, Progress, func(e *Event) { e.Part = Reasoning }),
		},
		{
			"the last event is not yet the end", codex("codex.sse_event", map[string]any{"event.kind": "response.completed", "duration_ms": "1"}),
			event(Codex, Progress, nil),
		},
		{
			"completed", codex("codex.sse_event", map[string]any{"event.kind": "response.completed", "input_token_count": "11", "output_token_count": "5"}),
			event(Codex, Done, func(e *Event) { e.InputTokens, e.OutputTokens = 11, 5 }),
		},
		{
			"end of file", codex("codex.sse_event", map[string]any{"event.kind": "response.completed", "error.message": "stream disconnected before completion: stream closed before response.completed"}),
			event(Codex, Done, func(e *Event) { e.Failure = Failure{Failed: true, End: semconv.StreamEndEOF} }),
		},
		{
			"broken body", codex("codex.sse_event", map[string]any{"event.kind": "response.completed", "error.message": "stream disconnected before completion: Transport error: network error: error decoding response body"}),
			event(Codex, Done, func(e *Event) { e.Failure = Failure{Failed: true, End: semconv.StreamEndReadError} }),
		},
		{
			"reset WebSocket", codex("codex.sse_event", map[string]any{"event.kind": "response.completed", "error.message": "stream disconnected before completion: IO error: Connection reset by peer (os error 104)"}),
			event(Codex, Done, func(e *Event) {
				e.Failure = Failure{Failed: true, End: semconv.StreamEndReadError, Cause: semconv.TransportCauseConnectionReset, Code: "ECONNRESET"}
			}),
		},
		{
			"its own watchdog", codex("codex.sse_event", map[string]any{"event.kind": "response.completed", "error.message": "stream disconnected before completion: idle timeout waiting for SSE"}),
			event(Codex, Done, func(e *Event) {
				e.Failure = Failure{Failed: true, End: semconv.StreamEndWatchdog, Watchdog: semconv.WatchdogKindIdle}
			}),
		},
		{
			"what is not known", codex("codex.sse_event", map[string]any{"event.kind": "response.failed", "error.message": "secret words"}),
			event(Codex, Done, func(e *Event) { e.Failure = Failure{Failed: true} }),
		},
		{
			"denied", codex("codex.tool_decision", map[string]any{"call_id": "call_1", "tool_name": "shell", "decision": "denied"}),
			event(Codex, Decision, func(e *Event) { e.CallID, e.ToolName, e.Rejected = "call_1", "shell", true }),
		},
		{
			"approved", codex("codex.tool_decision", map[string]any{"call_id": "call_1", "tool_name": "shell", "decision": "approved_for_session"}),
			event(Codex, Decision, func(e *Event) { e.CallID, e.ToolName = "call_1", "shell" }),
		},
		{
			"a tool", codex("codex.tool_result", map[string]any{"call_id": "call_1", "tool_name": "shell", "success": "true", "duration_ms": "100", "output": "text"}),
			event(Codex, Tool, func(e *Event) {
				e.CallID, e.ToolName, e.Outcome, e.Start = "call_1", "shell", semconv.ToolOutcomeSucceeded, at-100*ms
			}),
		},
		{
			"a tool that a person stopped", codex("codex.tool_result", map[string]any{"call_id": "call_1", "tool_name": "shell", "success": "false", "output": "aborted by user after 2.0s"}),
			event(Codex, Tool, func(e *Event) { e.CallID, e.ToolName, e.Outcome = "call_1", "shell", semconv.ToolOutcomeInterrupted }),
		},

		{"Gemini asks nobody", gemini("config", map[string]any{"interactive": false}), event(GeminiCLI, Session, inTurn(func(e *Event) { e.Unattended = true }))},
		{
			"an answer", gemini("api_response", map[string]any{"duration_ms": 131, "status_code": 200, "model": "gemini-2.5-flash", "role": "main", "input_token_count": 11, "output_token_count": 5}),
			event(GeminiCLI, Done, inTurn(func(e *Event) {
				e.Start, e.Status, e.Model, e.Provider, e.InputTokens, e.OutputTokens = at-131*ms, 200, "gemini-2.5-flash", "gcp.gen_ai", 11, 5
			})),
		},
		{
			"a request of another role", gemini("api_request", map[string]any{"role": "utility_router"}),
			event(GeminiCLI, Began, inTurn(func(e *Event) { e.Provider, e.Side = "gcp.gen_ai", true })),
		},
		{
			"not complete", gemini("chat.content_retry", map[string]any{"error_type": "NO_FINISH_REASON"}),
			event(GeminiCLI, Cut, inTurn(func(e *Event) { e.Failure = Failure{Failed: true, Type: "NO_FINISH_REASON"} })),
		},
		{
			"undici", gemini("api_error", map[string]any{"error.type": "TypeError", "error.message": "terminated", "model_name": "g"}),
			event(GeminiCLI, Done, inTurn(func(e *Event) {
				e.Model, e.Provider, e.Failure = "g", "gcp.gen_ai", Failure{Failed: true, End: semconv.StreamEndReadError, Type: "TypeError"}
			})),
		},
		{
			"undici, after its own timer", gemini("api_error", map[string]any{"error.type": "TypeError", "error.message": "terminated", "duration_ms": 300_004}),
			event(GeminiCLI, Done, inTurn(func(e *Event) {
				e.Start, e.Provider, e.Failure = at-300_004*ms, "gcp.gen_ai", Failure{Failed: true, Type: "TypeError"}
			})),
		},
		{
			"a code", gemini("network_retry_attempt", map[string]any{"error_type": "ECONNRESET"}),
			event(GeminiCLI, Detail, inTurn(func(e *Event) { e.Failure = Failure{Cause: semconv.TransportCauseConnectionReset, Code: "ECONNRESET"} })),
		},
		{
			"a call that a person rejected", gemini("tool_call", map[string]any{"function_name": "write_file", "success": false, "decision": "reject"}),
			event(GeminiCLI, Tool, inTurn(func(e *Event) { e.ToolName, e.Outcome = "write_file", semconv.ToolOutcomeRejected })),
		},
		{
			"wrong input", gemini("tool_call", map[string]any{"function_name": "write_file", "success": false, "error_type": "invalid_tool_params"}),
			event(GeminiCLI, Tool, inTurn(func(e *Event) {
				e.ToolName, e.Outcome, e.ToolErrorType = "write_file", semconv.ToolOutcomeInvalidInput, "invalid_tool_params"
			})),
		},
		{"a mode that changes", gemini("plan.approval_mode_switch", nil), event(GeminiCLI, GoesOn, inTurn(nil))},
		{"a process that goes", gemini("plan.approval_mode_duration", map[string]any{"interactive": false}), event(GeminiCLI, Ended, inTurn(nil))},

		{
			"Claude", claude("api_request", map[string]any{"duration_ms": "20", "model": "claude-sonnet-5", "event.sequence": 7, "input_tokens": "3", "output_tokens": "4"}),
			event(ClaudeCode, Done, inTurn(func(e *Event) {
				e.Start, e.Seq, e.Model, e.Provider, e.InputTokens, e.OutputTokens = at-20*ms, 7, "claude-sonnet-5", "anthropic", 3, 4
			})),
		},
		{
			"529 after all attempts", claude("api_error", map[string]any{"status_code": "529", "attempt": 11, "error": "secret"}),
			event(ClaudeCode, Refused, inTurn(func(e *Event) {
				e.Provider, e.Status, e.Attempt = "anthropic", 529, 11
				e.Failure = Failure{Failed: true, End: semconv.StreamEndHTTPError, Provider: semconv.ProviderErrorKindOverloaded}
			})),
		},
		{
			"no status", claude("api_error", map[string]any{"status_code": "undefined", "error": "Connection error."}),
			event(ClaudeCode, Refused, inTurn(func(e *Event) { e.Provider, e.Failure = "anthropic", Failure{Failed: true} })),
		},
		{
			"the connection was lost", claude("api_error", map[string]any{"error": "ECONNRESET: The socket connection was closed unexpectedly. For more information, pass `verbose: true` in the second argument to fetch()", "attempt": "1", "query_source": "agent:builtin:general-purpose"}),
			event(ClaudeCode, Refused, inTurn(func(e *Event) {
				e.Provider, e.Attempt, e.Failure = "anthropic", 1, Failure{Failed: true, End: semconv.StreamEndReadError}
			})),
		},
		{
			"a refusal", claude("api_refusal", map[string]any{"model": "m"}),
			event(ClaudeCode, Cut, inTurn(func(e *Event) { e.Model, e.Provider, e.Failure = "m", "anthropic", Failure{Limited: "refusal"} })),
		},
		{
			"a rejected call", claude("tool_decision", map[string]any{"tool_name": "Bash", "tool_use_id": "toolu_1", "decision": "reject", "source": "user_reject"}),
			event(ClaudeCode, Decision, inTurn(func(e *Event) { e.CallID, e.ToolName, e.Rejected = "toolu_1", "Bash", true })),
		},
		{
			"a tool that failed", claude("tool_result", map[string]any{"tool_name": "Bash", "tool_use_id": "toolu_1", "success": "false", "error_type": "ShellError"}),
			event(ClaudeCode, Tool, inTurn(func(e *Event) {
				e.CallID, e.ToolName, e.Outcome, e.ToolErrorType = "toolu_1", "Bash", semconv.ToolOutcomeFailed, "ShellError"
			})),
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e, id, ok := Reader{}.Read("", recordOf(t, tt.from))
			require.True(t, ok)
			assert.Equal(t, "c1", id)
			assert.Equal(t, tt.want, e)
		})
	}
}

func TestReadPassesOver(t *testing.T) {
	for name, from := range map[string]map[string]any{
		"another producer":         {"event.name": "my.event", "session.id": "c"},
		"no name":                  {"session.id": "c"},
		"no conversation":          {"event.name": "codex.user_prompt"},
		"a connection that is up":  {"event.name": "codex.websocket_connect", "conversation.id": "c", "success": "true"},
		"the first half of an end": {"event.name": "codex.sse_event", "conversation.id": "c", "error.message": "Transport error"},
		"no turn":                  {"event.name": "claude_code.api_request", "session.id": "c"},
		"a refusal that another model answered": {
			"event.name": "claude_code.api_refusal", "session.id": "c", "prompt.id": "p", "server_fallback_hop": true,
		},
		"a person changes the mode": {"event.name": "gemini_cli.plan.approval_mode_duration", "session.id": "c", "interactive": true},
		"not a name":                {"event.name": 7, "conversation.id": "c"},
	} {
		_, _, ok := Reader{}.Read("", recordOf(t, from))
		assert.False(t, ok, name)
	}
	without := recordOf(t, map[string]any{"event.name": "codex.user_prompt", "conversation.id": "c"})
	without.SetTimestamp(0)
	_, _, ok := Reader{}.Read("", without)
	assert.False(t, ok, "without a time")
	without.SetObservedTimestamp(at)
	_, _, ok = Reader{}.Read("", without)
	assert.True(t, ok, "with the time at which it was observed")
	_, _, ok = NewReader("gemini_cli").Read("", without)
	assert.False(t, ok, "of another agent")
}

// Claude Code's attribute has the short name; the scope or the body says whose it is.
func TestReadShortNames(t *testing.T) {
	lr := recordOf(t, map[string]any{"event.name": "user_prompt", "session.id": "c", "prompt.id": "p"})
	_, _, ok := Reader{}.Read("another", lr)
	assert.False(t, ok)
	e, _, ok := Reader{}.Read(claudeScope, lr)
	assert.True(t, ok)
	assert.Equal(t, Prompt, e.Kind)
	lr.Body().SetStr("claude_code.user_prompt")
	_, _, ok = Reader{}.Read("another", lr)
	assert.True(t, ok)
}

func TestEqualRecordsHaveEqualHashes(t *testing.T) {
	read := func(status int) uint64 {
		e, _, ok := Reader{}.Read("", recordOf(t, map[string]any{"event.name": "codex.api_request", "conversation.id": "c", "http.response.status_code": status}))
		require.True(t, ok)
		return e.Hash()
	}
	first, again := read(200), read(200)
	assert.Equal(t, first, again)
	assert.NotEqual(t, first, read(500))
}

func TestSize(t *testing.T) {
	empty := Event{}
	assert.GreaterOrEqual(t, empty.Size(), 2*int(reflect.TypeFor[Event]().Size()))
}

// FuzzRead: whatever a record has, reading it does not panic, and what is read is bounded
// and orders itself.
func FuzzRead(f *testing.F) {
	f.Add("codex.sse_event", "conversation.id", "event.kind", "response.completed", int64(3), true)
	f.Add("claude_code.api_error", "session.id", "error", "x", int64(529), false)
	f.Add("gemini_cli.api_error", "session.id", "error.type", "AbortError", int64(-1), false)
	f.Fuzz(func(t *testing.T, name, idKey, key, value string, n int64, b bool) {
		lr := plog.NewLogRecord()
		lr.SetTimestamp(at)
		a := lr.Attributes()
		a.PutStr(key, value)
		a.PutInt("duration_ms", n)
		a.PutInt("status_code", n)
		a.PutDouble("http.response.status_code", float64(n))
		a.PutInt("attempt", n)
		a.PutBool("success", b)
		a.PutStr("prompt.id", value)
		a.PutStr("error.message", value)
		a.PutStr(idKey, value)
		a.PutStr("event.name", name)
		e, id, ok := Reader{}.Read(value, lr)
		if !ok {
			return
		}
		if len(id) > 128 || e.Size() > 2000 {
			t.Fatalf("not bounded: %q, %d bytes", id, e.Size())
		}
		if e.Start > e.Time || Compare(&e, &e) != 0 {
			t.Fatalf("%+v", e)
		}
	})
}
