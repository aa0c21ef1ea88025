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
//
// The SDKs for other languages (com.anthropic.sdk.<language>) and the API itself
// (com.anthropic.claude-platform, SERVER spans beneath the SDK's) follow the span reference
// of the Claude platform, as of October 2026: OK is a step that was completed, ERROR one
// that failed, UNSET one that the application cancelled. The same holds for the tools of
// all of them. What the reference leaves open about api_error, connection_error and
// client_error is read as in Go. The API has no SDK's errors: its api_error is its own.
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
	return claims{markAnthropic, scopesOf(scopeAnthropicGo, scopeAnthropicTS, scopeAnthropicSDK, scopeAnthropicAPI)}
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
		d.tool(span, into.Tool)
	case into.Run != nil:
		readRun(span, into.Run)
	}
}

func (d Anthropic) tool(span ptrace.Span, t *classify.Tool) {
	genAITool(span, t)
	if d.scope != scopeUnknown && span.Status().Code() == ptrace.StatusCodeUnset && t.Outcome == semconv.ToolOutcomeUnset {
		t.Outcome, t.Abort.Source = semconv.ToolOutcomeInterrupted, semconv.AbortSourceUnknown
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
				r.Attempt, r.FailedBefore = resent.N()+1, resent.N()
			}
		default:
			e.read(key, v, r)
		}
	}
	e.end(span, r)

	own := false
	switch e.errorType {
	case anthropicAPI, anthropicConnection, anthropicTimeout, anthropicClient:
		if own = d.scope != scopeAnthropicAPI; own {
			e.fault = fault{name: e.errorType, typed: true}
		}
	}
	switch {
	case r.Status >= 400 || !own:
		if e.provider != semconv.ProviderErrorKindUnset && r.Status > 0 && r.Status < 400 {
			r.Provider.InBand = true
		}
		if !e.conclude(r) && e.unset && d.cancels() {
			r.Ended, r.Abort.Source = semconv.StreamEndCancelled, semconv.AbortSourceUnknown
		}
	default:
		r.Failed = classify.Yes
		d.own(e.errorType, r)
	}
}

// cancels reports whether UNSET is documented to mean that the application cancelled, and
// nothing else is known to leave it.
func (d Anthropic) cancels() bool {
	return d.scope == scopeAnthropicSDK || d.scope == scopeAnthropicAPI
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
