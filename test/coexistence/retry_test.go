package coexistence

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/hashicorp/go-retryablehttp"
	"github.com/openai/openai-go/v3/option"
	sashabaranov "github.com/sashabaranov/go-openai"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/otelllm"
	"github.com/otelllm/otelllm-go/test/faultyllm"
)

// retryCount is the header in which the OpenAI and Anthropic SDKs number retries.
const retryCount = "X-Stainless-Retry-Count"

// A middleware of openai-go runs inside the SDK's own retries. The requests that it
// repeats have the SDK's number; if the middleware sets the number, its attempts are
// numbered.
func TestUnderAMiddlewareThatRetries(t *testing.T) {
	for _, tc := range []struct {
		name     string
		counts   bool
		attempts []int64
	}{{"that does not count", false, []int64{1, 1}}, {"that counts", true, []int64{1, 2}}} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, limited, answered)
			d, err := w.run(t, func(ctx context.Context) error {
				text, err := w.askOpenAI(ctx, otelllm.NewTransport(w.wire), option.WithMaxRetries(0), option.WithMiddleware(
					func(r *http.Request, next option.MiddlewareNext) (*http.Response, error) {
						resp, err := next(r)
						if err != nil || resp.StatusCode != http.StatusTooManyRequests {
							return resp, err
						}
						_, err = io.Copy(io.Discard, resp.Body)
						if err := errors.Join(err, resp.Body.Close()); err != nil {
							return nil, err
						}
						again := r.Clone(r.Context())
						if again.Body, err = r.GetBody(); err != nil {
							return nil, err
						}
						if tc.counts {
							again.Header.Set(retryCount, "1")
						}
						return next(again)
					},
				))
				assert.Equal(t, "so it is", text)
				return err
			})
			require.NoError(t, err)
			recovered(t, &d)
			assert.Equal(t, tc.attempts, numbers(w.oneSpanAnAttempt(t, 2)))
		})
	}
}

// A RoundTripper that retries is above our transport, under an SDK that does not retry:
// attempts are numbered if the retrier sets the number.
func TestUnderARoundTripperThatRetries(t *testing.T) {
	for _, tc := range []struct {
		name     string
		script   []faultyllm.Exchange
		hook     retryablehttp.RequestLogHook
		attempts []int64
	}{
		{"that does not count", []faultyllm.Exchange{limited, answered}, nil, []int64{0, 0}},
		{"that counts", []faultyllm.Exchange{limited, answered}, func(_ retryablehttp.Logger, r *http.Request, n int) {
			r.Header.Set(retryCount, strconv.Itoa(n))
		}, []int64{1, 2}},
		{"after a connection that was lost", []faultyllm.Exchange{faultyllm.BeforeHeaders(faultyllm.Reset()), answered}, nil, []int64{0, 0}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, tc.script...)
			retrier := retryablehttp.NewClient()
			retrier.Logger, retrier.RequestLogHook = nil, tc.hook
			retrier.RetryMax, retrier.RetryWaitMin, retrier.RetryWaitMax = 1, time.Microsecond, time.Millisecond
			retrier.HTTPClient = &http.Client{Transport: otelllm.NewTransport(w.wire)}

			config := sashabaranov.DefaultConfig("sk-test")
			config.BaseURL, config.HTTPClient = w.srv.BaseURL("c", faultyllm.Chat), retrier.StandardClient()
			client := sashabaranov.NewClientWithConfig(config)
			d, err := w.run(t, func(ctx context.Context) error {
				stream, err := client.CreateChatCompletionStream(ctx, sashabaranov.ChatCompletionRequest{
					Model: model, Stream: true, Messages: []sashabaranov.ChatCompletionMessage{{Role: "user", Content: "hello"}},
				})
				if err != nil {
					return err
				}
				defer stream.Close()
				for {
					if _, err := stream.Recv(); errors.Is(err, io.EOF) {
						return nil
					} else if err != nil {
						return err
					}
				}
			})
			require.NoError(t, err)
			recovered(t, &d)
			assert.Equal(t, tc.attempts, numbers(w.oneSpanAnAttempt(t, 2)))
		})
	}
}
