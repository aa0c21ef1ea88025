package otelllm_test

import (
	"context"
	"fmt"
	"io"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/otelllm/otelllm-go/otelllm"
)

// A model that is not reached over HTTP tells its steps itself.
func ExampleStartRequest() {
	ctx, run := otelllm.StartRun(context.Background(), "coder", otelllm.WithToolsRecorded())
	_, request := otelllm.StartRequest(ctx, otelllm.RequestInfo{
		Provider: "acme", Model: "in-process-7b", Stream: true,
		// None, and that is known: what is left out makes the verdict more careful.
		ProviderTools: []string{}, HistoryCalls: []string{}, HistoryOutputs: []string{},
	})
	request.RecordSent()
	request.RecordResponseStarted(0)
	request.RecordReasoning()
	request.RecordToolCall("call_1", "read_file")
	request.End(io.ErrUnexpectedEOF) // it died before it said that it had finished
	run.End(io.ErrUnexpectedEOF)

	d := run.Diagnosis()
	fmt.Println(d.Class, d.Phase, d.Retry.Safety, d.Retry.Reason)
	// Output:
	// stream_interrupted tool_call_ready safe_auto_retry tool_call_not_executed
}

// A realtime session gets every text frame, by whatever library reads them.
func ExampleNewRealtime() {
	spans := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))

	session := otelllm.NewRealtime(context.Background(), otelllm.WithTracerProvider(provider))
	session.RecordReceived([]byte(`{"type":"session.created","session":{"model":"gpt-realtime"}}`))
	session.RecordSent([]byte(`{"type":"response.create"}`))
	session.RecordReceived([]byte(`{"type":"response.created","response":{"id":"resp_1","status":"in_progress"}}`))
	session.RecordReceived([]byte(`{"type":"response.output_text.delta","response_id":"resp_1","delta":"Hel"}`))
	session.Close(io.ErrUnexpectedEOF) // what the library said when the session broke
	show(spans, "llm.stream.end", "llm.stream.phase", "llm.transport.cause")
	// Output:
	// chat gpt-realtime
	//   llm.stream.end read_error
	//   llm.stream.phase text
	//   llm.transport.cause body_truncated
}
