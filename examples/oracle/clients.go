package main

import (
	"context"
	"net/http"
)

// ask sends one request and reads its answer to the end, as a program does that trusts
// its client.
type ask func(ctx context.Context) delivery

// client is one real client.
type client struct {
	name string
	wire wire
	// open makes it, for a server at url.
	open func(url string, hc *http.Client) (ask, error)
}

// clients are all of them.
func clients() []client {
	return []client{
		{"openai-go/chat", chatWire, openaiChat},
		{"go-openai", chatWire, goOpenAI},
		{"langchaingo", chatWire, langchainGo},
		{"eino", chatWire, einoChat},
		{"openai-go/responses", responsesWire, openaiResponses},
		{"anthropic-sdk-go", anthropicWire, anthropicMessages},
		{"genai", geminiWire, genaiStream},
		{"ollama", ollamaWire, ollamaChat},
		{"bedrockruntime", bedrockWire, bedrockConverse},
	}
}

// question is what every client asks. Nothing of it matters.
const (
	question = "?"
	model    = "m-1"
)
