package inferred

import (
	"cmp"
	"context"
	"net/http"
	"strings"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/otelllm/otelllm-go/otelllm/internal/agentrun"
	"github.com/otelllm/otelllm-go/otelllm/internal/httpcall"
	"github.com/otelllm/otelllm-go/otelllm/internal/kinship"
	"github.com/otelllm/otelllm-go/otelllm/internal/wire"
)

// Client holds the facts about an agent in a request's headers.
type Client struct {
	agent          string // the product token of its user agent, or [unknownAgent]
	conversationID string // the id that it sends with every request of a conversation; "": it sends none
	sent           kinship.Sent
}

// conversationHeaders are headers with the id of a conversation, in canonical form, the most specific one first: Codex,
// opencode, Claude Code. Codex repeats its ids in X-Codex-Turn-Metadata, beside the id of the turn.
var conversationHeaders = [...]string{"Thread-Id", "Session-Id", "X-Session-Id", "X-Claude-Code-Session-Id"}

// clientHeaders are further headers whose values stay the same within a conversation.
var clientHeaders = [...]string{"X-Claude-Code-Agent-Id", affinityHeader}

// affinityHeader has an id of the conversation in requests of opencode, by which a provider keeps them together.
const affinityHeader = "X-Session-Affinity"

// ReadHeaders reads a request's headers. Their values are kept as keyed hashes, except for the id of the conversation in
// its recorded form.
func ReadHeaders(h http.Header) Client {
	c := Client{agent: agentOf(httpcall.Value(h, "User-Agent"))}
	c.sent.Client = wire.TranscriptID(c.agent)
	for _, name := range conversationHeaders {
		id := httpcall.Value(h, name)
		if id == "" {
			continue
		}
		if c.conversationID == "" {
			c.conversationID = wire.SafeID(id)
		}
		c.sent.Session += wire.TranscriptID(name + " " + id)
	}
	for _, name := range clientHeaders {
		if v := httpcall.Value(h, name); v != "" {
			c.sent.Client += wire.TranscriptID(name + " " + v)
			c.sent.Affine = c.sent.Affine || name == affinityHeader
		}
	}
	return c
}

// unknownAgent is the name of an agent whose user agent names no product of its own.
const unknownAgent = "agent"

// libraries are products in user agents that are not agents: SDKs and HTTP clients, in lower case.
var libraries = map[string]bool{
	"openai": true, "asyncopenai": true, "azureopenai": true, "anthropic": true, "asyncanthropic": true, "anthropicbedrock": true,
	"google-genai-sdk": true, "go-http-client": true, "python-httpx": true, "python-requests": true, "python": true,
	"axios": true, "node": true, "node-fetch": true, "undici": true, "deno": true, "bun": true, "curl": true, "okhttp": true,
	"java": true, "java-http-client": true, "apache-httpclient": true, "reqwest": true, "aws-sdk-go-v2": true, "boto3": true,
	"botocore": true, "ollama": true, "ollama-python": true, "langchain": true, "litellm": true, "ai-sdk": true, "mozilla": true,
}

// agentOf returns the product token of a user agent: "codex_exec" of "codex_exec/0.169.0 (…)". A token without a version
// may be any text.
func agentOf(userAgent string) string {
	product, _, versioned := strings.Cut(userAgent, "/")
	name := wire.SafeName(product)
	if !versioned || name == "" || name != product || libraries[strings.ToLower(product)] {
		return unknownAgent
	}
	return name
}

// StartSession starts the inferred run of a session over a connection of its own: its requests need no search for their
// run. It returns a context for them. The caller ends the run with the session.
func (s *Source) StartSession(ctx context.Context, now time.Time, c Client) (context.Context, *agentrun.Run) {
	config := s.Run
	config.Agent, config.ConversationID = s.Runs.agentName(c.agent), cmp.Or(c.conversationID, newID())
	run := agentrun.StartInferred(ctx, config, now, trace.SpanContext{})
	return agentrun.With(trace.ContextWithSpan(ctx, run.Span()), run), run
}
