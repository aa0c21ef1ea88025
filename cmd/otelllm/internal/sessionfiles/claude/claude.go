// Package claude reads the sessions of Claude Code: projects/FOLDER/ID.jsonl in its home. It
// describes what version 2.1.330 writes.
package claude

import (
	"bytes"
	"cmp"
	"encoding/json"
	"strings"
	"time"

	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/sessionfiles/event"
)

// Known reports whether sessions of this version of Claude Code were read, and compared with what
// had really happened.
func Known(version string) bool { return strings.HasPrefix(version, "2.1.") }

// Reader reads the lines of one session. Each block of an answer is a line of its own.
type Reader struct {
	log *event.Log
	sub bool // it is the session of a sub-agent

	// asks: the open answer has a call, and nothing says yet that it is complete. Claude Code
	// writes the stop reason tool_use also on answers that were cut off after a call.
	asks bool
	done string // the id of the last answer that is complete
	// thought is the stop reason of an answer that has nothing but reasoning so far.
	thought string

	// command: a command of the user interface was given, which may begin a turn, or do something
	// without the model.
	command bool

	tasks map[string]string // the calls that began tasks which go on, by the ids of the tasks
}

// maxTasks bounds the tasks that are kept.
const maxTasks = 1_000

// New returns a reader that adds to log.
func New(log *event.Log) *Reader { return &Reader{log: log} }

// NewSubAgent returns a reader of the session of a sub-agent.
func NewSubAgent(log *event.Log) *Reader { return &Reader{log: log, sub: true} }

// record has the members of a line that are read.
type record struct {
	Type        string `json:"type"`
	Subtype     string `json:"subtype"`
	Timestamp   string `json:"timestamp"`
	SessionID   string `json:"sessionId"`
	Version     string `json:"version"`
	CWD         string `json:"cwd"`
	IsSidechain bool   `json:"isSidechain"` // it is of a sub-agent
	IsMeta      bool   `json:"isMeta"`
	IsSummary   bool   `json:"isCompactSummary"`
	Origin      origin `json:"origin"`
	Result      result `json:"toolUseResult"`
	Attachment  struct {
		Type   string  `json:"type"`
		Mode   string  `json:"commandMode"`
		Prompt content `json:"prompt"`
	} `json:"attachment"`
	QuerySource string `json:"querySource"`

	Message struct {
		ID         string  `json:"id"`
		Model      string  `json:"model"`
		StopReason string  `json:"stop_reason"`
		Content    content `json:"content"`
	} `json:"message"`

	// Of what Claude Code itself writes in the place of an answer or an output.
	IsAPIError bool   `json:"isApiErrorMessage"`
	APIError   string `json:"apiError"`
	Name       name   `json:"error"`
	APIStatus  int    `json:"apiErrorStatus"`
	APIType    string `json:"apiErrorType"`
	DenialKind string `json:"toolDenialKind"`
}

// name is the member error: a name in answers, and an object in records of failed attempts.
type name struct {
	Name       string
	Status     int `json:"status"`
	Connection *struct {
		Code string `json:"code"`
	} `json:"connection"`
}

// UnmarshalJSON implements [json.Unmarshaler].
func (n *name) UnmarshalJSON(raw []byte) error {
	type object name
	if len(raw) > 0 && raw[0] == '{' {
		return json.Unmarshal(raw, (*object)(n))
	}
	_ = json.Unmarshal(raw, &n.Name) // another form has no name
	return nil
}

// origin is where a prompt comes from.
type origin struct {
	notifies bool // Claude Code wrote it: a task has ended
}

// UnmarshalJSON implements [json.Unmarshaler].
func (o *origin) UnmarshalJSON(raw []byte) error {
	var of struct {
		Kind string `json:"kind"`
	}
	_ = json.Unmarshal(raw, &of) // another form has no kind
	o.notifies = of.Kind == "task-notification"
	return nil
}

