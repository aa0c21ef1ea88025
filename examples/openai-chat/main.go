// Openai-chat asks one question with openai-go over Chat Completions. Set OPENAI_API_KEY (OPENAI_BASE_URL for another
// endpoint), OTEL_EXPORTER_OTLP_ENDPOINT (http://localhost:4318 for a Collector on this machine) and OTEL_SERVICE_NAME
// (the name of this agent in the traces), then
//
//	go run ./openai-chat 'Why is the sky blue?'
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/trace"

	"github.com/otelllm/otelllm-go/otelllm"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := ask(ctx, os.Stdout, strings.Join(os.Args[1:], " ")); err != nil {
		log.Fatal(err)
	}
}

func ask(ctx context.Context, out io.Writer, question string) error {
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

	client := openai.NewClient(option.WithHTTPClient(&http.Client{
		Transport: otelllm.NewTransport(http.DefaultTransport),
	}))
	runCtx, run := otelllm.StartRun(ctx, "example")
	stream := client.Chat.Completions.NewStreaming(runCtx, openai.ChatCompletionNewParams{
		Model:    openai.ChatModelGPT5_5,
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(question)},
	})
	for stream.Next() {
		for _, choice := range stream.Current().Choices {
			fmt.Fprint(out, choice.Delta.Content)
		}
	}
	run.End(stream.Err())
	if d := run.Diagnosis(); d.Failed() { // even if the SDK reports no error
		fmt.Fprintf(out, "\n%s (%s: %s)\n", d.Summary, d.Retry.Safety, d.Retry.Reason)
	}
	return stream.Err()
}
