package agentlog

import (
	"strings"

	"github.com/otelllm/otelllm-go/semconv"
)

// Claude Code, as recorded from 2.1.330: testdata of the connector. A rejected call, a refusal and a tool that failed are
// read as its documentation describes them (code.claude.com/docs, "Monitoring"). All events of a turn share prompt.id, and
// event.sequence orders the events of a process. A request is recorded when it is over: its last attempt, with the number
// since its stream last broke. If traces are on, a record has the trace of its turn, and the span of the turn or of the
// tool.

const (
	claudePrefix = "claude_code."
	claudeScope  = "com.anthropic.claude_code.events"
)

func readClaude(name string, r *record) (conversation string, ok bool) {
	e := r.event
	e.Seq = max(r.number("event.sequence"), 0)
	e.Turn = r.id("prompt.id")
	if e.Turn == "" {
		return "", false
	}
	switch strings.TrimPrefix(name, claudePrefix) {
	case "user_prompt":
		e.Kind = Prompt
	case "api_request":
		r.claudeRequest()
		e.Kind = Done
		r.tokens("input_tokens", "output_tokens")
	case "api_error":
		r.claudeRequest()
		e.Kind = Refused
		e.Status = r.status("status_code")
		e.Failure = claudeFailure(e.Status, r.text("error"))
	case "api_refusal":
		if again, _ := r.boolean("server_fallback_hop"); again {
			return "", false // another model answered
		}
		r.claudeRequest()
		e.Kind, e.Failure = Cut, Failure{Limited: "refusal"}
	case "api_retries_exhausted":
		e.Kind = GaveUp
	case "tool_decision":
		e.Kind, e.CallID, e.ToolName = Decision, r.id("tool_use_id"), r.code("tool_name")
		e.Rejected, e.RequestID = r.text("decision") == "reject", r.id("request_id")
	case "tool_result":
		r.took()
		e.Kind, e.CallID, e.ToolName = Tool, r.id("tool_use_id"), r.code("tool_name")
		e.RequestID = r.id("request_id")
		r.outcome("success", "error_type")
	default:
		return "", false
	}
	return r.id("session.id"), true
}

// claudeRequest reads the facts that are recorded with each request.
func (r *record) claudeRequest() {
	e := r.event
	r.took()
	e.Model, e.Provider, e.RequestID = r.code("model"), "anthropic", r.id("request_id")
	e.Attempt = r.attempt(1)
	e.Side = beside[r.text("query_source")]
}

// beside are the sources of requests that Claude Code makes beside a conversation, or for a tool that reports their
// failure: names, titles, summaries, guesses. An unknown source may be the conversation itself, or a subagent. The dialect
// claude_code of llm_classify has the same list, which a test compares.
var beside = map[string]bool{
	"agent_classifier": true, "agent_namer": true, "agent_summary": true, "auto_dream": true, "auto_mode": true,
	"auto_mode_critique": true, "auto_mode_setup_propose": true, "away_summary": true, "extract_memories": true,
	"extract_memories_first_look": true, "feedback": true, "first_tasks_read": true, "generate_session_title": true,
	"hook_agent": true, "hook_prompt": true, "insights": true, "mcp_datetime_parse": true, "model_validation": true,
	"prompt_suggestion": true, "rename_generate_name": true, "resume_cache_warm": true, "side_question": true,
	"subagent_config_classifier": true, "tool_use_summary_generation": true, "web_fetch_apply": true, "web_search_tool": true,
}

// claudeFailure returns the failure of a request. Without a status the connection failed or the stream broke; the record
// does not tell them apart, so that text may have been shown.
func claudeFailure(status int, message string) Failure {
	if status >= 400 {
		return refusal(status, message)
	}
	return brokenStream(message)
}

// unknownFailure is a failure without further facts.
func unknownFailure() Failure { return Failure{Failed: true, End: semconv.StreamEndUnset} }
