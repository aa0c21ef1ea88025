package agentlog

import (
	"encoding/json"
	"strings"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
)

// Codex CLI, as recorded from 0.169.0. Its records have no id of a turn: a turn lasts from one codex.user_prompt to the
// next one. If Codex also exports spans, the records outside of a response's stream carry the ids of the span that they
// belong to.

func readCodex(name string, r *record) (conversation string, ok bool) {
	e := r.event
	e.Model = r.code("model")
	switch name {
	case "codex.conversation_starts":
		e.Kind, e.Provider = Session, r.code("provider_name")
		e.Unattended = r.text("approval_policy") == "never"
	case "codex.user_prompt":
		e.Kind = Prompt
	case "codex.api_request":
		// Recorded for each attempt, when the headers have arrived or the attempt failed. Codex counts from 0, and from 0
		// again after a stream that broke and after most HTTP errors: 0 does not prove that there was no attempt before.
		r.took()
		e.RequestID = r.id("auth.request_id")
		e.Status = r.status("http.response.status_code")
		if e.Attempt = r.attempt(0); e.Attempt == 1 {
			e.Attempt = 0
		}
		if e.Kind = Began; e.Status >= 300 || e.Status == 0 {
			e.Kind = Refused
			e.Failure = refusal(e.Status, r.text("error.message"))
		}
	case "codex.websocket_connect":
		if won, known := r.boolean("success"); won || !known {
			return "", false
		}
		r.took()
		e.Kind, e.Status = Refused, r.status("http.response.status_code", "status")
		e.Failure = refusal(e.Status, r.text("error.message"))
	case "codex.websocket_request":
		// Recorded when the request was sent, or failed to be sent.
		r.took()
		if e.Kind = Began; r.text("success") == "false" {
			e.Kind, e.Failure = Refused, refusal(0, r.text("error.message"))
		}
	case "codex.sse_event", "codex.websocket_event":
		if !readCodexStream(r) {
			return "", false
		}
	case "codex.tool_decision":
		e.Kind, e.CallID, e.ToolName = Decision, r.id("call_id"), r.code("tool_name")
		e.Rejected = strings.HasPrefix(r.text("decision"), "denied") || r.text("decision") == "abort"
	case "codex.tool_result":
		r.took()
		e.Kind, e.CallID, e.ToolName = Tool, r.id("call_id"), r.code("tool_name")
		r.outcome("success", "")
		if e.Outcome == semconv.ToolOutcomeFailed && strings.HasPrefix(r.text("output"), "aborted by user") {
			e.Outcome = semconv.ToolOutcomeInterrupted // Codex writes that in place of an output
		}
	default:
		return "", false
	}
	return r.id("conversation.id"), true
}

// readCodexStream reads an event of a response. codex.sse_event reports the end of a response apart from its events: with
// the tokens used, or with an error message, under the kind response.completed both times.
func readCodexStream(r *record) bool {
	e := r.event
	e.Trace, e.Span = pcommon.TraceID{}, pcommon.SpanID{} // which they mostly lack
	kind, failed := r.text("event.kind"), r.has("error.message")
	switch {
	case failed && kind == "response.completed", failed && kind == "response.failed":
		e.Kind, e.Failure = Done, brokenStream(r.text("error.message"))
		if code := codexErrorCode(r.text("error.message")); code != "" {
			e.Failure.Provider = classify.ProviderErrorKind(0, code)
		}
		e.Failure.InBand = e.Failure.Provider != semconv.ProviderErrorKindUnset
	case failed:
		return false // a later record says the same
	case kind == "response.completed" && r.has("input_token_count"):
		e.Kind = Done
		r.tokens("input_token_count", "output_token_count")
	default:
		e.Kind, e.Part = Progress, codexPart(kind)
		e.Model = "" // there may be many
	}
	return true
}

// maxCodexError bounds the JSON of a response that failed, in bytes: it repeats the instructions and tools of the request.
const maxCodexError = 256 << 10

// codexErrorCode returns the error code of the event response.failed, whose JSON is the message over HTTP; else "". The
// code is only for comparing with known codes.
func codexErrorCode(message string) string {
	if !strings.HasPrefix(message, "{") || len(message) > maxCodexError {
		return ""
	}
	var event struct {
		Response struct {
			Error struct {
				Code string `json:"code"`
			} `json:"error"`
		} `json:"response"`
	}
	if json.Unmarshal([]byte(message), &event) != nil {
		return ""
	}
	return event.Response.Error.Code
}

// codexPart returns the part of a response that an event of the Responses API reports.
func codexPart(kind string) Part {
	kind = strings.TrimPrefix(kind, "response.")
	switch {
	case kind == "output_item.added":
		return ItemBegan
	case kind == "output_item.done":
		return ItemEnded
	case strings.HasPrefix(kind, "output_text."), strings.HasPrefix(kind, "refusal."):
		return Text
	case strings.HasPrefix(kind, "reasoning"):
		return Reasoning
	case kind == "function_call_arguments.done", kind == "custom_tool_call_input.done":
		return InputCompleted
	case strings.HasPrefix(kind, "function_call_arguments."), strings.HasPrefix(kind, "custom_tool_call_input."):
		return InputBegan
	case strings.Contains(kind, "_call.") || strings.Contains(kind, "_call_"): // web_search_call.in_progress
		return ProviderTool
	default:
		return Something
	}
}
