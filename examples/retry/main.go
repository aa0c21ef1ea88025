// Retry is an agent that goes on after a failure if that is safe, and asks if it is not. It pays invoices, which must
// never happen twice. Set OPENAI_API_KEY (OPENAI_BASE_URL for another endpoint), then
//
//	go run ./retry 'Pay the invoice 17.'
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strings"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/shared"

	"github.com/otelllm/otelllm-go/otelllm"
	"github.com/otelllm/otelllm-go/otelllm/retry"
)

func main() {
	a := agent{out: os.Stdout, pay: func(arguments string) string { return "paid " + arguments }}
	a.policy.Ask = func(_ context.Context, q retry.Question) bool {
		fmt.Print("\n", q.Diagnosis.Summary, " [y/N] ")
		answer, _ := bufio.NewReader(os.Stdin).ReadString('\n')
		return strings.TrimSpace(answer) == "y"
	}
	if err := a.run(context.Background(), strings.Join(os.Args[1:], " ")); err != nil {
		log.Fatal(err)
	}
}

// agent answers a question, with one tool.
type agent struct {
	pay    func(arguments string) string
	out    io.Writer // shows the answer as it arrives
	base   http.RoundTripper
	policy retry.Policy
}

func (a *agent) run(ctx context.Context, question string) (err error) {
	client := openai.NewClient(option.WithMaxRetries(0), option.WithHTTPClient(&http.Client{Transport: otelllm.NewTransport(a.base)}))
	ctx, run := otelllm.StartRun(ctx, "retry", otelllm.WithToolsRecorded()) // every tool is started with StartTool
	defer run.Done(&err)
	pay := shared.FunctionDefinitionParam{Name: "pay", Parameters: shared.FunctionParameters{"type": "object", "properties": map[string]any{"invoice": map[string]string{"type": "string"}}}}
	params := openai.ChatCompletionNewParams{
		Model: openai.ChatModelGPT5_5, Tools: []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(pay)},
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(question)},
	}
	for range 8 {
		var answer openai.ChatCompletionAccumulator
		if err := retry.Do(ctx, a.policy, func(ctx context.Context) error {
			answer = openai.ChatCompletionAccumulator{}
			stream := client.Chat.Completions.NewStreaming(ctx, params)
			for stream.Next() {
				answer.AddChunk(stream.Current())
				for _, choice := range stream.Current().Choices {
					fmt.Fprint(a.out, choice.Delta.Content)
				}
			}
			return errors.Join(stream.Err(), stream.Close())
		}); err != nil {
			return err
		}
		if len(answer.Choices) == 0 {
			return errors.New("the answer has no choices")
		}
		params.Messages = append(params.Messages, answer.Choices[0].Message.ToParam())
		calls := answer.Choices[0].Message.ToolCalls
		if len(calls) == 0 {
			return nil
		}
		for _, call := range calls {
			_, tool := otelllm.StartTool(ctx, otelllm.ToolCall{ID: call.ID, Name: "pay", Effect: otelllm.EffectNonIdempotent})
			params.Messages = append(params.Messages, openai.ToolMessage(a.pay(call.Function.Arguments), call.ID))
			tool.End(nil)
		}
	}
	return errors.New("the model still calls tools after the last turn")
}
