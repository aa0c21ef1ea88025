package otelllm_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/otelllm/otelllm-go/otelllm"
	"github.com/otelllm/otelllm-go/otelllm/manual"
)

// An Instrumentation keeps what is recorded for one part of an application apart: its
// options, and what its Shutdown ends.
func ExampleNew() {
	server := model(false, text, finish, done)
	defer server.Close()
	spans := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))

	llm := otelllm.New(otelllm.WithTracerProvider(provider), otelllm.WithVerdicts())
	client := &http.Client{Transport: llm.NewTransport(http.DefaultTransport)}

	ctx, run := llm.StartRun(context.Background(), "coder")
	toolCtx, tool := llm.StartTool(ctx, otelllm.ToolCall{ID: "call_1", Name: "apply_patch", Effect: otelllm.EffectNonIdempotent})
	tool.End(applyPatch(toolCtx))
	run.End(ask(ctx, client, server.URL))
	show(spans, "llm.run.outcome")
	// Output:
	// chat gpt-5
	// execute_tool apply_patch
	// invoke_agent coder
	//   llm.run.outcome succeeded
}

// Shutdown ends what the methods of its own Instrumentation began, and nothing else.
func ExampleInstrumentation_Shutdown() {
	spans := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	plugin, other := otelllm.New(otelllm.WithTracerProvider(provider)), otelllm.New(otelllm.WithTracerProvider(provider))

	_, run := other.StartRun(context.Background(), "coder")
	_, request := manual.Start(context.Background(), manual.RequestInfo{Provider: "acme", Model: "acme-1", Instrumentation: plugin})

	_ = plugin.Shutdown(context.Background())
	show(spans, "llm.abort.source")
	fmt.Println("the other part ends its own:")
	spans.Reset()
	request.End(nil) // has ended
	run.End(nil)
	show(spans, "llm.abort.source")
	// Output:
	// chat acme-1
	//   llm.abort.source shutdown
	// the other part ends its own:
	// invoke_agent coder
}

// The type of an option says where it has an effect: one that would have none does not compile.
func ExampleOption() {
	spans := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	settings := struct {
		everywhere otelllm.CommonOption // runs and model calls
		calls      otelllm.CallOption   // model calls, made or served
	}{
		otelllm.WithTracerProvider(provider),
		otelllm.WithProviderName("acme"),
	}
	var (
		options   = []otelllm.Option{settings.everywhere, settings.calls, otelllm.WithMeterProvider(metric.NewMeterProvider())}
		transport = []otelllm.TransportOption{otelllm.WithPropagators(propagation.TraceContext{}), otelllm.WithStreamErrors()}
		handler   = []otelllm.HandlerOption{otelllm.WithPropagators(propagation.TraceContext{}), otelllm.WithoutEvents()}
		run       = []otelllm.RunOption{otelllm.WithToolsRecorded()}
	)

	llm := otelllm.New(options...)
	gateway := httptest.NewServer(llm.NewHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, request := manual.Start(r.Context(), manual.RequestInfo{Model: "in-process-7b", Stream: true, Instrumentation: llm})
		request.RecordText()
		request.RecordFinish("stop")
		request.End(nil)
		stream(w, r, text, finish, done)
	}), handler...))

	// The gateway infers the run of the agent behind it.
	ctx, agent := llm.StartRun(context.Background(), "coder", run...)
	agent.End(ask(ctx, &http.Client{Transport: llm.NewTransport(http.DefaultTransport, transport...)}, gateway.URL))
	gateway.Close() // waits for the handler
	for _, span := range spans.GetSpans() {
		fmt.Println(span.Name, span.SpanKind)
	}
	// Unordered output:
	// chat in-process-7b client
	// chat gpt-5 server
	// chat gpt-5 client
	// invoke_agent agent internal
	// invoke_agent coder internal
}
