// Inprocess asks a model that lives in the same process: no HTTP, no SDK, and the same facts and verdicts. Set
// OTEL_EXPORTER_OTLP_ENDPOINT (http://localhost:4318 for a Collector on this machine) and OTEL_SERVICE_NAME (the name of
// this agent in the traces), then
//
//	go run ./inprocess 'Why is the sky blue?'
//
// The model here is a fake that says your words backwards. What is around it is what a real one needs.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/trace"

	"github.com/otelllm/otelllm-go/otelllm"
	"github.com/otelllm/otelllm-go/otelllm/manual"
)

func main() {
	ctx, abort := otelllm.WithAbort(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		if <-signals == os.Interrupt {
			abort(otelllm.AbortUser, "ctrl_c")
		} else {
			abort(otelllm.AbortShutdown, "sigterm")
		}
	}()
	if err := ask(ctx, os.Stdout, backwards, strings.Join(os.Args[1:], " ")); err != nil {
		log.Fatal(err)
	}
}

func ask(ctx context.Context, out io.Writer, m model, question string) error {
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

	runCtx, run := otelllm.StartRun(ctx, "example")
	err = generate(runCtx, out, m, question)
	run.End(err)
	if d := run.Diagnosis(); d.Failed() {
		fmt.Fprintf(out, "\n%s (%s: %s)\n", d.Summary, d.Retry.Safety, d.Retry.Reason)
	}
	return err
}

// generate makes one model call and records each step as it happens.
func generate(ctx context.Context, out io.Writer, m model, question string) error {
	ctx, request := manual.Start(ctx, manual.RequestInfo{
		Provider: "local", Model: "backwards-1b", Stream: true, Attempt: 1,
		// The request has none of these. Empty lists record that.
		ProviderTools: []string{}, HistoryCalls: []string{}, HistoryOutputs: []string{},
	})
	err := tell(ctx, out, request, m, question)
	request.End(err)
	return err
}

func tell(ctx context.Context, out io.Writer, request *manual.Request, m model, question string) error {
	request.RecordSent()
	tokens := 0
	for p := range m(ctx, question) {
		switch {
		case p.err != nil:
			return p.err
		case p.finish != "":
			request.SetInputTokens(len(strings.Fields(question)))
			request.SetOutputTokens(tokens)
			request.RecordFinish(p.finish)
		case p.thought:
			request.RecordReasoning()
		default:
			request.RecordText()
			fmt.Fprint(out, p.text)
		}
		tokens++
	}
	return ctx.Err() // a channel that is closed early has no error of its own
}

// model generates in a goroutine of its own. It closes the channel when it is done, or when ctx is.
type model func(ctx context.Context, question string) <-chan piece

// piece is one piece of a model's output.
type piece struct {
	text    string
	thought bool
	finish  string // the reason why the model stopped, in the last piece
	err     error
}

// backwards is the fake model.
func backwards(ctx context.Context, question string) <-chan piece {
	words := strings.Fields(question)
	slices.Reverse(words)
	pieces := []piece{{thought: true}}
	for _, w := range words {
		pieces = append(pieces, piece{text: w + " "})
	}
	return play(ctx, append(pieces, piece{finish: "stop"}))
}

// play sends pieces until ctx is done.
func play(ctx context.Context, pieces []piece) <-chan piece {
	c := make(chan piece)
	go func() {
		defer close(c)
		for _, p := range pieces {
			select {
			case c <- p:
			case <-ctx.Done():
				return
			}
		}
	}()
	return c
}
