package main

import (
	"context"
	"net/http"
	"strings"
)

// ask sends one request and reads its answer to the end, like a program that trusts its
// client.
type ask func(ctx context.Context) delivery

// client is one real client.
type client struct {
	name string
	wire wire
	// open returns the client's ask for a server at url.
	open func(url string, hc *http.Client) (ask, error)
}

// reads reports whether the client reads such a stream. Langchaingo panics on a function_call.
func (c *client) reads(s *stream) bool {
	return c.wire == s.wire && (c.name != "langchaingo" || !strings.Contains(s.name, "/legacy-"))
}

// clients returns all clients.
func clients() []client {
	return []client{
		{"openai-go/chat", chatWire, openaiChat(false)},
		{"openai-go/accumulator", chatWire, openaiChat(true)},
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

// question is the prompt of every client. Its content does not matter.
const (
	question = "?"
	model    = "m-1"
)
