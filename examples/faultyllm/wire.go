package faultyllm

import (
	"encoding/json"
	"errors"
	"net/url"
	"strings"
)

// Wire is a wire protocol that the server speaks.
type Wire uint8

// The wires.
const (
	Chat      Wire = iota // OpenAI Chat Completions
	Responses             // OpenAI Responses
	Anthropic             // Anthropic Messages
	Gemini                // the Gemini API's streamGenerateContent (alt=sse) and generateContent
	Vertex                // the same of Vertex AI, whose streams have function calls in pieces
	Realtime              // OpenAI Realtime: a WebSocket, in which every exchange is a response
)

// Wires are the wires that have every kind of step, in order. Gemini and Vertex stand
// beside them: they begin with the first words and have no event for the end of a
// stream. On Gemini function calls come whole, on Vertex they have no ids. Realtime
// shows no reasoning and sends no keepalives.
func Wires() []Wire { return []Wire{Chat, Responses, Anthropic} }

// String is a short lower-case name: "chat", "responses", "anthropic", "gemini",
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

// base is the path prefix that an SDK's base URL carries itself: openai-go appends
// "chat/completions" to ".../v1/", anthropic-sdk-go appends "v1/messages", genai
// appends "v1beta/models/…" or "v1beta1/projects/…"; a Realtime client appends
// "realtime?model=…".
func (w Wire) base() string {
	if w == Anthropic || w.google() {
		return "/"
	}
	return "/v1/"
}

// google says that the wire is one of Google's.
func (w Wire) google() bool { return w == Gemini || w == Vertex }

// BaseURL is the base URL of a model server at host (with or without a port), as
// the wire's SDK wants it.
func BaseURL(scheme, host string, w Wire) string { return scheme + "://" + host + w.base() }

// WireOf is the wire of a request's path, by its end; false if it is not one.
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

// asked is what a request asks for, of what the server minds.
type asked struct {
	Model  string `json:"model"`
	Stream bool   `json:"stream"`
}

// read reads a request. Google's have in the URL what the others have in the body.
func (w Wire) read(u *url.URL, body []byte) (asked, error) {
	var a asked
	if err := json.Unmarshal(body, &a); err != nil {
		return asked{}, errors.New("the request body is no JSON")
	}
	if !w.google() {
		return a, nil
	}
	resource, stream := strings.CutSuffix(u.Path, geminiStreamMethod)
	if stream && u.Query().Get("alt") != "sse" {
		return asked{}, errors.New("streamGenerateContent is served with alt=sse alone")
	}
	resource = strings.TrimSuffix(resource, geminiDocumentMethod)
	return asked{Model: resource[strings.LastIndexByte(resource, '/')+1:], Stream: stream}, nil
}

// requestIDHeader is the response header that carries the provider's request id;
// empty: the provider sends none.
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

// Stream is an answer's whole stream as this wire has it, as any server would write
// it that speaks for the model. Faults and pauses are left out.
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

// document renders an answer's steps as the one JSON document of a call that
// does not stream.
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
