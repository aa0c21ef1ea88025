package realtime_test

import (
	"context"
	"fmt"
	"io"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/otelllm/otelllm-go/otelllm"
	"github.com/otelllm/otelllm-go/otelllm/realtime"
)

// A realtime session is given every text frame, by the WebSocket library that you use.
func ExampleNewSession() {
	spans := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))

	session := realtime.NewSession(context.Background(), realtime.Config{Instrumentation: otelllm.New(otelllm.WithTracerProvider(provider))})
	session.RecordReceived([]byte(`{"type":"session.created","session":{"model":"gpt-realtime"}}`))
	session.RecordSent([]byte(`{"type":"response.create"}`))
	session.RecordReceived([]byte(`{"type":"response.created","response":{"id":"resp_1","status":"in_progress"}}`))
	session.RecordReceived([]byte(`{"type":"response.output_text.delta","response_id":"resp_1","delta":"Hel"}`))
	session.Close(io.ErrUnexpectedEOF) // the error of the library when the session broke
	show(spans, "llm.stream.end", "llm.stream.phase", "llm.transport.cause")
	// Output:
	// chat gpt-realtime
	//   llm.stream.end read_error
	//   llm.stream.phase text
	//   llm.transport.cause body_truncated
	// invoke_agent agent
}

// A frame that could not be written is recorded as well: the model never got this output.
func ExampleSession_RecordSendFailure() {
	spans := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	ctx, run := otelllm.StartRun(context.Background(), "assistant", otelllm.WithTracerProvider(provider))
	session := realtime.NewSession(ctx, realtime.Config{})
	_, tool := otelllm.StartTool(ctx, otelllm.ToolCall{ID: "call_1", Name: "look_up", Effect: otelllm.EffectReadOnly})
	tool.End(nil)

	write := func([]byte) error { return io.ErrClosedPipe } // that of the WebSocket library
	frame := []byte(`{"type":"conversation.item.create","item":{"type":"function_call_output","call_id":"call_1","output":"42"}}`)
	err := write(frame)
	if err != nil {
		session.RecordSendFailure(frame, err)
	} else {
		session.RecordSent(frame)
	}
	session.Close(err)
	run.End(err)
	show(spans, "llm.tool.output_delivery")
	// Output:
	// execute_tool look_up
	//   llm.tool.output_delivery failed
	// invoke_agent assistant
}

// show prints the spans that have ended, with some of their attributes.
func show(spans *tracetest.InMemoryExporter, keys ...attribute.Key) {
	for _, span := range spans.GetSpans() {
		fmt.Println(span.Name)
		for _, key := range keys {
			for _, kv := range span.Attributes {
				if kv.Key == key {
					fmt.Println(" ", kv.Key, kv.Value.String())
				}
			}
		}
	}
}
