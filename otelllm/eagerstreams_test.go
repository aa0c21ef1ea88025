package otelllm

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// eagerKinds are the kinds of answers with calls.
func eagerKinds() []wireStream {
	kinds := slices.DeleteFunc(wireKinds(), func(w wireStream) bool { return w.name == "ollama generate" })
	return append(kinds, wireStream{
		"bedrock invoke", "/model/anthropic.claude-x/invoke-with-response-stream",
		`{"anthropic_version":"bedrock-2023-05-31","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}`, awsType, nil,
	})
}

// randomJSON returns a JSON value as the input of a call: in most cases an object, with what
// may confuse a parser that follows its braces and quotes.
func randomJSON(r *rand.Rand, depth int) string {
	texts := []string{``, `a`, `}`, `{\"`, `\"`, `\\`, `\\\"}`, `\u007d`, `\ud83d\ude00`, `é`, `]`, `\n`, `data: `, `[1,`, ` `}
	text := func() string {
		return `"` + texts[r.IntN(len(texts))] + texts[r.IntN(len(texts))] + `"`
	}
	space := func() string { return []string{"", "", "", " ", "\n ", "\t"}[r.IntN(6)] }
	switch kind := r.IntN(8); {
	case depth == 0 && kind < 7 || depth < 3 && kind < 2:
		var members []string
		for i := range r.IntN(3) {
			members = append(members, space()+`"`+strconv.Itoa(i)+texts[r.IntN(len(texts))]+`"`+space()+":"+space()+randomJSON(r, depth+1))
		}
		return space() + "{" + strings.Join(members, ",") + space() + "}" + space()
	case depth < 3 && kind == 2:
		return "[" + space() + randomJSON(r, depth+1) + "," + randomJSON(r, depth+1) + "]"
	case kind == 3:
		return []string{"true", "false", "null"}[r.IntN(3)]
	case kind == 4:
		return []string{"0", "-12.5e+3", "17"}[r.IntN(3)]
	default:
		return text()
	}
}

// chunked splits a text at random places: into one piece, a few, or bytes.
func chunked(r *rand.Rand, text string) (pieces []string) {
	runes := []rune(text)
	most := []int{len(runes), 9, 3, 1}[r.IntN(4)]
	for len(runes) > 0 {
		n := 1 + r.IntN(max(1, min(most, len(runes))))
		if most == len(text) {
			n = len(runes)
		}
		pieces = append(pieces, string(runes[:n]))
		runes = runes[n:]
	}
	return pieces
}

// asJSON returns a text as JSON: with its characters, or only with ASCII, as other encoders
// write it.
func asJSON(r *rand.Rand, text string) string {
	raw, _ := json.Marshal(text)
	if r.IntN(2) == 0 {
		return string(raw)
	}
	return strconv.QuoteToASCII(text) // the texts have no character that JSON escapes differently
}

// eagerPart is a part of an answer: a text, or a call.
type eagerPart struct {
	text  string
	input []string // pieces of the call's input
	whole string   // all of it
}

func (p *eagerPart) isCall() bool { return p.text == "" }

// eagerAnswer returns a random answer of a kind, with calls.
func eagerAnswer(tb testing.TB, kind *wireStream, r *rand.Rand) wireStream {
	tb.Helper()
	var parts []eagerPart
	for i := range 1 + r.IntN(4) {
		if r.IntN(4) == 0 && i > 0 {
			parts = append(parts, eagerPart{text: "I look. "})
			continue
		}
		input := randomJSON(r, 0)
		if r.IntN(8) == 0 {
			input = ""
		}
		parts = append(parts, eagerPart{input: chunked(r, input), whole: input})
	}
	w := *kind
	switch w.name {
	case "chat":
		w.events = answerOf(tb, "chat", "", eagerChat(r, parts)...).events
	case "responses":
		w.events = answerOf(tb, "responses", "", eagerResponses(r, parts)...).events
	case "messages":
		w.events = answerOf(tb, "messages", "", eagerMessages(r, parts)...).events
	case "bedrock invoke":
		for _, p := range eagerMessages(r, parts) {
			w.events = append(w.events, awsMessage("chunk", `{"bytes":"`+base64.StdEncoding.EncodeToString([]byte(p))+`"}`))
		}
	case "gemini", "gemini array":
		w.events = answerOf(tb, w.name, "", eagerGemini(r, parts)...).events
	case "ollama":
		w.events = answerOf(tb, "ollama", "", eagerOllama(r, parts)...).events
	case "bedrock":
		w.events = answerOf(tb, "bedrock", "", eagerConverse(r, parts)...).events
	case "cohere", "mistral", "interactions":
		w.events = answerOf(tb, w.name, "", eagerOthers[w.name](r, parts)...).events
	default:
		w.events = []string{eagerDocument(w.name, r, parts)}
	}
	return w
}

