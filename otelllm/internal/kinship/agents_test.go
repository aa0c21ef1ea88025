package kinship

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// The agents of these tests hold conversations with a model, in the words of several
// protocols, and know what the tracker has to find out.

// format is a protocol.
type format int

const (
	chat format = iota
	responses
	messages
	gemini
	bedrock
	ollama
	formats
)

// idStyle is how a model names its calls.
type idStyle int

const (
	randomIDs  idStyle = iota
	countedIDs         // call_0, call_1, the same each turn
	noIDs
)

// message is one message of a conversation.
type message struct {
	role    string // user, assistant
	parts   []string
	calls   []toolCall
	outputs []toolOutput
	part    bool // of an answer that was cut
}

type toolCall struct{ id, name, input string }

type toolOutput struct{ id, name, text string }

// agent is one agent with one conversation.
type agent struct {
	rng     *rand.Rand
	format  format
	ids     idStyle
	system  string
	tools   string
	session uint64
	history []message

	stored   bool   // the server keeps the history: only what is new is sent
	previous string // the id of the newest response, if it is stored
	known    int    // how many messages of the history the server has
	clock    bool   // its instructions have the time
	hidden   bool   // its requests are not recorded
	inFull   bool   // the next request repeats one with the whole history, which the server had
	renames  bool   // it appends to the ids of calls
	noTools  bool   // the next request offers no tools
	fell     bool   // it fell back to other bytes once
	bare     bool   // the last request offered no tools
	title    int    // the task of its title, once it asked for that
	titles   string // the instructions for that
	once     bool   // it makes one request: a title maker, a summary
	prefill  bool   // the request that is sent or open ends in the beginning of an answer

	run     int  // the task that it works on; what the tracker has to find
	told    bool // a request of the task was sent, and the next one can be found
	failed  bool // the last request got no answer
	counter int  // of the ids of the current answer
}

// resend lets the agent send its whole history again, as it is now.
func (a *agent) resend() { a.previous, a.known = "", 0 }

// proves reports whether the next request has outputs of calls with random ids: it can be
// found without its history.
func (a *agent) proves() bool {
	return a.ids == randomIDs && len(a.history[len(a.history)-1].outputs) > 0 && !a.failed
}

type object = map[string]any

// body returns the request's body. Marks for the provider's cache wander, and have no
// meaning.
func (a *agent) body(now time.Time) []byte {
	var b object
	mark := a.rng.IntN(len(a.history) + 1)
	list := []any{}
	for i := range a.history {
		if i >= a.known {
			list = append(list, a.message(&a.history[i], i == mark)...)
		}
	}
	if a.prefill {
		list = append(list, a.message(&message{role: "assistant", parts: []string{"{"}}, false)...)
	}
	system := a.system
	if a.clock {
		system += now.String()
	}
	switch a.format {
	case chat:
		b = object{"model": "m", "stream": true, "messages": append([]any{object{"role": "system", "content": system}}, list...)}
	case responses:
		b = object{"model": "m", "stream": true, "instructions": system, "input": list}
		if a.previous != "" {
			b["previous_response_id"] = a.previous
		}
	case messages:
		b = object{"model": "m", "stream": true, "messages": list}
		if a.rng.IntN(2) == 0 {
			b["system"] = system
		} else {
			b["system"] = []any{object{"type": "text", "text": system, "cache_control": object{"type": "ephemeral"}}}
		}
	case bedrock:
		b = object{"messages": list, "system": []any{object{"text": system}}, "toolConfig": object{"tools": []any{object{"name": a.tools}}}}
	case ollama:
		b = object{"model": "m", "messages": append([]any{object{"role": "system", "content": system}}, list...)}
	case gemini:
		b = object{"contents": list, "systemInstruction": object{"parts": []any{object{"text": system}}}}
	}
	if a.noTools {
		delete(b, "toolConfig")
	} else if a.format != bedrock {
		b["tools"] = []any{object{"name": a.tools}}
	}
	out, err := json.Marshal(b)
	if err != nil {
		panic(err)
	}
	return out
}

