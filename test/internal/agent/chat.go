package agent

import (
	"context"
	"slices"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

// Config is the configuration that the clients of all SDKs share.
type Config struct {
	Model   string
	Stream  bool
	Retries int // the SDK's own retries
	// Drops makes the conversation stop reading at the first text and forget the stream
	// without closing it, which an agent should not do.
	Drops bool
}

// chat is a conversation over Chat Completions.
type chat struct {
	config   Config
	client   openai.Client
	messages []openai.ChatCompletionMessageParamUnion
}

// NewChat returns a conversation over Chat Completions with openai-go.
func NewChat(c Config, opts ...option.RequestOption) Model {
	return &chat{config: c, client: openai.NewClient(append(opts, option.WithMaxRetries(c.Retries))...)}
}

func (m *chat) User(text string) { m.messages = append(m.messages, openai.UserMessage(text)) }

func (m *chat) Output(_ context.Context, call Call, output string, _ bool) error {
	m.messages = append(m.messages, openai.ToolMessage(output, call.ID))
	return nil
}

func (m *chat) ForgetOutputs() {
	m.messages = slices.DeleteFunc(m.messages, func(p openai.ChatCompletionMessageParamUnion) bool { return p.OfTool != nil })
}

func (m *chat) ForgetCalls() {
	m.ForgetOutputs()
	m.messages = slices.DeleteFunc(m.messages, func(p openai.ChatCompletionMessageParamUnion) bool {
		return p.OfAssistant != nil && len(p.OfAssistant.ToolCalls) > 0
	})
}

func (m *chat) Ask(ctx context.Context, tools []Tool, onText func(string)) (Reply, error) {
	params := openai.ChatCompletionNewParams{Model: m.config.Model, Messages: m.messages}
	for _, t := range tools {
		params.Tools = append(params.Tools, openai.ChatCompletionFunctionTool(openai.FunctionDefinitionParam{Name: t.Name, Parameters: schema()}))
	}
	reply, err := m.read(ctx, params, onText)
	if err == nil {
		m.remember(reply)
	}
	return reply, err
}

func (m *chat) read(ctx context.Context, params openai.ChatCompletionNewParams, onText func(string)) (Reply, error) {
	if !m.config.Stream {
		got, err := m.client.Chat.Completions.New(ctx, params)
		if err != nil {
			return Reply{}, err
		}
		var reply Reply
		for _, choice := range got.Choices {
			reply.Text += choice.Message.Content
			for _, c := range choice.Message.ToolCalls {
				reply.Calls = append(reply.Calls, Call{c.ID, c.Function.Name, c.Function.Arguments})
			}
		}
		return reply, nil
	}
	params.StreamOptions.IncludeUsage = openai.Bool(true)
	stream := m.client.Chat.Completions.NewStreaming(ctx, params)
	if !m.config.Drops {
		defer stream.Close()
	}
	var reply Reply
	for stream.Next() {
		for _, choice := range stream.Current().Choices {
			if text := choice.Delta.Content; text != "" {
				reply.Text += text
				onText(text)
				if m.config.Drops {
					return reply, nil
				}
			}
			for _, c := range choice.Delta.ToolCalls {
				for int(c.Index) >= len(reply.Calls) {
					reply.Calls = append(reply.Calls, Call{})
				}
				call := &reply.Calls[c.Index]
				call.ID += c.ID
				call.Name += c.Function.Name
				call.Arguments += c.Function.Arguments
			}
		}
	}
	return reply, stream.Err()
}

func (m *chat) remember(reply Reply) {
	message := openai.ChatCompletionAssistantMessageParam{}
	if reply.Text != "" {
		message.Content.OfString = openai.String(reply.Text)
	}
	for _, c := range reply.Calls {
		message.ToolCalls = append(message.ToolCalls, openai.ChatCompletionMessageToolCallUnionParam{
			OfFunction: &openai.ChatCompletionMessageFunctionToolCallParam{
				ID:       c.ID,
				Function: openai.ChatCompletionMessageFunctionToolCallFunctionParam{Name: c.Name, Arguments: c.Arguments},
			},
		})
	}
	m.messages = append(m.messages, openai.ChatCompletionMessageParamUnion{OfAssistant: &message})
}
