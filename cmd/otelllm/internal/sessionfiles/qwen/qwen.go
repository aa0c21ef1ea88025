// Package qwen reads the sessions of Qwen Code: projects/FOLDER/chats/ID.jsonl in its home. It
// describes the files of version 0.24.4.
package qwen

import (
	"encoding/json"
	"html"
	"regexp"
	"strings"
	"time"

	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/sessionfiles/event"
)

// Known reports whether sessions of this version of Qwen Code were read, and compared with what had
// really happened.
func Known(version string) bool { return strings.HasPrefix(version, "0.24.") }

// Reader reads the lines of one session.
type Reader struct {
	log        *event.Log
	sub        bool            // it is the session of a sub-agent
	background map[string]bool // calls of the last answer, or of the sub-agent, whose commands go on in the background
}

// New returns a reader that adds to log.
func New(log *event.Log) *Reader { return &Reader{log: log} }

// NewSubAgent returns a reader of the session of a sub-agent, projects/FOLDER/subagents/ID/agent-*.jsonl. It has a line for
// each call, after one for the text of the answer: nothing says when an answer is complete.
func NewSubAgent(log *event.Log) *Reader { return &Reader{log: log, sub: true} }

// record has the members of a line that are read.
type record struct {
	SessionID  string `json:"sessionId"`
	Timestamp  string `json:"timestamp"`
	Type       string `json:"type"`
	Subtype    string `json:"subtype"`
	Provenance string `json:"provenance"`
	Sidechain  bool   `json:"isSidechain"`   // it is of a sub-agent
	Delivered  bool   `json:"deliveredTurn"` // the model is asked about this notification
	Version    string `json:"version"`
	CWD        string `json:"cwd"`
	Model      string `json:"model"`
	Message    struct {
		Parts []part `json:"parts"`
	} `json:"message"`
	Payload struct {
		Event uiEvent `json:"uiEvent"`
		Task  task    `json:"backgroundTask"`
	} `json:"systemPayload"`
	Result struct {
		CallID  string  `json:"callId"`
		Status  string  `json:"status"`
		Display display `json:"resultDisplay"`
	} `json:"toolCallResult"`
}

// task is a sub-agent or a command in the background.
type task struct {
	CallID string `json:"toolUseId"`
	Status string `json:"status"`
}

// display is whether the display of a tool says that its sub-agent goes on.
type display bool

// UnmarshalJSON implements [json.Unmarshaler]. It never fails: the display may be a text.
func (d *display) UnmarshalJSON(raw []byte) error {
	var of struct {
		Type   string `json:"type"`
		Status string `json:"status"`
	}
	_ = json.Unmarshal(raw, &of)
	*d = of.Type == "task_execution" && of.Status == "background"
	return nil
}

// part is a part of a message. Of a member with content only its presence is known.
type part struct {
	Thought bool `json:"thought"`
	Call    *struct {
		ID   string `json:"id"`
		Name string `json:"name"`
		Args args   `json:"args"`
	} `json:"functionCall"`
	Response *struct {
		ID   string `json:"id"`
		Name string `json:"name"`
	} `json:"functionResponse"`
}

// args is whether the arguments of a call say that its command goes on in the background.
type args bool

// UnmarshalJSON implements [json.Unmarshaler]. It never fails.
func (a *args) UnmarshalJSON(raw []byte) error {
	var of struct {
		Background bool `json:"is_background"`
	}
	_ = json.Unmarshal(raw, &of)
	*a = args(of.Background)
	return nil
}

// uiEvent is a record of Qwen Code's own telemetry.
type uiEvent struct {
	Name       string `json:"event.name"`
	ErrorType  string `json:"error_type"`
	StatusCode int    `json:"status_code"`
	ResponseID string `json:"response_id"`
	PromptID   string `json:"prompt_id"`
	SubagentID string `json:"subagent_id"` // it is of another conversation
}

// ofTurn is in the ids of a user's prompts. Requests for a title or a shorter history have others.
const ofTurn = "########"

// Line reads a line.
func (r *Reader) Line(raw []byte) {
	var rec record
	if err := json.Unmarshal(raw, &rec); err != nil || rec.Type == "" {
		r.log.Unread++
		return
	}
	r.log.SetSession(rec.SessionID, rec.Version)
	r.log.SetFolder(rec.CWD)
	if rec.Sidechain && !r.sub {
		return // the call that began the sub-agent counts
	}
	at := event.ParseTime(rec.Timestamp)
	switch rec.Type {
	case "user":
		r.user(at, &rec, raw)
	case "assistant":
		r.answer(at, &rec)
	case "tool_result":
		r.output(at, &rec)
	case "system":
		r.system(at, &rec.Payload.Event)
	default:
		r.log.Unread++
	}
}

