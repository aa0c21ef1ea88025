package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// generate generates the events of an answer of this shape.
func (w wire) generate(s shape, r *rand.Rand) []event {
	c := s.content(r)
	switch w {
	case chatWire:
		return c.chat(r)
	case responsesWire:
		return c.responses()
	case anthropicWire:
		return c.anthropic(r)
	case geminiWire:
		return c.gemini()
	case ollamaWire:
		return c.ollama()
	default:
		return c.bedrock()
	}
}

func (c *content) chat(r *rand.Rand) (events []event) {
	chunk := func(delta, finish string) {
		events = append(events, event{data: `{"id":"chatcmpl-1","object":"chat.completion.chunk","model":"m-1","choices":[{"index":0,"delta":` + delta + `,"finish_reason":` + finish + `}]}`})
	}
	chunk(`{"role":"assistant","content":""}`, "null")
	for _, piece := range c.thoughts {
		chunk(`{"reasoning_content":`+q(piece)+`}`, "null")
	}
	key := "content"
	if c.refusal {
		key = "refusal"
	}
	for _, piece := range c.texts {
		chunk(`{"`+key+`":`+q(piece)+`}`, "null")
	}
	for _, delta := range c.chatCalls() {
		chunk(delta, "null")
	}
	finish := `"stop"`
	switch {
	case c.legacy:
		finish = `"function_call"`
	case c.limit:
		finish = `"length"`
	case len(c.inputs) > 0:
		finish = `"tool_calls"`
	}
	if c.fails {
		events = append(events, event{data: `{"error":{"message":"x","type":"server_error","code":null}}`})
		for _, piece := range c.late {
			chunk(`{"content":`+q(piece)+`}`, "null")
		}
		if c.then == "" {
			return events
		}
		if c.then == "end" {
			return append(events, event{data: "[DONE]"})
		}
	}
	chunk(`{}`, finish)
	if r.IntN(2) == 0 {
		events = append(events, event{data: `{"id":"chatcmpl-1","object":"chat.completion.chunk","model":"m-1","choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}}`})
	}
	return append(events, event{data: "[DONE]"})
}

// chatCalls returns the deltas of the calls.
func (c *content) chatCalls() []string {
	calls := make([][]string, len(c.inputs))
	for i, pieces := range c.inputs {
		head := fmt.Sprintf(`{"tool_calls":[{"index":%d,"id":"call_%d","type":"function","function":{"name":"f","arguments":`, i, i)
		part := fmt.Sprintf(`{"tool_calls":[{"index":%d,"function":{"arguments":`, i)
		tail := `}}]}`
		if c.legacy {
			head, part, tail = `{"function_call":{"name":"f","arguments":`, `{"function_call":{"arguments":`, `}}`
		}
		if !c.whole {
			pieces = append([]string{""}, pieces...)
		}
		for j, piece := range pieces {
			if j > 0 {
				head = part
			}
			calls[i] = append(calls[i], head+q(piece)+tail)
		}
		if c.between {
			calls[i] = append(calls[i], `{"content":" then"}`)
		}
	}
	if !c.interleaved {
		return slices.Concat(calls...)
	}
	var turns []string
	for at := range slices.MaxFunc(calls, func(a, b []string) int { return len(a) - len(b) }) {
		for _, deltas := range calls {
			if at < len(deltas) {
				turns = append(turns, deltas[at])
			}
		}
	}
	return turns
}

