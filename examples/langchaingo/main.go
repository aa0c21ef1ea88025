// Langchaingo answers a question about the weather with tmc/langchaingo: it streams, and it executes the one tool that
// it offers. Set OPENAI_API_KEY (OPENAI_BASE_URL for another endpoint), OTEL_EXPORTER_OTLP_ENDPOINT
// (http://localhost:4318 for a Collector on this machine) and OTEL_SERVICE_NAME (the name of this agent in the traces),
// then
//
//	go run ./langchaingo 'Will it snow in Oslo?'
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/tmc/langchaingo/llms"
	"github.com/tmc/langchaingo/llms/openai"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/trace"

	"github.com/otelllm/otelllm-go/otelllm"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// langchaingo takes a stream that was cut for a whole one; WithStreamErrors makes the cut an error.
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

	model, err := openai.New( // reads OPENAI_API_KEY and OPENAI_BASE_URL
		openai.WithModel("gpt-5.5"),
		openai.WithHTTPClient(&http.Client{Transport: otelllm.NewTransport(http.DefaultTransport, opts...)}),
	)
	if err != nil {
		return err
	}
	runCtx, run := otelllm.StartRun(ctx, "example", otelllm.WithToolsRecorded())
	err = converse(runCtx, model, out, question)
	run.End(err)
	if d := run.Diagnosis(); d.Failed() { // even if langchaingo reports no error
		fmt.Fprintf(out, "\n%s (%s: %s)\n", d.Summary, d.Retry.Safety, d.Retry.Reason)
	}
	return err
}

// converse asks until the model calls no more tools.
func converse(ctx context.Context, model llms.Model, out io.Writer, question string) error {
	history := []llms.MessageContent{llms.TextParts(llms.ChatMessageTypeHuman, question)}
	for {
		response, err := model.GenerateContent(ctx, history, llms.WithTools(tools), llms.WithStreamingFunc(
			func(_ context.Context, chunk []byte) error {
				if !bytes.HasPrefix(chunk, []byte(`[{"`)) { // pieces of tool calls arrive here too, as JSON
					fmt.Fprint(out, string(chunk))
				}
				return nil
			},
		))
		if err != nil {
			return err
		}
		reply := response.Choices[0]
		if len(reply.ToolCalls) == 0 {
			return nil
		}
		message := llms.TextParts(llms.ChatMessageTypeAI, reply.Content)
		for _, call := range reply.ToolCalls {
			message.Parts = append(message.Parts, call)
		}
		history = append(history, message)
		for _, call := range reply.ToolCalls {
			toolCtx, tool := otelllm.StartTool(ctx, otelllm.ToolCall{ID: call.ID, Name: call.FunctionCall.Name, Effect: otelllm.EffectReadOnly})
			output, err := forecast(toolCtx, call.FunctionCall.Arguments)
			tool.End(err)
			if err != nil {
				return err
			}
			history = append(history, llms.MessageContent{Role: llms.ChatMessageTypeTool, Parts: []llms.ContentPart{
				llms.ToolCallResponse{ToolCallID: call.ID, Name: call.FunctionCall.Name, Content: output},
			}})
		}
	}
}

var tools = []llms.Tool{{Type: "function", Function: &llms.FunctionDefinition{
	Name: "forecast", Description: "The weather of tomorrow in a city.", Parameters: json.RawMessage(
		`{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}`,
	),
}}}

// forecast is the tool.
func forecast(_ context.Context, arguments string) (string, error) {
	var where struct{ City string }
	if err := json.Unmarshal([]byte(arguments), &where); err != nil {
		return "", fmt.Errorf("%w: forecast: %w", otelllm.ErrToolInvalidInput, err)
	}
	return "Snow in " + where.City + ".", nil
}
