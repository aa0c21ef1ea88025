package otelllm

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// eagerClient is a reference for what a client may have executed of a prefix of an answer. It
// executes each call as soon as its input is one JSON value, and does not wait for the
// provider to say that it is complete. It is written with encoding/json alone and has nothing
// in common with the decoders.
type eagerClient struct {
	executed int
	calls    map[string]*eagerCall
	last     string // the call that the last part of the answer was of, "" for none
	opened   bool   // a call has begun
	failed   bool   // the client has ended with the error that the answer reports
	text     bool   // a text has arrived
}

type eagerCall struct {
	input string
	free  bool // the input is text of any form
	ran   bool
}

// eagerReaders read the prefix of a body, by the kind of the answer. over: the body has ended
// without an error, so that a client reads an event that is not terminated, too.
var eagerReaders = map[string]func(e *eagerClient, body []byte, over bool){
	"chat":               onEvents((*eagerClient).chat),
	"responses":          onEvents((*eagerClient).responses),
	"messages":           onEvents((*eagerClient).messages),
	"cohere":             onEvents((*eagerClient).cohere),
	"mistral":            onEvents((*eagerClient).mistral),
	"interactions":       onEvents((*eagerClient).interactions),
	"gemini":             onEvents((*eagerClient).gemini),
	"gemini array":       (*eagerClient).array,
	"ollama":             (*eagerClient).lines,
	"ollama generate":    (*eagerClient).lines,
	"bedrock":            (*eagerClient).frames,
	"bedrock invoke":     (*eagerClient).frames,
	"chat document":      onDocument((*eagerClient).chat),
	"messages document":  onDocument((*eagerClient).messages),
	"responses document": onDocument((*eagerClient).responses),
}

// executedOf returns the client after a prefix of an answer. Of a body that is over, one client
// reads the event that nothing has ended, and another one drops it: the one that has executed
// more counts.
func executedOf(kind string, body []byte, over bool) *eagerClient {
	read := func(last bool) *eagerClient {
		e := &eagerClient{calls: map[string]*eagerCall{}}
		if eagerReaders[kind](e, body, last); over && !e.failed {
			for key := range e.calls {
				e.done(key)
			}
		}
		return e
	}
	e := read(over)
	if strict := read(false); strict.executed > e.executed {
		return strict
	}
	return e
}

// call returns a call, which begins with its first part. A client that waits for the end of a
// call takes that of another one for it.
func (e *eagerClient) call(key string) *eagerCall {
	e.leave(key)
	e.opened = true
	if e.calls[key] == nil {
		e.calls[key] = &eagerCall{}
	}
	return e.calls[key]
}

func (e *eagerClient) leave(key string) {
	if e.last != "" && e.last != key {
		e.done(e.last)
	}
	e.last = key
}

func (e *eagerClient) says(text any) {
	if text != nil && text != "" {
		e.text = true
		e.leave("")
	}
}

// part adds a part of a call's input: of a string, or all of it as a value of another type.
func (e *eagerClient) part(key string, raw json.RawMessage) {
	c := e.call(key)
	var piece string
	switch {
	case len(raw) == 0 || string(raw) == "null":
	case json.Unmarshal(raw, &piece) == nil:
		c.input += piece
		if !c.free && json.Valid([]byte(c.input)) {
			e.run(c)
		}
	default:
		e.run(c)
	}
}

// whole sets all of a call's input.
func (e *eagerClient) whole(key string, raw json.RawMessage) {
	if len(raw) > 0 && string(raw) != "null" && string(raw) != `""` {
		e.call(key).input = ""
		e.part(key, raw)
	}
}

// done executes a call that a client takes for complete. Input that is not JSON fails.
func (e *eagerClient) done(key string) {
	if c := e.calls[key]; c != nil && (c.free || strings.TrimSpace(c.input) == "") {
		e.run(c)
	}
}

func (e *eagerClient) run(c *eagerCall) {
	if !c.ran {
		c.ran = true
		e.executed++
	}
}