func (c *content) responses() (events []event) {
	serial := 0
	add := func(name, rest string) {
		events = append(events, event{name: name, data: fmt.Sprintf(`{"type":%q,"sequence_number":%d%s}`, name, serial, rest)})
		serial++
	}
	response := func(status, output string) string {
		return `,"response":{"id":"resp_1","object":"response","model":"m-1","status":"` + status + `","output":[` + output + `]}`
	}
	add("response.created", response("in_progress", ""))
	var output []string
	item := func(at int, added, done string, inner func(at int)) {
		add("response.output_item.added", fmt.Sprintf(`,"output_index":%d,"item":%s`, at, added))
		inner(at)
		add("response.output_item.done", fmt.Sprintf(`,"output_index":%d,"item":%s`, at, done))
		output = append(output, done)
	}
	if thoughts := c.thoughts; len(thoughts) > 0 {
		item(len(output), `{"id":"rs_1","type":"reasoning","summary":[]}`,
			`{"id":"rs_1","type":"reasoning","summary":[{"type":"summary_text","text":`+q(strings.Join(thoughts, ""))+`}]}`, func(at int) {
				for _, piece := range thoughts {
					add("response.reasoning_summary_text.delta", fmt.Sprintf(`,"item_id":"rs_1","output_index":%d,"summary_index":0,"delta":%s`, at, q(piece)))
				}
			})
	}
	message := func(texts []string) {
		kind, key := "output_text", "text"
		if c.refusal {
			kind, key = "refusal", "refusal"
		}
		whole := q(strings.Join(texts, ""))
		part := `{"type":"` + kind + `","` + key + `":` + whole + `}`
		item(len(output), `{"id":"msg_1","type":"message","role":"assistant","status":"in_progress","content":[]}`,
			`{"id":"msg_1","type":"message","role":"assistant","status":"completed","content":[`+part+`]}`, func(at int) {
				where := fmt.Sprintf(`,"item_id":"msg_1","output_index":%d,"content_index":0`, at)
				add("response.content_part.added", where+`,"part":{"type":"`+kind+`","`+key+`":""}`)
				for _, piece := range texts {
					if c.whole {
						break // some servers send no deltas
					}
					add("response."+kind+".delta", where+`,"delta":`+q(piece))
				}
				add("response."+kind+".done", where+`,"`+key+`":`+whole)
				add("response.content_part.done", where+`,"part":`+part)
			})
	}
	if len(c.texts) > 0 {
		message(c.texts)
	}
	for i, pieces := range c.inputs {
		id := fmt.Sprintf(`"id":"fc_%d","type":"function_call","call_id":"call_%d","name":"f"`, i, i)
		key, kind := "arguments", "response.function_call_arguments"
		if c.custom {
			id = fmt.Sprintf(`"id":"fc_%d","type":"custom_tool_call","call_id":"call_%d","name":"f"`, i, i)
			key, kind = "input", "response.custom_tool_call_input"
		}
		whole, first := q(strings.Join(pieces, "")), `""`
		if c.whole { // some servers send no deltas, and all with the item
			first = whole
		}
		item(len(output), `{`+id+`,"status":"in_progress","`+key+`":`+first+`}`, `{`+id+`,"status":"completed","`+key+`":`+whole+`}`, func(at int) {
			where := fmt.Sprintf(`,"item_id":"fc_%d","output_index":%d`, i, at)
			for _, piece := range pieces {
				if c.whole {
					break
				}
				add(kind+".delta", where+`,"delta":`+q(piece))
			}
			add(kind+".done", where+`,"`+key+`":`+whole)
		})
	}
	if c.fails {
		if c.then == "" {
			add("error", `,"code":"server_error","message":"x","param":null`)
			return events
		}
		add("error", `,"code":"server_error","message":"x","param":null`)
		if len(c.late) > 0 {
			message(c.late)
		}
		if c.then == "end" {
			add("response.failed", `,"response":{"id":"resp_1","object":"response","model":"m-1","status":"failed","error":{"code":"server_error","message":"x"},"output":[]}`)
			return events
		}
	}
	if c.limit {
		add("response.incomplete", `,"response":{"id":"resp_1","object":"response","model":"m-1","status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"output":[`+strings.Join(output, ",")+`]}`)
		return events
	}
	add("response.completed", response("completed", strings.Join(output, ",")))
	return events
}

func (c *content) anthropic(r *rand.Rand) (events []event) {
	add := func(name, rest string) {
		events = append(events, event{name: name, data: `{"type":"` + name + `"` + rest + `}`})
	}
	add("message_start", `,"message":{"id":"msg_1","type":"message","role":"assistant","model":"m-1","content":[],"stop_reason":null,"usage":{"input_tokens":1,"output_tokens":1}}`)
	at := 0
	block := func(start string, deltas ...string) {
		add("content_block_start", fmt.Sprintf(`,"index":%d,"content_block":%s`, at, start))
		for _, delta := range deltas {
			add("content_block_delta", fmt.Sprintf(`,"index":%d,"delta":%s`, at, delta))
		}
		add("content_block_stop", fmt.Sprintf(`,"index":%d`, at))
		at++
	}
	pieces := func(kind, key string, texts []string) (deltas []string) {
		for _, text := range texts {
			deltas = append(deltas, `{"type":"`+kind+`","`+key+`":`+q(text)+`}`)
		}
		return deltas
	}
	text := func(texts []string) {
		if c.whole { // some servers send no deltas
			block(`{"type":"text","text":` + q(texts[0]) + `}`)
			return
		}
		block(`{"type":"text","text":""}`, pieces("text_delta", "text", texts)...)
	}
	if len(c.thoughts) > 0 {
		deltas := append(pieces("thinking_delta", "thinking", c.thoughts), `{"type":"signature_delta","signature":"s"}`)
		block(`{"type":"thinking","thinking":"","signature":""}`, deltas...)
	}
	if r.IntN(2) == 0 {
		add("ping", "")
	}
	if len(c.texts) > 0 {
		text(c.texts)
	}
	for i, input := range c.inputs {
		if c.whole { // the same servers
			block(fmt.Sprintf(`{"type":"tool_use","id":"toolu_%d","name":"f","input":%s}`, i, input[0]))
			continue
		}
		block(fmt.Sprintf(`{"type":"tool_use","id":"toolu_%d","name":"f","input":{}}`, i), pieces("input_json_delta", "partial_json", input)...)
	}
	if c.fails {
		add("error", `,"error":{"type":"overloaded_error","message":"x"}`)
		if len(c.late) > 0 {
			text(c.late)
		}
		if c.then == "" {
			return events
		}
	}
	stop := "end_turn"
	switch {
	case c.limit:
		stop = "max_tokens"
	case c.refusal:
		stop = "refusal"
	case len(c.inputs) > 0:
		stop = "tool_use"
	}
	add("message_delta", `,"delta":{"stop_reason":"`+stop+`","stop_sequence":null},"usage":{"output_tokens":2}`)
	add("message_stop", "")
	return events
}