func chatChunk(delta, finish string) string {
	return `{"id":"c","model":"m","choices":[{"index":0,"delta":` + delta + `,"finish_reason":` + finish + `}]}`
}

// eagerChat returns calls one after the other or in turns, as tool_calls or a function_call,
// with their input as a string or an object.
func eagerChat(r *rand.Rand, parts []eagerPart) (payloads []string) {
	legacy, turns, object := r.IntN(5) == 0, r.IntN(3) == 0, r.IntN(6) == 0
	queues := make([][]string, len(parts))
	for i := range parts {
		p := &parts[i]
		if !p.isCall() {
			queues[i] = []string{`{"content":` + asJSON(r, p.text) + `}`}
			continue
		}
		head, tail := fmt.Sprintf(`{"tool_calls":[{"index":%d,"id":"call_%d","type":"function","function":{"name":"f","arguments":`, i, i), `}}]}`
		next := fmt.Sprintf(`{"tool_calls":[{"index":%d,"function":{"arguments":`, i)
		if legacy {
			head, next, tail = `{"function_call":{"name":"f","arguments":`, `{"function_call":{"arguments":`, `}}`
		}
		if object && strings.HasPrefix(strings.TrimSpace(p.whole), "{") {
			queues[i] = []string{head + p.whole + tail}
			continue
		}
		pieces := p.input
		if len(pieces) == 0 || r.IntN(2) == 0 {
			pieces = append([]string{""}, pieces...)
		}
		for j, piece := range pieces {
			if j > 0 {
				head = next
			}
			queues[i] = append(queues[i], head+asJSON(r, piece)+tail)
		}
		if legacy {
			queues = queues[:i+1]
			break // an answer has one
		}
	}
	for at := 0; at < len(queues); {
		if turns {
			at = r.IntN(len(queues))
		}
		if len(queues[at]) == 0 {
			if at++; turns {
				queues = slices.DeleteFunc(queues, func(q []string) bool { return len(q) == 0 })
				at = 0
			}
			continue
		}
		payloads = append(payloads, chatChunk(queues[at][0], "null"))
		queues[at] = queues[at][1:]
	}
	return append(payloads, chatChunk(`{}`, `"tool_calls"`))
}

func eagerResponses(r *rand.Rand, parts []eagerPart) (payloads []string) {
	payloads = []string{`{"type":"response.created","response":{"id":"resp_1","model":"m","status":"in_progress","output":[]}}`}
	var output []string
	for i := range parts {
		p := &parts[i]
		add := func(format string, args ...any) { payloads = append(payloads, fmt.Sprintf(format, args...)) }
		if !p.isCall() {
			add(`{"type":"response.output_text.delta","item_id":"m","output_index":%d,"content_index":0,"delta":%s}`, i, asJSON(r, p.text))
			output = append(output, `{"type":"message","role":"assistant","content":[{"type":"output_text","text":`+asJSON(r, p.text)+`}]}`)
			continue
		}
		item := func(status, input string) string {
			return fmt.Sprintf(`{"type":"function_call","id":"fc_%d","call_id":"call_%d","name":"f","status":"%s","arguments":%s}`, i, i, status, asJSON(r, input))
		}
		kind, key := "function_call_arguments", "arguments"
		if r.IntN(5) == 0 {
			item = func(status, input string) string {
				return fmt.Sprintf(`{"type":"custom_tool_call","id":"fc_%d","call_id":"call_%d","name":"f","status":"%s","input":%s}`, i, i, status, asJSON(r, input))
			}
			kind, key = "custom_tool_call_input", "input"
		}
		first := ""
		if r.IntN(4) == 0 && key == "arguments" {
			first = p.whole // some servers send no deltas, and all with the item
		}
		add(`{"type":"response.output_item.added","output_index":%d,"item":%s}`, i, item("in_progress", first))
		if first == "" {
			for _, piece := range p.input {
				add(`{"type":"response.%s.delta","item_id":"fc_%d","output_index":%d,"delta":%s}`, kind, i, i, asJSON(r, piece))
			}
			add(`{"type":"response.%s.done","item_id":"fc_%d","output_index":%d,"%s":%s}`, kind, i, i, key, asJSON(r, p.whole))
		}
		output = append(output, item("completed", p.whole))
		add(`{"type":"response.output_item.done","output_index":%d,"item":%s}`, i, output[len(output)-1])
	}
	return append(payloads, `{"type":"response.completed","response":{"id":"resp_1","status":"completed","output":[`+strings.Join(output, ",")+`]}}`)
}

