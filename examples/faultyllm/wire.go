package faultyllm

import "strings"

// Wire is a wire protocol that the server speaks.
type Wire uint8

// The wires.
const (
	Chat      Wire = iota // OpenAI Chat Completions
	Responses             // OpenAI Responses
	Anthropic             // Anthropic Messages
)

// Wires are all wires, in order.
func Wires() []Wire { return []Wire{Chat, Responses, Anthropic} }

// String is a short lower-case name: "chat", "responses", "anthropic".
func (w Wire) String() string {
	switch w {
	case Chat:
		return "chat"
	case Responses:
		return "responses"
	case Anthropic:
		return "anthropic"
	default:
		return "unknown"
	}
}

// base is the path prefix that an SDK's base URL carries itself: openai-go appends
// "chat/completions" to ".../v1/", anthropic-sdk-go appends "v1/messages".
func (w Wire) base() string {
	if w == Anthropic {
		return "/"
	}
	return "/v1/"
}

// BaseURL is the base URL of a model server at host (with or without a port), as
// the wire's SDK wants it.
func BaseURL(scheme, host string, w Wire) string { return scheme + "://" + host + w.base() }

// wireOf tells the wire by the end of a request's path.
func wireOf(path string) (Wire, bool) {
	switch {
	case strings.HasSuffix(path, "/chat/completions"):
		return Chat, true
	case strings.HasSuffix(path, "/responses"):
		return Responses, true
	case strings.HasSuffix(path, "/v1/messages"):
		return Anthropic, true
	default:
		return 0, false
	}
}

// requestIDHeader is the response header that carries the provider's request id.
func (w Wire) requestIDHeader() string {
	if w == Anthropic {
		return "request-id"
	}
	return "x-request-id"
}

// render turns an answer's steps into the frames of a stream.
func (w Wire) render(steps []Step, id ids) []frame {
	r := w.renderer(id)
	b := &builder{}
	begun := false
	for _, s := range expand(steps) {
		if s.kind.fault() {
			b.frames = append(b.frames, frame{fault: s})
			continue
		}
		if !begun && s.kind != stepPing {
			begun = true
			r.begin(b)
		}
		r.step(b, s)
	}
	return b.frames
}

func (w Wire) renderer(id ids) renderer {
	switch w {
	case Responses:
		return &responsesRenderer{ids: id}
	case Anthropic:
		return &anthropicRenderer{ids: id}
	default:
		return &chatRenderer{ids: id}
	}
}

// document renders an answer's steps as the one JSON document of a call that
// does not stream.
func (w Wire) document(steps []Step, id ids) []byte {
	m := gather(expand(steps))
	switch w {
	case Responses:
		return responsesDocument(m, id)
	case Anthropic:
		return anthropicDocument(m, id)
	default:
		return chatDocument(m, id)
	}
}
