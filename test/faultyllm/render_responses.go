package faultyllm

import (
	"fmt"
	"strings"
)

// responsesRenderer writes Responses events: every event is numbered, and every piece
// of output is an item that is added, written and finished.
type responsesRenderer struct {
	ids
	said   message
	seq    int
	open   *item
	done   []string // the finished items, which response.completed repeats
	reason Reason
}

// item is the output item that is being written.
type item struct {
	kind         stepKind
	id           string
	callID, name string
	content      string
}

func (r *responsesRenderer) begin(b *builder) {
	r.lifecycle(b, "response.created", r.response("in_progress", "null", "null", "null"))
	r.lifecycle(b, "response.in_progress", r.response("in_progress", "null", "null", "null"))
}

func (r *responsesRenderer) step(b *builder, s Step) {
	switch s.kind {
	case stepText:
		r.openMessage(b, stepText, `{"type":"output_text","annotations":[],"logprobs":[],"text":""}`)
		for _, c := range s.chunks {
			r.said.text += c
			r.delta(b, "response.output_text.delta", `"content_index":0,"logprobs":[],`, c, Sent{TextChunks: 1})
		}
	case stepRefusal:
		r.openMessage(b, stepRefusal, `{"type":"refusal","refusal":""}`)
		for _, c := range s.chunks {
			r.said.refusal += c
			r.delta(b, "response.refusal.delta", `"content_index":0,`, c, Sent{TextChunks: 1})
		}
	case stepReasoning:
		r.openReasoning(b)
		for _, c := range s.chunks {
			r.said.reasoning += c
			r.delta(b, "response.reasoning_summary_text.delta", `"summary_index":0,`, c, Sent{ReasoningChunks: 1})
		}
	case stepToolInput:
		r.close(b)
		r.open = &item{kind: stepToolInput, id: r.id("fc_", len(r.done)), callID: s.id, name: s.name}
		r.said.calls = append(r.said.calls, call{arguments: strings.Join(s.chunks, "")})
		r.added(b, r.open.call("in_progress", ""), Sent{ToolInputsStarted: 1})
		for _, c := range s.chunks {
			r.delta(b, "response.function_call_arguments.delta", "", c, Sent{})
		}
	case stepToolInputDone, stepFinishReason:
		r.close(b)
		if s.kind == stepFinishReason {
			r.reason = s.reason
		}
	case stepEnd:
		r.close(b)
		r.end(b)
	case stepError:
		r.numbered(b, "error", fmt.Sprintf(`"code":%s,"message":%s,"param":null`, q(s.failure.responsesCode()), q(s.failure.message())), Sent{})
		r.lifecycle(b, "response.failed", r.response("failed",
			fmt.Sprintf(`{"code":%s,"message":%s}`, q(s.failure.responsesCode()), q(s.failure.message())), "null", "null"))
	case stepPing:
		b.comment("keep-alive")
	}
}

func (r *responsesRenderer) end(b *builder) {
	name, status, details := responsesEnd(r.reason)
	from := len(b.frames)
	r.lifecycle(b, name, r.response(status, "null", details, responsesUsage(r.said)))
	b.frames[from].sent.Terminal = true
}

// responsesEnd returns the terminal event, the status and the incomplete_details.
func responsesEnd(reason Reason) (event, status, details string) {
	switch reason {
	case Length:
		return "response.incomplete", "incomplete", `{"reason":"max_output_tokens"}`
	case ContentFilter:
		return "response.incomplete", "incomplete", `{"reason":"content_filter"}`
	default:
		return "response.completed", "completed", "null"
	}
}

func (r *responsesRenderer) openMessage(b *builder, kind stepKind, part string) {
	if r.open != nil && r.open.kind == kind {
		return
	}
	r.close(b)
	r.open = &item{kind: kind, id: r.id("msg_", len(r.done))}
	r.added(b, fmt.Sprintf(`{"id":%s,"type":"message","status":"in_progress","content":[],"role":"assistant"}`, q(r.open.id)), Sent{})
	r.item(b, "response.content_part.added", `"content_index":0,"part":`+part, Sent{})
}

func (r *responsesRenderer) openReasoning(b *builder) {
	if r.open != nil && r.open.kind == stepReasoning {
		return
	}
	r.close(b)
	r.open = &item{kind: stepReasoning, id: r.id("rs_", len(r.done))}
	r.added(b, fmt.Sprintf(`{"id":%s,"type":"reasoning","summary":[]}`, q(r.open.id)), Sent{})
	r.item(b, "response.reasoning_summary_part.added", `"summary_index":0,"part":{"type":"summary_text","text":""}`, Sent{})
}

