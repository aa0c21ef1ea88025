package faultyllm

import (
	"fmt"
	"strings"
)

// chatRenderer writes Chat Completions chunks.
type chatRenderer struct {
	ids
	said  message
	calls int
}

func (r *chatRenderer) begin(b *builder) {
	r.chunk(b, `{"role":"assistant","content":"","refusal":null}`, "null", Sent{})
}

func (r *chatRenderer) step(b *builder, s Step) {
	switch s.kind {
	case stepText:
		for _, c := range s.chunks {
			r.said.text += c
			r.chunk(b, `{"content":`+q(c)+`}`, "null", Sent{TextChunks: 1})
		}
	case stepReasoning:
		for _, c := range s.chunks {
			r.said.reasoning += c
			r.chunk(b, `{"content":null,"reasoning_content":`+q(c)+`}`, "null", Sent{ReasoningChunks: 1})
		}
	case stepRefusal:
		for _, c := range s.chunks {
			r.said.refusal += c
			r.chunk(b, `{"refusal":`+q(c)+`}`, "null", Sent{TextChunks: 1})
		}
	case stepToolInput:
		r.said.calls = append(r.said.calls, call{arguments: strings.Join(s.chunks, "")})
		r.chunk(b, fmt.Sprintf(`{"tool_calls":[{"index":%d,"id":%s,"type":"function","function":{"name":%s,"arguments":""}}]}`,
			r.calls, q(s.id), q(s.name)), "null", Sent{ToolInputsStarted: 1})
		for _, c := range s.chunks {
			r.chunk(b, fmt.Sprintf(`{"tool_calls":[{"index":%d,"function":{"arguments":%s}}]}`, r.calls, q(c)), "null", Sent{})
		}
		r.calls++
	case stepFinishReason:
		r.chunk(b, `{}`, q(string(chatReason(s.reason))), Sent{ToolInputsCompleted: r.calls})
	case stepEnd:
		r.usage(b)
		b.event("", "[DONE]", Sent{Terminal: true})
	case stepError:
		b.event("", s.failure.chatBody(), Sent{})
	case stepPing:
		b.comment("keep-alive")
	}
}

func (r *chatRenderer) chunk(b *builder, delta, finish string, sent Sent) {
	b.event("", fmt.Sprintf(`{"id":%s,"object":"chat.completion.chunk","created":%d,"model":%s,"service_tier":"default",`+
		`"system_fingerprint":"fp_de604bd877","choices":[{"index":0,"delta":%s,"logprobs":null,"finish_reason":%s}],"usage":null}`,
		q(r.id("chatcmpl-", 0)), created, q(r.model), delta, finish), sent)
}

func (r *chatRenderer) usage(b *builder) {
	b.event("", fmt.Sprintf(`{"id":%s,"object":"chat.completion.chunk","created":%d,"model":%s,"service_tier":"default",`+
		`"system_fingerprint":"fp_de604bd877","choices":[],"usage":%s}`,
		q(r.id("chatcmpl-", 0)), created, q(r.model), chatUsage(r.said)), Sent{})
}

func chatUsage(m message) string {
	out := m.outputTokens()
	return fmt.Sprintf(`{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d,`+
		`"prompt_tokens_details":{"cached_tokens":0,"audio_tokens":0},`+
		`"completion_tokens_details":{"reasoning_tokens":%d,"audio_tokens":0,"accepted_prediction_tokens":0,"rejected_prediction_tokens":0}}`,
		inputTokens, out, inputTokens+out, len(m.reasoning)/4)
}

// chatReason returns the finish reason of Chat Completions, in which a refusal ends
// like any answer.
func chatReason(r Reason) Reason {
	if r == Refused {
		return Stop
	}
	return r
}

func chatDocument(m message, id ids) []byte {
	if m.failure != nil {
		return []byte(m.failure.chatBody())
	}
	content, refusal := "null", "null"
	if m.text != "" {
		content = q(m.text)
	}
	if m.refusal != "" {
		refusal = q(m.refusal)
	}
	extra := ""
	if m.reasoning != "" {
		extra += `,"reasoning_content":` + q(m.reasoning)
	}
	if len(m.calls) > 0 {
		calls := make([]string, len(m.calls))
		for i, c := range m.calls {
			calls[i] = fmt.Sprintf(`{"id":%s,"type":"function","function":{"name":%s,"arguments":%s}}`, q(c.id), q(c.name), q(c.arguments))
		}
		extra += `,"tool_calls":[` + strings.Join(calls, ",") + `]`
	}
	return fmt.Appendf(nil, `{"id":%s,"object":"chat.completion","created":%d,"model":%s,`+
		`"choices":[{"index":0,"message":{"role":"assistant","content":%s,"refusal":%s,"annotations":[]%s},"logprobs":null,"finish_reason":%s}],`+
		`"usage":%s,"service_tier":"default","system_fingerprint":"fp_de604bd877"}`,
		q(id.id("chatcmpl-", 0)), created, q(id.model), content, refusal, extra, q(string(chatReason(m.reason))), chatUsage(m))
}
