package faultyllm

import (
	"encoding/json"
	"errors"
	"net/url"
	"strings"
)

// Wire is a wire protocol that the server supports.
type Wire uint8

// The wires.
const (
	Chat      Wire = iota // OpenAI Chat Completions
	Responses             // OpenAI Responses
	Anthropic             // Anthropic Messages
	Gemini                // the Gemini API's streamGenerateContent (alt=sse) and generateContent
	Vertex                // the same methods of Vertex AI, whose streams have function calls in pieces
	Realtime              // OpenAI Realtime: a WebSocket in which every exchange is a response
)

// Wires returns the wire protocols that have every kind of step, in order. Gemini and
// Vertex are not among them: they begin with the first output and have no event for the
// end of a stream. Gemini sends only complete function calls, and Vertex sends no ids.
// Realtime shows no reasoning and sends no keepalives.
func Wires() []Wire { return []Wire{Chat, Responses, Anthropic} }

// String returns a short lower-case name: "chat", "responses", "anthropic", "gemini",
// "vertex", "realtime".
func (w Wire) String() string {
	switch w {
	case Chat:
		return "chat"
	case Responses:
		return "responses"
	case Anthropic:
		return "anthropic"
	case Gemini:
		return "gemini"
	case Vertex:
		return "vertex"
	case Realtime:
		return "realtime"
	default:
		return "unknown"
	}
}

// base returns the path prefix that is part of an SDK's base URL: openai-go appends
// "chat/completions" to ".../v1/", anthropic-sdk-go appends "v1/messages", genai
// appends "v1beta/models/…" or "v1beta1/projects/…"; a Realtime client appends
// "realtime?model=…".
func (w Wire) base() string {
	if w == Anthropic || w.google() {
		return "/"
	}
	return "/v1/"
}

// google reports whether the wire protocol is one of Google's.
func (w Wire) google() bool { return w == Gemini || w == Vertex }

// BaseURL returns the base URL of a model server at host (with or without a port), as
// the wire protocol's SDK expects it.
func BaseURL(scheme, host string, w Wire) string { return scheme + "://" + host + w.base() }

// WireOf returns the wire protocol of a request by the end of its path, and false if it
// has none.
func WireOf(path string) (Wire, bool) {
	switch {
	case strings.HasSuffix(path, "/chat/completions"):
		return Chat, true
	case strings.HasSuffix(path, "/responses"):
		return Responses, true
	case strings.HasSuffix(path, "/v1/messages"):
		return Anthropic, true
	case strings.HasSuffix(path, "/realtime"):
		return Realtime, true
	case strings.HasSuffix(path, geminiDocumentMethod), strings.HasSuffix(path, geminiStreamMethod):
		if strings.Contains(path, "/publishers/") {
			return Vertex, true
		}
		return Gemini, true
	default:
		return 0, false
	}
}

const (
	geminiDocumentMethod = ":generateContent"
	geminiStreamMethod   = ":streamGenerateContent"
)

// asked holds the parts of a request that the server uses.
type asked struct {
	Model  string `json:"model"`
	Stream bool   `json:"stream"`
}

// read parses a request. Google's requests have in the URL what the others have in the
// body.
func (w Wire) read(u *url.URL, body []byte) (asked, error) {
	var a asked
	if err := json.Unmarshal(body, &a); err != nil {
		return asked{}, errors.New("the request body is not JSON")
	}
	if !w.google() {
		return a, nil
	}
	resource, stream := strings.CutSuffix(u.Path, geminiStreamMethod)
	if stream && u.Query().Get("alt") != "sse" {
		return asked{}, errors.New("streamGenerateContent is served with alt=sse only")
	}
	resource = strings.TrimSuffix(resource, geminiDocumentMethod)
	return asked{Model: resource[strings.LastIndexByte(resource, '/')+1:], Stream: stream}, nil
}

// requestIDHeader returns the response header with the provider's request id, or "" if
// the provider sends none.
func (w Wire) requestIDHeader() string {
	switch w {
	case Anthropic:
		return "request-id"
	case Gemini, Vertex: // the id is in the body
		return ""
	default:
		return "x-request-id"
	}
}

// render converts an answer's steps to the frames of a stream.
func (w Wire) render(steps []Step, id ids) []frame {
	r := w.renderer(id)
	b := &builder{}
	begun := false
	for _, s := range expand(steps) {
		if s.kind.fault() {
			b.frames = append(b.frames, frame{fault: s})
			continue
		}
		if s.kind == stepDone {
			b.event("", "[DONE]", Sent{Terminal: w == Chat})
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

// Stream returns the complete stream of an answer in this wire protocol, without faults
// and pauses. It suits any server that plays a model.
func Stream(w Wire, model string, steps ...Step) []byte {
	var out []byte
	for _, f := range w.render(steps, ids{seed: "stream", model: model}) {
		out = append(out, f.data...)
	}
	return out
}

func (w Wire) renderer(id ids) renderer {
	switch w {
	case Responses:
		return &responsesRenderer{ids: id}
	case Anthropic:
		return &anthropicRenderer{ids: id}
	case Gemini:
		return &geminiRenderer{ids: id}
	case Vertex:
		return &vertexRenderer{geminiRenderer: geminiRenderer{ids: id}}
	case Realtime:
		return &realtimeRenderer{ids: id}
	default:
		return &chatRenderer{ids: id}
	}
}

// document converts an answer's steps to the one JSON document of a call that does not
// stream.
func (w Wire) document(steps []Step, id ids) []byte {
	m := gather(expand(steps))
	switch w {
	case Responses:
		return responsesDocument(m, id)
	case Anthropic:
		return anthropicDocument(m, id)
	case Gemini:
		return geminiDocument(m, id)
	case Vertex:
		for i := range m.calls {
			m.calls[i].id = ""
		}
		return geminiDocument(m, id)
	default:
		return chatDocument(m, id)
	}
}
