// Package qwen reads the sessions of Qwen Code: projects/FOLDER/chats/ID.jsonl in its home. It
// describes what version 0.24.4 writes.
package qwen

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/sessionfiles/event"
)

// Known reports whether sessions of this version of Qwen Code were read, and compared with what had
// really happened.
func Known(version string) bool { return strings.HasPrefix(version, "0.24.") }

// Reader reads the lines of one session.
type Reader struct{ log *event.Log }

// New returns a reader that adds to log.
func New(log *event.Log) *Reader { return &Reader{log: log} }

// record has the members of a line that are read.
type record struct {
	SessionID  string `json:"sessionId"`
	Timestamp  string `json:"timestamp"`
	Type       string `json:"type"`
	Subtype    string `json:"subtype"`
	Provenance string `json:"provenance"`
	Version    string `json:"version"`
	Model      string `json:"model"`
	Message    struct {
		Parts []part `json:"parts"`
	} `json:"message"`
	Payload struct {
		Event uiEvent `json:"uiEvent"`
	} `json:"systemPayload"`
	Result struct {
		CallID string `json:"callId"`
		Status string `json:"status"`
	} `json:"toolCallResult"`
}

// part is a part of a message. What has content is only known to be there.
type part struct {
	Thought bool `json:"thought"`
	Call    *struct {
		ID   string `json:"id"`
		Name string `json:"name"`
	} `json:"functionCall"`
	Response *struct {
		ID   string `json:"id"`
		Name string `json:"name"`
	} `json:"functionResponse"`
}

// uiEvent is a record of Qwen Code's own telemetry.
type uiEvent struct {
	Name       string `json:"event.name"`
	ErrorType  string `json:"error_type"`
	StatusCode int    `json:"status_code"`
	ResponseID string `json:"response_id"`
	SubagentID string `json:"subagent_id"` // it is of another conversation
}

// Line reads a line.
func (r *Reader) Line(raw []byte) {
	var rec record
	if err := json.Unmarshal(raw, &rec); err != nil || rec.Type == "" {
		r.log.Unread++
		return
	}
	r.log.SetSession(rec.SessionID, rec.Version)
	at := event.ParseTime(rec.Timestamp)
	switch rec.Type {
	case "user":
		if rec.Provenance == "" || rec.Provenance == "real_user" {
			r.log.Add(event.Event{Time: at, Kind: event.Turn})
		}
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

// answer reads an answer, which is written when it is complete.
func (r *Reader) answer(at time.Time, rec *record) {
	r.log.Add(event.Event{Time: at, Kind: event.Model, Name: rec.Model})
	finish, said := "stop", false
	for i := range rec.Message.Parts {
		switch p := &rec.Message.Parts[i]; {
		case p.Call != nil:
			finish, said = "tool_calls", true
			r.log.Add(event.Event{Time: at, Kind: event.Call, ID: p.Call.ID, Name: p.Call.Name})
		case p.Thought:
			r.log.Add(event.Event{Time: at, Kind: event.Reasoning})
		default:
			said = true
			r.log.Add(event.Event{Time: at, Kind: event.Text})
		}
	}
	if said {
		r.log.Add(event.Event{Time: at, Kind: event.Response, Code: finish})
	}
}

// output reads what a tool returned. A call that was cancelled had begun to run.
func (r *Reader) output(at time.Time, rec *record) {
	e := event.Event{Time: at, Kind: event.Output, ID: rec.Result.CallID, Outcome: event.OutcomeUnknown}
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
	if e.SubagentID != "" {
		return
	}
	switch strings.TrimPrefix(e.Name, "qwen-code.") {
	case "api_response":
		r.log.Add(event.Event{Time: at, Kind: event.Going, ID: e.ResponseID})
	case "api_error":
		r.log.Add(event.Event{Time: at, Kind: event.Failed, Code: e.ErrorType, Count: e.StatusCode})
	}
}
