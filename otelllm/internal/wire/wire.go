// Package wire turns the bytes of the providers' wire protocols into semantic
// facts: one decoder a protocol, fed with body bytes as they pass, keeping
// counts, ids and codes and never content. A decoder never fails and never
// panics: what it cannot read makes the state Unread, and it reads on.
package wire

import (
	"time"

	"github.com/otelllm/otelllm-go/semconv"
)

const (
	// MaxEvent bounds one event, and one body that does not stream, in bytes: the
	// limit at which the providers' own SDKs stop. One that is longer is not read.
	MaxEvent = 32 << 20
	// MaxIDs bounds every list of ids.
	MaxIDs = 64
)

// Protocol is one wire protocol. Its methods are safe for concurrent use.
type Protocol interface {
	// Name is the protocol's own name: "openai_chat", "openai_responses",
	// "anthropic_messages", "gemini", "bedrock_converse", "ollama",
	// "openai_completions".
	Name() string
	// Provider is the gen_ai.provider.name when nothing tells it better.
	Provider() string
	// Operation is the gen_ai.operation.name.
	Operation() string
	// ReadRequest reads ids and flags out of a whole request body. The error says
	// what is wrong with the body; what was readable is returned beside it.
	// Nothing of body is retained.
	ReadRequest(body []byte) (Request, error)
	// NewDecoder makes a decoder of a response body of this content type (as the
	// header has it): SSE for text/event-stream, one JSON document otherwise, and
	// what the protocol has beside them: an array of objects (Gemini), an object a
	// line (Ollama), AWS event-stream messages (Bedrock). The first bytes outweigh a
	// content type that is missing or wrong. One that no model answers with (text/html)
	// is the violation unexpected_content_type until the body begins, and for a body
	// that begins as none of these.
	NewDecoder(contentType string) Decoder
	// ReadError reads the body of an HTTP error response (status >= 400), whole or
	// its beginning, JSON or not.
	ReadError(status int, body []byte) Error
}

// Match finds the protocol of a request by its method and URL path. It compares
// suffixes, so that gateways' prefixes and Azure's deployments are recognised. Where
// the path holds what other protocols have in the body (Gemini and Bedrock: the
// model, and whether the answer streams), the returned protocol holds it and its
// ReadRequest reports it. sure: only a model call has this path. Otherwise other
// applications may have it too (/api/chat, …/responses, /v1/messages): unless the
// host or a header proves it, the request is a model call only if its body is one,
// which [Request].IsCall reports.
func Match(method, path string) (p Protocol, sure, ok bool) { return match(method, path) }

// ByName finds a protocol by its name. It knows nothing of what the paths of Gemini
// and Bedrock hold: see [Request].StreamUnknown.
func ByName(name string) (Protocol, bool) { return byName(name) }

// Request is what a request body says.
type Request struct {
	Model  string // at most 256 bytes
	Stream bool
	// StreamUnknown: neither the body nor the path said whether the answer streams,
	// and Stream says nothing. So it is of Gemini and Bedrock under a path that is
	// not theirs, where the content type of the response is what tells.
	StreamUnknown bool
	// IsCall: the body is that of a call of this protocol. It names a model, where
	// the path does not, and has the input of a call (messages, input, contents,
	// prompt) in the JSON type that the protocol gives it.
	IsCall bool
	// ProviderTools are the types of the offered provider-executed tools, at most MaxIDs:
	// empty when the body offers none, nil when the body does not show what is offered.
	ProviderTools []string
	// Background: the provider goes on with the request also when the answer is not read.
	Background     bool
	ConversationID string
	// HistoryCalls and HistoryOutputs are the newest MaxIDs ids in the history.
	// HistoryCalls is nil when part of the history is on the server
	// (previous_response_id, conversation, cachedContent) or has no ids (Gemini,
	// Ollama): then it was not observed.
	HistoryCalls, HistoryOutputs []string
}

// Decoder reads one response body. It is not safe for concurrent use.
type Decoder interface {
	// Write consumes the next bytes of the body. It never retains p.
	Write(p []byte)
	// Close says that the body ended (EOF) and dispatches an event that no blank
	// line had ended. It may be called once, after the last Write.
	Close()
	// Cut is Close where the body did not come to its end, or was not read to it. What
	// is complete of an event that no blank line had ended has reached a reader that goes
	// by lines, so it counts; but it does not end the response.
	Cut()
	// State is the state after the bytes so far. The pointer stays the same.
	State() *State
	// Release gives the decoder back, to be used again: neither it nor the State that it
	// returned may be used any more. What the State's slices hold stays as it is.
	Release()
}

// Call is one client-executed tool call of a response.
type Call struct {
	ID, Name  string // as SafeID and SafeName leave them; a legacy function_call has no id
	Completed bool   // its input is complete
	Ready     bool   // it was handed over to the application
}

// State is what a response has said so far. Counters only grow.
type State struct {
	// Unread: a part of what the consumer was given was not decoded as the protocol that
	// it is. The counters are then what was seen at least: a zero proves nothing.
	Unread bool
	// GaveUp: decoding could not go on, and it is not known how the response ended.
	GaveUp bool

	Events     int // semantic events; keepalives are not among them
	Keepalives int // comments and pings

	TextChunks, ReasoningChunks                       int
	ToolInputsStarted, ToolInputsCompleted, ToolCalls int    // true counts, also beyond len(Calls)
	Calls                                             []Call // in order of their beginning, at most MaxIDs
	ProviderToolsStarted                              int

	// Phase is where the response is now: response_started, reasoning, text,
	// tool_input, tool_call_ready or stream_end.
	Phase semconv.Phase
	// Complete: the response is semantically complete, as wire.md has it.
	Complete bool
	// Terminal: the protocol's terminal event came, complete or not ([DONE], message_stop,
	// response.completed, an error event …; for a body that does not stream, its end).
	// Gemini's event stream has none: it ends with Complete alone.
	// Nothing that follows it changes the outcome; content that does is counted, and makes
	// the state Unread.
	Terminal bool

	ResponseID, Model string
	// FinishReasons are as the provider wrote them (SafeName), one a choice, at most
	// MaxIDs, never nil. Responses, which has none, gets OpenAI's words for it: stop,
	// tool_calls, or why it is incomplete; OpenAI's refusals, which end with stop, get refusal.
	FinishReasons []string
	Usage         Usage

	Err *Error // an error event inside the stream, the first one
	// Violation is the first of malformed_event, event_too_long and
	// unexpected_content_type. Decoding goes on after it wherever that can be. Where the
	// body only began so, an event takes it back. It is why a response failed only if that
	// did not come to its complete end.
	Violation semconv.TransportCause
}

// Usage holds token counts; -1 where the provider said nothing. Input counts the
// whole input, what was read from or written to a cache included, and Output the
// whole output, reasoning included, for every protocol, as the GenAI conventions
// want it.
type Usage struct {
	Input, Output, CacheRead, CacheCreation, Reasoning int
}

// Error is what a provider said about a failure: codes only, never its message.
type Error struct {
	Type, Code string // as the provider wrote them, bounded, unsanitised
	Status     int    // an HTTP status that the error itself names, else 0
	RetryAfter time.Duration
}
