package manual_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/otelllm/otelllm-go/otelllm"
	"github.com/otelllm/otelllm-go/otelllm/manual"
)

// The steps of a model that is not called over HTTP are recorded one by one.
func ExampleStart() {
	ctx, run := otelllm.StartRun(context.Background(), "coder", otelllm.WithToolsRecorded())
	_, request := manual.Start(ctx, manual.RequestInfo{
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

	_, request := manual.Start(context.Background(), manual.RequestInfo{
		Provider: "acme", Model: "acme-1", Stream: true,
		Instrumentation: otelllm.New(otelllm.WithTracerProvider(provider)),
	})
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
	_, request := manual.Start(ctx, manual.RequestInfo{
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
