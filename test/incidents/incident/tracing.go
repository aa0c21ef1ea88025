package incident

import (
	"context"
	"net/http"

	"github.com/anthropics/anthropic-sdk-go/option"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/otelllm/otelllm-go/otelllm"
	"github.com/otelllm/otelllm-go/test/internal/agent"
)

// Tracing is one way of instrumenting a program.
type Tracing interface {
	// Transport wraps an HTTP client's transport. The options are for otelllm only.
	Transport(base http.RoundTripper, opts ...otelllm.TransportOption) http.RoundTripper
	// Handler wraps the serving side of a gateway.
	Handler(next http.Handler) http.Handler
	// SDK returns the options of Anthropic's client for its own spans.
	SDK() []option.RequestOption
	// Run starts an agent's run.
	Run(ctx context.Context, agent string) (context.Context, func(error))
	// Chat starts a call of the model.
	Chat(ctx context.Context, model string) (context.Context, func(error))
	// Shown records that a tool call has begun to stream in and is on the screen.
	Shown(ctx context.Context, call agent.Call) Tool
	// Tool starts the execution of a tool call. shown is the result of Shown, nil if
	// the call was not shown.
	Tool(ctx context.Context, call agent.Call, effect otelllm.Effect, shown Tool) (context.Context, Tool)
}

// Tool is one tool call.
type Tool interface {
	Done(err error)      // it has been executed
	Delivered(err error) // its output was sent to the model separately, or failed to be
	Close(err error)     // the program is done with it
}

// Otelllm returns the instrumentation that the README describes.
func Otelllm(tp trace.TracerProvider) Tracing { return ours{tp} }

type ours struct{ tp trace.TracerProvider }

func (o ours) Transport(base http.RoundTripper, opts ...otelllm.TransportOption) http.RoundTripper {
	return otelllm.NewTransport(base, append(opts, otelllm.WithTracerProvider(o.tp))...)
}

func (o ours) Handler(next http.Handler) http.Handler {
	return otelllm.NewHandler(next, otelllm.WithTracerProvider(o.tp), otelllm.WithPropagators(propagation.TraceContext{}))
}

func (ours) SDK() []option.RequestOption {
	return []option.RequestOption{option.WithOpenTelemetryTraces(false)}
}

func (o ours) Run(ctx context.Context, name string) (context.Context, func(error)) {
	ctx, run := otelllm.StartRun(ctx, name, otelllm.WithTracerProvider(o.tp), otelllm.WithToolsRecorded())
	return ctx, run.End
}

func (ours) Chat(ctx context.Context, _ string) (context.Context, func(error)) {
	return ctx, func(error) {} // the transport creates this span
}

func (ours) Shown(context.Context, agent.Call) Tool { return nothing{} } // the tool does not run yet

func (ours) Tool(ctx context.Context, call agent.Call, effect otelllm.Effect, _ Tool) (context.Context, Tool) {
	ctx, t := otelllm.StartTool(ctx, otelllm.ToolCall{ID: call.ID, Name: call.Name, Effect: effect})
	return ctx, ourTool{t}
}

type nothing struct{}

func (nothing) Done(error)      {}
func (nothing) Delivered(error) {}
func (nothing) Close(error)     {}

type ourTool struct{ *otelllm.Tool }

func (t ourTool) Done(err error) { t.End(err) }

func (t ourTool) Delivered(err error) {
	if err != nil {
		t.RecordOutputFailure(err)
		return
	}
	t.RecordOutputSent()
}

func (ourTool) Close(error) {}

// Usual returns the instrumentation that agents usually have: HTTP by otelhttp,
// Anthropic's calls by its own client, and the rest by hand, with a span around each
// function and the error that the function returned.
func Usual(tp trace.TracerProvider) Tracing { return usual{tp, tp.Tracer("agent")} }

type usual struct {
	tp     trace.TracerProvider
	tracer trace.Tracer
}

func (u usual) Transport(base http.RoundTripper, _ ...otelllm.TransportOption) http.RoundTripper {
	return otelhttp.NewTransport(base, otelhttp.WithTracerProvider(u.tp), otelhttp.WithPropagators(propagation.TraceContext{}))
}

func (u usual) Handler(next http.Handler) http.Handler {
	return otelhttp.NewHandler(next, "gateway", otelhttp.WithTracerProvider(u.tp), otelhttp.WithPropagators(propagation.TraceContext{}))
}

func (u usual) SDK() []option.RequestOption {
	return []option.RequestOption{option.WithTracerProvider(u.tp), option.WithOpenTelemetryPropagation(false)}
}

func (u usual) Run(ctx context.Context, name string) (context.Context, func(error)) {
	return u.span(ctx, "invoke_agent "+name, otelsemconv.GenAIOperationNameInvokeAgent, otelsemconv.GenAIAgentName(name))
}

func (u usual) Chat(ctx context.Context, model string) (context.Context, func(error)) {
	return u.span(ctx, "chat "+model, otelsemconv.GenAIOperationNameChat, otelsemconv.GenAIRequestModel(model))
}

func (u usual) Shown(ctx context.Context, call agent.Call) Tool {
	_, end := u.tool(ctx, call)
	return usualTool{end}
}

func (u usual) Tool(ctx context.Context, call agent.Call, _ otelllm.Effect, shown Tool) (context.Context, Tool) {
	if shown != nil {
		return ctx, shown
	}
	ctx, end := u.tool(ctx, call)
	return ctx, usualTool{end}
}

func (u usual) tool(ctx context.Context, call agent.Call) (context.Context, func(error)) {
	return u.span(ctx, "execute_tool "+call.Name, otelsemconv.GenAIOperationNameExecuteTool,
		otelsemconv.GenAIToolName(call.Name), otelsemconv.GenAIToolCallID(call.ID))
}

func (u usual) span(ctx context.Context, name string, attrs ...attribute.KeyValue) (context.Context, func(error)) {
	ctx, span := u.tracer.Start(ctx, name, trace.WithAttributes(attrs...))
	return ctx, func(err error) {
		if err != nil {
			span.RecordError(err)
			span.SetStatus(codes.Error, err.Error())
		}
		span.End()
	}
}

type usualTool struct{ end func(error) }

func (usualTool) Done(error)        {} // a failure is an output that the model gets
func (usualTool) Delivered(error)   {} // Close records the returned error
func (t usualTool) Close(err error) { t.end(err) }
