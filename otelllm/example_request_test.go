package otelllm_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/otelllm/otelllm-go/otelllm"
)

// The steps of a model that is not called over HTTP are recorded one by one.
func ExampleStartRequest() {
	ctx, run := otelllm.StartRun(context.Background(), "coder", otelllm.WithToolsRecorded())
	_, request := otelllm.StartRequest(ctx, otelllm.RequestInfo{
		Provider: "acme", Model: "in-process-7b", Stream: true,
		// Empty: known to have none. What is left out, and so is not known, makes the verdict
		// more cautious.
		ProviderTools: []string{}, HistoryCalls: []string{}, HistoryOutputs: []string{},
	})
	request.RecordSent()
	request.RecordResponseStarted(0)
	request.RecordReasoning()
	request.RecordToolCall("call_1", "read_file")
	request.End(io.ErrUnexpectedEOF) // it ended before its final event
	run.End(io.ErrUnexpectedEOF)

	d := run.Diagnosis()
	fmt.Println(d.Class, d.Phase, d.Retry.Safety, d.Retry.Reason)
	// Output:
	// stream_interrupted tool_call_ready safe_auto_retry tool_call_not_executed
}

// A realtime session is given every text frame, by the WebSocket library that you use.
func ExampleNewRealtime() {
	spans := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))

	session := otelllm.NewRealtime(context.Background(), otelllm.WithTracerProvider(provider))
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
}

// The events of a transport of your own become calls of a Request.
func ExampleRequest() {
	spans := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	type event struct {
		kind, id, name string
		tokens         int
	}
	events := []event{
		{kind: "accepted", id: "answer-1", name: "acme-1-2026"},
		{kind: "ping"},
		{kind: "thinking"},
		{kind: "text"},
		{kind: "search"},
		{kind: "call", id: "call_1", name: "read_file"},
		{kind: "input", id: "call_1"},
		{kind: "prompt_tokens", tokens: 12},
		{kind: "answer_tokens", tokens: 34},
		{kind: "finished", name: "tool_calls"},
	}

	_, request := otelllm.StartRequest(context.Background(), otelllm.RequestInfo{Provider: "acme", Model: "acme-1", Stream: true},
		otelllm.WithTracerProvider(provider))
	request.RecordSent()
	for _, e := range events {
		switch e.kind {
		case "accepted":
			request.RecordResponseStarted(0) // of no HTTP status
			request.SetResponse(e.id, e.name)
		case "ping":
			request.RecordKeepalive()
		case "thinking":
			request.RecordReasoning()
		case "text":
			request.RecordText()
		case "search": // a tool that the provider executes
			request.RecordProviderTool()
		case "call":
			request.RecordToolInputStarted(e.id, e.name)
		case "input":
			request.RecordToolInputCompleted(e.id)
		case "prompt_tokens":
			request.SetInputTokens(e.tokens)
		case "answer_tokens":
			request.SetOutputTokens(e.tokens)
		case "finished":
			request.RecordFinish(e.name)
		}
	}
	request.End(nil)
	show(spans, "gen_ai.response.model", "llm.stream.text_chunks", "gen_ai.usage.output_tokens", "llm.stream.end")
	// Output:
	// chat acme-1
	//   gen_ai.response.model acme-1-2026
	//   llm.stream.text_chunks 1
	//   gen_ai.usage.output_tokens 34
	//   llm.stream.end terminal_event
}

// An error that the provider reports says how long to wait.
func ExampleRequest_RecordProviderError() {
	ctx, run := otelllm.StartRun(context.Background(), "coder", otelllm.WithToolsRecorded())
	_, request := otelllm.StartRequest(ctx, otelllm.RequestInfo{
		Provider: "acme", Model: "acme-1",
		ProviderTools: []string{}, HistoryCalls: []string{}, HistoryOutputs: []string{},
	})
	request.RecordSent()
	request.RecordProviderError(http.StatusServiceUnavailable, "overloaded", 3*time.Second)
	err := errors.New("overloaded")
	request.End(err)
	run.End(err)

	d := run.Diagnosis()
	fmt.Println(d.Class, d.Cause, d.Retry.Safety, d.Retry.After)
	// Output:
	// provider_error overloaded safe_auto_retry 3s
}

// A frame that could not be written is recorded as well: the model never got this output.
func ExampleRealtime_RecordSendFailure() {
	spans := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	ctx, run := otelllm.StartRun(context.Background(), "assistant", otelllm.WithTracerProvider(provider))
	session := otelllm.NewRealtime(ctx)
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
