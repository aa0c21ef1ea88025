package turns

import (
	"strings"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
)

// fault is how a request failed, as far as its code and status say.
type fault struct {
	end      semconv.StreamEnd
	cause    semconv.TransportCause
	provider semconv.ProviderErrorKind
}

// transports are the names that agents have for failures of the network: of Node, of Bun, of
// Codex (codex-rs/protocol, CodexErrorInfo) and of Claude Code.
var transports = map[string]fault{
	"ECONNRESET":   {end: semconv.StreamEndReadError, cause: semconv.TransportCauseConnectionReset},
	"EPIPE":        {end: semconv.StreamEndReadError, cause: semconv.TransportCauseConnectionReset},
	"ECONNREFUSED": {end: semconv.StreamEndNoResponse, cause: semconv.TransportCauseConnectRefused},
	"ENOTFOUND":    {end: semconv.StreamEndNoResponse, cause: semconv.TransportCauseDNSNotFound},
	"EAI_AGAIN":    {end: semconv.StreamEndNoResponse, cause: semconv.TransportCauseDNSTemporary},
	"ETIMEDOUT":    {end: semconv.StreamEndReadError, cause: semconv.TransportCauseConnectionLost},

	"terminated":                        {end: semconv.StreamEndReadError, cause: semconv.TransportCauseConnectionLost},
	"connection_failed":                 {end: semconv.StreamEndReadError, cause: semconv.TransportCauseConnectionLost},
	"response_stream_disconnected":      {end: semconv.StreamEndReadError, cause: semconv.TransportCauseConnectionLost},
	"response_stream_connection_failed": {end: semconv.StreamEndReadError, cause: semconv.TransportCauseConnectionLost},
	"http_connection_failed":            {end: semconv.StreamEndReadError, cause: semconv.TransportCauseConnectionLost},
	"stream_broke":                      {end: semconv.StreamEndReadError},
}

// providers are the names of Codex and Claude Code for errors of the provider that its own codes
// do not have.
var providers = map[string]semconv.ProviderErrorKind{
	"usage_limit_exceeded":    semconv.ProviderErrorKindQuotaExhausted,
	"server_overloaded":       semconv.ProviderErrorKindOverloaded,
	"internal_server_error":   semconv.ProviderErrorKindServerError,
	"unauthorized":            semconv.ProviderErrorKindAuthentication,
	"bad_request":             semconv.ProviderErrorKindInvalidRequest,
	"context_window_exceeded": semconv.ProviderErrorKindContextLengthExceeded,
	"rate_limit":              semconv.ProviderErrorKindRateLimited,
	"RateLimitError":          semconv.ProviderErrorKindRateLimited,
}

// faultOf returns how a request failed.
func faultOf(r *Request) fault {
	code := r.Code[strings.LastIndexByte(r.Code, ':')+1:] // "TypeError:ECONNRESET"
	if f, ok := transports[code]; ok && r.Status < 400 {
		return f
	}
	if r.Status >= 400 {
		return fault{end: semconv.StreamEndHTTPError, provider: classify.ProviderErrorKind(r.Status, code)}
	}
	if kind, ok := providers[code]; ok {
		return fault{end: semconv.StreamEndHTTPError, provider: kind}
	}
	if kind := classify.ProviderErrorKind(0, code); code != "" && kind != semconv.ProviderErrorKindUnknown {
		return fault{end: semconv.StreamEndHTTPError, provider: kind}
	}
	return fault{}
}