// result is what a tool returned, in Claude Code's own form.
type result struct {
	task    string // the id of a task that goes on: a sub-agent, or a command in the background
	command bool   // it is a command
	ended   notification
}

// UnmarshalJSON implements [json.Unmarshaler].
func (r *result) UnmarshalJSON(raw []byte) error {
	var of struct {
		Status         string `json:"status"`
		IsAsync        bool   `json:"isAsync"`
		AgentID        string `json:"agentId"`
		BackgroundTask string `json:"backgroundTaskId"`
		StoppedTask    string `json:"task_id"`
		Task           struct {
			ID     string `json:"task_id"`
			Status string `json:"status"`
		} `json:"task"`
	}
	if len(raw) > 0 && raw[0] == '{' {
		_ = json.Unmarshal(raw, &of) // of another tool
	}
	switch {
	case of.BackgroundTask != "":
		r.task, r.command = of.BackgroundTask, true
	case of.IsAsync || of.Status == "async_launched":
		r.task = cmp.Or(of.AgentID, unnamed)
	case of.StoppedTask != "":
		r.ended = notification{task: of.StoppedTask, status: "killed"}
	case of.Task.Status == "completed" || of.Task.Status == "failed" || of.Task.Status == "killed":
		r.ended = notification{task: of.Task.ID, status: of.Task.Status}
	}
	return nil
}

// unnamed is the id of a task that has none.
const unnamed = "-"

// content is the content of a message: its blocks, or a prompt.
type content struct {
	prompt  bool
	command bool         // it is one of the user interface, or what that printed
	ended   notification // a task, if it says so
	hook    bool         // it is what a hook said when the model had answered, which answers that
	blocks  []block
}

// notification is what Claude Code tells the model when a task has ended.
type notification struct {
	task   string
	callID string // that began it; "" if it is not named
	status string
}

// maxNotification bounds where the members of a notification are looked for: the answer of a
// sub-agent follows them.
const maxNotification = 4 << 10

// read reads a notification, which has its members as elements.
func (n *notification) read(raw []byte) {
	n.task, n.callID, n.status = element(raw, "task-id"), element(raw, "tool-use-id"), element(raw, "status")
}

func element(raw []byte, name string) string {
	raw = raw[:min(len(raw), maxNotification)]
	_, raw, found := bytes.Cut(raw, []byte("<"+name+">"))
	text, _, ends := bytes.Cut(raw, []byte("</"+name+">"))
	if !found || !ends {
		return ""
	}
	return string(text)
}

type block struct {
	Type    string `json:"type"`
	ID      string `json:"id"`
	Name    string `json:"name"`
	CallID  string `json:"tool_use_id"`
	IsError bool   `json:"is_error"`
	Text    marker `json:"text"`
}

// marker is whether a text begins as one that Claude Code writes when a person stopped it.
type marker bool

// UnmarshalJSON implements [json.Unmarshaler].
func (m *marker) UnmarshalJSON(raw []byte) error {
	*m = marker(bytes.HasPrefix(raw, []byte(`"[Request interrupted by user`)))
	return nil
}

// UnmarshalJSON implements [json.Unmarshaler].
func (c *content) UnmarshalJSON(raw []byte) error {
	if len(raw) > 0 && raw[0] == '[' {
		return json.Unmarshal(raw, &c.blocks)
	}
	c.prompt = len(raw) > 0 && raw[0] == '"'
	for _, prefix := range []string{"<command-", "<local-command-", "<bash-"} {
		c.command = c.command || c.prompt && bytes.HasPrefix(raw[1:], []byte(prefix))
	}
	if c.prompt && bytes.HasPrefix(raw[1:], []byte("<task-notification>")) {
		c.ended.read(raw)
	}
	c.hook = c.prompt && bytes.HasPrefix(raw[1:], []byte("Stop hook feedback:"))
	return nil
}

