package main

import (
	"context"
	"net/http"
	"net/url"

	"github.com/ollama/ollama/api"
)

func ollamaChat(base string, hc *http.Client) (ask, error) {
	at, err := url.Parse(base)
	if err != nil {
		return nil, err
	}
	c := api.NewClient(at, hc)
	request := &api.ChatRequest{Model: model, Messages: []api.Message{{Role: "user", Content: question}}}
	return func(ctx context.Context) (d delivery) {
		d.err = c.Chat(ctx, request, func(r api.ChatResponse) error {
			d.wrote(r.Message.Content)
			d.thought(r.Message.Thinking)
			made := len(r.Message.ToolCalls) // each call is complete
			d.started, d.complete, d.handed, d.ran = d.started+made, d.complete+made, d.handed+made, d.ran+made
			if r.Done {
				d.finish, d.finished = r.DoneReason, true
			}
			return nil
		})
		return d
	}, nil
}
