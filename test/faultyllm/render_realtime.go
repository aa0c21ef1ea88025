package faultyllm

import (
	"fmt"
	"strings"
)

// realtimeRenderer writes one response of the Realtime API: the server events of
// https://platform.openai.com/docs/api-reference/realtime-server-events, with the names
// of the generally available API. The API shows no reasoning and has no keepalive
// event.
type realtimeRenderer struct {
	ids
	said   message
	events int
	open   *item
	done   []string // the finished items, which response.done repeats
	reason Reason
}

func (r *realtimeRenderer) begin(b *builder) {
	r.event(b, "response.created", `"response":`+r.response("in_progress", "null", "null"), Sent{})
}

func (r *realtimeRenderer) step(b *builder, s Step) {
	switch s.kind {
	case stepText, stepRefusal: // the API has no event for a refusal
		r.openMessage(b)
		for _, c := range s.chunks {
			r.said.text += c
			r.delta(b, "response.output_text.delta", `"content_index":0,`, c, Sent{TextChunks: 1})
		}
	case stepToolInput:
		r.close(b)
		r.open = &item{kind: stepToolInput, id: r.id("item_", len(r.done)), callID: s.id, name: s.name}
		r.said.calls = append(r.said.calls, call{arguments: strings.Join(s.chunks, "")})
		r.added(b, r.open.realtimeCall("in_progress", ""), Sent{ToolInputsStarted: 1})
		for _, c := range s.chunks {
			r.delta(b, "response.function_call_arguments.delta", r.callID(), c, Sent{})
		}
	case stepToolInputDone, stepFinishReason:
		r.close(b)
		if s.kind == stepFinishReason {
			r.reason = s.reason
		}
	case stepEnd:
		r.close(b)
		status, details := realtimeEnd(r.reason)
		r.event(b, "response.done", `"response":`+r.response(status, details, realtimeUsage(r.said)), Sent{Terminal: true})
	case stepError:
		v := openAIVoices[s.failure.Trouble]
		details := fmt.Sprintf(`{"type":"failed","error":{"type":%s,"code":%s,"message":%s}}`,
			q(v.typ), q(s.failure.responsesCode()), q(s.failure.message()))
		r.event(b, "response.done", `"response":`+r.response("failed", details, "null"), Sent{})
	}
}

// realtimeEnd returns the status and the status_details of a response that has ended.
func realtimeEnd(reason Reason) (status, details string) {
	switch reason {
	case Length:
		return "incomplete", `{"type":"incomplete","reason":"max_output_tokens"}`
	case ContentFilter:
		return "incomplete", `{"type":"incomplete","reason":"content_filter"}`
	default:
		return "completed", "null"
	}
}

func (r *realtimeRenderer) openMessage(b *builder) {
	if r.open != nil && r.open.kind == stepText {
		return
	}
	r.close(b)
	r.open = &item{kind: stepText, id: r.id("item_", len(r.done))}
	r.added(b, r.open.realtimeMessage("in_progress", ""), Sent{})
	r.item(b, "response.content_part.added", `"content_index":0,"part":{"type":"text","text":""}`, Sent{})
}

// close finishes the open item with its done events.
func (r *realtimeRenderer) close(b *builder) {
	o := r.open
	if o == nil {
		return
	}
	whole := ""
	if o.kind == stepToolInput {
		r.item(b, "response.function_call_arguments.done", r.callID()+`"arguments":`+q(o.content), Sent{ToolInputsCompleted: 1})
		whole = o.realtimeCall("completed", o.content)
	} else {
		r.item(b, "response.output_text.done", `"content_index":0,"text":`+q(o.content), Sent{})
		part := `{"type":"text","text":` + q(o.content) + `}`
		r.item(b, "response.content_part.done", `"content_index":0,"part":`+part, Sent{})
		whole = o.realtimeMessage("completed", part)
	}
	r.ofResponse(b, "response.output_item.done", fmt.Sprintf(`"output_index":%d,"item":%s`, len(r.done), whole), Sent{})
	r.done = append(r.done, whole)
	r.open = nil
}

func (o *item) realtimeMessage(status, part string) string {
	return fmt.Sprintf(`{"id":%s,"object":"realtime.item","type":"message","status":%q,"role":"assistant","content":[%s]}`, q(o.id), status, part)
}

func (o *item) realtimeCall(status, arguments string) string {
	return fmt.Sprintf(`{"id":%s,"object":"realtime.item","type":"function_call","status":%q,"name":%s,"call_id":%s,"arguments":%s}`,
		q(o.id), status, q(o.name), q(o.callID), q(arguments))
}

func (r *realtimeRenderer) callID() string { return `"call_id":` + q(r.open.callID) + `,` }

func (r *realtimeRenderer) added(b *builder, item string, sent Sent) {
	r.ofResponse(b, "response.output_item.added", fmt.Sprintf(`"output_index":%d,"item":%s`, len(r.done), item), sent)
}

// delta writes one delta of the open item.
func (r *realtimeRenderer) delta(b *builder, name, extra, text string, sent Sent) {
	r.open.content += text
	r.item(b, name, extra+`"delta":`+q(text), sent)
}

// item writes an event about the open item.
func (r *realtimeRenderer) item(b *builder, name, fields string, sent Sent) {
	r.ofResponse(b, name, fmt.Sprintf(`"item_id":%s,"output_index":%d,%s`, q(r.open.id), len(r.done), fields), sent)
}

func (r *realtimeRenderer) ofResponse(b *builder, name, fields string, sent Sent) {
	r.event(b, name, `"response_id":`+q(r.id("resp_", 0))+`,`+fields, sent)
}

func (r *realtimeRenderer) event(b *builder, name, fields string, sent Sent) {
	sent.Events = 1
	data := fmt.Sprintf(`{"type":%q,"event_id":%s,%s}`, name, q(r.id("event_", r.events)), fields)
	b.frames = append(b.frames, frame{data: []byte(data), sent: sent})
	r.events++
}

// response returns the response object of the lifecycle events.
func (r *realtimeRenderer) response(status, details, usage string) string {
	return fmt.Sprintf(`{"object":"realtime.response","id":%s,"status":%q,"status_details":%s,"output":[%s],"output_modalities":["text"],`+
		`"max_output_tokens":"inf","usage":%s,"metadata":null}`,
		q(r.id("resp_", 0)), status, details, strings.Join(r.done, ","), usage)
}

func realtimeUsage(m message) string {
	out := m.outputTokens()
	return fmt.Sprintf(`{"total_tokens":%d,"input_tokens":%d,"output_tokens":%d,"input_token_details":{"text_tokens":%d,"audio_tokens":0,"cached_tokens":0},`+
		`"output_token_details":{"text_tokens":%d,"audio_tokens":0}}`, inputTokens+out, inputTokens, out, inputTokens, out)
}
