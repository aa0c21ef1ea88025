package agent

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
)

// messages is a conversation over Anthropic Messages.
type messages struct {
	config  Config
	client  anthropic.Client
	history []anthropic.MessageParam
}

// NewAnthropic returns a conversation over Messages with anthropic-sdk-go.
func NewAnthropic(c Config, opts ...option.RequestOption) Model {
	return &messages{config: c, client: anthropic.NewClient(append(opts, option.WithMaxRetries(c.Retries))...)}
}

func (m *messages) User(text string) {
	m.history = append(m.history, anthropic.NewUserMessage(anthropic.NewTextBlock(text)))
}

// Output joins the outputs of one turn in one message, as the API requires.
func (m *messages) Output(_ context.Context, call Call, output string, failed bool) error {
	block := anthropic.NewToolResultBlock(call.ID, output, failed)
	if n := len(m.history); n > 0 && isOutput(m.history[n-1]) {
		m.history[n-1].Content = append(m.history[n-1].Content, block)
		return nil
	}
	m.history = append(m.history, anthropic.NewUserMessage(block))
	return nil
}

func isOutput(p anthropic.MessageParam) bool {
	return len(p.Content) > 0 && p.Content[0].OfToolResult != nil
}

func (m *messages) ForgetOutputs() { m.history = slices.DeleteFunc(m.history, isOutput) }

func (m *messages) ForgetCalls() {
	m.ForgetOutputs()
	m.history = slices.DeleteFunc(m.history, func(p anthropic.MessageParam) bool {
		return slices.ContainsFunc(p.Content, func(b anthropic.ContentBlockParamUnion) bool { return b.OfToolUse != nil })
	})
}

func (m *messages) Ask(ctx context.Context, tools []Tool, onText func(string)) (Reply, error) {
	params := anthropic.MessageNewParams{Model: m.config.Model, MaxTokens: 1024, Messages: m.history}
	for _, t := range tools {
		params.Tools = append(params.Tools, anthropic.ToolUnionParam{OfTool: &anthropic.ToolParam{Name: t.Name}})
	}
	reply, err := m.read(ctx, params, onText)
	if err == nil {
		m.remember(reply)
	}
	return reply, err
}

func (m *messages) read(ctx context.Context, params anthropic.MessageNewParams, onText func(string)) (Reply, error) {
	var reply Reply
	if !m.config.Stream {
		got, err := m.client.Messages.New(ctx, params)
		if err != nil {
			return reply, err
		}
		for _, block := range got.Content {
			switch b := block.AsAny().(type) {
			case anthropic.TextBlock:
				reply.Text += b.Text
			case anthropic.ToolUseBlock:
				reply.Calls = append(reply.Calls, Call{b.ID, b.Name, string(b.Input)})
			}
		}
		return reply, nil
	}
	stream := m.client.Messages.NewStreaming(ctx, params)
	if !m.config.Drops {
		defer stream.Close()
	}
	for stream.Next() {
		switch e := stream.Current().AsAny().(type) {
		case anthropic.ContentBlockStartEvent:
			if block := e.ContentBlock; block.Type == "tool_use" {
				reply.Calls = append(reply.Calls, Call{ID: block.ID, Name: block.Name})
			}
		case anthropic.ContentBlockDeltaEvent:
			switch d := e.Delta.AsAny().(type) {
			case anthropic.TextDelta:
				reply.Text += d.Text
				onText(d.Text)
				if m.config.Drops {
					return reply, nil
				}
			case anthropic.InputJSONDelta:
				reply.Calls[len(reply.Calls)-1].Arguments += d.PartialJSON
			}
		}
	}
	return reply, stream.Err()
}

func (m *messages) remember(reply Reply) {
	var blocks []anthropic.ContentBlockParamUnion
	if reply.Text != "" {
		blocks = append(blocks, anthropic.NewTextBlock(reply.Text))
	}
	for _, c := range reply.Calls {
		input := json.RawMessage(c.Arguments)
		if !json.Valid(input) {
			input = json.RawMessage("{}")
		}
		blocks = append(blocks, anthropic.NewToolUseBlock(c.ID, input, c.Name))
	}
	if len(blocks) > 0 {
		m.history = append(m.history, anthropic.NewAssistantMessage(blocks...))
	}
}
