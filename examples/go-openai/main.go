// Go-openai answers a question about the weather with sashabaranov/go-openai: it streams, and it executes the one tool
// that it offers. Set OPENAI_API_KEY (OPENAI_BASE_URL for another endpoint), OTEL_EXPORTER_OTLP_ENDPOINT
// (http://localhost:4318 for a Collector on this machine) and OTEL_SERVICE_NAME (the name of this agent in the traces),
// then
//
//	go run ./go-openai 'Will it snow in Oslo?'
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	openai "github.com/sashabaranov/go-openai"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/trace"

	"github.com/otelllm/otelllm-go/otelllm"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// This SDK takes a stream that was cut for a whole one; WithStreamErrors makes the cut an error.
	if err := ask(ctx, os.Stdout, strings.Join(os.Args[1:], " "), otelllm.WithStreamErrors()); err != nil {
		log.Fatal(err)
	}
}

func ask(ctx context.Context, out io.Writer, question string, opts ...otelllm.TransportOption) error {
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return err
	}
	provider := trace.NewTracerProvider(trace.WithBatcher(exporter))
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second) // a signal may have cancelled ctx
		defer cancel()
		_ = provider.Shutdown(ctx) // sends what is left; OpenTelemetry logs what fails
	}()
	otel.SetTracerProvider(provider)

	config := openai.DefaultConfig(os.Getenv("OPENAI_API_KEY"))
	if url := os.Getenv("OPENAI_BASE_URL"); url != "" {
		config.BaseURL = url
	}
	config.HTTPClient = &http.Client{Transport: otelllm.NewTransport(http.DefaultTransport, opts...)}
	runCtx, run := otelllm.StartRun(ctx, "example", otelllm.WithToolsRecorded())
	err = converse(runCtx, openai.NewClientWithConfig(config), out, question)
	run.End(err)
	if d := run.Diagnosis(); d.Failed() { // even if the SDK reports no error
		fmt.Fprintf(out, "\n%s (%s: %s)\n", d.Summary, d.Retry.Safety, d.Retry.Reason)
	}
	return err
}

// converse asks until the model calls no more tools.
func converse(ctx context.Context, client *openai.Client, out io.Writer, question string) error {
	history := []openai.ChatCompletionMessage{{Role: openai.ChatMessageRoleUser, Content: question}}
	for {
		reply, err := read(ctx, client, out, history)
		if err != nil {
			return err
		}
		if len(reply.ToolCalls) == 0 {
			return nil
		}
		history = append(history, reply)
		for _, call := range reply.ToolCalls {
			toolCtx, tool := otelllm.StartTool(ctx, otelllm.ToolCall{ID: call.ID, Name: call.Function.Name, Effect: otelllm.EffectReadOnly})
			output, err := forecast(toolCtx, call.Function.Arguments)
			tool.End(err)
			if err != nil {
				return err
			}
			history = append(history, openai.ChatCompletionMessage{Role: openai.ChatMessageRoleTool, Content: output, ToolCallID: call.ID})
		}
	}
}

// read reads one answer and writes its text as it arrives.
func read(ctx context.Context, client *openai.Client, out io.Writer, history []openai.ChatCompletionMessage) (openai.ChatCompletionMessage, error) {
	reply := openai.ChatCompletionMessage{Role: openai.ChatMessageRoleAssistant}
	stream, err := client.CreateChatCompletionStream(ctx, openai.ChatCompletionRequest{
		Model: "gpt-5.5", Messages: history, Stream: true,
		Tools: []openai.Tool{{Type: openai.ToolTypeFunction, Function: &openai.FunctionDefinition{
			Name: "forecast", Description: "The weather of tomorrow in a city.", Parameters: json.RawMessage(
				`{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}`,
			),
		}}},
	})
	if err != nil {
		return reply, err
	}
	defer stream.Close()
	for {
		chunk, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return reply, nil
		}
		if err != nil {
			return reply, err
		}
		for _, choice := range chunk.Choices {
			fmt.Fprint(out, choice.Delta.Content)
			reply.Content += choice.Delta.Content
			for _, piece := range choice.Delta.ToolCalls {
				for *piece.Index >= len(reply.ToolCalls) {
					reply.ToolCalls = append(reply.ToolCalls, openai.ToolCall{Type: openai.ToolTypeFunction})
				}
				call := &reply.ToolCalls[*piece.Index]
				call.ID += piece.ID
				call.Function.Name += piece.Function.Name
				call.Function.Arguments += piece.Function.Arguments
			}
		}
	}
}

// forecast is the tool.
func forecast(_ context.Context, arguments string) (string, error) {
	var where struct{ City string }
	if err := json.Unmarshal([]byte(arguments), &where); err != nil {
		return "", fmt.Errorf("%w: forecast: %w", otelllm.ErrToolInvalidInput, err)
	}
	return "Snow in " + where.City + ".", nil
}
