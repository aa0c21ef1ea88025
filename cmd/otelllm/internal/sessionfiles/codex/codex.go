// Package codex reads the rollouts of Codex: sessions/YYYY/MM/DD/rollout-TIME-ID.jsonl in its home.
// It describes what version 0.169.0 writes.
package codex

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"

	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/sessionfiles/event"
)

// Known reports whether sessions of this version of Codex were read, and compared with what had
// really happened.
func Known(version string) bool { return strings.HasPrefix(version, "0.169.") }

// Reader reads the lines of one rollout.
type Reader struct {
	log *event.Log

	sampled  int64 // up to which item of the history the open request carries it; -1: not recorded
	answered bool  // a response is complete since the last count of tokens
	called   bool  // the open answer has a call
	opened   bool  // a request of this turn is known

	turn  string          // the id of the turn
	own   int64           // the first ordinal of the session's own history; those before are of its parent
	broke *event.Event    // a stream that broke, unless it turns out to be that of a compaction
	asks  map[string]bool // calls of the turn that ask for the output of a command which runs
}

// New returns a reader that adds to log.
func New(log *event.Log) *Reader { return &Reader{log: log, sampled: -1} }

// record is one line.
type record struct {
	Timestamp string  `json:"timestamp"`
	Ordinal   *int64  `json:"ordinal"`
	Type      string  `json:"type"`
	Payload   payload `json:"payload"`
	Metadata  struct {
		Sampled *int64 `json:"sampled_through_sequence"`
	} `json:"metadata"`
}

// payload has the members of all types that are read. None of them has content.
type payload struct {
	Type       string `json:"type"`
	ID         string `json:"id"`
	Role       string `json:"role"`
	CLIVersion string `json:"cli_version"`
	CWD        string `json:"cwd"`
	Own        int64  `json:"subagent_history_start_ordinal"`
	Model      string `json:"model"`
	TurnID     string `json:"turn_id"`
	Name       string `json:"name"`
	CallID     string `json:"call_id"`
	ResponseID string `json:"response_id"`
	Reason     string `json:"reason"`
	Output     prefix `json:"output"`
	Limits     struct {
		Primary *struct{} `json:"primary"`
	} `json:"rate_limits"`
	Error *struct {
		Info    json.RawMessage `json:"codex_error_info"`
		Message prefix          `json:"message"`
	} `json:"error"`
	Item struct {
		Type     string `json:"type"`
		ID       string `json:"id"`
		Thread   string `json:"agent_thread_id"`
		Status   string `json:"status"`
		ExitCode *int   `json:"exit_code"`
	} `json:"item"`
}

// prefix is the beginning of a text, which is compared with the texts in Codex' own source.
type prefix string

const (
	// abortedByUser is what Codex writes as the output of a call that a person stopped, after a
	// line with the time that it took.
	abortedByUser = "aborted by user"
	// disconnected begins the message of a stream that broke off more often than it is tried again.
	disconnected = "stream disconnected before completion"
	// stillRuns is in the output of a command that has not ended, after a line or two.
	stillRuns = "Process running with session ID"
)

// maxHead bounds where [stillRuns] is looked for.
const maxHead = 256

// UnmarshalJSON implements [json.Unmarshaler].
func (p *prefix) UnmarshalJSON(raw []byte) error {
	switch {
	case len(raw) == 0 || raw[0] != '"':
	case bytes.HasPrefix(raw[1:], []byte(disconnected)):
		*p = disconnected
	case len(raw) < 256 && bytes.Contains(raw, []byte(abortedByUser)):
		*p = abortedByUser
	case bytes.Contains(raw[:min(len(raw), maxHead)], []byte(stillRuns)):
		*p = stillRuns
	}
	return nil
}

// Line reads a line.
func (r *Reader) Line(raw []byte) {
	var rec record
	if err := json.Unmarshal(raw, &rec); err != nil || rec.Type == "" {
		r.log.Unread++
		return
	}
	at, p := event.ParseTime(rec.Timestamp), &rec.Payload
	if rec.Ordinal != nil && *rec.Ordinal > 0 && *rec.Ordinal < r.own {
		return // copied from the session that began this one
	}
	r.streamBroke(rec.Type == "compacted")
	switch rec.Type {
	case "session_meta":
		if r.log.Session == "" {
			r.own = p.Own
		}
		r.log.SetSession(p.ID, p.CLIVersion)
		r.log.SetFolder(p.CWD)
	case "turn_context":
		r.log.Add(event.Event{Time: at, Kind: event.Model, Name: p.Model})
	case "event_msg":
		r.message(at, p)
	case "response_item":
		r.item(at, p, rec.Metadata.Sampled)
	case "token_usage_record":
		r.log.Add(event.Event{Time: at, Kind: event.Response, ID: p.ResponseID, Code: r.finish()})
		r.answered, r.called = true, false
	case "compacted":
		r.answered = true // the count of tokens that follows is that of the new history
	case "world_state", "ghost_snapshot", "inter_agent_message", "inter_agent_communication", "inter_agent_communication_metadata":
	default:
		r.log.Unread++
	}
}

// finish is the finish reason of a complete answer, which Codex does not record.
func (r *Reader) finish() string {
	if r.called {
		return "tool_calls"
	}
	return "stop"
}

