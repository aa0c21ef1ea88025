// Mcp answers a question with openai-go and the tools of an MCP server, whose annotations say what a tool may do: the
// verdict on a run that broke depends on it. Set MCP_URL (an MCP server over streamable HTTP), OPENAI_API_KEY
// (OPENAI_BASE_URL for another endpoint), OTEL_EXPORTER_OTLP_ENDPOINT (http://localhost:4318 for a Collector on this
// machine) and OTEL_SERVICE_NAME (the name of this agent in the traces), then
//
//	go run ./mcp 'Tell Ann that it will snow.'
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

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/trace"

	"github.com/otelllm/otelllm-go/otelllm"
	"github.com/otelllm/otelllm-go/otelllm/mcpeffect"
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

	server := &mcp.StreamableClientTransport{Endpoint: os.Getenv("MCP_URL")}
	session, err := mcp.NewClient(&mcp.Implementation{Name: "example", Version: "1.0.0"}, nil).Connect(ctx, server, nil)
	if err != nil {
		return err
	}
	defer session.Close()

	a := agent{session: session, tools: map[string]*mcp.Tool{}, out: out, client: openai.NewClient(option.WithHTTPClient(&http.Client{
		// A call that was cut must not be executed as if it were complete.
		Transport: otelllm.NewTransport(http.DefaultTransport, otelllm.WithStreamErrors()),
	}))}
	runCtx, run := otelllm.StartRun(ctx, "example", otelllm.WithToolsRecorded())
	err = a.run(runCtx, question)
	run.End(err)
	if d := run.Diagnosis(); d.Failed() {
		fmt.Fprintf(out, "\n%s (%s: %s)\n", d.Summary, d.Retry.Safety, d.Retry.Reason)
	}
	return err
}

type agent struct {
	client  openai.Client
	session *mcp.ClientSession
	tools   map[string]*mcp.Tool
	out     io.Writer
}

// run asks until the model calls no more tools.
func (a *agent) run(ctx context.Context, question string) error {
	params := openai.ChatCompletionNewParams{
		Model:    openai.ChatModelGPT5_5,
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(question)},
	}
	for tool, err := range a.session.Tools(ctx, nil) {
		if err != nil {
			return err
		}
		a.tools[tool.Name] = tool
		schema, _ := tool.InputSchema.(map[string]any)
		params.Tools = append(params.Tools, openai.ChatCompletionFunctionTool(openai.FunctionDefinitionParam{
			Name: tool.Name, Description: openai.String(tool.Description), Parameters: schema,
		}))
	}
	for {
		reply, err := a.read(ctx, params)
		if err != nil {
			return err
		}
		if len(reply.ToolCalls) == 0 {
			return nil
		}
		params.Messages = append(params.Messages, reply.ToParam())
		for _, call := range reply.ToolCalls {
			output, err := a.execute(ctx, call.ID, call.Function.Name, call.Function.Arguments)
			if err != nil {
				return err
			}
			params.Messages = append(params.Messages, openai.ToolMessage(output, call.ID))
		}
	}
}

// read reads one answer and writes its text as it arrives.
func (a *agent) read(ctx context.Context, params openai.ChatCompletionNewParams) (openai.ChatCompletionMessage, error) {
	var whole openai.ChatCompletionAccumulator
	stream := a.client.Chat.Completions.NewStreaming(ctx, params)
	defer stream.Close()
	for stream.Next() {
		whole.AddChunk(stream.Current())
		for _, choice := range stream.Current().Choices {
			fmt.Fprint(a.out, choice.Delta.Content)
		}
	}
	if stream.Err() != nil || len(whole.Choices) == 0 {
		return openai.ChatCompletionMessage{}, stream.Err()
	}
	return whole.Choices[0].Message, nil
}

// execute executes a tool call on the MCP server. A tool that reports a failure has an
// output, which the model gets. An error is an error of the server or of the
// connection, and then it is unknown whether the tool has run.
func (a *agent) execute(ctx context.Context, id, name, arguments string) (string, error) {
	tool, known := a.tools[name]
	if !known {
		tool = &mcp.Tool{}
	}
	ctx, span := otelllm.StartTool(ctx, otelllm.ToolCall{
		ID: id, Name: name, Effect: mcpeffect.Of((*mcpeffect.Annotations)(tool.Annotations)),
	})
	if !known {
		span.End(otelllm.ErrToolInvalidInput)
		return "no such tool", nil
	}
	result, err := a.session.CallTool(ctx, &mcp.CallToolParams{Name: name, Arguments: json.RawMessage(arguments)})
	if err != nil {
		span.End(err)
		return "", err
	}
	var output strings.Builder
	for _, content := range result.Content {
		if text, ok := content.(*mcp.TextContent); ok {
			output.WriteString(text.Text)
		}
	}
	if result.IsError {
		span.End(errTool)
	} else {
		span.End(nil)
	}
	return output.String(), nil
}

var errTool = errors.New("the tool reported a failure")
