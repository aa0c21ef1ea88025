package e2e

import (
	"context"
	"io"
	"net/http"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/option"
	"github.com/openai/openai-go/v3"
	openaioption "github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/genai"

	"github.com/otelllm/otelllm-go/otelllm"
	"github.com/otelllm/otelllm-go/semconv"
	"github.com/otelllm/otelllm-go/test/faultyllm"
)

// streams read an answer with the SDK of each wire protocol to its end, and return the SDK's
// error.
var streams = map[faultyllm.Wire]func(ctx context.Context, baseURL string, client *http.Client) error{
	faultyllm.Chat: func(ctx context.Context, baseURL string, client *http.Client) error {
		c := openai.NewClient(openaioption.WithBaseURL(baseURL), openaioption.WithAPIKey("sk-none"), openaioption.WithHTTPClient(client))
		s := c.Chat.Completions.NewStreaming(ctx, openai.ChatCompletionNewParams{
			Model: "gpt-5.5", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("?")},
		})
		defer s.Close()
		for s.Next() {
			continue
		}
		return s.Err()
	},
	faultyllm.Responses: func(ctx context.Context, baseURL string, client *http.Client) error {
		c := openai.NewClient(openaioption.WithBaseURL(baseURL), openaioption.WithAPIKey("sk-none"), openaioption.WithHTTPClient(client))
		s := c.Responses.NewStreaming(ctx, responses.ResponseNewParams{
			Model: "gpt-5.5", Input: responses.ResponseNewParamsInputUnion{OfString: openai.String("?")},
		})
		defer s.Close()
		for s.Next() {
			continue
		}
		return s.Err()
	},
	faultyllm.Anthropic: func(ctx context.Context, baseURL string, client *http.Client) error {
		c := anthropic.NewClient(anthropicoption.WithBaseURL(baseURL), anthropicoption.WithAPIKey("sk-none"), anthropicoption.WithHTTPClient(client))
		s := c.Messages.NewStreaming(ctx, anthropic.MessageNewParams{
			Model: "claude-sonnet-5-5", MaxTokens: 64, Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("?"))},
		})
		defer s.Close()
		for s.Next() {
			continue
		}
		return s.Err()
	},
	faultyllm.Gemini: func(ctx context.Context, baseURL string, client *http.Client) error {
		c, err := genai.NewClient(ctx, &genai.ClientConfig{
			APIKey: "none", Backend: genai.BackendGeminiAPI, HTTPClient: client, HTTPOptions: genai.HTTPOptions{BaseURL: baseURL},
		})
		if err != nil {
			return err
		}
		for _, err := range c.Models.GenerateContentStream(ctx, "gemini-3-pro", genai.Text("?"), nil) {
			if err != nil {
				return err
			}
		}
		return nil
	},
}

// SDKs report a stream that ends cleanly without its final event as a complete answer. With
// WithStreamErrors it is an error that names what broke; a complete answer is not an error.
func TestACleanEndIsAnErrorOnRequest(t *testing.T) {
	srv, err := faultyllm.Start()
	require.NoError(t, err)
	defer func() { assert.NoError(t, srv.Close()) }()
	says := faultyllm.Text("The loop stops ", "one too early.")
	for wire, read := range streams {
		for _, tt := range []struct {
			name    string
			script  faultyllm.Exchange
			options []otelllm.TransportOption
			fails   bool
		}{
			{"cut", faultyllm.Answer(says, faultyllm.CleanEnd()), nil, false},
			{"cut, with stream errors", faultyllm.Answer(says, faultyllm.CleanEnd()), []otelllm.TransportOption{otelllm.WithStreamErrors()}, true},
			{"whole, with stream errors", faultyllm.Answer(says, faultyllm.Finish(faultyllm.Stop)), []otelllm.TransportOption{otelllm.WithStreamErrors()}, false},
		} {
			t.Run(wire.String()+"/"+tt.name, func(t *testing.T) {
				srv.Play("c", tt.script)
				base := &http.Transport{}
				defer base.CloseIdleConnections()
				err := read(t.Context(), srv.BaseURL("c", wire), &http.Client{Transport: otelllm.NewTransport(base, tt.options...)})
				if !tt.fails {
					require.NoError(t, err)
					return
				}
				var broke *otelllm.StreamError
				require.ErrorAs(t, err, &broke)
				assert.Equal(t, semconv.CauseCleanEOF, broke.Diagnosis.Cause)
				assert.Equal(t, semconv.PhaseText, broke.Diagnosis.Phase)
				assert.Equal(t, semconv.RetrySafetyUserConfirmedRetry, broke.Diagnosis.Retry.Safety)
				require.ErrorIs(t, err, io.ErrUnexpectedEOF)
			})
		}
	}
}