// message reads an event for the user interface.
func (r *Reader) message(at time.Time, p *payload) {
	switch p.Type {
	case "task_started":
		r.sampled, r.answered, r.called, r.opened, r.asks, r.turn = -1, false, false, false, nil, p.TurnID
		r.log.Add(event.Event{Time: at, Kind: event.Turn, Turn: p.TurnID})
	case "token_count":
		// Written when a stream is over, also one that broke. Older versions have no other record of
		// that. With limits it may be written when a stream begins.
		if !r.answered && p.Limits.Primary == nil && Known(r.log.Version) {
			r.broke = &event.Event{Time: at, Kind: event.Broken}
		}
		r.answered, r.called = false, false
	case "item_completed":
		r.completed(at, p)
	case "turn_aborted":
		r.log.Add(event.Event{Time: at, Kind: event.Aborted, Turn: p.TurnID})
	case "task_complete":
		e := event.Event{Time: at, Kind: event.Ended, Turn: p.TurnID}
		if p.Error == nil && !Known(r.log.Version) && p.TurnID == r.turn { // older versions do not record that an answer is complete
			r.log.Add(event.Event{Time: at, Kind: event.Response, Code: "stop"})
		}
		if p.Error != nil {
			e.Code, e.Count = reason(p.Error.Info)
			if e.Code == "other" && p.Error.Message == disconnected {
				e.Code = "response_stream_disconnected"
			}
		}
		r.log.Add(e)
	case "error":
		r.log.Add(event.Event{Time: at, Kind: event.Failed, Code: "other"})
	}
}

// streamBroke adds that a stream broke, if one did and it was not that of a compaction.
func (r *Reader) streamBroke(compacted bool) {
	if r.broke != nil && !compacted {
		r.log.Add(*r.broke)
	}
	r.broke = nil
}

// completed reads an item that is shown as complete. A command's item has its exit code.
func (r *Reader) completed(at time.Time, p *payload) {
	if p.Item.Type == "SubAgentActivity" {
		r.log.Begin(p.Item.ID, p.Item.Thread)
		return
	}
	if p.Item.ExitCode == nil && p.Item.Status == "" || p.Item.ID == "" {
		return
	}
	outcome := event.Succeeded
	switch {
	case p.Item.Status == "declined":
		outcome = event.Rejected
	case p.Item.ExitCode != nil && *p.Item.ExitCode < 0:
		outcome = event.Interrupted // there is no exit code: it was stopped
	case p.Item.Status == "failed", p.Item.ExitCode != nil && *p.Item.ExitCode != 0:
		outcome = event.FailedTool
	}
	r.log.Add(event.Event{Time: at, Kind: event.Output, ID: p.Item.ID, Outcome: outcome})
}

// item reads an item of the history. An item of the model belongs to the request that carried the
// history up to a number.
func (r *Reader) item(at time.Time, p *payload, sampled *int64) {
	kind, call := event.Kind(0), event.Event{Time: at, ID: p.CallID, Name: p.Name}
	switch p.Type {
	case "message":
		if p.Role != "assistant" {
			return
		}
		kind = event.Text
	case "reasoning":
		kind = event.Reasoning
	case "function_call", "custom_tool_call", "local_shell_call", "tool_search_call":
		kind = event.Call
		if call.ID == "" {
			call.ID = p.ID
		}
		if call.Name == "" {
			call.Name = strings.TrimSuffix(p.Type, "_call")
		}
	case "function_call_output", "custom_tool_call_output", "local_shell_call_output", "tool_search_output":
		e := event.Event{Time: at, Kind: event.Output, ID: p.CallID}
		switch {
		case p.Output == abortedByUser:
			e.Outcome = event.Interrupted
		case p.Output == stillRuns && !r.asks[p.CallID] && Known(r.log.Version): // its end is recorded as a completed item
			e.Kind = event.LeftRunning
		}
		r.log.Add(e)
		return
	case "web_search_call", "image_generation_call":
		kind = event.ProviderTool
	case "ghost_snapshot", "compaction", "context_compaction", "compaction_trigger", "agent_message", "additional_tools", "other":
		return
	default:
		r.log.Unread++
		return
	}
	if sampled != nil && (*sampled != r.sampled || !r.opened) {
		r.sampled, r.opened = *sampled, true
		r.log.Add(event.Event{Time: at, Kind: event.Request})
	}
	if kind == event.Call && p.Name == "write_stdin" {
		if r.asks == nil {
			r.asks = make(map[string]bool)
		}
		r.asks[p.CallID] = true
	}
	call.Kind = kind
	if kind != event.Call {
		call.ID, call.Name = "", ""
	} else {
		r.called = true
	}
	r.log.Add(call)
}

// reason returns the name of Codex' error, and the HTTP status that it has. It is a name, or an
// object with the name as its only key.
func reason(info json.RawMessage) (code string, status int) {
	if json.Unmarshal(info, &code) == nil && code != "" {
		return code, 0
	}
	var of map[string]struct {
		Status int `json:"http_status_code"`
	}
	if json.Unmarshal(info, &of) == nil && len(of) == 1 {
		for code, detail := range of {
			return code, detail.Status
		}
	}
	return "other", 0
}
