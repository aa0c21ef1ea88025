package otelllm_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/otelllm/otelllm-go/otelllm"
	"github.com/otelllm/otelllm-go/otelllm/classify"
)

// model is a server that streams these events and then breaks, or ends well.
func model(broken bool, events ...string) *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		for _, e := range events {
			_, _ = io.WriteString(w, "data: "+e+"\n\n")
			_ = http.NewResponseController(w).Flush()
		}
		if broken {
			panic(http.ErrAbortHandler)
		}
	}))
}

// ask is what an SDK does: one request, and the stream read to its end.
func ask(ctx context.Context, client *http.Client, baseURL string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, baseURL+"/v1/chat/completions",
		strings.NewReader(`{"model":"gpt-5","stream":true,"messages":[{"role":"user","content":"hi"}]}`))
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

const (
	text   = `{"id":"c1","choices":[{"index":0,"delta":{"content":"Hello"}}]}`
	tool   = `{"id":"c1","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_1","function":{"name":"apply_patch","arguments":"{\"pa"}}]}}]}`
	finish = `{"id":"c1","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`
	done   = `[DONE]`
)

// One line makes every model call of a client a span.
func ExampleNewTransport() {
	server := model(false, text, finish, done)
	defer server.Close()
	spans := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))

	client := &http.Client{Transport: otelllm.NewTransport(http.DefaultTransport, otelllm.WithTracerProvider(provider))}
	if err := ask(context.Background(), client, server.URL); err != nil {
		fmt.Println(err)
	}

	span := spans.GetSpans()[0]
	fmt.Println(span.Name)
	for _, kv := range span.Attributes {
		switch kv.Key {
		case "llm.stream.end", "llm.stream.phase", "gen_ai.response.finish_reasons":
			fmt.Println(kv.Key, kv.Value.String())
		}
	}
	// Output:
	// chat gpt-5
	// llm.stream.phase stream_end
	// llm.stream.end terminal_event
	// gen_ai.response.finish_reasons ["stop"]
}

// A run knows whether what broke may be tried again.
func ExampleStartRun() {
	server := model(true, tool) // the connection breaks in the middle of a tool call
	defer server.Close()
	client := &http.Client{Transport: otelllm.NewTransport(http.DefaultTransport)}

	ctx, run := otelllm.StartRun(context.Background(), "coder", otelllm.WithConversationID("conversation-7"))
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

// A tool says what it may do, and how it went; after that nothing that would
// repeat it is safe.
func ExampleStartTool() {
	server := model(true)
	defer server.Close()
	client := &http.Client{Transport: otelllm.NewTransport(http.DefaultTransport)}
	ctx, run := otelllm.StartRun(context.Background(), "coder")

	toolCtx, tool := otelllm.StartTool(ctx, otelllm.ToolCall{ID: "call_1", Name: "apply_patch", Effect: otelllm.NonIdempotent})
	err := applyPatch(toolCtx)
	tool.End(err)
	tool.OutputSent() // where the output travels on its own, outside of the next request

	err = ask(ctx, client, server.URL)
	d := run.Diagnosis()
	fmt.Println(d.Class, d.Retry.Safety, d.Retry.Reason)
	run.End(err)
	// Output:
	// stream_interrupted user_confirmed_retry tool_side_effect
}

func applyPatch(context.Context) error { return nil }

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
