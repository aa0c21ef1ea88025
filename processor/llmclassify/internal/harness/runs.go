package harness

import (
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/otel/attribute"
	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/otelllm/otelllm-go/semconv"
)

// Services of the spans.
const (
	AgentService   = "agent"
	GatewayService = "gateway"
)

// RunSpan is a run of this project's client that announces its children.
func RunSpan(id byte, from, to float64, requests, tools int) Span {
	return Span{
		ID: id, Name: "invoke_agent coder", Kind: ptrace.SpanKindInternal, From: from, To: to,
		Attrs: []attribute.KeyValue{
			otelsemconv.GenAIOperationNameInvokeAgent, otelsemconv.GenAIAgentName("coder"),
			semconv.RunRequests(requests), semconv.RunTools(tools),
		},
	}
}

// RequestSpan is one attempt under a run, as this project's client records it,
// that has come to nothing yet: no response.
func RequestSpan(id, run byte, from, to float64) Span {
	s := Span{
		ID: id, Parent: run, Name: "chat gpt-test", Kind: ptrace.SpanKindClient, From: from, To: to,
		Attrs: []attribute.KeyValue{
			otelsemconv.GenAIOperationNameChat, otelsemconv.GenAIProviderNameOpenAI,
			otelsemconv.GenAIRequestModel("gpt-test"), otelsemconv.GenAIRequestStream(true),
			semconv.RequestAttempt(1), semconv.RequestProviderTools(),
			semconv.HistoryToolCalls(), semconv.HistoryToolOutputs(),
		},
	}
	if run != 0 {
		s = s.With(semconv.RunID(SpanID(run).String()))
	}
	return s
}

// ToolSpan is an execution of a tool under run 1, as this project's client records it.
func ToolSpan(id byte, from, to float64, call string, effect semconv.ToolEffect, outcome semconv.ToolOutcome) Span {
	return Span{
		ID: id, Parent: 1, Name: "execute_tool apply_patch", Kind: ptrace.SpanKindInternal, From: from, To: to,
		Attrs: []attribute.KeyValue{
			otelsemconv.GenAIOperationNameExecuteTool, otelsemconv.GenAIToolName("apply_patch"),
			otelsemconv.GenAIToolCallID(call), semconv.RunID(SpanID(1).String()),
			semconv.ToolEffectKey.String(effect.String()), semconv.ToolOutcomeKey.String(outcome.String()),
		},
	}
}

// OtherSpan is a span that no verdict needs.
func OtherSpan(id, parent byte, from, to float64) Span {
	return Span{
		ID: id, Parent: parent, Name: "SELECT orders", Kind: ptrace.SpanKindClient, From: from, To: to,
		Attrs: []attribute.KeyValue{otelsemconv.DBSystemNamePostgreSQL},
	}
}

// HTTPSpan is an HTTP client's span beneath request 2.
func HTTPSpan(id byte, to float64) Span {
	return Span{
		ID: id, Parent: 2, Name: "POST", Kind: ptrace.SpanKindClient, From: 0.1, To: to,
		Attrs: []attribute.KeyValue{
			otelsemconv.HTTPRequestMethodPost, otelsemconv.URLFull("https://api.example.com/v1/chat/completions"),
			otelsemconv.HTTPResponseStatusCode(200),
		},
	}
}

// HTTPClient is the span of an HTTP client.
func HTTPClient(id, parent byte, from, to float64) Span {
	s := HTTPSpan(id, to)
	s.Parent, s.From = parent, from
	return s
}

// GenAISpan is a span of this operation as the GenAI conventions have it.
func GenAISpan(id, parent byte, op attribute.KeyValue, from, to float64, attrs ...attribute.KeyValue) Span {
	return Span{
		ID: id, Parent: parent, Name: op.Value.AsString(), Kind: ptrace.SpanKindClient, From: from, To: to,
		Attrs: append([]attribute.KeyValue{op}, attrs...),
	}
}

// AgentSpan is a run as an instrumentation of the GenAI conventions records it.
func AgentSpan(id, parent byte, from, to float64) Span {
	s := GenAISpan(id, parent, otelsemconv.GenAIOperationNameInvokeAgent, from, to, otelsemconv.GenAIAgentName("coder"))
	s.Kind = ptrace.SpanKindInternal
	return s
}

// ChatSpan is a model call as an instrumentation of the GenAI conventions records it.
func ChatSpan(id, parent byte, from, to float64) Span {
	return GenAISpan(id, parent, otelsemconv.GenAIOperationNameChat, from, to,
		otelsemconv.GenAIProviderNameAnthropic, otelsemconv.GenAIRequestModel("claude-test"))
}

// CallSpan is a tool as an instrumentation of the GenAI conventions records it.
func CallSpan(id, parent byte, from, to float64, call string) Span {
	s := GenAISpan(id, parent, otelsemconv.GenAIOperationNameExecuteTool, from, to,
		otelsemconv.GenAIToolName("apply_patch"), otelsemconv.GenAIToolCallID(call))
	s.Kind = ptrace.SpanKindInternal
	return s
}

// InferredSpan is a run that a client or a gateway inferred from two requests.
func InferredSpan(id, parent byte, from, to float64) Span {
	return Span{
		ID: id, Parent: parent, Name: "invoke_agent codex", Kind: ptrace.SpanKindInternal, From: from, To: to,
		Attrs: []attribute.KeyValue{
			otelsemconv.GenAIOperationNameInvokeAgent, otelsemconv.GenAIAgentName("codex"), otelsemconv.GenAIConversationID("conv"),
			semconv.RunInferred(true), semconv.RunRequests(2), semconv.RunEndKey.String(semconv.RunEndAnswer.String()),
		},
	}
}

// Answer is a response of text alone.
var Answer = Counts{Text: 3}

// RateLimited is a request that the provider refused at its rate limit.
func RateLimited(id, run byte) Span {
	return RequestSpan(id, run, 0, 0).Refused(429, semconv.ProviderErrorKindRateLimited, "rate_limit_exceeded")
}

// FinishedRun is a run of one request that was answered.
func FinishedRun(trace byte) []Span {
	return []Span{RequestSpan(2, 1, 0.1, 1).Answered("stop", Answer).Of(trace), RunSpan(1, 0, 3, 1, 0).Of(trace)}
}

// Unannounced is a run of this project's client whose numbers cannot be read.
func Unannounced(s Span) Span { return s.With(semconv.RunRequests(-1), semconv.RunTools(-1)) }

// UncountedRun is a run that announces no numbers, and failed with a request that the provider
// refused: if that was all, it is safe to repeat.
func UncountedRun(from, to float64) []Span {
	return []Span{
		Unannounced(RunSpan(1, from, to, 1, 0)).Failed("429"),
		RequestSpan(2, 1, from+0.1, from+0.2).Refused(429, semconv.ProviderErrorKindRateLimited, "rate_limit_exceeded"),
	}
}

// ShownBefore is a request of the run that showed text.
func ShownBefore(from float64) Span {
	return RequestSpan(3, 1, from+0.01, from+0.05).Cut(semconv.PhaseText, semconv.TransportCauseConnectionReset, "ECONNRESET", Counts{Text: 2})
}
