package coexistence

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"

	"github.com/otelllm/otelllm-go/otelllm"
	"github.com/otelllm/otelllm-go/test/faultyllm"
)

// otelhttp creates one span per attempt, as our transport does. Above our transport or
// below it, the run's diagnosis is the same.
func TestBesideOtelhttp(t *testing.T) {
	for _, tc := range []struct {
		name      string
		transport func(http.RoundTripper) http.RoundTripper
		above     bool
	}{
		{"ours under otelhttp", func(rt http.RoundTripper) http.RoundTripper { return otelhttp.NewTransport(otelllm.NewTransport(rt)) }, true},
		{"otelhttp under ours", func(rt http.RoundTripper) http.RoundTripper { return otelllm.NewTransport(otelhttp.NewTransport(rt)) }, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, limited, answered)
			d, err := w.run(t, func(ctx context.Context) error {
				text, err := w.askOpenAI(ctx, tc.transport(w.wire), option.WithMaxRetries(1))
				assert.Equal(t, "so it is", text)
				return err
			})
			require.NoError(t, err)
			recovered(t, &d)
			requests := w.oneSpanAnAttempt(t, 2)
			assert.Equal(t, []int64{1, 2}, numbers(requests))
			theirs := w.scope(otelhttp.ScopeName)
			require.Len(t, theirs, 2, "otelhttp has to trace for this test to prove anything")
			if tc.above {
				underOneOf(t, requests, theirs)
			} else {
				underOneOf(t, theirs, requests)
			}
		})
		t.Run(tc.name+", cut", func(t *testing.T) {
			w := newWorld(t, cut)
			d, err := w.run(t, func(ctx context.Context) error {
				_, err := w.askOpenAI(ctx, tc.transport(w.wire), option.WithMaxRetries(1))
				return err
			})
			require.Error(t, err)
			assert.Equal(t, "stream_interrupted connection_reset text", d.Class.String()+" "+d.Cause.String()+" "+d.Phase.String())
			w.oneSpanAnAttempt(t, 1)
			assert.Len(t, w.scope(otelhttp.ScopeName), 1)
		})
	}
}

func (w *world) askOpenAI(ctx context.Context, rt http.RoundTripper, opts ...option.RequestOption) (string, error) {
	var text strings.Builder
	client := openai.NewClient(append([]option.RequestOption{
		option.WithBaseURL(w.srv.BaseURL("c", faultyllm.Chat)), option.WithAPIKey("sk-test"), option.WithHTTPClient(&http.Client{Transport: rt}),
	}, opts...)...)
	stream := client.Chat.Completions.NewStreaming(ctx, openai.ChatCompletionNewParams{
		Model: model, Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("hello")},
	})
	defer stream.Close()
	for stream.Next() {
		for _, choice := range stream.Current().Choices {
			text.WriteString(choice.Delta.Content)
		}
	}
	return text.String(), stream.Err()
}

// If a client is wrapped twice, for example by the application and by a framework, the
// upper transport records, even with another transport in between.
func TestNestedTransportsRecordOnce(t *testing.T) {
	for name, transport := range map[string]func(http.RoundTripper) http.RoundTripper{
		"at once": func(rt http.RoundTripper) http.RoundTripper {
			return otelllm.NewTransport(otelllm.NewTransport(rt))
		},
		"with otelhttp between": func(rt http.RoundTripper) http.RoundTripper {
			return otelllm.NewTransport(otelhttp.NewTransport(otelllm.NewTransport(rt)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, limited, answered)
			d, err := w.run(t, func(ctx context.Context) error {
				_, err := w.askOpenAI(ctx, transport(w.wire), option.WithMaxRetries(1))
				return err
			})
			require.NoError(t, err)
			recovered(t, &d)
			assert.Equal(t, []int64{1, 2}, numbers(w.oneSpanAnAttempt(t, 2)))
		})
	}
}