func (c *content) gemini() (events []event) {
	chunk := func(part string) {
		events = append(events, event{data: `{"candidates":[{"content":{"parts":[` + part + `],"role":"model"},"index":0}],"modelVersion":"m-1","responseId":"r1"}`})
	}
	for _, piece := range c.thoughts {
		chunk(`{"text":` + q(piece) + `,"thought":true}`)
	}
	for _, piece := range c.texts {
		chunk(`{"text":` + q(piece) + `}`)
	}
	for i, pieces := range c.inputs {
		chunk(fmt.Sprintf(`{"functionCall":{"id":"call_%d","name":"f","args":%s}}`, i, object(pieces)))
	}
	if c.fails {
		events = append(events, event{data: `{"error":{"code":503,"message":"x","status":"UNAVAILABLE"}}`})
		for _, piece := range c.late {
			chunk(`{"text":` + q(piece) + `}`)
		}
		if c.then == "" {
			return events
		}
	}
	finish := "STOP"
	switch {
	case c.limit:
		finish = "MAX_TOKENS"
	case c.refusal:
		finish = "SAFETY"
	}
	events = append(events, event{data: `{"candidates":[{"content":{"parts":[{"text":""}],"role":"model"},"finishReason":"` + finish + `","index":0}],"usageMetadata":{"promptTokenCount":1,"candidatesTokenCount":2},"modelVersion":"m-1","responseId":"r1"}`})
	return events
}

func (c *content) ollama() (events []event) {
	line := func(message, rest string) {
		events = append(events, event{data: `{"model":"m-1","created_at":"2026-01-02T03:04:05Z","message":{"role":"assistant",` + message + `}` + rest + `}`})
	}
	for _, piece := range c.thoughts {
		line(`"content":"","thinking":`+q(piece), `,"done":false`)
	}
	for _, piece := range c.texts {
		line(`"content":`+q(piece), `,"done":false`)
	}
	for _, pieces := range c.inputs {
		line(`"content":"","tool_calls":[{"function":{"name":"f","arguments":`+object(pieces)+`}}]`, `,"done":false`)
	}
	if c.fails {
		events = append(events, event{data: `{"error":"x"}`})
		for _, piece := range c.late {
			line(`"content":`+q(piece), `,"done":false`)
		}
		if c.then == "" {
			return events
		}
	}
	reason := "stop"
	if c.limit {
		reason = "length"
	}
	line(`"content":""`, `,"done":true,"done_reason":"`+reason+`","prompt_eval_count":1,"eval_count":2`)
	return events
}

func (c *content) bedrock() (events []event) {
	add := func(name, data string) { events = append(events, event{name: name, data: data}) }
	add("messageStart", `{"role":"assistant"}`)
	at := 0
	block := func(start string, deltas ...string) {
		if start != "" {
			add("contentBlockStart", fmt.Sprintf(`{"contentBlockIndex":%d,"start":%s}`, at, start))
		}
		for _, delta := range deltas {
			add("contentBlockDelta", fmt.Sprintf(`{"contentBlockIndex":%d,"delta":%s}`, at, delta))
		}
		add("contentBlockStop", fmt.Sprintf(`{"contentBlockIndex":%d}`, at))
		at++
	}
	deltas := func(format string, pieces []string) (all []string) {
		for _, piece := range pieces {
			all = append(all, fmt.Sprintf(format, q(piece)))
		}
		return all
	}
	if len(c.thoughts) > 0 {
		block("", deltas(`{"reasoningContent":{"text":%s}}`, c.thoughts)...)
	}
	if len(c.texts) > 0 {
		block("", deltas(`{"text":%s}`, c.texts)...)
	}
	for i, pieces := range c.inputs {
		block(fmt.Sprintf(`{"toolUse":{"toolUseId":"tooluse_%d","name":"f"}}`, i), deltas(`{"toolUse":{"input":%s}}`, pieces)...)
	}
	if c.fails {
		events = append(events, event{name: "modelStreamErrorException", data: `{"message":"x"}`, exception: true})
		if len(c.late) > 0 {
			block("", deltas(`{"text":%s}`, c.late)...)
		}
		if c.then == "" {
			return events
		}
	}
	stop := "end_turn"
	switch {
	case c.limit:
		stop = "max_tokens"
	case c.refusal:
		stop = "guardrail_intervened"
	case len(c.inputs) > 0:
		stop = "tool_use"
	}
	add("messageStop", `{"stopReason":"`+stop+`"}`)
	add("metadata", `{"usage":{"inputTokens":1,"outputTokens":2,"totalTokens":3},"metrics":{"latencyMs":1}}`)
	return events
}
