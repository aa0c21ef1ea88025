package otelllm_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/otelllm/otelllm-go/otelllm"
	"github.com/otelllm/otelllm-go/otelllm/classify"
)

// A run knows whether what broke may be tried again.
func ExampleStartRun() {
	server := model(true, tool) // the connection breaks in the middle of a tool call
	defer server.Close()
	client := &http.Client{Transport: otelllm.NewTransport(http.DefaultTransport)}

	ctx, run := otelllm.StartRun(context.Background(), "coder", otelllm.WithConversationID("conversation-7"), otelllm.WithToolsRecorded())
	err := ask(ctx, client, server.URL)
	if err != nil {
		d := run.Diagnosis()
		fmt.Println(d.Class, d.Cause, d.Phase)
		fmt.Println(d.Retry.Safety == classify.SafeAutoRetry, d.Retry.Reason)
	}
	run.End(err)
	// Output:
	// stream_interrupted body_truncated tool_input
	// true incomplete_tool_input
}

// The first verdicts need no Collector: here the client writes them itself.
func ExampleWithVerdicts() {
	server := model(true, tool)
	defer server.Close()
	spans := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	client := &http.Client{Transport: otelllm.NewTransport(http.DefaultTransport)}

	ctx, run := otelllm.StartRun(context.Background(), "coder", otelllm.WithTracerProvider(provider), otelllm.WithVerdicts(), otelllm.WithToolsRecorded())
	run.End(ask(ctx, client, server.URL))
	show(spans, "llm.run.outcome", "llm.failure.class", "llm.retry.safety", "llm.classification.trigger")
	// Output:
	// chat gpt-5
	//   llm.failure.class stream_interrupted
	//   llm.retry.safety safe_auto_retry
	//   llm.classification.trigger client
	// invoke_agent coder
	//   llm.run.outcome failed
	//   llm.failure.class stream_interrupted
	//   llm.retry.safety safe_auto_retry
	//   llm.classification.trigger client
}

// A deliberate end is told from a broken connection.
func ExampleWithAbort() {
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done() // silent until the client goes
	}))
	defer server.Close()
	client := &http.Client{Transport: otelllm.NewTransport(http.DefaultTransport)}

	ctx, abort := otelllm.WithAbort(context.Background())
	ctx, run := otelllm.StartRun(ctx, "coder")
	go abort(otelllm.AbortUser, "stop_button")
	err := ask(ctx, client, server.URL)
	run.End(err)

	d := run.Diagnosis()
	fmt.Println(errors.Is(err, context.Canceled))
	fmt.Println(d.Outcome, d.Class, d.Cause, d.Retry.Safety)
	// Output:
	// true
	// aborted local_abort user no_retry
}

// What a process still has open when it goes down is recorded as aborted by it.
func ExampleShutdown() {
	spans := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	_, run := otelllm.StartRun(context.Background(), "coder", otelllm.WithTracerProvider(provider))

	_ = otelllm.Shutdown(context.Background())
	_ = provider.Shutdown(context.Background())
	fmt.Println(run.Diagnosis().Outcome, run.Diagnosis().Cause)
	// Output:
	// aborted shutdown
}

// A tool says what it may do, and how it went; after that nothing that would
// repeat it is safe.
func ExampleStartTool() {
	server := model(true)
	defer server.Close()
	client := &http.Client{Transport: otelllm.NewTransport(http.DefaultTransport)}
	ctx, run := otelllm.StartRun(context.Background(), "coder")

	toolCtx, tool := otelllm.StartTool(ctx, otelllm.ToolCall{ID: "call_1", Name: "apply_patch", Effect: otelllm.EffectNonIdempotent})
	err := applyPatch(toolCtx)
	tool.End(err)
	tool.RecordOutputSent() // where the output travels on its own, outside of the next request

	err = ask(ctx, client, server.URL)
	d := run.Diagnosis()
	fmt.Println(d.Class, d.Retry.Safety, d.Retry.Reason)
	run.End(err)
	// Output:
	// stream_interrupted user_confirmed_retry tool_side_effect
}

func applyPatch(context.Context) error { return nil }

// The effect of an MCP tool, from its annotations.
func ExampleToolEffectFromMCP() {
	var annotations *otelllm.MCPAnnotations // (*otelllm.MCPAnnotations)(tool.Annotations)
	fmt.Println(otelllm.ToolEffectFromMCP(annotations))
	fmt.Println(otelllm.ToolEffectFromMCP(&otelllm.MCPAnnotations{ReadOnlyHint: true}))
	// Output:
	// unknown
	// read_only
}