// synthetic is the model of answers that Claude Code writes itself.
const synthetic = "<synthetic>"

// Line reads a line. Types of lines that are not here have nothing of the conversation.
func (r *Reader) Line(raw []byte) {
	var rec record
	if err := json.Unmarshal(raw, &rec); err != nil || rec.Type == "" {
		r.log.Unread++
		return
	}
	r.log.SetSession(rec.SessionID, rec.Version)
	r.log.SetFolder(rec.CWD)
	if rec.IsSidechain && !r.sub {
		return // the call that began the sub-agent counts
	}
	at := event.ParseTime(rec.Timestamp)
	switch rec.Type {
	case "user":
		r.user(at, &rec)
	case "assistant":
		if rec.Message.Model == synthetic {
			r.synthetic(at, &rec)
			return
		}
		r.answer(at, &rec)
	case "api-request":
		if r.sub || rec.QuerySource == "sdk" || strings.HasPrefix(rec.QuerySource, "repl_main_thread") {
			r.complete(at)
			r.asked(at)
			r.log.Add(event.Event{Time: at, Kind: event.Request})
		}
	case "attachment": // of a turn that goes on
		if a := &rec.Attachment; a.Type == "queued_command" && a.Mode == "task-notification" {
			r.notified(at, &a.Prompt.ended)
		}
	case "system":
		if rec.Subtype == "turn_duration" && r.thought != "" { // nothing more came
			r.log.Add(event.Event{Time: at, Kind: event.Response, Code: r.thought})
			r.thought = ""
		}
		if rec.Subtype == "api_error" {
			e := event.Event{Time: at, Kind: event.Failed, Code: rec.Name.Name, Count: rec.Name.Status}
			if rec.Name.Connection != nil {
				e.Code = rec.Name.Connection.Code
			}
			r.asks = false
			r.log.Add(e)
		}
	}
}

// complete says that the open answer was complete, although it asks for tools: another request
// followed, and no error.
func (r *Reader) complete(at time.Time) {
	if r.asks {
		r.log.Add(event.Event{Time: at, Kind: event.Response, Code: "tool_use"})
	}
	r.asks = false
}

// user reads a prompt, or outputs.
func (r *Reader) user(at time.Time, rec *record) {
	switch c := &rec.Message.Content; {
	case c.prompt && rec.Origin.notifies && r.notified(at, &c.ended):
		return
	case rec.IsMeta && c.hook:
		r.log.Add(event.Event{Time: at, Kind: event.Owed})
		return
	case c.prompt:
		r.prompt(at, rec)
		return
	}
	prompt := false
	for i := range rec.Message.Content.blocks {
		switch b := &rec.Message.Content.blocks[i]; {
		case b.Type == "tool_result":
			r.output(at, rec, b)
		case bool(b.Text):
			r.log.Add(event.Event{Time: at, Kind: event.Aborted})
			return
		default:
			prompt = true
		}
	}
	if prompt {
		r.prompt(at, rec)
	}
}

// notified reads that a task has ended, which the model is told in the turn that goes on. It reports
// whether it is known which call began the task.
func (r *Reader) notified(at time.Time, n *notification) bool {
	if !r.ended(at, n) {
		return false
	}
	r.log.Add(event.Event{Time: at, Kind: event.Owed})
	return true
}

// ended reads that a task has ended. Its call returned before, when it began. It reports whether it
// is known which call that was.
func (r *Reader) ended(at time.Time, n *notification) bool {
	e := event.Event{Time: at, Kind: event.Output, ID: cmp.Or(n.callID, r.tasks[n.task])}
	if e.ID == "" {
		return false
	}
	switch n.status {
	case "completed":
		e.Outcome = event.Succeeded
	case "failed":
		e.Outcome = event.FailedTool
	default:
		e.Outcome = event.Interrupted
	}
	r.log.Add(e)
	return true
}

