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
// so that a failure from which the SDK recovered is not observed. The time to the first
// chunk is that of the first part of an answer: an interrupted stream without it, such as
// [DONE] alone, had nothing in it; for an answer that was not streamed it is never
// recorded. The stream events are added at the end of the step: their times are not those
// of the chunks. OK is that of OpenInference's processor. Phases, calls and histories are not recorded. Measured with ai 7.0.173
// and @ai-sdk/otel 1.0.173.
type Vercel7 struct{}

// An attribute with the name of one of the conventions' metrics, and the name that the metric
// has after version 0.1.0 of the GenAI conventions.
const (
	keyTimeToFirstChunk    = "gen_ai.client.operation.time_to_first_chunk"
	keyNewTimeToFirstChunk = "gen_ai.client.inference.time_to_first_chunk"
)

// isFirstChunk reports whether a key is that of the time to the first part of an answer.
func isFirstChunk(key string) bool {
	return key == keyTimeToFirstChunk || key == keyNewTimeToFirstChunk
}

var _ Dialect = Vercel7{}

// Name implements [Dialect].
func (Vercel7) Name() string { return "vercel_ai_v7" }

func (Vercel7) claims() claims { return claims{scopes: scopesOf(scopeVercel7)} }

// Recognise implements [Dialect]. Only the scope identifies its spans: the attributes that
// have the names of the conventions' metrics, such as
// gen_ai.client.operation.time_to_first_chunk, are also written by others (pydantic-ai).
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
		withoutOK(into.Tool)
	case into.Run != nil:
		vercelRun(span, into.Run, string(otelsemconv.GenAIResponseFinishReasonsKey))
	}
}

func vercel7Request(span ptrace.Span, r *classify.Request) {
	var e ending
	e.beginWithoutOK(span, r)
	began := false // a part of an answer
	for key, v := range span.Attributes().All() {
		began = began || isFirstChunk(key)
		e.read(key, v, r)
	}
	e.end(span, r)
	if began {
		e.content = classify.Yes
	}
	e.nothing = e.content != classify.Yes && e.has(finishInterrupted)
	vercelEnd(&e, r)
}
