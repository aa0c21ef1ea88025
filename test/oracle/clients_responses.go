package main

import (
	"context"
	"net/http"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"
)

func openaiResponses(url string, hc *http.Client) (ask, error) {
	c := openai.NewClient(option.WithBaseURL(url+"/v1/"), option.WithAPIKey("k"), option.WithHTTPClient(hc), option.WithMaxRetries(0))
	params := responses.ResponseNewParams{Model: model, Input: responses.ResponseNewParamsInputUnion{OfString: openai.String(question)}}
	return func(ctx context.Context) (d delivery) {
		stream := c.Responses.NewStreaming(ctx, params)
		defer stream.Close()
		books := responsesBooks{callsOf[int64](&d)}
		for stream.Next() {
			event := stream.Current()
			books.take(&event)
		}
		d.err = stream.Err()
		books.end()
		return d
	}, nil
}

// responsesBooks tracks one Responses stream. A call is identified by its index in the
// output.
type responsesBooks struct{ calls[int64] }

func (b *responsesBooks) take(event *responses.ResponseStreamEventUnion) {
	switch event.Type {
	case "response.output_text.delta":
		b.wrote(event.Delta)
	case "response.output_text.done":
		b.wrote(event.Text)
	case "response.refusal.delta":
		b.denied(event.Delta)
	case "response.refusal.done":
		b.denied(event.Refusal)
	case "response.content_part.added", "response.content_part.done":
		if event.Part.Type == "reasoning_text" {
			b.thought(event.Part.Text)
			return
		}
		b.wrote(event.Part.Text)
		b.denied(event.Part.Refusal)
	case "response.reasoning_text.delta", "response.reasoning_summary_text.delta":
		b.thought(event.Delta)
	case "response.function_call_arguments.delta", "response.custom_tool_call_input.delta":
		b.piece(event.OutputIndex, event.Delta)
	case "response.function_call_arguments.done":
		b.input(event.OutputIndex, event.Arguments)
		b.completed(only(event.OutputIndex))
	case "response.custom_tool_call_input.done":
		b.begin(event.OutputIndex)
		b.completed(only(event.OutputIndex))
	case "response.output_item.added":
		b.item(event.OutputIndex, &event.Item, false)
	case "response.output_item.done":
		b.item(event.OutputIndex, &event.Item, true)
	case "response.completed", "response.incomplete":
		b.finish, b.finished = event.Type, true
		for i := range event.Response.Output {
			b.item(int64(i), &event.Response.Output[i], event.Type == "response.completed")
		}
	}
}

// item records one output item. With whole, the item is complete.
func (b *responsesBooks) item(at int64, item *responses.ResponseOutputItemUnion, whole bool) {
	switch item.Type {
	case "message":
		for i := range item.Content {
			b.wrote(item.Content[i].Text)
			b.denied(item.Content[i].Refusal)
		}
	case "reasoning":
		for _, part := range item.Summary {
			b.thought(part.Text)
		}
	case "function_call", "custom_tool_call", "computer_call", "local_shell_call", "apply_patch_call":
		call := b.begin(at)
		call.free = call.free || item.Type != "function_call"
		if input := item.Arguments.OfString; input != "" {
			b.input(at, input)
		}
		if whole && item.Status != "in_progress" && item.Status != "incomplete" {
			b.completed(only(at))
			b.handOver(only(at))
		}
	case "web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call", "mcp_call", "mcp_list_tools":
		b.provider++
	}
}