// onEvents reads server-sent events.
func onEvents(read func(e *eagerClient, data []byte)) func(*eagerClient, []byte, bool) {
	return func(e *eagerClient, body []byte, over bool) {
		text := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(string(body))
		if over {
			text += "\n\n"
		}
		var data []string
		for line := range strings.Lines(text) {
			line, whole := strings.CutSuffix(line, "\n")
			switch field, value, _ := strings.Cut(line, ":"); {
			case !whole:
			case field == "data":
				data = append(data, strings.TrimPrefix(value, " "))
			case line == "" && data != nil:
				read(e, []byte(strings.Join(data, "\n")))
				data = nil
			}
		}
	}
}

func onDocument(read func(e *eagerClient, data []byte)) func(*eagerClient, []byte, bool) {
	return func(e *eagerClient, body []byte, _ bool) { read(e, body) }
}

// array reads a JSON array as it arrives.
func (e *eagerClient) array(body []byte, _ bool) {
	d := json.NewDecoder(bytes.NewReader(body))
	if _, err := d.Token(); err != nil {
		return
	}
	for d.More() {
		var item json.RawMessage
		if d.Decode(&item) != nil {
			return
		}
		e.gemini(item)
	}
}

// lines reads Ollama's lines.
func (e *eagerClient) lines(body []byte, over bool) {
	for line := range bytes.Lines(body) {
		if over || bytes.HasSuffix(line, []byte("\n")) {
			e.ollama(line)
		}
	}
}

// frames reads messages of an AWS event stream.
func (e *eagerClient) frames(body []byte, _ bool) {
	for len(body) >= 16 {
		total, headers := int(binary.BigEndian.Uint32(body)), int(binary.BigEndian.Uint32(body[4:]))
		if total > len(body) || total < 16+headers || headers < 0 {
			return
		}
		name, payload := "", body[12+headers:total-4]
		for h := body[12 : 12+headers]; len(h) > 0; {
			n := int(h[0])
			if len(h) < n+4 || h[n+1] != 7 {
				return
			}
			size := int(binary.BigEndian.Uint16(h[n+2:]))
			if len(h) < n+4+size {
				return
			}
			if string(h[1:n+1]) == ":event-type" {
				name = string(h[n+4 : n+4+size])
			}
			h = h[n+4+size:]
		}
		body = body[total:]
		var chunk struct{ Bytes string }
		if name != "chunk" {
			e.converse(name, payload)
		} else if json.Unmarshal(payload, &chunk) == nil {
			inner, _ := base64.StdEncoding.DecodeString(chunk.Bytes)
			e.messages(inner)
		}
	}
}

type eagerFunction struct{ Arguments json.RawMessage }

type eagerMessage struct {
	Content      any
	FunctionCall *eagerFunction `json:"function_call"`
	ToolCalls    []struct {
		Index    *int
		Function *eagerFunction
	} `json:"tool_calls"`
}

func (e *eagerClient) chat(data []byte) {
	var chunk struct {
		Choices []struct {
			Index          int
			Delta, Message eagerMessage
			FinishReason   string `json:"finish_reason"`
		}
	}
	if json.Unmarshal(data, &chunk) != nil {
		return
	}
	for _, choice := range chunk.Choices {
		for _, m := range []eagerMessage{choice.Delta, choice.Message} {
			if e.says(m.Content); m.FunctionCall != nil {
				e.part(fmt.Sprint(choice.Index, "/f"), m.FunctionCall.Arguments)
			}
			for i, call := range m.ToolCalls {
				if call.Index != nil {
					i = *call.Index
				}
				if call.Function != nil {
					e.part(fmt.Sprint(choice.Index, "/", i), call.Function.Arguments)
				}
			}
		}
		switch choice.FinishReason {
		case "stop", "tool_calls", "function_call":
			e.leave("")
			for key := range e.calls {
				if strings.HasPrefix(key, fmt.Sprint(choice.Index, "/")) {
					e.done(key)
				}
			}
		}
	}
}

