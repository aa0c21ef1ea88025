package dialect

import (
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/otelllm/classify"
)

// GoCompile reads the spans of OpenTelemetry's compile-time instrumentation for Go
// (scopes go.opentelemetry.io/otelc/…), of OpenAI's and Anthropic's clients.
//
// A rejected request has its status in error.type, alone or as a status line. An error
// before the response has the name of a Go type, which for net/http is always *url.Error.
// A stream that ended before its finish reason has the same marks whether it was closed,
// was truncated or just ended: ERROR "stream aborted" with the finish reason error, in
// older versions UNSET with an empty list. It is attributed to none of them.
// gen_ai.response.time_to_first_token is in microseconds, and does not show a phase.
type GoCompile struct{}

var _ Dialect = GoCompile{}

// Name implements [Dialect].
func (GoCompile) Name() string { return "go_compile" }

func (GoCompile) claims() claims { return claims{markGoCompile, scopesOf(scopeGoCompile)} }

// Recognise implements [Dialect].
func (GoCompile) Recognise(s *AttributeScan) Head {
	return s.head(operation(s.operation))
}

// Read implements [Dialect].
func (GoCompile) Read(span ptrace.Span, into Facts) {
	switch {
	case into.Request != nil:
		goCompileRequest(span, into.Request)
	case into.Tool != nil:
		genAITool(span, into.Tool)
	case into.Run != nil:
		readRun(span, into.Run)
	}
}

func goCompileRequest(span ptrace.Span, r *classify.Request) {
	var e ending
	e.begin(span, r)
	for key, v := range span.Attributes().All() {
		e.read(key, v, r)
	}
	e.end(span, r)
	e.conclude(r)
}
