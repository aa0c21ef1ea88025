// Retry is an agent whose loop retries if that is safe, and asks if it is not. It pays invoices, which must never
// happen twice. Set OPENAI_API_KEY (OPENAI_BASE_URL for another endpoint), then
//
//	go run ./retry 'Pay the invoice 17.'
package main

import (
	"bufio"
	"cmp"
	"context"
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

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/shared"

	"github.com/otelllm/otelllm-go/otelllm"
	"github.com/otelllm/otelllm-go/otelllm/classify"
)

func main() {
	a := agent{
		pay: func(_ context.Context, arguments string) (string, error) {
			fmt.Println("[paid:", arguments+"]")
			return "paid", nil
		},
		confirm: func(question string) bool {
			fmt.Print("\n", question, " [y/N] ")
			answer, _ := bufio.NewReader(os.Stdin).ReadString('\n')
			return strings.TrimSpace(answer) == "y"
		},
		out:  os.Stdout,
		base: http.DefaultTransport,
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := a.run(ctx, strings.Join(os.Args[1:], " ")); err != nil {
		log.Fatal(err)
	}
}

// agent answers a question, with one tool.
type agent struct {
	pay     func(ctx context.Context, arguments string) (string, error)
	confirm func(question string) bool // asks the user
	out     io.Writer                  // shows the answer as it arrives
	base    http.RoundTripper
	pause   time.Duration // before the first retry, doubled for each further one; 0 means half a second
}

const (
	maxTries = 4
	maxSteps = 8
)

func (a *agent) run(ctx context.Context, question string) (err error) {
	client := openai.NewClient(
		option.WithHTTPClient(&http.Client{Transport: otelllm.NewTransport(a.base)}),
		option.WithMaxRetries(0), // the loop below retries, with more information than the status
	)
	ctx, run := otelllm.StartRun(ctx, "retry", otelllm.WithToolsRecorded()) // every tool is started with StartTool
	defer run.Done(&err)

	params := openai.ChatCompletionNewParams{
		Model:    openai.ChatModelGPT5_5,
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(question)},
		Tools: []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{
			Name: "pay", Parameters: shared.FunctionParameters{"type": "object", "properties": map[string]any{"invoice": map[string]string{"type": "string"}}},
		})},
	}
	for range maxSteps {
		message, err := a.ask(ctx, &client, params)
		if err != nil {
			return err
		}
		params.Messages = append(params.Messages, message.ToParam())
		if len(message.ToolCalls) == 0 {
			return nil
		}
		for i := range message.ToolCalls {
			call := &message.ToolCalls[i]
			params.Messages = append(params.Messages, openai.ToolMessage(a.execute(ctx, call.ID, call.Function.Arguments), call.ID))
		}
	}
	return errors.New("the model still calls tools after the last turn")
}

// ask sends one request, and repeats it if its diagnosis, or the user, says that this is safe. The history in params
// contains the outputs of the tools, so that no tool runs again.
func (a *agent) ask(ctx context.Context, client *openai.Client, params openai.ChatCompletionNewParams) (openai.ChatCompletionMessage, error) {
	pause := cmp.Or(a.pause, time.Second/2)
	for try := 1; ; try++ {
		message, d, err := a.stream(ctx, client, params)
		switch {
		case err == nil && !d.Failed(): // SDKs do not report every failure as an error
			return message, nil
		case try == maxTries:
			return message, failure(&d, err)
		case d.Retry.Safety == classify.SafeAutoRetry:
		case d.Retry.Safety == classify.UserConfirmedRetry && a.confirm(d.Summary):
		default:
			return message, failure(&d, err)
		}
		select {
		case <-time.After(max(d.Retry.After, pause)):
		case <-ctx.Done():
			return message, ctx.Err()
		}
		pause *= 2
	}
}

// stream sends the request once and shows the answer as it arrives.
func (a *agent) stream(ctx context.Context, client *openai.Client, params openai.ChatCompletionNewParams) (openai.ChatCompletionMessage, classify.Diagnosis, error) {
	ctx, last := otelllm.WithLastRequest(ctx)
	stream := client.Chat.Completions.NewStreaming(ctx, params)
	var answer openai.ChatCompletionAccumulator
	for stream.Next() {
		chunk := stream.Current()
		answer.AddChunk(chunk)
		for i := range chunk.Choices {
			fmt.Fprint(a.out, chunk.Choices[i].Delta.Content)
		}
	}
	err := errors.Join(stream.Err(), stream.Close())
	d := last.Diagnosis()
	if err == nil && len(answer.Choices) == 0 {
		err = errors.New("the answer has no choices")
	}
	if err != nil || d.Failed() {
		return openai.ChatCompletionMessage{}, d, err
	}
	return answer.Choices[0].Message, d, nil
}

// execute runs the tool. The model also gets its failure.
func (a *agent) execute(ctx context.Context, callID, arguments string) string {
	ctx, tool := otelllm.StartTool(ctx, otelllm.ToolCall{ID: callID, Name: "pay", Effect: otelllm.EffectNonIdempotent})
	output, err := a.pay(ctx, arguments)
	tool.End(err)
	if err != nil {
		return "failed: " + err.Error()
	}
	return output
}

func failure(d *classify.Diagnosis, err error) error {
	if !d.Failed() {
		return err
	}
	if err == nil {
		return errors.New(d.Summary)
	}
	return fmt.Errorf("%s (%w)", d.Summary, err)
}
