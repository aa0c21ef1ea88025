package dialect

import (
	"go.opentelemetry.io/collector/pdata/ptrace"
	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/otelllm/otelllm-go/otelllm/classify"
)

// OpenAIJS reads the spans of OpenTelemetry's instrumentation of OpenAI's client for
// JavaScript (scope @opentelemetry/instrumentation-openai).
//
// Only rejected requests are marked, by the class of the client's error; an
// APIConnectionError may be of any stage. A stream that is truncated is not exported. One
// that ends without a finish reason has an empty list of them, and so has an aborted one,
// which the client ends without an error: it is attributed to neither. On Responses a finish
// reason is written for each item of the response that is done, whatever follows: it
// counts only beside the usage, which comes at the end, and even there stop also means
// that a limit was reached.
type OpenAIJS struct{}

var _ Dialect = OpenAIJS{}

// keyGenAISystem is the old name of gen_ai.provider.name, in versions without Responses.
const keyGenAISystem = "gen_ai.system"

// Name implements [Dialect].
func (OpenAIJS) Name() string { return "openai_js" }

func (OpenAIJS) claims() claims { return claims{scopes: scopesOf(scopeOpenAIJS)} }

// Recognise implements [Dialect]. Only the scope identifies its spans.
func (OpenAIJS) Recognise(s *AttributeScan) Head {
	return s.head(operation(s.operation))
}

// Read implements [Dialect].
func (OpenAIJS) Read(span ptrace.Span, into Facts) {
	switch {
	case into.Request != nil:
		openAIJSRequest(span, into.Request)
	case into.Tool != nil:
		genAITool(span, into.Tool)
	case into.Run != nil:
		readRun(span, into.Run)
	}
}

func openAIJSRequest(span ptrace.Span, r *classify.Request) {
	var e ending
	e.begin(span, r)
	chat, usage := false, false
	for key, v := range span.Attributes().All() {
		switch key {
		case keyGenAISystem:
			chat = true
		case string(otelsemconv.OpenAIAPITypeKey):
			chat = shortString(v) == otelsemconv.OpenAIAPITypeChatCompletions.Value.AsString()
		default:
			usage = usage || key == string(otelsemconv.GenAIUsageOutputTokensKey)
			e.read(key, v, r)
		}
	}
	e.end(span, r)
	if !chat && (!usage || e.has(finishStop)) {
		r.Finish = classify.FinishNotObserved
	}
	if !e.conclude(r) && chat && e.unset && r.Finish == classify.FinishMissing && e.empty(r) {
		nothingIn(r, classify.Inferred) // the usage, which comes at the end, counts no token
	}
}
