package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"

	einoopenai "github.com/cloudwego/eino-ext/components/model/openai"
	"github.com/cloudwego/eino/schema"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	goopenai "github.com/sashabaranov/go-openai"
	"github.com/tmc/langchaingo/llms"
	langopenai "github.com/tmc/langchaingo/llms/openai"
)

// chatKey identifies a call of Chat Completions by its choice and its index.
type chatKey struct{ choice, index int }

// chatBooks tracks one Chat Completions stream.
type chatBooks struct {
	calls[chatKey]
	choices map[int]bool // whether finished, by index
}

func newChatBooks(d *delivery) *chatBooks {
	return &chatBooks{callsOf[chatKey](d), map[int]bool{}}
}

// choice records the finish reason of a choice, "" if it has none yet.
func (b *chatBooks) choice(index int, finish string) {
	b.choices[index] = b.choices[index] || finish != ""
	if finish == "" {
		return
	}
	b.finish = finish
	switch finish {
	case "stop", "tool_calls", "function_call":
		mine := func(k chatKey) bool { return k.choice == index }
		b.completed(mine)
		b.handOver(mine)
	}
}

// close ends the tracking: an answer is complete when each choice has a finish reason.
func (b *chatBooks) close() {
	b.finished = len(b.choices) > 0
	for _, finished := range b.choices {
		b.finished = b.finished && finished
	}
	b.end()
}

// legacy is the index of a function_call, of which a choice has at most one.
const legacy = -1

// openaiChat passes on what its stream has. With accumulate, its accumulator says which calls
// to execute.
func openaiChat(accumulate bool) func(url string, hc *http.Client) (ask, error) {
	return func(url string, hc *http.Client) (ask, error) { return openaiChatOf(url, hc, accumulate) }
}

func openaiChatOf(url string, hc *http.Client, accumulate bool) (ask, error) {
	c := openai.NewClient(option.WithBaseURL(url+"/v1/"), option.WithAPIKey("k"), option.WithHTTPClient(hc), option.WithMaxRetries(0))
	params := openai.ChatCompletionNewParams{Model: model, Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(question)}}
	return func(ctx context.Context) (d delivery) {
		stream := c.Chat.Completions.NewStreaming(ctx, params)
		defer stream.Close()
		books := newChatBooks(&d)
		accumulated := accumulator{calls: books.calls}
		for stream.Next() {
			chunk := stream.Current()
			for _, choice := range chunk.Choices {
				at, delta := int(choice.Index), &choice.Delta
				if raw := delta.JSON.Content.Raw(); raw != "" && raw[0] == '"' { // otherwise a list, which the client passes on as JSON
					d.wrote(delta.Content)
				}
				d.denied(delta.Refusal)
				for _, key := range []string{"reasoning_content", "reasoning"} {
					if raw := delta.JSON.ExtraFields[key].Raw(); len(raw) > 2 && raw[0] == '"' {
						d.thought(raw)
					}
				}
				for _, call := range delta.ToolCalls {
					books.piece(chatKey{at, int(call.Index)}, call.Function.Arguments)
				}
				if f := delta.FunctionCall; f.Name != "" || f.Arguments != "" { //nolint:staticcheck // some servers send it
					books.piece(chatKey{at, legacy}, f.Arguments)
				}
				books.choice(at, choice.FinishReason)
			}
			if accumulate {
				accumulated.take(&chunk)
			}
		}
		d.err = stream.Err()
		books.close()
		return d
	}, nil
}

// accumulator executes the calls of which openai-go's accumulator says that they have just
// finished, whether or not the answer has.
type accumulator struct {
	all openai.ChatCompletionAccumulator
	calls[chatKey]
}

func (a *accumulator) take(chunk *openai.ChatCompletionChunk) {
	if !a.all.AddChunk(*chunk) {
		return
	}
	for i := range a.all.Choices {
		if call, ok := a.all.JustFinishedToolCallForChoice(i); ok {
			if strings.TrimSpace(call.Arguments) == "" || json.Valid([]byte(call.Arguments)) {
				a.run(a.begin(chatKey{i, call.Index}))
			}
		}
	}
}

