package dialect

import (
	"strings"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
)

// fixed is the meaning of an error message that is a fixed text of a producer.
type fixed struct {
	failure
	// class is the base name of the class whose message the text is; empty where the text
	// is enough.
	class string
}

// texts are complete error messages that are fixed in the source of undici, httpx,
// httpcore, reactor-netty, Bun, openai-agents and the AI SDK. A message must match completely; it is never
// searched, and never recorded: the same words may be in the output of any tool.
var texts = map[string]fixed{
	// undici: the body broke; the code is in the error's cause.
	"terminated": {failure{end: semconv.StreamEndReadError, silence: true}, "TypeError"},
	// The same, as openai-agents records the error of a stream.
	`Error streaming response: {"error":"TypeError: terminated"}`: {failure: failure{end: semconv.StreamEndReadError, silence: true}},

	// openai-agents for JavaScript: the last event of a response says that it ended at a
	// limit, or is an error.
	`OpenAI Responses request ended with unsuccessful terminal state "response.incomplete".`: {failure: failure{limited: true}},
	`OpenAI Responses request ended with unsuccessful terminal state "response.failed".`:     {failure: failure{provider: semconv.ProviderErrorKindUnknown}},
	`OpenAI Responses request ended with unsuccessful terminal state "error".`:               {failure: failure{provider: semconv.ProviderErrorKindUnknown}},

	// opentelemetry-instrumentation-openai-v2 (2.5b0): the same event.
	"response.incomplete": {failure{limited: true}, "RuntimeError"},

	// The AI SDK: the body of a successful response broke.
	"Failed to process successful response": {failure{end: semconv.StreamEndReadError}, "AI_APICallError"},
	// The AI SDK over undici: no response came.
	"Cannot connect to API: other side closed":     {failure{transport: semconv.TransportCauseClosedBeforeHeaders}, "AI_APICallError"},
	"Cannot connect to API: read ECONNRESET":       {failure{transport: semconv.TransportCauseClosedBeforeHeaders}, "AI_APICallError"},
	"Cannot connect to API: Headers Timeout Error": {failure{transport: semconv.TransportCauseHeaderTimeout}, "AI_APICallError"},

	// Claude Code: Bun's fetch lost the connection within a body, in whatever way. Before a
	// response it is Anthropic's SDK that says "Connection error.", for every cause.
	"ECONNRESET: The socket connection was closed unexpectedly. For more information, pass `verbose: true` in the second argument to fetch()": {
		failure{end: semconv.StreamEndReadError}, claudeConnection,
	},

	// httpcore.
	"Server disconnected without sending a response.": {failure{transport: semconv.TransportCauseClosedBeforeHeaders}, "RemoteProtocolError"},
	"[Errno -2] Name or service not known":            {failure{transport: semconv.TransportCauseDNSNotFound}, "ConnectError"},
	"[Errno -5] No address associated with hostname":  {failure{transport: semconv.TransportCauseDNSNotFound}, "ConnectError"},
	"[Errno 8] nodename nor servname provided, or not known": {
		failure{transport: semconv.TransportCauseDNSNotFound}, "ConnectError",
	},
	"[Errno -3] Temporary failure in name resolution": {failure{transport: semconv.TransportCauseDNSTemporary}, "ConnectError"},
	"All connection attempts failed":                  {failure{transport: semconv.TransportCauseConnectRefused}, "ConnectError"},
	"[Errno 111] Connection refused":                  {failure{transport: semconv.TransportCauseConnectRefused}, "ConnectError"},
	"[Errno 61] Connection refused":                   {failure{transport: semconv.TransportCauseConnectRefused}, "ConnectError"},
	// reactor-netty: the same in both cases, but for the last words.
	"Connection prematurely closed BEFORE response": {failure{transport: semconv.TransportCauseClosedBeforeHeaders}, "PrematureCloseException"},
	"Connection prematurely closed DURING response": {failure{transport: semconv.TransportCauseBodyTruncated}, "PrematureCloseException"},

	// aiohttp.
	"Server disconnected": {failure{transport: semconv.TransportCauseConnectionReset}, "ServerDisconnectedError"},
}

// fetchFailed is the message of undici's TypeError for a fetch that got no response; the
// code is in the error's cause.
const fetchFailed = "fetch failed"

// certificateText begins OpenSSL's message in Python about a peer's certificate; the
// reason and a line number of C source follow.
const certificateText = "[SSL: " + classify.CodeCertificate + "] certificate verify failed: "

// maxText bounds the error messages that are compared, in bytes.
const maxText = 160

// textOf looks up a complete error message, for an error of this class.
func textOf(message, class string) (failure, bool) {
	if message == "" {
		return failure{}, false
	}
	if status := statusIn(message, class); status != 0 {
		return failure{provider: classify.ProviderErrorKind(status)}, true
	}
	if len(message) > maxText {
		return failure{}, false
	}
	base := baseName(class)
	if f, ok := texts[message]; ok && (f.class == "" || f.class == base) {
		return f.failure, true
	}
	if base == "ConnectError" && strings.HasPrefix(message, certificateText) {
		return failure{transport: semconv.TransportCauseTLS, code: classify.CodeCertificate}, true
	}
	return failure{}, false
}

// statusIn reads the status that a class of a producer writes at the beginning of its
// messages, 0 for other messages. It is that of an HTTP response, or of an error within a
// stream: what it says of the provider's error is the same. What follows in the message is
// the response's body, and is not read.
//
// pydantic-ai 2.33 (ModelHTTPError): "status_code: 429, model_name: ". google-genai 1.x
// (ClientError, ServerError): "429 RESOURCE_EXHAUSTED. ".
func statusIn(message, class string) int {
	switch base := baseName(class); {
	case base == "ModelHTTPError":
		rest, ok := strings.CutPrefix(message, "status_code: ")
		if ok && len(rest) > 3 && strings.HasPrefix(rest[3:], ", model_name: ") {
			return statusOf(rest[:3])
		}
	case (base == "ClientError" || base == "ServerError") && strings.HasPrefix(class, "google.genai."):
		if len(message) > 4 && message[3] == ' ' && message[4] >= 'A' && message[4] <= 'Z' {
			return statusOf(message[:3])
		}
	}
	return 0
}

// statusOf reads an HTTP status that a producer records in place of an error's name:
// "429", or Go's status line "429 Too Many Requests". It is 0 for other names, and for a
// status that is not an error.
func statusOf(name string) int {
	if len(name) < 3 || len(name) > maxWord {
		return 0
	}
	code := 0
	for _, c := range []byte(name[:3]) {
		if c < '0' || c > '9' {
			return 0
		}
		code = code*10 + int(c-'0')
	}
	if code < 400 || code > 599 || len(name) > 3 && name[3:] != " "+statusTexts[code] {
		return 0
	}
	return code
}
