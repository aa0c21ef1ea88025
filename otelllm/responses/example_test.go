package responses_test

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/otelllm/otelllm-go/otelllm"
	"github.com/otelllm/otelllm-go/otelllm/responses"
)

// A session is given every text frame, by the WebSocket library that you use.
func ExampleNewSession() {
	spans := tracetest.NewInMemoryExporter()
	with := otelllm.New(otelllm.WithTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))), otelllm.WithoutInferredRuns())

	session := responses.NewSession(context.Background(), responses.Config{URL: "wss://api.openai.com/v1/responses", Instrumentation: with})
	session.RecordSent([]byte(`{"type":"response.create","model":"gpt-5.5","input":"Hello"}`))
	session.RecordReceived([]byte(`{"type":"response.created","response":{"id":"resp_1","status":"in_progress"}}`))
	session.RecordReceived([]byte(`{"type":"response.output_text.delta","output_index":0,"delta":"Hel"}`))
	session.Close(io.ErrUnexpectedEOF) // the error of the library when the connection broke
	show(spans, "server.address", "llm.stream.end", "llm.stream.phase", "llm.transport.cause")
	// Output:
	// client chat gpt-5.5
	//   server.address api.openai.com
	//   llm.stream.end read_error
	//   llm.stream.phase text
	//   llm.transport.cause body_truncated
}

// A connection may outlive many runs. The context of a frame says which run its request
// belongs to.
func ExampleSession_RecordSentContext() {
	spans := tracetest.NewInMemoryExporter()
	with := otelllm.New(otelllm.WithTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))))
	session := responses.NewSession(context.Background(), responses.Config{Instrumentation: with})

	for _, turn := range []string{"1", "2"} {
		ctx, run := with.StartRun(context.Background(), "assistant")
		session.RecordSentContext(ctx, []byte(`{"type":"response.create","model":"gpt-5.5","input":"Hello"}`))
		session.RecordReceived([]byte(`{"type":"response.created","response":{"id":"resp_` + turn + `"}}`))
		session.RecordReceived([]byte(`{"type":"response.completed","response":{"id":"resp_` + turn + `","status":"completed","output":[]}}`))
		run.End(nil)
	}
	session.Close(nil)
	show(spans, "gen_ai.response.id")
	// Output:
	// client chat gpt-5.5
	//   gen_ai.response.id resp_1
	// internal invoke_agent assistant
	// client chat gpt-5.5
	//   gen_ai.response.id resp_2
	// internal invoke_agent assistant
}

// A frame that could not be written is recorded as well: the server never got the request.
func ExampleSession_RecordSendFailure() {
	spans := tracetest.NewInMemoryExporter()
	with := otelllm.New(otelllm.WithTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))), otelllm.WithoutInferredRuns())
	session := responses.NewSession(context.Background(), responses.Config{Instrumentation: with})

	write := func([]byte) error { return io.ErrClosedPipe } // that of the WebSocket library
	frame := []byte(`{"type":"response.create","model":"gpt-5.5","input":"Hello"}`)
	err := write(frame)
	if err != nil {
		session.RecordSendFailure(frame, err)
	} else {
		session.RecordSent(frame)
	}
	session.Close(err)
	show(spans, "llm.stream.end", "llm.transport.stage")
	// Output:
	// client chat gpt-5.5
	//   llm.stream.end no_response
	//   llm.transport.stage write
}

// Where a connection outlives a run, the context says whose request could not be written.
func ExampleSession_RecordSendFailureContext() {
	spans := tracetest.NewInMemoryExporter()
	with := otelllm.New(otelllm.WithTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))))
	session := responses.NewSession(context.Background(), responses.Config{Instrumentation: with})

	ctx, run := with.StartRun(context.Background(), "assistant")
	frame := []byte(`{"type":"response.create","model":"gpt-5.5","input":"Hello"}`)
	session.RecordSendFailureContext(ctx, frame, io.ErrClosedPipe)
	run.End(io.ErrClosedPipe)
	session.Close(io.ErrClosedPipe)
	show(spans, "llm.stream.end")
	fmt.Println(run.Diagnosis().Retry.Safety)
	// Output:
	// client chat gpt-5.5
	//   llm.stream.end no_response
	// internal invoke_agent assistant
	// safe_auto_retry
}

// A gateway has a session for the agent that it serves, and one for each connection to the
// provider. What the one could not deliver is not taken for a failure of the other.
func ExampleConfig() {
	spans := tracetest.NewInMemoryExporter()
	with := otelllm.New(otelllm.WithTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))), otelllm.WithoutInferredRuns())
	ctx, handshake := context.Background(), http.Header{"User-Agent": {"codex_exec/0.169.0"}} // of the agent's request

	agent := responses.NewSession(ctx, responses.Config{URL: "ws://localhost:8080/v1/responses", Header: handshake, Serving: true, Instrumentation: with})
	upstream := responses.NewSession(ctx, responses.Config{URL: "wss://api.openai.com/v1/responses", Upstream: agent, Instrumentation: with})

	frame := []byte(`{"type":"response.create","model":"gpt-5.5","input":"Hello"}`) // read from the agent
	agent.RecordReceived(frame)
	upstream.RecordSent(frame) // written to the provider

	frame = []byte(`{"type":"response.created","response":{"id":"resp_1"}}`) // read from the provider
	upstream.RecordReceived(frame)
	agent.RecordSent(frame) // written to the agent

	upstream.Close(io.ErrUnexpectedEOF) // the connection to the provider broke: it is closed first
	agent.Close(nil)
	show(spans, "llm.stream.end", "llm.transport.cause")
	// Output:
	// client chat gpt-5.5
	//   llm.stream.end read_error
	//   llm.transport.cause body_truncated
	// server chat gpt-5.5
	//   llm.stream.end eof
	//   llm.transport.cause body_truncated
}

// show prints the spans that have ended, with some of their attributes.
func show(spans *tracetest.InMemoryExporter, keys ...attribute.Key) {
	for _, span := range spans.GetSpans() {
		fmt.Println(span.SpanKind, span.Name)
		for _, key := range keys {
			for _, kv := range span.Attributes {
				if kv.Key == key {
					fmt.Println(" ", kv.Key, kv.Value.String())
				}
			}
		}
	}
}
