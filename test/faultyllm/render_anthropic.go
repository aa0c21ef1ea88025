package faultyllm

import (
	"encoding/json"
	"fmt"
	"strings"
)

// anthropicRenderer writes Messages events. One content block is open at a time.
type anthropicRenderer struct {
	ids
	said  message
	index int // index of the next content block
	open  stepKind
}

func (r *anthropicRenderer) begin(b *builder) {
	b.event("message_start", fmt.Sprintf(`{"type":"message_start","message":{"model":%s,"id":%s,"type":"message","role":"assistant",`+
		`"content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":%d,"cache_creation_input_tokens":0,`+
		`"cache_read_input_tokens":0,"output_tokens":1,"service_tier":"standard"}}}`, q(r.model), q(r.id("msg_", 0)), inputTokens), Sent{})
}

func (r *anthropicRenderer) step(b *builder, s Step) {
	switch s.kind {
	case stepText, stepRefusal:
		r.block(b, stepText, `{"type":"text","text":""}`, Sent{})
		for _, c := range s.chunks {
			r.said.text += c
			r.delta(b, `{"type":"text_delta","text":`+q(c)+`}`, Sent{TextChunks: 1})
		}
	case stepReasoning:
		r.block(b, stepReasoning, `{"type":"thinking","thinking":"","signature":""}`, Sent{})
		for _, c := range s.chunks {
			r.said.reasoning += c
			r.delta(b, `{"type":"thinking_delta","thinking":`+q(c)+`}`, Sent{ReasoningChunks: 1})
		}
	case stepToolInput:
		r.close(b)
		r.said.calls = append(r.said.calls, call{arguments: strings.Join(s.chunks, "")})
		r.block(b, stepToolInput, fmt.Sprintf(`{"type":"tool_use","id":%s,"name":%s,"input":{}}`, q(s.id), q(s.name)), Sent{ToolInputsStarted: 1})
		r.delta(b, `{"type":"input_json_delta","partial_json":""}`, Sent{})
		for _, c := range s.chunks {
			r.delta(b, `{"type":"input_json_delta","partial_json":`+q(c)+`}`, Sent{})
		}
	case stepToolInputDone:
		r.close(b)
	case stepFinishReason:
		r.close(b)
		b.event("message_delta", fmt.Sprintf(`{"type":"message_delta","delta":{"stop_reason":%s,"stop_sequence":null},"usage":%s}`,
			q(anthropicReason(s.reason)), r.usage()), Sent{})
	case stepEnd:
		b.event("message_stop", `{"type":"message_stop"}`, Sent{Terminal: true})
	case stepError:
		b.event("error", s.failure.anthropicBody(r.id("req_", 0)), Sent{})
	case stepPing:
		b.raw("event: ping\ndata: {\"type\": \"ping\"}\n\n", Sent{Keepalives: 1})
	}
}

// block opens a content block of this kind unless one is open.
func (r *anthropicRenderer) block(b *builder, kind stepKind, content string, sent Sent) {
	if r.open == kind && kind != stepToolInput {
		return
	}
	r.close(b)
	r.open = kind
	b.event("content_block_start", fmt.Sprintf(`{"type":"content_block_start","index":%d,"content_block":%s}`, r.index, content), sent)
}

func (r *anthropicRenderer) delta(b *builder, delta string, sent Sent) {
	b.event("content_block_delta", fmt.Sprintf(`{"type":"content_block_delta","index":%d,"delta":%s}`, r.index, delta), sent)
}

func (r *anthropicRenderer) close(b *builder) {
	switch r.open {
	case 0:
		return
	case stepReasoning:
		r.delta(b, `{"type":"signature_delta","signature":"EqQBCgIYAhIkMTIzNDU2Nzg5"}`, Sent{})
	}
	var sent Sent
	if r.open == stepToolInput {
		sent.ToolInputsCompleted = 1
	}
	b.event("content_block_stop", fmt.Sprintf(`{"type":"content_block_stop","index":%d}`, r.index), sent)
	r.open = 0
	r.index++
}

func (r *anthropicRenderer) usage() string { return anthropicUsage(r.said) }

func anthropicUsage(m message) string {
	return fmt.Sprintf(`{"input_tokens":%d,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":%d}`,
		inputTokens, m.outputTokens())
}

func anthropicReason(r Reason) string {
	switch r {
	case ToolCalls:
		return "tool_use"
	case Length:
		return "max_tokens"
	case ContentFilter, Refused:
		return "refusal"
	default:
		return "end_turn"
	}
}

func anthropicDocument(m message, id ids) []byte {
	if m.failure != nil {
		return []byte(m.failure.anthropicBody(id.id("req_", 0)))
	}
	var content []string
	if m.reasoning != "" {
		content = append(content, `{"type":"thinking","thinking":`+q(m.reasoning)+`,"signature":"EqQBCgIYAhIkMTIzNDU2Nzg5"}`)
	}
	if text := m.text + m.refusal; text != "" {
		content = append(content, `{"type":"text","text":`+q(text)+`}`)
	}
	for _, c := range m.calls {
		input := c.arguments
		if !json.Valid([]byte(input)) { // the API always sends an object
			input = "{}"
		}
		content = append(content, fmt.Sprintf(`{"type":"tool_use","id":%s,"name":%s,"input":%s}`, q(c.id), q(c.name), input))
	}
	return fmt.Appendf(nil, `{"model":%s,"id":%s,"type":"message","role":"assistant","content":[%s],"stop_reason":%s,"stop_sequence":null,"usage":%s}`,
		q(id.model), q(id.id("msg_", 0)), strings.Join(content, ","), q(anthropicReason(m.reason)), anthropicUsage(m))
}