// close finishes the open item with its done events.
func (r *responsesRenderer) close(b *builder) {
	o := r.open
	if o == nil {
		return
	}
	var whole string
	switch o.kind {
	case stepText:
		part := `{"type":"output_text","annotations":[],"logprobs":[],"text":` + q(o.content) + `}`
		r.item(b, "response.output_text.done", `"content_index":0,"logprobs":[],"text":`+q(o.content), Sent{})
		r.item(b, "response.content_part.done", `"content_index":0,"part":`+part, Sent{})
		whole = o.message(part)
	case stepRefusal:
		part := `{"type":"refusal","refusal":` + q(o.content) + `}`
		r.item(b, "response.refusal.done", `"content_index":0,"refusal":`+q(o.content), Sent{})
		r.item(b, "response.content_part.done", `"content_index":0,"part":`+part, Sent{})
		whole = o.message(part)
	case stepReasoning:
		part := `{"type":"summary_text","text":` + q(o.content) + `}`
		r.item(b, "response.reasoning_summary_text.done", `"summary_index":0,"text":`+q(o.content), Sent{})
		r.item(b, "response.reasoning_summary_part.done", `"summary_index":0,"part":`+part, Sent{})
		whole = o.reasoning()
	case stepToolInput:
		r.item(b, "response.function_call_arguments.done", `"arguments":`+q(o.content), Sent{ToolInputsCompleted: 1})
		whole = o.call("completed", o.content)
	}
	r.numbered(b, "response.output_item.done", fmt.Sprintf(`"output_index":%d,"item":%s`, len(r.done), whole), Sent{})
	r.done = append(r.done, whole)
	r.open = nil
}

func (o *item) message(part string) string {
	return fmt.Sprintf(`{"id":%s,"type":"message","status":"completed","content":[%s],"role":"assistant"}`, q(o.id), part)
}

func (o *item) reasoning() string {
	return fmt.Sprintf(`{"id":%s,"type":"reasoning","summary":[{"type":"summary_text","text":%s}]}`, q(o.id), q(o.content))
}

func (o *item) call(status, arguments string) string {
	return fmt.Sprintf(`{"id":%s,"type":"function_call","status":%q,"arguments":%s,"call_id":%s,"name":%s}`,
		q(o.id), status, q(arguments), q(o.callID), q(o.name))
}

func (r *responsesRenderer) added(b *builder, item string, sent Sent) {
	r.numbered(b, "response.output_item.added", fmt.Sprintf(`"output_index":%d,"item":%s`, len(r.done), item), sent)
}

// delta writes one delta of the open item.
func (r *responsesRenderer) delta(b *builder, name, extra, text string, sent Sent) {
	r.open.content += text
	r.item(b, name, extra+`"delta":`+q(text), sent)
}

// item writes an event about the open item.
func (r *responsesRenderer) item(b *builder, name, fields string, sent Sent) {
	r.numbered(b, name, fmt.Sprintf(`"item_id":%s,"output_index":%d,%s`, q(r.open.id), len(r.done), fields), sent)
}

func (r *responsesRenderer) lifecycle(b *builder, name, response string) {
	r.numbered(b, name, `"response":`+response, Sent{})
}

func (r *responsesRenderer) numbered(b *builder, name, fields string, sent Sent) {
	b.event(name, fmt.Sprintf(`{"type":%q,"sequence_number":%d,%s}`, name, r.seq, fields), sent)
	r.seq++
}

// response returns the response object of the lifecycle events.
func (r *responsesRenderer) response(status, failure, details, usage string) string {
	return responsesObject(r.ids, status, failure, details, usage, r.done)
}

func responsesObject(id ids, status, failure, details, usage string, output []string) string {
	return fmt.Sprintf(`{"id":%s,"object":"response","created_at":%d,"status":%q,"background":false,"error":%s,"incomplete_details":%s,`+
		`"instructions":null,"max_output_tokens":null,"model":%s,"output":[%s],"parallel_tool_calls":true,"previous_response_id":null,`+
		`"store":false,"temperature":1,"text":{"format":{"type":"text"}},"tool_choice":"auto","tools":[],"top_p":1,"truncation":"disabled",`+
		`"usage":%s,"user":null,"metadata":{}}`,
		q(id.id("resp_", 0)), created, status, failure, details, q(id.model), strings.Join(output, ","), usage)
}

func responsesUsage(m message) string {
	out := m.outputTokens()
	return fmt.Sprintf(`{"input_tokens":%d,"input_tokens_details":{"cached_tokens":0},"output_tokens":%d,`+
		`"output_tokens_details":{"reasoning_tokens":%d},"total_tokens":%d}`, inputTokens, out, len(m.reasoning)/4, inputTokens+out)
}

func responsesDocument(m message, id ids) []byte {
	var output []string
	add := func(prefix string, o item, render func(*item) string) {
		o.id = id.id(prefix, len(output))
		output = append(output, render(&o))
	}
	if m.reasoning != "" {
		add("rs_", item{content: m.reasoning}, (*item).reasoning)
	}
	if m.text != "" {
		add("msg_", item{}, func(o *item) string {
			return o.message(`{"type":"output_text","annotations":[],"logprobs":[],"text":` + q(m.text) + `}`)
		})
	}
	if m.refusal != "" {
		add("msg_", item{}, func(o *item) string { return o.message(`{"type":"refusal","refusal":` + q(m.refusal) + `}`) })
	}
	for _, c := range m.calls {
		add("fc_", item{callID: c.id, name: c.name}, func(o *item) string { return o.call("completed", c.arguments) })
	}
	_, status, details := responsesEnd(m.reason)
	failure := "null"
	if m.failure != nil {
		status = "failed"
		failure = fmt.Sprintf(`{"code":%s,"message":%s}`, q(m.failure.responsesCode()), q(m.failure.message()))
	}
	return []byte(responsesObject(id, status, failure, details, responsesUsage(m), output))
}
