// Package pi reads the sessions of pi: agent/sessions/FOLDER/TIME_ID.jsonl in its home. It
// describes what version 0.73.1 writes.
package pi

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/sessionfiles/event"
)

// format is the version of the format that is read. The agent's own is not in its files.
const format = "3"

// Known reports whether sessions of this version of the format were read, and compared with what
// had really happened.
func Known(version string) bool { return version == format }

// Reader reads the lines of one session.
type Reader struct{ log *event.Log }

// New returns a reader that adds to log.
func New(log *event.Log) *Reader { return &Reader{log: log} }

// record has the members of a line that are read.
type record struct {
	Type      string      `json:"type"`
	ID        string      `json:"id"`
	Version   json.Number `json:"version"`
	Timestamp string      `json:"timestamp"`
	ModelID   string      `json:"modelId"`
	CWD       string      `json:"cwd"`
	Message   struct {
		Role       string              `json:"role"`
		Model      string              `json:"model"`
		Content    event.Blocks[block] `json:"content"`
		StopReason string              `json:"stopReason"`
		Timestamp  int64               `json:"timestamp"`
		ResponseID string              `json:"responseId"`
		Error      problem             `json:"errorMessage"`
		CallID     string              `json:"toolCallId"`
		ToolName   string              `json:"toolName"`
		IsError    bool                `json:"isError"`
		Details    details             `json:"details"`
	} `json:"message"`
}

type block struct {
	Type string `json:"type"`
	ID   string `json:"id"`
	Name string `json:"name"`
}

// details is whether what a tool adds to its result says that a sub-agent goes on. Extensions write
// it, which bring such tools.
type details bool

// UnmarshalJSON implements [json.Unmarshaler]. It never fails: it has any form.
func (d *details) UnmarshalJSON(raw []byte) error {
	var of struct {
		Status string `json:"status"`
	}
	_ = json.Unmarshal(raw, &of)
	*d = of.Status == "background"
	return nil
}

// problem is what an error message begins with, as far as it is a fixed text: the HTTP status of
// SDKs, or Node's word for a connection that was lost.
type problem struct {
	status int
	code   string
}

// UnmarshalJSON implements [json.Unmarshaler].
func (p *problem) UnmarshalJSON(raw []byte) error {
	text := strings.Trim(string(raw[:min(len(raw), 32)]), `"`)
	if strings.HasPrefix(text, "terminated") {
		p.code = "terminated"
	}
	if len(text) > 3 && text[3] == ' ' && text[0] >= '4' && text[0] <= '5' && text[1] >= '0' && text[1] <= '9' && text[2] >= '0' && text[2] <= '9' {
		p.status = int(text[0]-'0')*100 + int(text[1]-'0')*10 + int(text[2]-'0')
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
	at, m := event.ParseTime(rec.Timestamp), &rec.Message
	switch rec.Type {
	case "session":
		r.log.SetSession(rec.ID, rec.Version.String())
		r.log.SetFolder(rec.CWD)
	case "model_change":
		r.log.Add(event.Event{Time: at, Kind: event.Model, Name: rec.ModelID})
	case "custom_message":
		r.log.Add(event.Event{Time: at, Kind: event.MaybeOwed}) // an extension's, which may ask the model
	case "message":
		switch m.Role {
		case "user":
			r.log.Add(event.Event{Time: at, Kind: event.Turn})
		case "assistant":
			r.answer(at, &rec)
		case "toolResult":
			e := event.Event{Time: at, Kind: event.Output, ID: m.CallID, Name: m.ToolName, Outcome: event.Succeeded}
			switch {
			case m.IsError:
				e.Outcome = event.FailedTool
			case bool(m.Details):
				e.Kind, e.Outcome = event.LeftRunning, event.OutcomeUnknown
			}
			r.log.Add(e)
		}
	}
}

// answer reads an answer, which is written when it is over. Pi runs the calls of each answer, whatever its reason to stop, unless
// it broke off: then it completes their arguments, and does not run them.
func (r *Reader) answer(at time.Time, rec *record) {
	m := &rec.Message
	r.log.Add(event.Event{Time: event.Millis(m.Timestamp), Kind: event.Model, Name: m.Model})
	whole, called := m.StopReason != "error" && m.StopReason != "aborted", false
	for _, b := range m.Content {
		e := event.Event{Time: at}
		switch b.Type {
		case "toolCall":
			e.Kind, e.ID, e.Name = event.PartialCall, b.ID, b.Name
			if whole {
				e.Kind, called = event.Call, true
			}
		case "thinking":
			e.Kind = event.Reasoning
		default:
			e.Kind = event.Text
		}
		r.log.Add(e)
	}
	e := event.Event{Time: at, Kind: event.Response, ID: m.ResponseID, Code: m.StopReason}
	switch m.StopReason {
	case "stop", "length":
	case "toolUse":
		e.Code = "tool_calls"
	case "error":
		e.Kind, e.ID, e.Code, e.Count = event.Failed, "", m.Error.code, m.Error.status
	case "aborted":
		e.Kind = event.Aborted
	case "":
		return
	default:
		e.Code = "" // of a later version, such as deferred: the answer comes later
	}
	if called {
		e.Code = "tool_calls" // also where the server says stop
	}
	r.log.Add(e)
}
