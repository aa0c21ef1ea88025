// Package wire turns the bytes of the providers' wire protocols into semantic facts.
// There is one decoder for each protocol. It is fed with the bytes of a body as they
// pass, and keeps counts, ids and codes but never content. A decoder never fails and
// never panics: what it cannot read sets State.Unread, and it continues.
package wire

import (
	"time"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/otelllm/internal/catalogue"
	"github.com/otelllm/otelllm-go/semconv"
)

const (
	// MaxEvent bounds one event, and one body that does not stream, in bytes: the limit
	// at which the providers' own SDKs stop. Longer ones are not read.
	MaxEvent = 32 << 20
	// MaxIDs bounds every list of ids.
	MaxIDs = 64
)

// Protocol is one wire protocol. Its methods are safe for concurrent use.
type Protocol interface {
	// Name is the protocol's own name: "openai_chat", "openai_responses",
	// "anthropic_messages", "gemini", "gemini_interactions", "bedrock_converse", "ollama",
	// "cohere_chat", "mistral_conversations", "openai_completions".
	Name() string
	// Provider is the gen_ai.provider.name, unless the caller has a better source.
	Provider() string
	// Operation is the gen_ai.operation.name.
	Operation() string
	// ReadRequest reads ids and flags from a complete request body. The error describes
	// what is wrong with the body; the readable part is returned with it. Nothing of
	// body is retained.
	ReadRequest(body []byte) (Request, error)
	// NewDecoder returns a decoder of a response body of this content type (the value of
	// the header): SSE for text/event-stream, else one JSON document, or another framing
	// of the protocol: an array of objects (Gemini), one object per line (Ollama), AWS
	// event-stream messages (Bedrock). The first bytes of the body override a content
	// type that is missing or wrong. A content type that no model answers with
	// (text/html) is the violation unexpected_content_type until the body begins, and for
	// a body that begins like none of these.
	NewDecoder(contentType string) Decoder
	// ReadError reads the body of an HTTP error response (status >= 400), or the
	// beginning of it. It need not be JSON.
	ReadError(status int, body []byte) Error
}

// Request is what a request body and its path contain.
type Request struct {
	Model  string // at most 256 bytes
	Stream bool
	// StreamUnknown: neither the body nor the path says whether the answer streams, and
	// Stream has no meaning. This is the case for Gemini and Bedrock under a path that is
	// not theirs; there the content type of the response decides.
	StreamUnknown bool
	// IsCall: the body is that of a call of this protocol. It names a model, unless the
	// path does, and has the input of a call (messages, input, contents, prompt) with the
	// JSON type that the protocol defines.
	IsCall bool
	// ProviderTools are the types of the offered provider-executed tools, at most MaxIDs.
	// It is empty if the body offers none, and nil if the request does not show what is
	// offered: it names an agent, or a member of it is not known, see [members].
	ProviderTools []string
	// MaxTokens is the bound on the tokens of the answer that the request asks for; it is not
	// observed if the request asks for none.
	MaxTokens classify.Count
	// Background: the provider continues the request even if the answer is not read.
	Background     bool
	ConversationID string
	// HistoryCalls and HistoryOutputs are the newest MaxIDs ids in the history.
	// HistoryCalls is nil if it was not observed: part of the history is on the server
	// (previous_response_id, conversation, cachedContent) or has no ids (Gemini, Ollama).
	HistoryCalls, HistoryOutputs []string
	// BrokenInput: the history has a call whose input is a text that is not JSON.
	BrokenInput bool
	// EndsWithOutputs: the history ends with the outputs of calls, in a protocol whose model
	// may then end its turn without a word (Anthropic Messages, Bedrock Converse).
	EndsWithOutputs bool
	// PreviousID, as SafeID returns it, is the response on the server that the request
	// continues; "": it names none. If it names one, or a conversation, BodyCalls are the ids
	// of the calls that the body has itself, as HistoryCalls: with those of the history on the
	// server they are the whole. BodyCalls is nil if the body refers to single items there.
	PreviousID string
	BodyCalls  []string
}

