// Package gemini reads the sessions of Gemini CLI: tmp/FOLDER/chats/session-*.jsonl in its home. It
// describes what version 0.61.0 writes.
//
// A call is written when its tool has ended, in a repetition of the answer that made it: an answer
// without calls may have some that run. The files do not have the version of the agent.
package gemini

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/sessionfiles/event"
)

// Known reports whether sessions of this version were read, and compared with what had really
// happened. The files have none.
func Known(version string) bool { return version == "" }

// Reader reads the lines of one session.
type Reader struct {
	log       *event.Log
	prompt    string // the id of the prompt of the turn
	answered  string // the id of the last answer
	cancelled bool   // a person cancelled all its calls

	seen map[string]bool // the ids of messages
}

// New returns a reader that adds to log.
func New(log *event.Log) *Reader { return &Reader{log: log, seen: make(map[string]bool)} }

// record has the members of a line that are read: the head of the file, a message, or a change.
type record struct {
	SessionID string  `json:"sessionId"`
	Project   string  `json:"projectHash"` // that of its folder, as [event.Folder]
	Set       *change `json:"$set"`
	RewindTo  string  `json:"$rewindTo"`
	message
}

// change replaces members of the conversation.
type change struct {
	SessionID string    `json:"sessionId"`
	Messages  []message `json:"messages"`
}

type message struct {
	ID        string     `json:"id"`
	Timestamp string     `json:"timestamp"`
	Type      string     `json:"type"`
	Model     string     `json:"model"`
	Content   content    `json:"content"`
	ToolCalls []toolCall `json:"toolCalls"`
}

type toolCall struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	Status    string `json:"status"`
	Timestamp string `json:"timestamp"`
}

// content is what a message has: text, or outputs of tools. Empty: it is a text without a character.
type content struct{ text, outputs, empty bool }

// UnmarshalJSON implements [json.Unmarshaler].
func (c *content) UnmarshalJSON(raw []byte) error {
	if len(raw) > 0 && raw[0] == '"' {
		c.empty = bytes.Equal(raw, []byte(`""`))
		c.text = !c.empty
		return nil
	}
	var parts []struct {
		Response *struct{} `json:"functionResponse"`
	}
	if json.Unmarshal(raw, &parts) != nil {
		return nil
	}
	for _, p := range parts {
		c.outputs = c.outputs || p.Response != nil
		c.text = c.text || p.Response == nil
	}
	return nil
}

// Line reads a line.
func (r *Reader) Line(raw []byte) {
	var rec record
	if err := json.Unmarshal(raw, &rec); err != nil {
		r.log.Unread++
		return
	}
	switch {
	case rec.Set != nil:
		if rec.Set.SessionID != "" {
			r.opened(rec.Set.SessionID)
		}
		r.rewrite(rec.Set)
	case rec.RewindTo != "":
		r.prompt = "" // a person removed the turns since then, which happened all the same
	case rec.SessionID != "":
		if folder, err := hex.DecodeString(rec.Project); err == nil && len(folder) == len(r.log.Folder) {
			r.log.Folder = event.Folder(folder)
		}
		r.opened(rec.SessionID)
	case rec.Type == "user":
		r.user(&rec.message)
	case rec.Type == "gemini":
		r.answer(&rec.message)
	case rec.Type == "":
		r.log.Unread++
	}
}

// opened reads that the session was opened, for the first time or again.
func (r *Reader) opened(id string) {
	if r.log.Session != "" {
		r.log.Add(event.Event{Kind: event.Resumed})
		r.prompt = "" // what follows rebuilds the history
	}
	r.log.SetSession(id, "")
}

// rewrite reads a new list of the messages. A turn that is not in it was dropped: its requests
// failed, and what it did is no part of the conversation any more. With messages that are new it is
// a history that was made shorter.
func (r *Reader) rewrite(c *change) {
	if c.Messages == nil {
		return
	}
	kept, shortened := false, false
	for i := range c.Messages {
		id := c.Messages[i].ID
		kept = kept || id == r.prompt
		shortened = shortened || !r.seen[id]
		r.seen[id] = true
	}
	if r.prompt == "" || kept {
		return
	}
	if !shortened {
		r.log.Add(event.Event{Kind: event.Dropped})
	}
	r.prompt = ""
}

// user reads a prompt; what carries outputs begins no turn.
func (r *Reader) user(m *message) {
	r.seen[m.ID] = true
	if m.Content.outputs {
		e := event.Event{Time: event.ParseTime(m.Timestamp), Kind: event.Request}
		if r.cancelled {
			e.Kind = event.Aborted // the model is not asked
		}
		r.log.Add(e)
		return
	}
	r.prompt = m.ID
	r.log.Add(event.Event{Time: event.ParseTime(m.Timestamp), Kind: event.Turn})
}

// answer reads an answer, or its repetition with the calls that have ended.
func (r *Reader) answer(m *message) {
	at := event.ParseTime(m.Timestamp)
	again := m.ID != "" && m.ID == r.answered
	r.answered, r.seen[m.ID] = m.ID, true
	r.log.Add(event.Event{Time: at, Kind: event.Model, Name: m.Model})
	if again && len(m.ToolCalls) == 0 {
		return
	}
	if !again && m.Content.text {
		r.log.Add(event.Event{Time: at, Kind: event.Text})
	}
	if !again {
		e := event.Event{Time: at, Kind: event.Response, Code: "stop"}
		if m.Content.empty {
			e.Code = "tool_calls" // an answer without text and calls counts as an error, and is not written
		}
		r.log.Add(e)
	}
	r.cancelled = len(m.ToolCalls) > 0
	for i := range m.ToolCalls {
		r.cancelled = r.cancelled && m.ToolCalls[i].Status == "cancelled"
		r.call(at, &m.ToolCalls[i])
	}
}

func (r *Reader) call(at time.Time, c *toolCall) {
	r.log.Add(event.Event{Time: at, Kind: event.LateCall, ID: c.ID, Name: c.Name})
	out := event.Event{Time: event.ParseTime(c.Timestamp), Kind: event.Output, ID: c.ID, Name: c.Name}
	switch c.Status {
	case "success":
		out.Outcome = event.Succeeded
	case "error":
		out.Outcome = event.FailedTool
	case "cancelled":
		out.Outcome = event.Interrupted
	default:
		return
	}
	r.log.Add(out)
}