func (e *eagerClient) messages(data []byte) {
	type block struct {
		Type, Text string
		Input      json.RawMessage
	}
	var event struct {
		Type         string
		Index        int
		ContentBlock block `json:"content_block"`
		Delta        struct {
			Type, Text  string
			PartialJSON json.RawMessage `json:"partial_json"`
		}
		Content []block // of a document
		Message struct{ Content []block }
	}
	if json.Unmarshal(data, &event) != nil {
		return
	}
	key := strconv.Itoa(event.Index)
	switch b := event.ContentBlock; event.Type {
	case "content_block_start":
		if e.says(b.Text); b.Type != "tool_use" {
			return
		}
		if e.call(key); !isEmptyObject(b.Input) { // which is where deltas follow
			e.part(key, b.Input)
		}
	case "content_block_delta":
		if e.says(event.Delta.Text); event.Delta.Type == "input_json_delta" && e.calls[key] != nil {
			e.part(key, event.Delta.PartialJSON)
		}
	case "content_block_stop":
		e.done(key)
	case "error":
		e.failed = true
	case "message", "message_start":
		for i, b := range append(event.Content, event.Message.Content...) {
			if e.says(b.Text); b.Type == "tool_use" {
				e.part(strconv.Itoa(i), b.Input)
				e.done(strconv.Itoa(i))
			}
		}
	}
}

// eagerItem is an item of the Responses API.
type eagerItem struct {
	Type, Execution  string
	Arguments, Input json.RawMessage
	Action           struct {
		Type              string
		Command, Commands []string
	}
	Operation   struct{ Path string }
	Environment struct{ Type string }
}

func (e *eagerClient) responses(data []byte) {
	var event struct {
		Type        string
		OutputIndex int `json:"output_index"`
		Delta       any
		Arguments   json.RawMessage
		Item        eagerItem
		Response    struct{ Output []eagerItem }
		Output      []eagerItem // of a document
	}
	if json.Unmarshal(data, &event) != nil {
		return
	}
	key := strconv.Itoa(event.OutputIndex)
	delta, _ := json.Marshal(event.Delta)
	switch event.Type {
	case "response.output_text.delta":
		e.says(event.Delta)
	case "response.output_item.added":
		e.item(key, &event.Item, false)
	case "response.function_call_arguments.delta", "response.custom_tool_call_input.delta":
		e.part(key, delta)
	case "response.function_call_arguments.done":
		e.whole(key, event.Arguments)
		e.done(key)
	case "response.custom_tool_call_input.done", "response.shell_call_command.done":
		e.done(key)
	case "response.output_item.done":
		e.item(key, &event.Item, true)
	case "response.completed":
		for i := range event.Response.Output {
			e.item(strconv.Itoa(i), &event.Response.Output[i], true)
		}
	}
	for i := range event.Output {
		e.item(strconv.Itoa(i), &event.Output[i], true)
	}
}

func (e *eagerClient) item(key string, item *eagerItem, over bool) {
	switch item.Type {
	case "function_call":
		e.call(key)
		e.whole(key, item.Arguments)
	case "custom_tool_call":
		e.call(key).free = true
		e.part(key, item.Input)
	case "computer_call", "local_shell_call", "shell_call", "apply_patch_call", "tool_search_call":
		given := item.Operation.Path != ""
		switch item.Type {
		case "computer_call":
			given = item.Action.Type != ""
		case "local_shell_call":
			given = len(item.Action.Command) > 0 // empty where the item is only added
		case "shell_call":
			if given = len(item.Action.Commands) > 0; strings.HasPrefix(item.Environment.Type, "container") {
				return // the provider's
			}
		case "tool_search_call":
			if given = len(item.Arguments) > len(`{}`); item.Execution != "client" {
				return
			}
		}
		c := e.call(key)
		if c.free = true; given {
			e.run(c)
		}
	default:
		return
	}
	if over {
		e.done(key)
	}
}

func (e *eagerClient) gemini(data []byte) {
	var chunk struct {
		Candidates []struct {
			Index   int
			Content struct {
				Parts []struct {
					Text         string
					Thought      bool
					FunctionCall *eagerGeminiCall
				}
			}
		}
	}
	if json.Unmarshal(data, &chunk) != nil {
		return
	}
	for _, candidate := range chunk.Candidates {
		for _, part := range candidate.Content.Parts {
			if e.says(part.Text); part.FunctionCall != nil {
				e.geminiCall(fmt.Sprint(candidate.Index, "/"), part.FunctionCall)
			}
		}
	}
}