// user reads a prompt of a person, of a goal or of a schedule, or a notification.
func (r *Reader) user(at time.Time, rec *record, raw []byte) {
	e := event.Event{Time: at, Kind: event.Turn}
	switch {
	case rec.Subtype == "mid_turn_user_message":
		e.Kind = event.Owed
	case rec.Subtype == "notification":
		if rec.Payload.Task.CallID != "" {
			r.notified(at, &rec.Payload.Task)
		} else {
			r.notifiedTogether(at, raw)
		}
		e.Kind = event.MaybeOwed
		if rec.Delivered {
			e.Kind = event.Owed
		}
	case rec.Provenance != "" && rec.Provenance != "real_user" && rec.Subtype != "cron" && rec.Subtype != "goal_runtime":
		return
	}
	r.log.Add(e)
}

// notified reads that a sub-agent or a command in the background has ended.
func (r *Reader) notified(at time.Time, task *task) {
	e := event.Event{Time: at, Kind: event.Output, ID: task.CallID}
	switch task.Status {
	case "running":
		return
	case "completed":
		e.Outcome = event.Succeeded
	case "failed":
		e.Outcome = event.FailedTool
	default:
		e.Outcome = event.Interrupted
	}
	r.log.Add(e)
}

// oneOfSeveral is the beginning of a notification in the text for the model. Qwen Code escapes the text of others there.
var oneOfSeveral = regexp.MustCompile(`<task-notification>\s*<task-id>[^<]*</task-id>\s*<tool-use-id>([^<]+)</tool-use-id>\s*<status>([^<]+)</status>`)

// notifiedTogether reads several notifications in one line, which has them in its text alone.
func (r *Reader) notifiedTogether(at time.Time, raw []byte) {
	var rec struct {
		Message struct {
			Parts []struct {
				Text string `json:"text"`
			} `json:"parts"`
		} `json:"message"`
	}
	if json.Unmarshal(raw, &rec) != nil {
		return
	}
	for _, p := range rec.Message.Parts {
		for _, found := range oneOfSeveral.FindAllStringSubmatch(p.Text, -1) {
			r.notified(at, &task{CallID: html.UnescapeString(found[1]), Status: found[2]})
		}
	}
}

// answer reads an answer, which is written when it is complete.
func (r *Reader) answer(at time.Time, rec *record) {
	r.log.Add(event.Event{Time: at, Kind: event.Model, Name: rec.Model})
	finish, said := "stop", false
	if !r.sub {
		r.background = nil
	}
	for i := range rec.Message.Parts {
		switch p := &rec.Message.Parts[i]; {
		case p.Call != nil:
			finish, said = "tool_calls", true
			r.log.Add(event.Event{Time: at, Kind: event.Call, ID: p.Call.ID, Name: p.Call.Name})
			if p.Call.Args {
				if r.background == nil {
					r.background = make(map[string]bool)
				}
				r.background[p.Call.ID] = true
			}
		case p.Thought:
			r.log.Add(event.Event{Time: at, Kind: event.Reasoning})
		default:
			said = true
			r.log.Add(event.Event{Time: at, Kind: event.Text})
		}
	}
	if said && !r.sub {
		r.log.Add(event.Event{Time: at, Kind: event.Response, Code: finish})
	}
}

// output reads the output of a tool. A call that was cancelled had begun to run.
func (r *Reader) output(at time.Time, rec *record) {
	e := event.Event{Time: at, Kind: event.Output, ID: rec.Result.CallID, Outcome: event.OutcomeUnknown}
	switch {
	case rec.Result.Status == "success" && bool(rec.Result.Display):
		e.Kind = event.Launched
		r.log.Add(e)
		return
	case (rec.Result.Status == "success" || r.sub && rec.Result.Status == "") && r.background[rec.Result.CallID]:
		e.Kind = event.LeftRunning
		r.log.Add(e)
		return
	}
	switch rec.Result.Status {
	case "success":
		e.Outcome = event.Succeeded
	case "error":
		e.Outcome = event.FailedTool
	case "cancelled":
		e.Outcome = event.Interrupted
	}
	r.log.Add(e)
	if e.Outcome == event.Interrupted {
		r.log.Add(event.Event{Time: at, Kind: event.Aborted})
	}
}

// system reads a record of a model request.
func (r *Reader) system(at time.Time, e *uiEvent) {
	if e.SubagentID != "" || e.PromptID != "" && !strings.Contains(e.PromptID, ofTurn) {
		return
	}
	switch strings.TrimPrefix(e.Name, "qwen-code.") {
	case "api_response":
		r.log.Add(event.Event{Time: at, Kind: event.Going, ID: e.ResponseID})
	case "api_error":
		r.log.Add(event.Event{Time: at, Kind: event.Failed, Code: e.ErrorType, Count: e.StatusCode})
	}
}