// message returns the items of one message.
func (a *agent) message(m *message, mark bool) (items []any) {
	if a.renames {
		renamed := *m
		renamed.calls, renamed.outputs = slices.Clone(m.calls), slices.Clone(m.outputs)
		for i := range renamed.calls {
			renamed.calls[i].id += "_0"
		}
		for i := range renamed.outputs {
			renamed.outputs[i].id += "_0"
		}
		m = &renamed
	}
	switch a.format {
	case chat:
		if m.role == "assistant" {
			item := object{"role": "assistant", "content": strings.Join(m.parts, "")}
			var calls []any
			for _, c := range m.calls {
				calls = append(calls, object{"id": c.id, "type": "function", "function": object{"name": c.name, "arguments": c.input}})
			}
			if calls != nil {
				item["tool_calls"] = calls
			}
			return []any{item}
		}
		for _, o := range m.outputs {
			items = append(items, object{"role": "tool", "tool_call_id": o.id, "content": o.text})
		}
		if len(m.parts) == 1 && a.rng.IntN(2) == 0 {
			return append(items, object{"role": "user", "content": m.parts[0]})
		}
		if len(m.parts) > 0 {
			items = append(items, object{"role": "user", "content": texts("text", m.parts, mark)})
		}
	case responses:
		for _, o := range m.outputs {
			items = append(items, object{"type": "function_call_output", "call_id": o.id, "output": o.text})
		}
		if len(m.parts) > 0 {
			typ := "input_text"
			if m.role == "assistant" {
				typ = "output_text"
			}
			items = append(items, object{"type": "message", "role": m.role, "content": texts(typ, m.parts, false)})
		}
		for _, c := range m.calls {
			items = append(items, object{"type": "function_call", "call_id": c.id, "name": c.name, "arguments": c.input})
		}
	case messages:
		content := texts("text", m.parts, mark)
		for _, c := range m.calls {
			content = append(content, object{"type": "tool_use", "id": c.id, "name": c.name, "input": object{"v": c.input}})
		}
		var results []any
		for _, o := range m.outputs {
			results = append(results, object{"type": "tool_result", "tool_use_id": o.id, "content": o.text})
		}
		items = append(items, object{"role": m.role, "content": append(results, content...)})
	case bedrock:
		var content []any
		for _, o := range m.outputs {
			content = append(content, object{"toolResult": object{"toolUseId": o.id, "content": []any{object{"text": o.text}}, "status": "success"}})
		}
		for _, p := range m.parts {
			content = append(content, object{"text": p})
		}
		for _, c := range m.calls {
			content = append(content, object{"toolUse": object{"toolUseId": c.id, "name": c.name, "input": object{"v": c.input}}})
		}
		if mark {
			content = append(content, object{"cachePoint": object{"type": "default"}})
		}
		items = append(items, object{"role": m.role, "content": content})
	case ollama:
		for _, o := range m.outputs {
			items = append(items, object{"role": "tool", "tool_name": o.name, "content": o.text})
		}
		if m.role == "user" { // a text is all of a message
			for _, p := range m.parts {
				items = append(items, object{"role": "user", "content": p})
			}
			break
		}
		item := object{"role": m.role, "content": strings.Join(m.parts, "\n")}
		var calls []any
		for _, c := range m.calls {
			calls = append(calls, object{"function": object{"name": c.name, "arguments": object{"v": c.input}}})
		}
		if calls != nil {
			item["tool_calls"] = calls
		}
		items = append(items, item)
	case gemini:
		var parts []any
		for _, o := range m.outputs {
			out := object{"name": o.name, "response": object{"output": o.text}}
			if o.id != "" {
				out["id"] = o.id
			}
			parts = append(parts, object{"functionResponse": out})
		}
		for _, p := range m.parts {
			parts = append(parts, object{"text": p})
		}
		for _, c := range m.calls {
			call := object{"name": c.name, "args": object{"v": c.input}}
			if c.id != "" {
				call["id"] = c.id
			}
			parts = append(parts, object{"functionCall": call})
		}
		role := m.role
		if role == "assistant" {
			role = "model"
		}
		items = append(items, object{"role": role, "parts": parts})
	}
	return items
}

func texts(typ string, parts []string, mark bool) (list []any) {
	for i, p := range parts {
		part := object{"type": typ, "text": p}
		if mark && i == len(parts)-1 {
			part["cache_control"] = object{"type": "ephemeral"}
		}
		list = append(list, part)
	}
	return list
}

// newID returns the id of a call of the answer that is being made.
func (a *agent) newID() string {
	switch a.ids {
	case randomIDs:
		return fmt.Sprintf("call_%012x%04x", a.rng.Uint64()&(1<<48-1), a.rng.IntN(1<<16))
	case countedIDs:
		a.counter++
		return fmt.Sprintf("call_%d", a.counter-1)
	default:
		return ""
	}
}

// few returns one of a few texts: agents share their words.
func (a *agent) few(what string, n int) string { return fmt.Sprintf("%s %d", what, a.rng.IntN(n)) }
