// Package cline reads the sessions of Cline's command line: data/sessions/ID/ID.json and
// ID.messages.json in its home. It describes what version 3.0.65 writes.
package cline

import (
	"encoding/json"
	"strings"

	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/sessionfiles/event"
)

// Known reports whether sessions of this version of Cline were read, and compared with what had
// really happened.
func Known(version string) bool { return strings.HasPrefix(version, "3.0.") }

// session is the file of a session.
type session struct {
	ID       string `json:"session_id"`
	PID      int    `json:"pid"`
	Status   string `json:"status"`
	ExitCode *int   `json:"exit_code"`
	EndedAt  string `json:"ended_at"`
	Model    string `json:"model"`
	Metadata struct {
		Origin struct {
			Version string `json:"version"`
		} `json:"sessionHistoryOrigin"`
	} `json:"metadata"`
}

// messages is the file of its messages, which is written as a whole again and again.
type messages struct {
	Messages []struct {
		Role    string              `json:"role"`
		Content event.Blocks[block] `json:"content"`
		Time    int64               `json:"ts"`
	} `json:"messages"`
}

type block struct {
	Type   string `json:"type"`
	ID     string `json:"id"`
	Name   string `json:"name"`
	CallID string `json:"tool_use_id"`
	Error  bool   `json:"is_error"`
}

// Read reads both files of a session. What cannot be read counts in the log.
func Read(log *event.Log, sessionFile, messagesFile []byte) {
	var s session
	if json.Unmarshal(sessionFile, &s) != nil {
		log.Unread++
	}
	log.SetSession(s.ID, s.Metadata.Origin.Version)
	log.PID = s.PID
	log.Finished = s.Status != "" && s.Status != "running"
	var m messages
	if json.Unmarshal(messagesFile, &m) != nil {
		log.Unread++
	}
	for i := range m.Messages {
		msg := &m.Messages[i]
		at := event.Millis(msg.Time)
		switch msg.Role {
		case "user":
			user(log, msg.Content, event.Event{Time: at})
		case "assistant":
			answer(log, msg.Content, event.Event{Time: at, Name: s.Model})
		}
	}
	if !log.Finished {
		return
	}
	end := event.Event{Time: event.ParseTime(s.EndedAt), Kind: event.Ended}
	if s.ExitCode != nil && *s.ExitCode != 0 || s.Status != "completed" {
		end.Code = "other"
	}
	log.Add(end)
}

// user reads a prompt, or outputs.
func user(log *event.Log, blocks []block, e event.Event) {
	outputs := false
	for _, b := range blocks {
		if b.Type != "tool_result" {
			continue
		}
		outputs = true
		e.Kind, e.ID, e.Name, e.Outcome = event.Output, b.CallID, b.Name, event.OutcomeUnknown
		if b.Error {
			e.Outcome = event.FailedTool
		}
		log.Add(e)
	}
	if !outputs {
		e.Kind = event.Turn
		log.Add(e)
	}
}

// answer reads an answer, which is written when it is complete.
func answer(log *event.Log, blocks []block, e event.Event) {
	model := e
	model.Kind = event.Model
	log.Add(model)
	finish := "stop"
	for _, b := range blocks {
		e := event.Event{Time: e.Time, Kind: event.Text}
		switch b.Type {
		case "tool_use":
			e.Kind, e.ID, e.Name, finish = event.Call, b.ID, b.Name, "tool_calls"
		case "thinking", "reasoning":
			e.Kind = event.Reasoning
		}
		log.Add(e)
	}
	log.Add(event.Event{Time: e.Time, Kind: event.Response, Code: finish})
}
