// Anthropic asks one question with anthropic-sdk-go over Messages. Set ANTHROPIC_API_KEY (ANTHROPIC_BASE_URL for
// another endpoint), OTEL_EXPORTER_OTLP_ENDPOINT (http://localhost:4318 for a Collector on this machine) and
// OTEL_SERVICE_NAME (the name of this agent in the traces), then
//
//	go run ./anthropic 'Why is the sky blue?'
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

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
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

	client := anthropic.NewClient(option.WithHTTPClient(&http.Client{
		Transport: otelllm.NewTransport(http.DefaultTransport),
	}))
	runCtx, run := otelllm.StartRun(ctx, "example")
	stream := client.Messages.NewStreaming(runCtx, anthropic.MessageNewParams{
		Model: anthropic.ModelClaudeSonnet5_5, MaxTokens: 1024,
		Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock(question))},
	})
	defer stream.Close()
	for stream.Next() {
		if event, ok := stream.Current().AsAny().(anthropic.ContentBlockDeltaEvent); ok {
			fmt.Fprint(out, event.Delta.Text)
		}
	}
	run.End(stream.Err())
	if d := run.Diagnosis(); d.Failed() { // even if the SDK reports no error
		fmt.Fprintf(out, "\n%s (%s: %s)\n", d.Summary, d.Retry.Safety, d.Retry.Reason)
	}
	return stream.Err()
}
