package main

import (
	"context"
	"net/http"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
)

func anthropicMessages(url string, hc *http.Client) (ask, error) {
	c := anthropic.NewClient(option.WithBaseURL(url), option.WithAPIKey("k"), option.WithHTTPClient(hc), option.WithMaxRetries(0))
	params := anthropic.MessageNewParams{
		Model: model, MaxTokens: 16,
		Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock(question))},
	}
	return func(ctx context.Context) (d delivery) {
		stream := c.Messages.NewStreaming(ctx, params)
		defer stream.Close()
		books := callsOf[int64](&d)
		reason := ""
		for stream.Next() {
			switch event := stream.Current(); event.Type {
			case "message_start":
				// Some servers put the beginning of the answer here, and where a program that the
				// provider executes calls the application's tools, it is all of it.
				reason = string(event.Message.StopReason)
				for i := range event.Message.Content {
					block := &event.Message.Content[i]
					if d.wrote(block.Text); block.Type == "tool_use" {
						books.input(int64(i), string(block.Input))
						books.completed(only(int64(i)))
					}
				}
			case "content_block_start":
				switch block := &event.ContentBlock; block.Type {
				case "text":
					d.wrote(block.Text)
				case "thinking":
					d.thought(block.Thinking)
				case "tool_use":
					books.begin(event.Index)
					if input, ok := block.Input.(map[string]any); ok && len(input) > 0 { // otherwise deltas follow
						books.input(event.Index, q(input))
					}
				case "server_tool_use", "mcp_tool_use":
					d.provider++
				}
			case "content_block_delta":
				switch event.Delta.Type {
				case "text_delta":
					d.wrote(event.Delta.Text)
				case "thinking_delta":
					d.thought(event.Delta.Thinking)
				case "input_json_delta":
					if books.open[event.Index] != nil { // nil for a tool that the provider executes
						books.piece(event.Index, event.Delta.PartialJSON)
					}
				}
			case "content_block_stop":
				books.completed(only(event.Index))
			case "message_delta":
				if event.Delta.StopReason != "" {
					reason = string(event.Delta.StopReason)
				}
			case "message_stop":
				d.finish, d.finished = reason, reason != ""
				books.handOver(all[int64])
			}
		}
		if d.err = stream.Err(); d.err == nil && reason != "" {
			// Some servers end an answer without message_stop.
			d.finish, d.finished = reason, true
		}
		books.end()
		return d
	}, nil
}
