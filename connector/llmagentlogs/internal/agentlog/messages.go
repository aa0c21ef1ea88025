package agentlog

import (
	"net/http"
	"strings"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
)

// Error messages are compared with texts that are fixed in the source of the agents, their HTTP libraries and the operating
// system. Nothing else in a message is read.

// maxMessage bounds the part of a message that is read, in bytes.
const maxMessage = 1024

func head(message string) string { return message[:min(len(message), maxMessage)] }

// transportTexts are parts of messages of Rust's reqwest and tungstenite, of Node's undici, and of the operating system.
// The first match is taken.
var transportTexts = [...]struct {
	text  string
	cause semconv.TransportCause
	code  string
}{
	{"Connection refused", semconv.TransportCauseConnectRefused, "ECONNREFUSED"},
	{"ECONNREFUSED", semconv.TransportCauseConnectRefused, "ECONNREFUSED"},
	{"ENOTFOUND", semconv.TransportCauseDNSNotFound, "ENOTFOUND"},
	{"EAI_AGAIN", semconv.TransportCauseDNSTemporary, "EAI_AGAIN"},
	{"ENETUNREACH", semconv.TransportCauseConnectUnreachable, "ENETUNREACH"},
	{"EHOSTUNREACH", semconv.TransportCauseConnectUnreachable, "EHOSTUNREACH"},
	{"UND_ERR_CONNECT_TIMEOUT", semconv.TransportCauseConnectTimeout, "UND_ERR_CONNECT_TIMEOUT"},
	{"UND_ERR_HEADERS_TIMEOUT", semconv.TransportCauseHeaderTimeout, "UND_ERR_HEADERS_TIMEOUT"},
	{"Connection reset by peer", semconv.TransportCauseConnectionReset, "ECONNRESET"},
	{"ECONNRESET", semconv.TransportCauseConnectionReset, "ECONNRESET"},
	{"Broken pipe", semconv.TransportCauseConnectionLost, "EPIPE"},
	{"EPIPE", semconv.TransportCauseConnectionLost, "EPIPE"},
	{undSocket, semconv.TransportCauseBodyTruncated, undSocket},
}

// undSocket is undici's code for a connection that the other side closed: within a body, or before a response. A connection
// that was reset has ECONNRESET.
const undSocket = "UND_ERR_SOCKET"

// Explain adds the transport's cause that another record has.
func (f *Failure) Explain(by *Failure) {
	if !f.Failed || f.Cause != semconv.TransportCauseUnset {
		return
	}
	if f.Cause, f.Code = by.Cause, by.Code; f.Code == undSocket && f.early() {
		f.Cause, f.End = semconv.TransportCauseClosedBeforeHeaders, semconv.StreamEndNoResponse
	}
}

// early reports whether it is known that there was no response.
func (f *Failure) early() bool { return f.End == semconv.StreamEndNoResponse || f.Fetch }

// fetchFailed reports whether a message is undici's for a request that got no response, as it is or as Google's SDK wraps
// it.
func fetchFailed(message string) bool {
	return message == "fetch failed" || message == "exception TypeError: fetch failed sending request"
}

// transportCode returns the transport's cause that the name of an error stands for.
func transportCode(name string) (f Failure) {
	for i := range transportTexts {
		if t := &transportTexts[i]; name == t.code {
			f.Cause, f.Code = t.cause, t.code
			break
		}
	}
	return f
}

// refusal is the failure of a request that got no answer: an HTTP error, or no response.
func refusal(status int, message string) Failure {
	f := Failure{Failed: true, End: semconv.StreamEndNoResponse}
	if status > 0 {
		f.End = semconv.StreamEndHTTPError
		if status >= http.StatusBadRequest {
			f.Provider = classify.ProviderErrorKind(status)
		}
		return f
	}
	message = head(message)
	for i := range transportTexts {
		if t := &transportTexts[i]; strings.Contains(message, t.text) {
			f.Explain(&Failure{Cause: t.cause, Code: t.code})
			return f
		}
	}
	return f
}

// brokenStream is the failure of a request that may have got a part of its answer.
func brokenStream(message string) Failure {
	f := unknownFailure()
	message = head(message)
	// Codex, codex-rs/protocol: CodexErr::Stream, and the messages of its transports.
	message = strings.TrimPrefix(message, "stream disconnected before completion: ")
	switch {
	case strings.HasPrefix(message, "stream closed before response.completed"):
		f.End = semconv.StreamEndEOF
		return f
	case strings.HasPrefix(message, "idle timeout waiting for"):
		f.End, f.Watchdog = semconv.StreamEndWatchdog, semconv.WatchdogKindIdle
		return f
	case strings.HasPrefix(message, "ECONNRESET: The socket connection was closed unexpectedly."):
		// Bun, in which Claude Code runs, says that for every body that broke off.
		f.End = semconv.StreamEndReadError
		return f
	case strings.HasPrefix(message, "Transport error: network error:"), strings.HasPrefix(message, "IO error:"),
		strings.HasPrefix(message, "WebSocket protocol error: Connection reset without closing handshake"),
		message == "terminated": // undici's, for a body that broke off
		f.End = semconv.StreamEndReadError
	case strings.HasPrefix(message, "Codex ran out of room in the model's context window"):
		f.Provider = semconv.ProviderErrorKindContextLengthExceeded
		return f
	case strings.HasPrefix(message, "Quota exceeded."), strings.HasPrefix(message, "You've hit your usage limit"):
		f.Provider = semconv.ProviderErrorKindQuotaExhausted
		return f
	case strings.HasPrefix(message, "Rate limit reached"):
		f.Provider = semconv.ProviderErrorKindRateLimited
		return f
	}
	for i := range transportTexts {
		t := &transportTexts[i]
		if !strings.Contains(message, t.text) {
			continue
		}
		if f.Cause, f.Code = t.cause, t.code; f.End == semconv.StreamEndUnset {
			f.End = semconv.StreamEndReadError
			if classify.BeforeConnection(t.cause) {
				f.End = semconv.StreamEndNoResponse
			}
		}
		break
	}
	return f
}
