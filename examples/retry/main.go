// Retry is an agent that goes on after a failure if that is safe, and asks if it is not. It pays invoices, which must
// never happen twice. Set OPENAI_API_KEY (OPENAI_BASE_URL for another endpoint), then
//
//	go run ./retry 'Pay the invoice 17.'
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
	"strings"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/otelllm/otelllm-go/otelllm"
	"github.com/otelllm/otelllm-go/otelllm/retry"
)

func main() {
	policy := retry.Policy{Ask: func(_ context.Context, q retry.Question) bool {
		var answer string
		fmt.Print("\n", q.Diagnosis.Summary, " [y/N] ")
		_, _ = fmt.Scanln(&answer)
		return answer == "y"
	}}
	if err := run(context.Background(), nil, policy, strings.Join(os.Args[1:], " "), func(args string) string { return "paid " + args }, func(text string) { fmt.Print(text) }); err != nil {
		log.Fatal(err)
	}
}

// run answers a question, and shows the answer as it arrives.
func run(ctx context.Context, base http.RoundTripper, policy retry.Policy, question string, pay func(arguments string) string, show func(text string)) (err error) {
	client := openai.NewClient(option.WithMaxRetries(0), option.WithHTTPClient(&http.Client{Transport: otelllm.NewTransport(base)}))
	ctx, run := otelllm.StartRun(ctx, "retry", otelllm.WithToolsRecorded()) // every tool is started with StartTool
	defer run.Done(&err)
	params := openai.ChatCompletionNewParams{Model: openai.ChatModelGPT5_5, Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(question)}}
	invoice := openai.FunctionParameters{"type": "object", "properties": map[string]any{"invoice": map[string]string{"type": "string"}}}
	params.Tools = append(params.Tools, openai.ChatCompletionFunctionTool(openai.FunctionDefinitionParam{Name: "pay", Parameters: invoice}))
	for range 8 {
		var answer openai.ChatCompletionAccumulator
		err := retry.Do(ctx, policy, func(ctx context.Context) error {
			answer = openai.ChatCompletionAccumulator{}
			stream := client.Chat.Completions.NewStreaming(ctx, params)
			for stream.Next() {
				if chunk := stream.Current(); answer.AddChunk(chunk) && len(chunk.Choices) > 0 {
					show(chunk.Choices[0].Delta.Content)
				}
			}
			return errors.Join(stream.Err(), stream.Close())
		})
		if err != nil || len(answer.Choices) == 0 {
			return cmp.Or(err, errors.New("the answer has no choices"))
		}
		message := answer.Choices[0].Message
		if params.Messages = append(params.Messages, message.ToParam()); len(message.ToolCalls) == 0 {
			return nil
		}
		for _, call := range message.ToolCalls {
			_, tool := otelllm.StartTool(ctx, otelllm.ToolCall{ID: call.ID, Name: "pay", Effect: otelllm.EffectNonIdempotent})
			params.Messages = append(params.Messages, openai.ToolMessage(pay(call.Function.Arguments), call.ID))
			tool.End(nil)
		}
	}
	return errors.New("the model still calls tools after 8 answers")
}
