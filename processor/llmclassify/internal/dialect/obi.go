package dialect

import (
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/otelllm/otelllm-go/otelllm/classify"
)

// OBI reads the spans of OpenTelemetry's eBPF instrumentation and of those that are built of
// it, such as Grafana's Beyla. It watches the sockets of a process: a model call is the span of
// an HTTP client with the conventions' attributes on it, as far as it could parse the bodies.
//
// It captures a limited part of each body, per system call, and not all of them. So what it
// does not have says nothing: neither a missing finish reason or an empty list of them, nor
// tokens that are 0, mean that a stream ended without its last event. What it has was on the
// wire: the HTTP status, a finish reason, the type of a provider's error. A client span
// without a status is ERROR in older versions, although the response was only not captured; newer
// ones have obi.http.response.observation then. UNSET is a status below 400, and no success.
//
// A span execute_tool is written for each call in a response that it could parse, with the time
// of the request, and executes nothing.
//
// Its OTLP has an empty scope: the resource names the producer, see [ScopeName]. Written from
// open-telemetry/opentelemetry-ebpf-instrumentation (pkg/export/otel/tracesgen,
// pkg/appolly/app/request) and its issues on the limits of capture, main branch in 2026.
type OBI struct{}

var _ Dialect = OBI{}

// Name implements [Dialect].
func (OBI) Name() string { return "ebpf" }

func (OBI) claims() claims { return claims{scopes: scopesOf(scopeOBI)} }

// Recognise implements [Dialect].
func (OBI) Recognise(s *AttributeScan) Head {
	kind := operation(s.operation)
	if kind == Tool && !s.marks.has(markMCPCall) {
		kind = Other
	}
	return s.head(kind)
}

// Read implements [Dialect].
func (OBI) Read(span ptrace.Span, into Facts) {
	switch {
	case into.Request != nil:
		obiRequest(span, into.Request)
	case into.Tool != nil:
		genAITool(span, into.Tool)
		withoutOK(into.Tool)
	case into.Run != nil:
		readRunWithoutOK(span, into.Run)
	}
}

func obiRequest(span ptrace.Span, r *classify.Request) {
	var e ending
	e.beginWithoutOK(span, r)
	for key, v := range span.Attributes().All() {
		e.read(key, v, r)
	}
	e.input, e.output, e.content = 0, 0, classify.NotObserved
	if len(e.reasons) == 0 || e.has(finishError) || e.has(finishUnknown) {
		e.reasons = nil
	}
	e.end(span, r)
	if r.Failed == classify.Yes && r.Status == 0 && e.reasons == nil && !e.known {
		r.Failed = classify.NotObserved // the response was not captured
	}
	e.conclude(r)
}

// Attributes of a resource that name the instrumentation of its spans, from which producers
// without scopes of their own are known: the conventions have them for formats without scopes.
const (
	keyScopeName   = string(otelsemconv.OTelScopeNameKey)
	keyLibraryName = "otel.library.name" // the same, until version 1.10 of the conventions
)

// ScopeName is the name of the instrumentation of spans: that of their scope, or if it has none
// the one that their resource names. AG2's says which of its forms the spans have.
func ScopeName(resource pcommon.Resource, scope pcommon.InstrumentationScope) string {
	switch {
	case scope.Name() == scopeNameAG2 && scope.Version() != "":
		return scopeNameAG2 + ag2Versioned
	case scope.Name() != "":
		return scope.Name()
	}
	for _, key := range [...]string{keyScopeName, keyLibraryName} {
		if v, ok := resource.Attributes().Get(key); ok && v.Type() == pcommon.ValueTypeStr && v.Str() != "" {
			return v.Str()
		}
	}
	return ""
}
