// Package opencode reads the sessions of opencode: rows of opencode.db in its folder for data. It
// describes what version 1.18.33 writes.
package opencode

import (
	"encoding/json"
	"strings"

	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/sessionfiles/event"
)

// Known reports whether sessions of this version of opencode were read, and compared with what had
// really happened.
func Known(version string) bool { return strings.HasPrefix(version, "1.18.") }

// Reader reads the messages of one session in the order of their ids, each followed by its parts in
// the order of theirs. Close ends the last one.
type Reader struct {
	log *event.Log

	assistant bool          // the last message is the model's
	made      bool          // it is complete, and none of its parts so far is of a step: a person's command made it
	summary   bool          // it is the summary of a compaction
	ends      []event.Event // that the last message ends with, after its parts
	called    bool          // the step has a call that opencode answers
	schema    bool          // the answer is the input of its last call, by a schema: the model is not asked again
	compacts  bool          // the history is made shorter, and opencode goes on by itself after that
}

// New returns a reader that adds to log.
func New(log *event.Log) *Reader { return &Reader{log: log} }

// message is the column data of the table message.
type message struct {
	Role    string `json:"role"`
	Mode    string `json:"mode"`
	ModelID string `json:"modelID"`
	Time    struct {
		Created   int64 `json:"created"`
		Completed int64 `json:"completed"`
	} `json:"time"`
	Structured present `json:"structured"`
	Error      *struct {
		Name string `json:"name"`
		Data struct {
			StatusCode int `json:"statusCode"`
		} `json:"data"`
	} `json:"error"`
}

// present is whether a member is there.
type present bool

// UnmarshalJSON implements [json.Unmarshaler].
func (p *present) UnmarshalJSON(raw []byte) error {
	*p = string(raw) != "null" && string(raw) != "0"
	return nil
}

// Message reads a row of the table message.
func (r *Reader) Message(data []byte) {
	var m message
	if json.Unmarshal(data, &m) != nil {
		r.log.Unread++
		return
	}
	r.Close()
	r.assistant = m.Role == "assistant"
	at := event.Millis(m.Time.Created)
	if !r.assistant {
		if m.Role == "user" && !r.compacts {
			r.log.Add(event.Event{Time: at, Kind: event.Turn})
		}
		r.compacts = false
		return
	}
	r.made, r.summary, r.schema = m.Error == nil && m.Time.Completed > 0, m.Mode == "compaction", bool(m.Structured)
	r.log.Add(event.Event{Time: at, Kind: event.Model, Name: m.ModelID})
	if m.Error == nil {
		return
	}
	e := event.Event{Time: event.Millis(m.Time.Completed), Kind: event.Failed, Code: m.Error.Name, Count: m.Error.Data.StatusCode}
	if m.Error.Name == "MessageAbortedError" {
		r.ends = append(r.ends, event.Event{Time: e.Time, Kind: event.Aborted})
		return
	}
	end := e
	end.Kind = event.Ended
	r.ends = append(r.ends, e, end)
}

// Close ends the last message.
func (r *Reader) Close() {
	for _, e := range r.ends {
		r.log.Add(e)
	}
	r.ends = r.ends[:0]
}

// part is the column data of the table part.
type part struct {
	Type   string `json:"type"`
	Tool   string `json:"tool"`
	CallID string `json:"callID"`
	Meta   struct {
		Provider bool `json:"providerExecuted"`
	} `json:"metadata"`
	Reason string `json:"reason"`
	Auto   bool   `json:"auto"` // of a compaction: not by a person
	State  struct {
		Status   string `json:"status"`
		Metadata struct {
			Exit        *int   `json:"exit"`
			Interrupted bool   `json:"interrupted"`
			Background  bool   `json:"background"` // a sub-agent that goes on
			SessionID   string `json:"sessionId"`  // of a sub-agent
		} `json:"metadata"`
		Time struct {
			Start int64 `json:"start"`
			End   int64 `json:"end"`
		} `json:"time"`
	} `json:"state"`
}

// Part reads a row of the table part. Created and updated are its columns.
func (r *Reader) Part(data []byte, created, updated int64) {
	var p part
	if json.Unmarshal(data, &p) != nil {
		r.log.Unread++
		return
	}
	if !r.assistant {
		r.compacts = r.compacts || p.Type == "compaction" && p.Auto
		return
	}
	e := event.Event{Time: event.Millis(created)}
	switch p.Type {
	case "step-start":
		e.Kind, r.made, r.called = event.Request, false, false
	case "step-finish":
		e.Kind, e.Code = event.Response, p.Reason
		switch {
		case r.schema:
			e.Code = "stop"
		case r.called:
			e.Code = "tool-calls" // also where the server says stop
		}
		if r.summary && r.compacts {
			r.ends = append(r.ends, event.Event{Time: e.Time, Kind: event.Owed})
		}
	case "text":
		e.Kind = event.Text
	case "reasoning":
		e.Kind = event.Reasoning
	case "tool":
		r.tool(&p, e, updated)
		return
	case "file", "snapshot", "patch", "agent", "subtask", "compaction", "retry":
		return
	default:
		r.log.Unread++
		return
	}
	r.log.Add(e)
}

// tool reads a call: pending while the model writes its input, then running until its output is
// there.
func (r *Reader) tool(p *part, e event.Event, updated int64) {
	e.Kind, e.ID, e.Name = event.Call, p.CallID, p.Tool
	if p.State.Status == "pending" {
		e.Kind = event.PartialCall
	}
	r.log.Add(e)
	if interrupted := p.State.Status == "error" && p.State.Metadata.Interrupted; !p.Meta.Provider && !interrupted {
		r.called = true
	}
	r.log.Begin(p.CallID, p.State.Metadata.SessionID)
	if r.made {
		r.log.Add(event.Event{Time: e.Time, Kind: event.Response, Code: "stop"})
	}
	if p.State.Status != "completed" && p.State.Status != "error" {
		return
	}
	if p.State.Metadata.Background { // its end is in another session
		r.log.Add(event.Event{Time: event.Millis(updated), Kind: event.LeftRunning, ID: p.CallID})
		return
	}
	out := event.Event{Time: event.Millis(p.State.Time.End), Kind: event.Output, ID: p.CallID, Outcome: event.Succeeded}
	if out.Time.IsZero() {
		out.Time = event.Millis(updated)
	}
	switch exit := p.State.Metadata.Exit; {
	case p.State.Metadata.Interrupted:
		out.Outcome = event.Interrupted
	case p.State.Status == "error", exit != nil && *exit != 0:
		out.Outcome = event.FailedTool
	}
	r.log.Add(out)
}