func goOpenAI(url string, hc *http.Client) (ask, error) {
	config := goopenai.DefaultConfig("k")
	config.BaseURL, config.HTTPClient = url+"/v1", hc
	c := goopenai.NewClientWithConfig(config)
	params := goopenai.ChatCompletionRequest{
		Model: model, Stream: true,
		Messages: []goopenai.ChatCompletionMessage{{Role: goopenai.ChatMessageRoleUser, Content: question}},
	}
	return func(ctx context.Context) (d delivery) {
		stream, err := c.CreateChatCompletionStream(ctx, params)
		if err != nil {
			d.err = err
			return d
		}
		defer stream.Close()
		books := newChatBooks(&d)
		for {
			chunk, err := stream.Recv()
			if err != nil {
				if !errors.Is(err, io.EOF) {
					d.err = err
				}
				books.close()
				return d
			}
			for _, choice := range chunk.Choices {
				d.wrote(choice.Delta.Content)
				d.denied(choice.Delta.Refusal)
				d.thought(choice.Delta.ReasoningContent)
				for _, call := range choice.Delta.ToolCalls {
					index := 0
					if call.Index != nil {
						index = *call.Index
					}
					books.piece(chatKey{choice.Index, index}, call.Function.Arguments)
				}
				if f := choice.Delta.FunctionCall; f != nil {
					books.piece(chatKey{choice.Index, legacy}, f.Arguments)
				}
				books.choice(choice.Index, string(choice.FinishReason))
			}
		}
	}, nil
}

func langchainGo(url string, hc *http.Client) (ask, error) {
	c, err := langopenai.New(langopenai.WithToken("k"), langopenai.WithModel(model), langopenai.WithBaseURL(url+"/v1"), langopenai.WithHTTPClient(hc))
	if err != nil {
		return nil, err
	}
	history := []llms.MessageContent{llms.TextParts(llms.ChatMessageTypeHuman, question)}
	return func(ctx context.Context) (d delivery) {
		eager := newLangchainCalls(&d)
		response, err := c.GenerateContent(ctx, history,
			llms.WithStreamingReasoningFunc(func(_ context.Context, thought, chunk []byte) error {
				d.thought(string(thought))
				if !eager.take(chunk) {
					d.wrote(string(chunk))
				}
				return nil
			}),
		)
		d.err = err
		books := newChatBooks(&d)
		if err != nil {
			return d // what it delivered of a call are its pieces
		}
		ran := d.ran
		d.started, d.ran = 0, 0 // the same calls are in the answer
		for i, choice := range response.Choices {
			d.wrote(choice.Content)
			d.thought(choice.ReasoningContent)
			for j, call := range choice.ToolCalls {
				books.piece(chatKey{i, j}, call.FunctionCall.Arguments)
			}
			books.choice(i, choice.StopReason)
		}
		books.close()
		d.ran = max(d.ran, ran)
		return d
	}, nil
}

// langchainCalls tracks the calls whose pieces langchaingo passes on as JSON.
type langchainCalls struct {
	calls[int]
	last int
}

func newLangchainCalls(d *delivery) *langchainCalls { return &langchainCalls{calls: callsOf[int](d)} }

// take reports whether the chunk is a piece of a call, and not of a text.
func (c *langchainCalls) take(chunk []byte) bool {
	var pieces []struct {
		ID       string
		Function struct{ Arguments string }
	}
	if !bytes.HasPrefix(chunk, []byte(`[{"`)) || json.Unmarshal(chunk, &pieces) != nil {
		return false
	}
	for _, piece := range pieces {
		if piece.ID != "" {
			c.last++
		}
		c.piece(c.last, piece.Function.Arguments)
	}
	return true
}

func einoChat(url string, hc *http.Client) (ask, error) {
	c, err := einoopenai.NewChatModel(context.Background(), &einoopenai.ChatModelConfig{APIKey: "k", BaseURL: url + "/v1", Model: model, HTTPClient: hc})
	if err != nil {
		return nil, err
	}
	history := []*schema.Message{schema.UserMessage(question)}
	return func(ctx context.Context) (d delivery) {
		stream, err := c.Stream(ctx, history)
		if err != nil {
			d.err = err
			return d
		}
		defer stream.Close()
		books := newChatBooks(&d)
		for {
			message, err := stream.Recv()
			if err != nil {
				if !errors.Is(err, io.EOF) {
					d.err = err
				}
				books.close()
				return d
			}
			d.wrote(message.Content)
			d.thought(message.ReasoningContent)
			for i, call := range message.ToolCalls {
				if call.Index != nil {
					i = *call.Index
				}
				books.piece(chatKey{0, i}, call.Function.Arguments)
			}
			if message.ResponseMeta != nil {
				books.choice(0, message.ResponseMeta.FinishReason)
			} else {
				books.choice(0, "")
			}
		}
	}, nil
}