type eagerGeminiCall struct {
	ID, Name     string
	WillContinue bool
}

// geminiCall reads a call, or a part of the one that the candidate is within: its arguments have no
// form of their own, so nothing but the last part says that they are whole.
func (e *eagerClient) geminiCall(prefix string, call *eagerGeminiCall) {
	c := e.calls[prefix+"open"]
	switch {
	case call.Name != "" || call.ID != "" && c == nil:
		e.leave("")
		c = &eagerCall{}
	case c == nil:
		return // a part of a call that has not begun
	}
	e.opened = true
	delete(e.calls, prefix+"open")
	if !call.WillContinue {
		e.run(c)
		return
	}
	e.calls[prefix+"open"], e.last = c, prefix+"open"
}

func (e *eagerClient) ollama(data []byte) {
	var line struct {
		Response string
		Message  struct {
			Content   string
			ToolCalls []json.RawMessage `json:"tool_calls"`
		}
	}
	if json.Unmarshal(data, &line) != nil {
		return
	}
	e.says(line.Response + line.Message.Content)
	for range line.Message.ToolCalls {
		e.run(e.call(strconv.Itoa(len(e.calls))))
	}
}

func (e *eagerClient) converse(name string, data []byte) {
	var event struct {
		ContentBlockIndex int
		Start             struct{ ToolUse *struct{ Type string } }
		Delta             struct {
			Text    string
			ToolUse *struct{ Input json.RawMessage }
		}
	}
	if json.Unmarshal(data, &event) != nil {
		return
	}
	key := strconv.Itoa(event.ContentBlockIndex)
	switch e.says(event.Delta.Text); name {
	case "contentBlockStart":
		if use := event.Start.ToolUse; use != nil && use.Type != "server_tool_use" {
			e.call(key)
		}
	case "contentBlockDelta":
		if use := event.Delta.ToolUse; use != nil && e.calls[key] != nil {
			e.part(key, use.Input)
		}
	case "contentBlockStop":
		e.done(key)
	}
}

func (e *eagerClient) cohere(data []byte) {
	var event struct {
		Type  string
		Index int
		Delta struct {
			Message struct {
				ToolCalls struct{ Function eagerFunction } `json:"tool_calls"`
				Content   struct{ Text string }
			}
		}
	}
	err := json.Unmarshal(data, &event)
	key := strconv.Itoa(event.Index)
	switch event.Type {
	case "tool-call-start", "tool-call-delta":
		if err == nil {
			e.part(key, event.Delta.Message.ToolCalls.Function.Arguments)
		}
	case "tool-call-end":
		e.done(key)
	case "content-delta":
		e.says(event.Delta.Message.Content.Text)
	}
}

func (e *eagerClient) mistral(data []byte) {
	var event struct {
		Type        string
		OutputIndex int `json:"output_index"`
		Content     any
		Arguments   json.RawMessage
	}
	if json.Unmarshal(data, &event) != nil {
		return
	}
	switch event.Type {
	case "function.call.delta":
		e.part(strconv.Itoa(event.OutputIndex), event.Arguments)
	case "message.output.delta":
		e.says(event.Content)
	}
}

func (e *eagerClient) interactions(data []byte) {
	var event struct {
		Type  string `json:"event_type"`
		Index int
		Step  struct {
			Type      string
			Arguments json.RawMessage
		}
		Delta struct {
			Type, Text string
			Arguments  json.RawMessage
		}
	}
	if json.Unmarshal(data, &event) != nil {
		return
	}
	key := strconv.Itoa(event.Index)
	switch e.says(event.Delta.Text); event.Type {
	case "step.start":
		if event.Step.Type == "function_call" {
			if e.call(key); !isEmptyObject(event.Step.Arguments) { // which is where deltas follow
				e.part(key, event.Step.Arguments)
			}
		}
	case "step.delta":
		if event.Delta.Type == "arguments_delta" && e.calls[key] != nil {
			e.part(key, event.Delta.Arguments)
		}
	case "step.stop":
		e.done(key)
	}
}

// isEmptyObject reports whether a value is an object without members.
func isEmptyObject(raw []byte) bool {
	return string(bytes.Join(bytes.Fields(raw), nil)) == "{}"
}
