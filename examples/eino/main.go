// Eino answers a question about the weather with cloudwego/eino and its OpenAI model: it streams, and it executes the
// one tool that it offers. Set OPENAI_API_KEY (OPENAI_BASE_URL for another endpoint), OTEL_EXPORTER_OTLP_ENDPOINT
// (http://localhost:4318 for a Collector on this machine) and OTEL_SERVICE_NAME (the name of this agent in the traces),
// then
//
//	go run ./eino 'Will it snow in Oslo?'
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

	"github.com/cloudwego/eino-ext/components/model/openai"
	"github.com/cloudwego/eino/components/model"
	"github.com/cloudwego/eino/schema"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/trace"

	"github.com/otelllm/otelllm-go/otelllm"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// Eino takes a stream that was cut for a whole one; WithStreamErrors makes the cut an error.
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

	plain, err := openai.NewChatModel(ctx, &openai.ChatModelConfig{
		APIKey: os.Getenv("OPENAI_API_KEY"), BaseURL: os.Getenv("OPENAI_BASE_URL"), Model: "gpt-5.5",
		HTTPClient: &http.Client{Transport: otelllm.NewTransport(http.DefaultTransport, opts...)},
	})
	if err != nil {
		return err
	}
	chat, err := plain.WithTools([]*schema.ToolInfo{{
		Name: "forecast", Desc: "The weather of tomorrow in a city.",
		ParamsOneOf: schema.NewParamsOneOfByParams(map[string]*schema.ParameterInfo{"city": {Type: schema.String, Required: true}}),
	}})
	if err != nil {
		return err
	}
	runCtx, run := otelllm.StartRun(ctx, "example", otelllm.WithToolsRecorded())
	err = converse(runCtx, chat, out, question)
	run.End(err)
	if d := run.Diagnosis(); d.Failed() { // even if eino reports no error
		fmt.Fprintf(out, "\n%s (%s: %s)\n", d.Summary, d.Retry.Safety, d.Retry.Reason)
	}
	return err
}

// converse asks until the model calls no more tools.
func converse(ctx context.Context, chat model.ToolCallingChatModel, out io.Writer, question string) error {
	history := []*schema.Message{schema.UserMessage(question)}
	for {
		reply, err := read(ctx, chat, out, history)
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
			history = append(history, schema.ToolMessage(output, call.ID))
		}
	}
}

// read reads one answer and writes its text as it arrives.
func read(ctx context.Context, chat model.ToolCallingChatModel, out io.Writer, history []*schema.Message) (*schema.Message, error) {
	stream, err := chat.Stream(ctx, history)
	if err != nil {
		return nil, err
	}
	defer stream.Close()
	pieces := []*schema.Message{schema.AssistantMessage("", nil)}
	for {
		piece, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return schema.ConcatMessages(pieces)
		}
		if err != nil {
			return nil, err
		}
		fmt.Fprint(out, piece.Content)
		pieces = append(pieces, piece)
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
