package faultyllm

import (
	"cmp"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// Trouble is a kind of failure that a provider reports.
type Trouble uint8

// The troubles. Each is sent with the status and body that the wire protocol's provider
// uses.
const (
	RateLimited    Trouble = iota // 429
	QuotaExhausted                // OpenAI: 429 insufficient_quota; Anthropic: 402 billing_error; Gemini: 429 of a day's quota
	Unauthorized                  // 401; Gemini: 400 API_KEY_INVALID
	ContextTooLong                // 400
	Overloaded                    // OpenAI, Gemini: 503; Anthropic: 529
	ServerError                   // 500
	EngineFailure                 // as vLLM on Chat: the status number is the code
	numberOfTroubles
)

// Failure is a provider's error, before the stream ([Refuse]) or inside it ([InBand]).
type Failure struct {
	Trouble    Trouble
	RetryAfter time.Duration // 0 for none; Anthropic has whole seconds, rounded up; Gemini has it in the body
	Message    string        // the provider's usual message if empty
	Code       string        // OpenAI's code, Anthropic's type, Gemini's status; the usual one if empty
}

// voice is one provider's wording of a trouble.
type voice struct {
	status    int
	typ, code string // code "" is null
	param     string // "" is null
	message   string
	responses string // the code inside a Responses stream
	retry     bool   // x-should-retry
}

var openAIVoices = [numberOfTroubles]voice{
	RateLimited: {
		status: http.StatusTooManyRequests, typ: "tokens", code: "rate_limit_exceeded", responses: "rate_limit_exceeded", retry: true,
		message: "Rate limit reached for gpt-5.5 in organization org-demo on tokens per min (TPM): Limit 30000, Used 29871, Requested 1042.",
	},
	QuotaExhausted: {
		status: http.StatusTooManyRequests, typ: "insufficient_quota", code: "insufficient_quota", responses: "insufficient_quota",
		message: "You exceeded your current quota, please check your plan and billing details.",
	},
	Unauthorized: {
		status: http.StatusUnauthorized, typ: "invalid_request_error", code: "invalid_api_key", responses: "invalid_api_key",
		message: "Incorrect API key provided. You can find your API key at https://platform.openai.com/account/api-keys.",
	},
	ContextTooLong: {
		status: http.StatusBadRequest, typ: "invalid_request_error", code: "context_length_exceeded", param: "messages", responses: "context_length_exceeded",
		message: "This model's maximum context length is 128000 tokens. However, your messages resulted in 131337 tokens. Please reduce the length of the messages.",
	},
	Overloaded: {
		status: http.StatusServiceUnavailable, typ: "service_unavailable_error", code: "server_is_overloaded", responses: "server_is_overloaded", retry: true,
		message: "Our servers are currently overloaded. Please try again later.",
	},
	ServerError: {
		status: http.StatusInternalServerError, typ: "server_error", code: "server_error", responses: "server_error", retry: true,
		message: "The server had an error while processing your request. Sorry about that!",
	},
	EngineFailure: {
		status: http.StatusInternalServerError, typ: "InternalServerError", responses: "server_error", retry: true,
		message: "EngineCore encountered an issue. See stack trace for the root cause.",
	},
}

var anthropicVoices = [numberOfTroubles]voice{
	RateLimited: {
		status: http.StatusTooManyRequests, typ: "rate_limit_error", retry: true,
		message: "This request would exceed your organization's rate limit of 30,000 input tokens per minute.",
	},
	QuotaExhausted: {
		status: http.StatusPaymentRequired, typ: "billing_error",
		message: "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade or purchase credits.",
	},
	Unauthorized:   {status: http.StatusUnauthorized, typ: "authentication_error", message: "invalid x-api-key"},
	ContextTooLong: {status: http.StatusBadRequest, typ: "invalid_request_error", message: "prompt is too long: 213462 tokens > 200000 maximum"},
	Overloaded:     {status: statusOverloaded, typ: "overloaded_error", retry: true, message: "Overloaded"},
	ServerError:    {status: http.StatusInternalServerError, typ: "api_error", retry: true, message: "Internal server error"},
	EngineFailure:  {status: http.StatusInternalServerError, typ: "api_error", retry: true, message: "Internal server error"},
}

// statusOverloaded is a status code that only Anthropic uses.
const statusOverloaded = 529

func (f *Failure) voice(w Wire) voice {
	switch w {
	case Anthropic:
		return anthropicVoices[f.Trouble]
	case Gemini, Vertex:
		return geminiVoices[f.Trouble]
	default:
		return openAIVoices[f.Trouble]
	}
}

func (f *Failure) message() string { return f.in(openAIVoices[f.Trouble]) }

func (f *Failure) in(v voice) string { return cmp.Or(f.Message, v.message) }

func (f *Failure) responsesCode() string { return cmp.Or(f.Code, openAIVoices[f.Trouble].responses) }

// chatBody returns OpenAI's error body, which Chat's in-band error event also uses.
func (f *Failure) chatBody() string {
	v := openAIVoices[f.Trouble]
	if f.Trouble == EngineFailure {
		return fmt.Sprintf(`{"error":{"message":%s,"type":%s,"param":null,"code":%d}}`, q(f.in(v)), q(v.typ), v.status)
	}
	return fmt.Sprintf(`{"error":{"message":%s,"type":%s,"param":%s,"code":%s}}`, q(f.in(v)), q(v.typ), orNull(v.param), orNull(cmp.Or(f.Code, v.code)))
}

func (f *Failure) anthropicBody(requestID string) string {
	v := anthropicVoices[f.Trouble]
	return fmt.Sprintf(`{"type":"error","error":{"type":%s,"message":%s},"request_id":%s}`, q(cmp.Or(f.Code, v.typ)), q(f.in(v)), q(requestID))
}

func orNull(s string) string {
	if s == "" {
		return "null"
	}
	return q(s)
}

// write sends the failure as an HTTP error.
func (f *Failure) write(w http.ResponseWriter, wire Wire, requestID string, encoding Encoding) int {
	v := f.voice(wire)
	h := w.Header()
	h.Set("Content-Type", "application/json")
	if !wire.google() { // Google has no such headers, everything is in the body
		f.headers(h, wire, v)
	}
	w.WriteHeader(v.status)
	var body string
	switch wire {
	case Anthropic:
		body = f.anthropicBody(requestID)
	case Gemini, Vertex:
		body = f.geminiBody()
	default:
		body = f.chatBody()
	}
	_, _ = w.Write(encoding.document([]byte(body))) // the client may have disconnected
	return v.status
}

// headers sets the headers that tell the SDK whether and when to retry.
func (f *Failure) headers(h http.Header, wire Wire, v voice) {
	h.Set("x-should-retry", strconv.FormatBool(v.retry))
	if f.RetryAfter > 0 {
		h.Set("retry-after", strconv.FormatInt(int64((f.RetryAfter+time.Second-1)/time.Second), 10))
		if wire != Anthropic { // OpenAI sends both, and its SDK prefers the more precise one
			h.Set("retry-after-ms", strconv.FormatInt(f.RetryAfter.Milliseconds(), 10))
		}
	}
}