// Decoder reads one response body. It is not safe for concurrent use.
type Decoder interface {
	// Write consumes the next bytes of the body. It never retains p.
	Write(p []byte)
	// Close reports that the body ended (EOF) and dispatches an event that no blank line
	// has ended. It may be called once, after the last Write.
	Close()
	// Cut is Close for a body that did not reach its end, or was not read to its end. The
	// complete lines of an event that no blank line has ended have reached a reader that
	// works line by line, so they count; but they do not end the response. Truncated: the
	// bytes stopped although more were announced, which Bedrock's client does not report.
	Cut(truncated bool)
	// State is the state after the bytes so far. The pointer stays the same.
	State() *State
	// Release returns the decoder for reuse: neither it nor the State that it returned may
	// be used any more. The slices of the State stay valid.
	Release()
}

// Call is a client-executed tool call of a response.
type Call struct {
	ID, Name  string // as SafeID and SafeName return them; a legacy function_call has no id
	Completed bool   // its input is complete: a client may have executed it
	Ready     bool   // it was delivered to the application for execution
}

// State is what was decoded of a response so far. Counters only grow.
type State struct {
	// Unread: a part of what the consumer received was not decoded. The counters are then
	// lower bounds: a zero proves nothing.
	Unread bool
	// Resumed: the response is the rest of one that another stream began, see [MatchResume].
	// A zero says nothing about what came before.
	Resumed bool
	// GaveUp: decoding could not continue, and it is not known how the response ended.
	GaveUp bool

	Events     int // semantic events, without keepalives
	Keepalives int // comments and pings

	TextChunks, ReasoningChunks                       int
	ToolInputsStarted, ToolInputsCompleted, ToolCalls int    // exact counts, also beyond len(Calls)
	Calls                                             []Call // in the order in which they began, at most MaxIDs
	ProviderToolsStarted                              int
	// ToolInputsInvalid counts the calls whose input is not JSON although the provider has said
	// that it is complete.
	ToolInputsInvalid int
	// ProviderTools are the types of the provider-executed tools that began, each once, at
	// most MaxIDs: unknown for one that has none. It is nil if no tool began, or if the
	// application reports only their number.
	ProviderTools []string

	// Phase is the current phase of the response: response_started, reasoning, text,
	// tool_input, tool_call_ready or stream_end.
	Phase semconv.Phase
	// Complete: the response is semantically complete: it has what the protocol's decoder
	// documents as the condition.
	Complete bool
	// Terminal: the protocol's terminal event was received, complete or not ([DONE],
	// message_stop, response.completed, an error event …; for a body that does not stream,
	// its end). Gemini's event stream has none: it ends with Complete alone. Nothing after
	// it changes the outcome; content after it is counted and sets Unread.
	Terminal bool

	ResponseID, Model string
	// FinishReasons are as the provider wrote them (SafeName), one per choice, at most
	// MaxIDs, never nil. The Responses API has none: it gets those of Chat Completions
	// (stop, tool_calls) or the reason why it is incomplete. OpenAI's refusals, which end
	// with stop, get refusal.
	FinishReasons []string
	Usage         Usage

	Err *Error // an error event inside the stream, the first one
	// Violation is the first of malformed_event, event_too_long and
	// unexpected_content_type. Decoding continues after it where possible. If only the
	// beginning of the body violates the protocol, an event withdraws it. It is the cause
	// of a failure only if the response did not become complete, or is Broken.
	Violation semconv.TransportCause
	// Broken: an object of the stream, before the answer was complete, is not JSON, or begins
	// another answer within this one. The answer is not what the model wrote, however it ends: a
	// client fails on such an object, or leaves it out, or mixes both answers.
	Broken bool
	// Spliced: another answer began within it, which only something in front of the provider
	// can have appended.
	Spliced bool
}

// Usage holds token counts; -1 where the provider reported nothing. For every protocol
// Input counts the whole input, including what was read from or written to a cache, and
// Output the whole output, including reasoning, as the GenAI conventions require.
type Usage struct {
	Input, Output, CacheRead, CacheCreation, Reasoning int
}

// Error is what a provider reported about a failure: codes only, never its message.
type Error struct {
	Type, Code string // as the provider wrote them, bounded, unsanitised
	Status     int    // an HTTP status that the error itself contains, else 0
	RetryAfter time.Duration
	Phrases    catalogue.Phrases // of the catalogue, in its message
	Quoted     int               // the HTTP status of an error that its message quotes; 0: none
	// Foreign: the body of an error response does not have the form of a provider's error.
	Foreign bool
}
