package otelllm_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/otelllm/otelllm-go/otelllm"
	"github.com/otelllm/otelllm-go/semconv"
)

const (
	question = `{"role":"user","content":"What is in the repository?"}`
	callLs   = `{"role":"assistant","tool_calls":[{"id":"call_7Hq2LmZx","type":"function","function":{"name":"ls","arguments":"{}"}}]}`
	output   = `{"role":"tool","tool_call_id":"call_7Hq2LmZx","content":"README.md"}`
)

// scripted returns a server that gives one answer after the other.
func scripted(answers ...[]string) *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := answers[0]
		answers = answers[1:]
		stream(w, r, answer...)
	}))
}

// wantsLs is an answer that calls a tool.
var wantsLs = []string{
	`{"id":"c1","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_7Hq2LmZx","type":"function","function":{"name":"ls","arguments":"{}"}}]}}]}`,
	`{"id":"c1","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`, done,
}

// chat sends a conversation to the model.
func chat(client *http.Client, baseURL string, messages ...string) {
	body := `{"model":"gpt-5","stream":true,"messages":[` + strings.Join(messages, ",") + `]}`
	if err := post(context.Background(), client, baseURL+"/v1/chat/completions", body); err != nil {
		fmt.Println(err)
	}
}

// The transport alone is enough for a run of an agent with its tools: the second request
// has the first one's messages, with the answer and the output of its tool.
func ExampleNewTransport_run() {
	server := scripted(wantsLs, []string{text, finish, done})
	defer server.Close()
	spans := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))

	client := &http.Client{Transport: otelllm.NewTransport(http.DefaultTransport, otelllm.WithTracerProvider(provider))}
	chat(client, server.URL, question)
	chat(client, server.URL, question, callLs, output)
	show(spans, "llm.run.end", "llm.tool.observed")
	// Output:
	// chat gpt-5
	// execute_tool ls
	//   llm.tool.observed history
	// chat gpt-5
	// invoke_agent agent
	//   llm.run.end answer
}

// An agent that tries again after an hour, and whose tools may take a day.
func ExampleWithInferredRuns() {
	server := scripted(wantsLs)
	defer server.Close()
	spans := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))

	llm := otelllm.New(otelllm.WithTracerProvider(provider), otelllm.WithInferredRuns(otelllm.InferredRuns{
		RetryWait:  90 * time.Minute,
		OutputWait: 24 * time.Hour,
	}))
	chat(&http.Client{Transport: llm.NewTransport(http.DefaultTransport)}, server.URL, question)
	_ = llm.Shutdown(context.Background()) // otherwise the run would wait for the output of ls
	show(spans, "llm.run.end")
	// Output:
	// chat gpt-5
	// invoke_agent agent
	//   llm.run.end shutdown
}

// The agent has exited, so the output of its tool will not come. It may have wanted the call
// alone: nothing is claimed about the run.
func ExampleInstrumentation_EndInferredRuns() {
	server := scripted(wantsLs)
	defer server.Close()
	spans := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))

	llm := otelllm.New(otelllm.WithTracerProvider(provider))
	chat(&http.Client{Transport: llm.NewTransport(http.DefaultTransport)}, server.URL, question)
	llm.EndInferredRuns()
	_ = llm.Shutdown(context.Background())
	show(spans, "llm.run.end")
	// Output:
	// chat gpt-5
	// invoke_agent agent
	//   llm.run.end unclear
}

// The agent was killed, so the output of its tool will not come: the run is incomplete.
func ExampleInstrumentation_EndInferredRunsBy() {
	server := scripted(wantsLs)
	defer server.Close()
	spans := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))

	llm := otelllm.New(otelllm.WithTracerProvider(provider))
	chat(&http.Client{Transport: llm.NewTransport(http.DefaultTransport)}, server.URL, question)
	llm.EndInferredRunsBy(semconv.RunEndProcessDied)
	show(spans, "llm.run.end")
	// Output:
	// chat gpt-5
	// invoke_agent agent
	//   llm.run.end process_died
}

// Every request is recorded as it is, without the run that it may belong to.
func ExampleWithoutInferredRuns() {
	server := scripted(wantsLs, []string{text, finish, done})
	defer server.Close()
	spans := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))

	client := &http.Client{Transport: otelllm.NewTransport(http.DefaultTransport,
		otelllm.WithTracerProvider(provider), otelllm.WithoutInferredRuns())}
	chat(client, server.URL, question)
	chat(client, server.URL, question, callLs, output)
	show(spans)
	// Output:
	// chat gpt-5
	// chat gpt-5
}