func eagerMessages(r *rand.Rand, parts []eagerPart) (payloads []string) {
	add := func(format string, args ...any) { payloads = append(payloads, fmt.Sprintf(format, args...)) }
	add(`{"type":"message_start","message":{"id":"m","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"usage":{"input_tokens":1,"output_tokens":1}}}`)
	for i := range parts {
		p := &parts[i]
		if !p.isCall() {
			add(`{"type":"content_block_start","index":%d,"content_block":{"type":"text","text":""}}`, i)
			add(`{"type":"content_block_delta","index":%d,"delta":{"type":"text_delta","text":%s}}`, i, asJSON(r, p.text))
			add(`{"type":"content_block_stop","index":%d}`, i)
			continue
		}
		input, pieces := "{}", p.input
		if r.IntN(5) == 0 && strings.HasPrefix(strings.TrimSpace(p.whole), "{") {
			input, pieces = p.whole, nil
		}
		add(`{"type":"content_block_start","index":%d,"content_block":{"type":"tool_use","id":"toolu_%d","name":"f","input":%s}}`, i, i, input)
		for _, piece := range pieces {
			add(`{"type":"content_block_delta","index":%d,"delta":{"type":"input_json_delta","partial_json":%s}}`, i, asJSON(r, piece))
		}
		add(`{"type":"content_block_stop","index":%d}`, i)
	}
	add(`{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":2}}`)
	add(`{"type":"message_stop"}`)
	return payloads
}

// inputObject returns the input of a call where it can only be an object.
func (p *eagerPart) inputObject() string {
	if s := strings.TrimSpace(p.whole); strings.HasPrefix(s, "{") {
		return s
	}
	return "{}"
}

func eagerGemini(r *rand.Rand, parts []eagerPart) (payloads []string) {
	for i := range parts {
		part := `{"text":` + asJSON(r, parts[i].text) + `}`
		if p := &parts[i]; p.isCall() {
			part = fmt.Sprintf(`{"functionCall":{"id":"call_%d","name":"f","args":%s}}`, i, p.inputObject())
		}
		payloads = append(payloads, `{"candidates":[{"index":0,"content":{"parts":[`+part+`],"role":"model"}}]}`)
	}
	return append(payloads, `{"candidates":[{"index":0,"content":{"parts":[{"text":""}],"role":"model"},"finishReason":"STOP"}]}`)
}

func eagerOllama(r *rand.Rand, parts []eagerPart) (payloads []string) {
	for i := range parts {
		message := `"content":` + asJSON(r, parts[i].text)
		if p := &parts[i]; p.isCall() {
			// An object in one line.
			message = `"content":"","tool_calls":[{"function":{"name":"f","arguments":` + strings.NewReplacer("\n", " ").Replace(p.inputObject()) + `}}]`
		}
		payloads = append(payloads, `{"model":"m","message":{"role":"assistant",`+message+`},"done":false}`)
	}
	return append(payloads, `{"model":"m","message":{"role":"assistant","content":""},"done":true,"done_reason":"stop"}`)
}

func eagerConverse(r *rand.Rand, parts []eagerPart) (payloads []string) {
	add := func(format string, args ...any) { payloads = append(payloads, fmt.Sprintf(format, args...)) }
	add(`{"messageStart":{"role":"assistant"}}`)
	for i := range parts {
		p := &parts[i]
		if p.isCall() {
			add(`{"contentBlockStart":{"contentBlockIndex":%d,"start":{"toolUse":{"toolUseId":"t_%d","name":"f"}}}}`, i, i)
		} else {
			add(`{"contentBlockDelta":{"contentBlockIndex":%d,"delta":{"text":%s}}}`, i, asJSON(r, p.text))
		}
		for _, piece := range p.input {
			add(`{"contentBlockDelta":{"contentBlockIndex":%d,"delta":{"toolUse":{"input":%s}}}}`, i, asJSON(r, piece))
		}
		add(`{"contentBlockStop":{"contentBlockIndex":%d}}`, i)
	}
	add(`{"messageStop":{"stopReason":"tool_use"}}`)
	return payloads
}

