package kinship

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
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

	run     int  // the task that it works on; what the tracker has to find
	told    bool // a request of the task was sent
	failed  bool // the last request got no answer
	counter int  // of the ids of the current answer
}

type object = map[string]any

// body returns the request's body. Marks for the provider's cache wander, and have no
// meaning.
func (a *agent) body() []byte {
	var b object
	mark := a.rng.IntN(len(a.history) + 1)
	var list []any
	for i := range a.history {
		list = append(list, a.message(&a.history[i], i == mark)...)
	}
	switch a.format {
	case chat:
		b = object{"model": "m", "stream": true, "messages": append([]any{object{"role": "system", "content": a.system}}, list...)}
	case responses:
		b = object{"model": "m", "stream": true, "instructions": a.system, "input": list}
	case messages:
		b = object{"model": "m", "stream": true, "messages": list}
		if a.rng.IntN(2) == 0 {
			b["system"] = a.system
		} else {
			b["system"] = []any{object{"type": "text", "text": a.system, "cache_control": object{"type": "ephemeral"}}}
		}
	case gemini:
		b = object{"contents": list, "systemInstruction": object{"parts": []any{object{"text": a.system}}}}
	}
	if a.tools != "" {
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
		for _, o := range m.outputs {
			items = append(items, object{"type": "function_call_output", "call_id": o.id, "output": o.text})
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
	case gemini:
		var parts []any
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
		for _, o := range m.outputs {
			out := object{"name": o.name, "response": object{"output": o.text}}
			if o.id != "" {
				out["id"] = o.id
			}
			parts = append(parts, object{"functionResponse": out})
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
