package dialect

import (
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
)

// ClaudeCode reads the spans of Claude Code (scope com.anthropic.claude_code.tracing). Their
// names identify them; the operation that some have does not.
//
// claude_code.interaction is a run and always UNSET. claude_code.llm_request is a request
// with all its attempts, an event gen_ai.request.attempt for each: success, status_code and
// stop_reason record how the last one ended, and error_class is a category or "unknown". A
// request that failed is ERROR with the error's message: of one that is fixed the meaning is
// known. Of the attempts before the last nothing is recorded but their number: they failed. query_source_safe names what
// asked: what Claude Code asks for beside the conversation is not read.
//
// The span claude_code.tool is UNSET whatever happened, and the work is in the two beneath
// it: claude_code.tool.execution is a tool, with its id, without its name, and with success
// and the category of its error; and claude_code.tool.blocked_on_user is one that was
// rejected if its decision is reject. A subagent's spans are beneath its tool, which is no
// run of its own. Hooks are not read. A turn that is interrupted loses the request that was
// open.
//
// Recorded from Claude Code 2.1.330, traces in beta: testdata of connector/llmagentlogs. A
// tool that failed, one that was rejected, a hook and a subagent are read as its
// documentation describes them (code.claude.com/docs/en/monitoring-usage).
type ClaudeCode struct{}

var _ Dialect = ClaudeCode{}

// Names and keys of Claude Code.
const (
	nameClaudeRun      = "claude_code.interaction"
	nameClaudeRequest  = "claude_code.llm_request"
	nameClaudeTool     = "claude_code.tool.execution"
	nameClaudeBlocked  = "claude_code.tool.blocked_on_user"
	keyClaudeSuccess   = "success"
	keyClaudeStatus    = "status_code"
	keyClaudeAttempt   = "attempt"
	keyClaudeSource    = "query_source_safe"
	eventClaudeAttempt = "gen_ai.request.attempt"
	keyClaudeStop      = "stop_reason"
	keyClaudeHasTool   = "response.has_tool_call"
	keyClaudeRequestID = "request_id"
	keyClaudeClass     = "error_class"
	keyClaudeError     = "error"
	keyClaudeToolID    = "tool_use_id"
	keyClaudeDecision  = "decision"
	claudeReject       = "reject"
	claudeConnection   = "connection_error" // of what broke before or within a response
)

// Name implements [Dialect].
func (ClaudeCode) Name() string { return "claude_code" }

func (ClaudeCode) claims() claims { return claims{scopes: scopesOf(scopeClaudeCode)} }

// Recognise implements [Dialect].
func (ClaudeCode) Recognise(s *AttributeScan) Head { return s.head(s.kind) }

// scanClaude scans a span of Claude Code by its name.
func (s *AttributeScan) scanClaude(span ptrace.Span) {
	switch span.Name() {
	case nameClaudeRun:
		s.kind = Run
	case nameClaudeRequest:
		if source, ok := span.Attributes().Get(keyClaudeSource); !ok || !beside[source.Str()] {
			s.kind = Request
		}
	case nameClaudeTool:
		s.kind = Tool
	case nameClaudeBlocked:
		if v, ok := span.Attributes().Get(keyClaudeDecision); ok && v.Str() == claudeReject {
			s.kind = Tool
		}
	}
}

// beside are the sources of the requests that Claude Code makes beside a conversation, or
// for a tool that reports their failure: names, titles, summaries, guesses. A source that is
// not known may be the conversation itself.
var beside = map[string]bool{
	"agent_classifier": true, "agent_namer": true, "agent_summary": true, "auto_dream": true, "auto_mode": true,
	"auto_mode_critique": true, "auto_mode_setup_propose": true, "away_summary": true, "extract_memories": true,
	"extract_memories_first_look": true, "feedback": true, "first_tasks_read": true, "generate_session_title": true,
	"hook_agent": true, "hook_prompt": true, "insights": true, "mcp_datetime_parse": true, "model_validation": true,
	"prompt_suggestion": true, "rename_generate_name": true, "resume_cache_warm": true, "side_question": true,
	"subagent_config_classifier": true, "tool_use_summary_generation": true, "web_fetch_apply": true, "web_search_tool": true,
}

// Read implements [Dialect].
func (ClaudeCode) Read(span ptrace.Span, into Facts) {
	switch {
	case into.Request != nil:
		claudeRequest(span, into.Request)
	case into.Tool != nil:
		claudeTool(span, into.Tool)
	case into.Run != nil:
		readRunWithoutOK(span, into.Run)
	}
}

// word is a boolean that may be written as a string.
func word(v pcommon.Value) classify.Fact {
	switch {
	case v.Type() == pcommon.ValueTypeBool:
		return classify.FactOf(v.Bool())
	case v.Str() == "true":
		return classify.Yes
	case v.Str() == "false":
		return classify.No
	default:
		return classify.NotObserved
	}
}

func claudeRequest(span ptrace.Span, r *classify.Request) {
	var e ending
	e.begin(span, r)
	success := classify.NotObserved
	for key, v := range span.Attributes().All() {
		switch key {
		case keyClaudeSuccess:
			success = word(v)
		case keyClaudeStatus:
			r.Status = status(v)
		case keyClaudeAttempt:
			r.Attempt = count(v).N()
		case keyClaudeStop:
			e.finish(v)
		case keyClaudeHasTool:
			if word(v) == classify.Yes {
				e.content = classify.Yes
			}
		case keyClaudeRequestID:
			e.responded = e.responded || text(v) != ""
		case keyClaudeClass:
			e.errorType = text(v)
		default:
			e.read(key, v, r)
		}
	}
	e.end(span, r)
	r.Attempt = max(r.Attempt, claudeAttempts(span))
	r.FailedBefore = max(0, r.Attempt-1)
	e.typed = e.typed || r.Status >= 400
	switch {
	case success == classify.No:
		r.Failed = classify.Yes
	case r.Failed == classify.No:
		r.Failed = classify.NotObserved
	}
	e.conclude(r)
}

// claudeAttempts counts the attempts of a request. The attribute numbers those since the
// stream last broke.
func claudeAttempts(span ptrace.Span) (n int) {
	for event := range eventsOf(span) {
		if event.Name() == eventClaudeAttempt {
			n++
		}
	}
	return n
}

func claudeTool(span ptrace.Span, t *classify.Tool) {
	if span.Name() == nameClaudeBlocked {
		readTool(span, t, keyClaudeToolID, keyToolName)
		t.Outcome = semconv.ToolOutcomeRejected
		return
	}
	genAITool(span, t)
	success := classify.NotObserved
	for key, v := range span.Attributes().All() {
		switch key {
		case keyClaudeSuccess:
			success = word(v)
		case keyClaudeToolID:
			t.CallID = id(v)
		case keyClaudeError:
			if t.ErrorType == "" {
				t.ErrorType = codeOf(text(v)) // a category; a message if details are recorded, which is not a code
			}
		}
	}
	switch {
	case success == classify.No && t.Outcome != semconv.ToolOutcomeTimedOut && t.Outcome != semconv.ToolOutcomeInterrupted:
		t.Outcome = semconv.ToolOutcomeFailed
	case success == classify.Yes && t.Outcome == semconv.ToolOutcomeUnset:
		t.Outcome = semconv.ToolOutcomeSucceeded
	case success != classify.Yes && t.Outcome == semconv.ToolOutcomeSucceeded:
		t.Outcome = semconv.ToolOutcomeUnset
	}
}
