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
// OK is written only after message_stop. ERROR comes with error.type, of which
// four words stand for several things: api_error is a stream cut short or the
// provider's own, connection_error is any stage before a response (in Go the body,
// too), client_timeout_error is any timer, of connecting and of the headers, too,
// client_error is in Go whatever has no other word, in TypeScript a body that broke,
// as a rule. UNSET covers a person's cancel, an early close and a malformed line: none
// of them is claimed. How far the answer had come, its calls, the tools offered and
// the history are not recorded.
type Anthropic struct {
	scope scope // which SDK; unknown where the scope was not
}

var _ scoped = Anthropic{}

// The words of the SDKs in error.type that are not the API's.
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

// own writes what one of the SDK's own words says, as far as it says one thing.
func (d Anthropic) own(word string, r *classify.Request) {
	switch {
	case word == anthropicClient && d.scope == scopeAnthropicTS:
		r.Ended = semconv.StreamEndReadError // as a rule: an event that cannot be read has this word, too
	case word == anthropicConnection && r.Status > 0:
		r.Ended, r.Basis = semconv.StreamEndReadError, classify.Typed // there was a response to break
	}
}
