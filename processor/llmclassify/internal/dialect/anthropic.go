package dialect

import (
	"go.opentelemetry.io/collector/pdata/ptrace"
	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
)

// Anthropic reads the spans that Anthropic's own SDKs write, for Go (scope
// com.anthropic.sdk.go) and TypeScript (com.anthropic.sdk.typescript): one span
// over all attempts of a call.
//
// OK is written only after message_stop. ERROR comes with error.type, of which four
// values each have several meanings: api_error is a truncated stream or an error of the
// provider; connection_error is a failure at any stage before a response (in Go of the
// body, too); client_timeout_error is any timeout, also of the connection and of the
// headers; client_error is in Go every other error, in TypeScript usually a broken body.
// UNSET is a user's cancel, an early close or a malformed line: the request is attributed to
// none of them. The progress of the response, its calls, the tools offered and the history
// are not recorded.
type Anthropic struct {
	scope scope // which SDK; unknown if the scope is not known
}

var _ scoped = Anthropic{}

// The values of error.type that are the SDKs' own, not the API's.
const (
	anthropicAPI        = "api_error"
	anthropicConnection = "connection_error"
	anthropicTimeout    = "client_timeout_error"
	anthropicClient     = "client_error" // TypeScript: the body broke. Go: anything else
)

// Name implements [Dialect].
func (Anthropic) Name() string { return "anthropic" }

func (Anthropic) in(s scope) Dialect { return Anthropic{s} }

func (Anthropic) claims() claims {
	return claims{markAnthropic, scopesOf(scopeAnthropicGo, scopeAnthropicTS)}
}

// Recognise implements [Dialect].
func (Anthropic) Recognise(s *AttributeScan) Head {
	return s.head(operation(s.operation))
}

// Read implements [Dialect].
func (d Anthropic) Read(span ptrace.Span, into Facts) {
	switch {
	case into.Request != nil:
		d.request(span, into.Request)
	case into.Tool != nil:
		genAITool(span, into.Tool)
	case into.Run != nil:
		readRun(span, into.Run)
	}
}

func (d Anthropic) request(span ptrace.Span, r *classify.Request) {
	var e ending
	e.begin(span, r)
	for key, v := range span.Attributes().All() {
		switch key {
		case keyAnthropicStop:
			e.finish(v)
		case string(otelsemconv.HTTPRequestResendCountKey):
			if resent := count(v); resent.N() > 0 {
				r.Attempt = resent.N() + 1
			}
		default:
			e.read(key, v, r)
		}
	}
	e.end(span, r)

	own := false
	switch e.errorType {
	case anthropicAPI, anthropicConnection, anthropicTimeout, anthropicClient:
		own, e.fault = true, fault{name: e.errorType, typed: true}
	}
	switch {
	case r.Status >= 400 || !own:
		if e.provider != semconv.ProviderErrorKindUnset && r.Status > 0 && r.Status < 400 {
			r.Provider.InBand = true
		}
		e.conclude(r)
	default:
		r.Failed = classify.Yes
		d.own(e.errorType, r)
	}
}

// own writes the meaning of one of the SDK's own values of error.type, if it has only one.
func (d Anthropic) own(errorType string, r *classify.Request) {
	switch {
	case errorType == anthropicClient && d.scope == scopeAnthropicTS:
		r.Ended = semconv.StreamEndReadError // usually: an event that cannot be parsed has this value, too
	case errorType == anthropicConnection && r.Status > 0:
		r.Ended, r.Basis = semconv.StreamEndReadError, classify.Typed // there was a response to break
	}
}
