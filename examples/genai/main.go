// Genai answers a question about the weather with google.golang.org/genai: it streams, and it executes the one tool
// that it offers. Set GEMINI_API_KEY (GOOGLE_GEMINI_BASE_URL for another endpoint), OTEL_EXPORTER_OTLP_ENDPOINT
// (http://localhost:4318 for a Collector on this machine) and OTEL_SERVICE_NAME (the name of this agent in the traces),
// then
//
//	go run ./genai 'Will it snow in Oslo?'
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

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/trace"
	"google.golang.org/genai"

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

	client, err := genai.NewClient(ctx, &genai.ClientConfig{ // reads GEMINI_API_KEY and GOOGLE_GEMINI_BASE_URL
		Backend:    genai.BackendGeminiAPI,
		HTTPClient: &http.Client{Transport: otelllm.NewTransport(http.DefaultTransport, opts...)},
	})
	if err != nil {
		return err
	}
	runCtx, run := otelllm.StartRun(ctx, "example", otelllm.WithToolsRecorded())
	err = converse(runCtx, client.Models, out, question)
	run.End(err)
	if d := run.Diagnosis(); d.Failed() { // even if the SDK reports no error
		fmt.Fprintf(out, "\n%s (%s: %s)\n", d.Summary, d.Retry.Safety, d.Retry.Reason)
	}
	return err
}

// converse asks until the model calls no more functions.
func converse(ctx context.Context, models *genai.Models, out io.Writer, question string) error {
	history := genai.Text(question)
	for {
		reply, err := read(ctx, models, out, history)
		if err != nil {
			return err
		}
		history = append(history, reply)
		var outputs []*genai.Part
		for _, part := range reply.Parts {
			call := part.FunctionCall
			if call == nil {
				continue
			}
			toolCtx, tool := otelllm.StartTool(ctx, otelllm.ToolCall{ID: call.ID, Name: call.Name, Effect: otelllm.EffectReadOnly})
			output, err := forecast(toolCtx, call.Args)
			tool.End(err)
			if err != nil {
				return err
			}
			outputs = append(outputs, &genai.Part{FunctionResponse: &genai.FunctionResponse{ID: call.ID, Name: call.Name, Response: output}})
		}
		if len(outputs) == 0 {
			return nil
		}
		history = append(history, genai.NewContentFromParts(outputs, genai.RoleUser))
	}
}

// read reads one answer and writes its text as it arrives.
func read(ctx context.Context, models *genai.Models, out io.Writer, history []*genai.Content) (*genai.Content, error) {
	reply := genai.NewContentFromParts(nil, genai.RoleModel)
	for response, err := range models.GenerateContentStream(ctx, "gemini-3-pro", history, &genai.GenerateContentConfig{Tools: tools}) {
		if err != nil {
			return nil, err
		}
		fmt.Fprint(out, response.Text())
		for _, candidate := range response.Candidates {
			if candidate.Content != nil { // nil if the provider stopped the answer
				reply.Parts = append(reply.Parts, candidate.Content.Parts...)
			}
		}
	}
	return reply, nil
}

var tools = []*genai.Tool{{FunctionDeclarations: []*genai.FunctionDeclaration{{
	Name: "forecast", Description: "The weather of tomorrow in a city.",
	Parameters: &genai.Schema{
		Type: genai.TypeObject, Properties: map[string]*genai.Schema{"city": {Type: genai.TypeString}}, Required: []string{"city"},
	},
}}}}

// forecast is the tool.
func forecast(_ context.Context, arguments map[string]any) (map[string]any, error) {
	city, ok := arguments["city"].(string)
	if !ok {
		return nil, fmt.Errorf("%w: forecast: no city", otelllm.ErrToolInvalidInput)
	}
	return map[string]any{"output": "Snow in " + city + "."}, nil
}
