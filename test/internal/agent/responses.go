package agent

import (
	"context"
	"fmt"
	"slices"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"
)

// conversation is a conversation over Responses that keeps its own history.
type conversation struct {
	config Config
	client openai.Client
	input  responses.ResponseInputParam
}

// NewResponses returns a conversation over Responses with openai-go.
func NewResponses(c Config, opts ...option.RequestOption) Model {
	return &conversation{config: c, client: openai.NewClient(append(opts, option.WithMaxRetries(c.Retries))...)}
}

func (m *conversation) User(text string) {
	m.input = append(m.input, responses.ResponseInputItemParamOfMessage(text, responses.EasyInputMessageRoleUser))
}

func (m *conversation) Output(_ context.Context, call Call, output string, _ bool) error {
	item := responses.ResponseInputItemParamOfFunctionCallOutput(output)
	item.OfFunctionCallOutput.CallID = openai.String(call.ID)
	m.input = append(m.input, item)
	return nil
}

func (m *conversation) ForgetOutputs() {
	m.input = slices.DeleteFunc(m.input, func(i responses.ResponseInputItemUnionParam) bool { return i.OfFunctionCallOutput != nil })
}

func (m *conversation) ForgetCalls() {
	m.ForgetOutputs()
	m.input = slices.DeleteFunc(m.input, func(i responses.ResponseInputItemUnionParam) bool { return i.OfFunctionCall != nil })
}

func (m *conversation) Ask(ctx context.Context, tools []Tool, onText func(string)) (Reply, error) {
	params := responses.ResponseNewParams{
		Model: m.config.Model,
		Input: responses.ResponseNewParamsInputUnion{OfInputItemList: m.input},
		Store: openai.Bool(false),
	}
	for _, t := range tools {
		params.Tools = append(params.Tools, responses.ToolParamOfFunction(t.Name, schema(), false))
	}
	reply, err := m.read(ctx, params, onText)
	if err == nil {
		m.remember(reply)
	}
	return reply, err
}

func (m *conversation) read(ctx context.Context, params responses.ResponseNewParams, onText func(string)) (Reply, error) {
	if !m.config.Stream {
		got, err := m.client.Responses.New(ctx, params)
		if err != nil {
			return Reply{}, err
		}
		if got.Status == responses.ResponseStatusFailed {
			return Reply{}, failed(string(got.Error.Code))
		}
		reply := Reply{Text: got.OutputText()}
		for _, item := range got.Output {
			if item.Type == "function_call" {
				reply.Calls = append(reply.Calls, Call{item.CallID, item.Name, item.Arguments.OfString})
			}
		}
		return reply, nil
	}
	stream := m.client.Responses.NewStreaming(ctx, params)
	if !m.config.Drops {
		defer stream.Close()
	}
	var reply Reply
	items := map[string]int{} // item id → index in reply.Calls
	var err error
	for stream.Next() {
		switch e := stream.Current(); e.Type {
		case "response.output_text.delta":
			reply.Text += e.Delta
			onText(e.Delta)
			if m.config.Drops {
				return reply, nil
			}
		case "response.output_item.added":
			if e.Item.Type == "function_call" {
				items[e.Item.ID] = len(reply.Calls)
				reply.Calls = append(reply.Calls, Call{ID: e.Item.CallID, Name: e.Item.Name})
			}
		case "response.function_call_arguments.delta":
			if i, ok := items[e.ItemID]; ok {
				reply.Calls[i].Arguments += e.Delta
			}
		case "error":
			err = failed(e.Code)
		case "response.failed":
			err = failed(string(e.Response.Error.Code))
		}
	}
	if stream.Err() != nil {
		err = stream.Err()
	}
	return reply, err
}

func failed(code string) error { return fmt.Errorf("the provider failed: %s", code) }

func (m *conversation) remember(reply Reply) {
	if reply.Text != "" {
		m.input = append(m.input, responses.ResponseInputItemParamOfMessage(reply.Text, responses.EasyInputMessageRoleAssistant))
	}
	for _, c := range reply.Calls {
		m.input = append(m.input, responses.ResponseInputItemParamOfFunctionCall(c.Arguments, c.ID, c.Name))
	}
}
