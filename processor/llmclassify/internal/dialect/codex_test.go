package dialect

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/assert"

	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
)

// codexSpan is a span of Codex CLI 0.169.0, as recorded, without the attributes of its code
// and threads.
func codexSpan(name string, attrs map[string]any, events ...event) shape {
	all := map[string]any{"code.module.name": "codex_core::session::turn", "busy_ns": 1}
	maps.Copy(all, attrs)
	return shape{scope: "codex_exec", name: name, kind: ptrace.SpanKindInternal, attrs: all, events: events}
}

// codexLogged is an event of Codex; the values are strings.
func codexLogged(name string, attrs map[string]any) event {
	all := map[string]any{"event.name": name, "level": "INFO", "conversation.id": "conv"}
	maps.Copy(all, attrs)
	return event{name: "event otel/src/events/session_telemetry.rs:803", attrs: all}
}

func codexHTTP(attrs map[string]any) shape {
	return codexSpan("endpoint_session.stream_encoded_json_with", map[string]any{"http.method": "POST", "api.path": "/responses"}, codexLogged("codex.api_request", attrs))
}

func TestCodexRequest(t *testing.T) {
	type m = map[string]any
	attempt := codexSpan("try_run_sampling_request", m{"turn_id": "turn", "model": "gpt-5.5"}, codexLogged("codex.turn_ttft", m{"duration_ms": "132"}))
	usage := m{"codex.response.receive_wait_ms": 11.8, "gen_ai.usage.input_tokens": "11", "gen_ai.usage.output_tokens": "5"}
	again := refusedBy(429, semconv.ProviderErrorKindRateLimited, "")
	again.Attempt = 3
	ok := attempt
	ok.status = statusOK
	checkRequests(t, Codex{}, []requestCase{
		{"an attempt", attempt, []truth{success, cut, inBand, passing, stopped}, unknown, classify.Request{}},
		{"OK would be no success", ok, []truth{success, cut, inBand, passing, stopped}, unknown, classify.Request{}},
		{
			"the last event of its response", codexSpan("handle_responses", usage),
			[]truth{success},
			well, answered(classify.FinishToolCalls),
		},
		{
			"refused", codexHTTP(m{"http.response.status_code": "429", "error.message": canary, "attempt": "2"}),
			[]truth{passing},
			ofProvider(semconv.CauseRateLimited, confirm), again,
		},
		{
			"refused for good", codexHTTP(m{"http.response.status_code": "401", "error.message": canary}),
			[]truth{refusal},
			ofProvider(semconv.CauseAuthentication, never), refusedBy(401, semconv.ProviderErrorKindAuthentication, ""),
		},
		{
			"no response, for a reason that is only in a message", codexHTTP(m{"error.message": canary, "attempt": "0"}),
			[]truth{unsent, badHost, early, stopped},
			unclassified, failedWith(classify.Request{Attempt: 1}),
		},
	})
}

func TestCodexSpans(t *testing.T) {
	type m = map[string]any
	for _, c := range []struct {
		name string
		shape
		want Head
	}{
		{"an attempt", codexSpan("try_run_sampling_request", m{"turn_id": "turn"}), Head{Kind: Request, Session: keyOf("turn")}},
		{"the last event of a response", codexSpan("handle_responses", m{"gen_ai.usage.output_tokens": "5"}), Head{Kind: Request, Part: true}},
		{"a response that is an error", codexHTTP(m{"http.response.status_code": "500", "attempt": "0"}), Head{Kind: Request, Part: true}},
		{"headers of a response", codexHTTP(m{"http.response.status_code": "200", "attempt": "0"}), Head{}},
		{"an exchange that nothing is recorded of", codexSpan("endpoint_session.stream_encoded_json_with", nil), Head{}},
		{"an event of a response", codexSpan("handle_responses", m{"from": "output_item_added", "tool_name": "exec_command"}), Head{}},
		{"a tool that is running", codexSpan("dispatch_tool_call_with_state", nil), Head{}},
		{"around a tool", codexSpan("exec_command", m{"tool_name": "exec_command", "call_id": "call_1", "aborted": false}), Head{}},
		{"a turn that counted nothing", codexSpan("session_task.turn", m{"turn.id": "turn"}), Head{}},
		{
			"a turn", codexSpan("session_task.turn", m{"turn.id": "turn", "model": "gpt-5.5"}, codexLogged("codex.turn_profile", m{"sampling_request_count": "2", "sampling_retry_count": "1"})),
			Head{Kind: Run, Session: keyOf("turn")},
		},
		{"another span", codexSpan("run_turn", m{"turn.id": "turn"}), Head{}},
		{"of another producer", shape{scope: "agent", name: "try_run_sampling_request"}, Head{}},
	} {
		head, _, facts := c.read(t)
		assert.Equal(t, c.want, head, c.name)
		if head.Kind == Run {
			assert.Equal(t, &classify.Run{Start: start, End: end, Ended: classify.Yes, AnnouncedRequests: classify.Counted(2), Retries: 1}, facts.Run)
		}
	}
}

// Of events of one kind the last one counts, however many there are before it.
func TestCodexLastEvent(t *testing.T) {
	type m = map[string]any
	refused := codexLogged("codex.api_request", m{"http.response.status_code": "429", "attempt": "0"})
	answered := codexLogged("codex.api_request", m{"http.response.status_code": "200", "attempt": "50"})
	var events []event
	for range 50 {
		events = append(events, refused, event{name: "other"})
	}
	span := codexSpan("endpoint_session.stream_encoded_json_with", nil, append(events, answered)...)
	head, _, _ := span.read(t)
	assert.Equal(t, Other, head.Kind, "the last attempt got an answer")

	span = codexSpan("endpoint_session.stream_encoded_json_with", nil, append(events, codexLogged("codex.api_request", m{"http.response.status_code": "401", "attempt": "50"}))...)
	_, _, facts := span.read(t)
	assert.Equal(t, 401, facts.Request.Status)
	assert.Equal(t, 51, facts.Request.Attempt)
}

func TestCodexTool(t *testing.T) {
	type m = map[string]any
	result := func(success string) shape {
		return codexSpan("dispatch_tool_call_with_state", nil, codexLogged("codex.tool_result", m{
			"tool_name": "exec_command", "call_id": "call_1", "success": success, "arguments": canary, "output": canary,
		}))
	}
	of := func(outcome semconv.ToolOutcome) classify.Tool {
		return classify.Tool{Start: start, End: end, CallID: "call_1", Name: "exec_command", Outcome: outcome}
	}
	stopped := of(semconv.ToolOutcomeInterrupted)
	stopped.Abort.Source = semconv.AbortSourceUnknown
	for _, c := range []struct {
		name string
		shape
		want classify.Tool
	}{
		{"succeeded", result("true"), of(semconv.ToolOutcomeSucceeded)},
		{"failed", result("false"), of(semconv.ToolOutcomeFailed)},
		{"another word", result("maybe"), of(semconv.ToolOutcomeUnset)},
		{"stopped", codexSpan("exec_command", m{"tool_name": "exec_command", "call_id": "call_1", "aborted": true}), stopped},
	} {
		head, d, facts := c.read(t)
		assert.Equal(t, Tool, head.Kind, c.name)
		assert.Equal(t, Codex{}, d)
		assert.Equal(t, &c.want, facts.Tool, c.name)
	}
}
