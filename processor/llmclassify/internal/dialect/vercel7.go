package dialect

import (
	"go.opentelemetry.io/collector/pdata/ptrace"
	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/otelllm/otelllm-go/otelllm/classify"
)

// Vercel7 reads the spans of the AI SDK from version 7 on (scope gen_ai): the
// conventions' operations, invoke_agent over agent_step over chat. A step only groups
// spans and is not a run.
//
// A thrown error is ERROR with an exception event, never error.type: without recorded
// content they cannot be told apart, with it AI_APICallError and AI_RetryError have no
// status and no code. An error in the stream is ERROR with the finish reason error and
// no exception; a stream that ends without a finish reason is interrupted; an abort
// leaves the span UNSET without a finish reason. The spans of earlier attempts never end,
// so that a failure from which the SDK recovered is not observed. The stream events are
// added at the end of the step: their times are not those of the chunks. Phases, calls
// and histories are not recorded.
type Vercel7 struct{}

var _ Dialect = Vercel7{}

// Name implements [Dialect].
func (Vercel7) Name() string { return "vercel_ai_v7" }

func (Vercel7) claims() claims { return claims{markVercel7, scopesOf(scopeVercel7)} }

// Recognise implements [Dialect].
func (Vercel7) Recognise(s *AttributeScan) Head {
	return s.head(operation(s.operation))
}

// Read implements [Dialect].
func (Vercel7) Read(span ptrace.Span, into Facts) {
	switch {
	case into.Request != nil:
		vercel7Request(span, into.Request)
	case into.Tool != nil:
		genAITool(span, into.Tool)
	case into.Run != nil:
		vercelRun(span, into.Run, string(otelsemconv.GenAIResponseFinishReasonsKey))
	}
}

func vercel7Request(span ptrace.Span, r *classify.Request) {
	var e ending
	e.begin(span, r)
	for key, v := range span.Attributes().All() {
		e.read(key, v, r)
	}
	e.end(span, r)
	vercelEnd(&e, r)
}