// eagerOthers write the answers of protocols with one way to write a call.
var eagerOthers = map[string]func(r *rand.Rand, parts []eagerPart) []string{
	"cohere": func(r *rand.Rand, parts []eagerPart) []string {
		payloads := []string{`{"type":"message-start","id":"c","delta":{"message":{"role":"assistant","content":[]}}}`}
		add := func(format string, args ...any) { payloads = append(payloads, fmt.Sprintf(format, args...)) }
		for i := range parts {
			p := &parts[i]
			if !p.isCall() {
				add(`{"type":"content-delta","index":%d,"delta":{"message":{"content":{"text":%s}}}}`, i, asJSON(r, p.text))
				continue
			}
			add(`{"type":"tool-call-start","index":%d,"delta":{"message":{"tool_calls":{"id":"call_%d","type":"function","function":{"name":"f","arguments":""}}}}}`, i, i)
			for _, piece := range p.input {
				add(`{"type":"tool-call-delta","index":%d,"delta":{"message":{"tool_calls":{"function":{"arguments":%s}}}}}`, i, asJSON(r, piece))
			}
			add(`{"type":"tool-call-end","index":%d}`, i)
		}
		return append(payloads, `{"type":"message-end","delta":{"finish_reason":"TOOL_CALL"}}`)
	},
	"mistral": func(r *rand.Rand, parts []eagerPart) []string {
		payloads := []string{`{"type":"conversation.response.started","conversation_id":"conv_1"}`}
		for i := range parts {
			p := &parts[i]
			if !p.isCall() {
				payloads = append(payloads, fmt.Sprintf(`{"type":"message.output.delta","output_index":%d,"id":"m","content":%s}`, i, asJSON(r, p.text)))
				continue
			}
			for _, piece := range append([]string{""}, p.input...) {
				payloads = append(payloads, fmt.Sprintf(`{"type":"function.call.delta","output_index":%d,"id":"fc_%d","name":"f","tool_call_id":"call_%d","arguments":%s}`, i, i, i, asJSON(r, piece)))
			}
		}
		return append(payloads, `{"type":"conversation.response.done","usage":{"prompt_tokens":1}}`)
	},
	"interactions": func(r *rand.Rand, parts []eagerPart) []string {
		payloads := []string{`{"event_type":"interaction.created","interaction":{"id":"v1","status":"in_progress"}}`}
		add := func(format string, args ...any) { payloads = append(payloads, fmt.Sprintf(format, args...)) }
		for i := range parts {
			p := &parts[i]
			if p.isCall() {
				add(`{"event_type":"step.start","index":%d,"step":{"type":"function_call","id":"call_%d","name":"f","arguments":{}}}`, i, i)
			} else {
				add(`{"event_type":"step.start","index":%d,"step":{"type":"model_output"}}`, i)
				add(`{"event_type":"step.delta","index":%d,"delta":{"type":"text","text":%s}}`, i, asJSON(r, p.text))
			}
			for _, piece := range p.input {
				add(`{"event_type":"step.delta","index":%d,"delta":{"type":"arguments_delta","arguments":%s}}`, i, asJSON(r, piece))
			}
			add(`{"event_type":"step.stop","index":%d}`, i)
		}
		return append(payloads, `{"event_type":"interaction.completed","interaction":{"id":"v1","status":"requires_action"}}`)
	},
}

func eagerDocument(kind string, r *rand.Rand, parts []eagerPart) string {
	var items []string
	for i := range parts {
		p := &parts[i]
		if !p.isCall() {
			continue
		}
		switch kind {
		case "chat document":
			items = append(items, fmt.Sprintf(`{"id":"call_%d","type":"function","function":{"name":"f","arguments":%s}}`, i, asJSON(r, p.whole)))
		case "messages document":
			items = append(items, fmt.Sprintf(`{"type":"tool_use","id":"toolu_%d","name":"f","input":%s}`, i, p.inputObject()))
		default:
			items = append(items, fmt.Sprintf(`{"type":"function_call","call_id":"call_%d","name":"f","status":"completed","arguments":%s}`, i, asJSON(r, p.whole)))
		}
	}
	list := strings.Join(items, ",")
	switch kind {
	case "chat document":
		return `{"id":"c","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":null,"tool_calls":[` + list + `]},"finish_reason":"tool_calls"}]}`
	case "messages document":
		return `{"id":"m","type":"message","role":"assistant","content":[` + list + `],"stop_reason":"tool_use","usage":{"input_tokens":1,"output_tokens":1}}`
	default:
		return `{"id":"resp_1","object":"response","status":"completed","output":[` + list + `]}`
	}
}