func (r *Reader) prompt(at time.Time, rec *record) {
	switch {
	case rec.IsMeta || rec.IsSummary:
	case rec.Message.Content.command:
		r.command = true
	default:
		r.begin(at)
	}
}

// begin begins a turn.
func (r *Reader) begin(at time.Time) {
	r.asks, r.command, r.done, r.thought = false, false, "", ""
	r.log.Add(event.Event{Time: at, Kind: event.Turn})
}

// asked begins a turn if a command turns out to have asked the model.
func (r *Reader) asked(at time.Time) {
	if r.command {
		r.begin(at)
	}
}

// output reads what a tool returned. What a resume writes in the place of an output has the denial
// kind interrupted. A call that was rejected may have run until then.
func (r *Reader) output(at time.Time, rec *record, b *block) {
	e := event.Event{Time: at, Kind: event.Output, ID: b.CallID, Outcome: event.Succeeded}
	switch {
	case rec.Result.task != "":
		r.launched(&rec.Result, b.CallID)
		e.Kind, e.Outcome = event.Launched, event.OutcomeUnknown
		if rec.Result.command {
			e.Kind = event.LeftRunning
		}
	case rec.DenialKind == "interrupted":
		e.Kind, e.Outcome = event.Told, event.OutcomeUnknown
	case rec.DenialKind != "":
		e.Outcome = event.Interrupted
	case b.IsError:
		e.Outcome = event.FailedTool
	}
	r.ended(at, &rec.Result.ended) // the task that this tool asked for, or stopped
	r.log.Add(e)
}

// launched remembers the call that began a task.
func (r *Reader) launched(of *result, callID string) {
	if r.tasks == nil || len(r.tasks) >= maxTasks {
		r.tasks = make(map[string]string)
	}
	if of.task != unnamed {
		r.tasks[of.task] = callID
	}
}

// synthetic reads an answer that Claude Code wrote: an error, or nothing, when it resumed.
func (r *Reader) synthetic(at time.Time, rec *record) {
	if !rec.IsAPIError {
		r.log.Add(event.Event{Time: at, Kind: event.Resumed})
		return
	}
	e := event.Event{Time: at, Kind: event.Failed, Code: rec.APIType, Count: rec.APIStatus}
	if e.Code == "" {
		e.Code = rec.APIError
	}
	if e.Code == "" {
		e.Code = rec.Name.Name
	}
	r.asks = false
	r.log.Add(e)
	if rec.Message.StopReason != "tool_use" { // it goes on after that
		e.Kind = event.Ended
		r.log.Add(e)
	}
}

// answer reads a block of an answer.
func (r *Reader) answer(at time.Time, rec *record) {
	m := &rec.Message
	if m.ID != "" && m.ID == r.done {
		return
	}
	r.asked(at)
	r.log.Add(event.Event{Time: at, Kind: event.Model, Name: m.Model})
	last := false // a block after which the answer may be over
	r.thought = m.StopReason
	for i := range m.Content.blocks {
		b := &m.Content.blocks[i]
		e := event.Event{Time: at, ID: b.ID, Name: b.Name}
		switch b.Type {
		case "text":
			e.Kind, e.ID, last = event.Text, "", true
		case "thinking", "redacted_thinking":
			e.Kind, e.ID = event.Reasoning, ""
		case "tool_use":
			e.Kind, r.asks = event.Call, true
		case "server_tool_use", "mcp_tool_use":
			e.Kind = event.ProviderTool
		default:
			e.Kind = event.Going
		}
		if r.log.Add(e); e.Kind != event.Reasoning {
			r.thought = ""
		}
	}
	if last && m.StopReason != "tool_use" && !r.asks { // without a reason, as older versions write it, it may be complete
		if m.StopReason != "" {
			r.done = m.ID
		}
		r.log.Add(event.Event{Time: at, Kind: event.Response, ID: m.ID, Code: m.StopReason})
	}
}
