package faultyllm

import (
	"encoding/json"
	"fmt"
	"strings"
)

// geminiRenderer writes the chunks of streamGenerateContent with alt=sse, framed as Google
// frames them. A function call is sent complete, when the step that completes it is played.
// No event ends the stream: the chunk with the finishReason is the last.
// https://ai.google.dev/api/generate-content
type geminiRenderer struct {
	ids
	said    message
	pending *call // begun and not complete; nothing of it has been sent
}

// begin writes nothing: the first chunk has the model's first output.
func (r *geminiRenderer) begin(*builder) {}

func (r *geminiRenderer) step(b *builder, s Step) {
	switch s.kind {
	case stepText, stepRefusal:
		for _, c := range s.chunks {
			r.said.text += c
			r.chunk(b, geminiText(c), "", Sent{TextChunks: 1})
		}
	case stepReasoning:
		for _, c := range s.chunks {
			r.said.reasoning += c
			r.chunk(b, geminiThought(c), "", Sent{ReasoningChunks: 1})
		}
	case stepToolInput:
		r.complete(b)
		r.pending = &call{s.id, s.name, strings.Join(s.chunks, "")}
	case stepToolInputDone:
		r.complete(b)
	case stepFinishReason:
		r.complete(b)
		last := geminiText("")
		if s.reason == ContentFilter || s.reason == Refused {
			last = "" // filtered output has no content
		}
		r.chunk(b, last, geminiReason(s.reason), Sent{Terminal: true})
	case stepError:
		// Without "data:", because the SDKs recognize errors in a stream in this form.
		b.raw(s.failure.geminiBody()+"\r\n\r\n", Sent{})
	case stepPing:
		b.raw(": keep-alive\r\n\r\n", Sent{Keepalives: 1})
	}
}

// complete writes the pending call.
func (r *geminiRenderer) complete(b *builder) {
	if r.pending == nil {
		return
	}
	r.said.calls = append(r.said.calls, *r.pending)
	r.chunk(b, geminiCall(*r.pending), "", Sent{ToolInputsStarted: 1, ToolInputsCompleted: 1})
	r.pending = nil
}

func (r *geminiRenderer) chunk(b *builder, part, finish string, sent Sent) {
	b.raw("data: "+geminiAnswer(r.said, part, finish, r.ids)+"\r\n\r\n", sent)
}

// geminiAnswer returns one GenerateContentResponse. Without parts it has no content, and with
// an empty finish no finishReason.
func geminiAnswer(m message, parts, finish string, id ids) string {
	content := ""
	if parts != "" {
		content = `"content":{"parts":[` + parts + `],"role":"model"},`
	}
	if finish != "" {
		finish = `"finishReason":` + q(finish) + ","
	}
	// The candidates' tokens are those of the answer alone; thoughts are counted separately.
	thoughts := len(m.reasoning) / 4
	candidates := m.outputTokens() - thoughts
	return fmt.Sprintf(`{"candidates":[{%s%s"index":0}],`+
		`"usageMetadata":{"promptTokenCount":%d,"candidatesTokenCount":%d,"totalTokenCount":%d,`+
		`"promptTokensDetails":[{"modality":"TEXT","tokenCount":%d}],"thoughtsTokenCount":%d},"modelVersion":%s,"responseId":%s}`,
		content, finish, inputTokens, candidates, inputTokens+candidates+thoughts, inputTokens, thoughts, q(id.model), q(id.id("", 0)))
}

func geminiText(text string) string { return `{"text":` + q(text) + `}` }

func geminiThought(text string) string { return `{"text":` + q(text) + `,"thought":true}` }

func geminiCall(c call) string {
	args := c.arguments
	if !json.Valid([]byte(args)) { // the API always sends an object
		args = "{}"
	}
	id := ""
	if c.id != "" {
		id = `"id":` + q(c.id) + ","
	}
	return fmt.Sprintf(`{"functionCall":{%s"name":%s,"args":%s}}`, id, q(c.name), args)
}

// geminiReason returns Gemini's finishReason, which is STOP for a function call as for the
// end of an answer.
func geminiReason(r Reason) string {
	switch r {
	case Length:
		return "MAX_TOKENS"
	case ContentFilter, Refused:
		return "SAFETY"
	default:
		return "STOP"
	}
}

func geminiDocument(m message, id ids) []byte {
	if m.failure != nil {
		return []byte(m.failure.geminiBody())
	}
	var parts []string
	if m.reasoning != "" {
		parts = append(parts, geminiThought(m.reasoning))
	}
	if text := m.text + m.refusal; text != "" {
		parts = append(parts, geminiText(text))
	}
	for _, c := range m.calls {
		parts = append(parts, geminiCall(c))
	}
	return []byte(geminiAnswer(m, strings.Join(parts, ","), geminiReason(m.reason), id))
}
