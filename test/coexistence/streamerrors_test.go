package coexistence

import (
	"context"
	"io"
	"net/http"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/otelllm"
	"github.com/otelllm/otelllm-go/semconv"
	"github.com/otelllm/otelllm-go/test/faultyllm"
)

// SDKs do not report a stream that ends cleanly without the protocol's final event as
// an error. With WithStreamErrors it is an error, and without it, it is not. A complete
// stream is never an error.
func TestSDKsReportACutWithStreamErrors(t *testing.T) {
	early := faultyllm.Answer(faultyllm.Text("so "), faultyllm.CleanEnd())
	short := faultyllm.Answer(faultyllm.Text("so "), faultyllm.Finish(faultyllm.Length))
	for _, sdk := range []struct {
		name string
		ask  func(*world, context.Context, http.RoundTripper) error
	}{
		{"openai-go, Chat Completions", func(w *world, ctx context.Context, rt http.RoundTripper) error {
			_, err := w.askOpenAI(ctx, rt)
			return err
		}},
		{"openai-go, Responses", (*world).askResponses},
		{"anthropic-sdk-go", func(w *world, ctx context.Context, rt http.RoundTripper) error {
			return w.askAnthropic(ctx, rt)
		}},
	} {
		for _, tc := range []struct {
			name    string
			script  faultyllm.Exchange
			opts    []otelllm.TransportOption
			errors  bool
			outcome semconv.RunOutcome
		}{
			{"cut", early, nil, false, semconv.RunOutcomeFailed},
			{"cut, stream errors", early, []otelllm.TransportOption{otelllm.WithStreamErrors()}, true, semconv.RunOutcomeFailed},
			{"whole, stream errors", answered, []otelllm.TransportOption{otelllm.WithStreamErrors()}, false, semconv.RunOutcomeSucceeded},
			{"cut by a limit, stream errors", short, []otelllm.TransportOption{otelllm.WithStreamErrors()}, false, semconv.RunOutcomeLimited},
		} {
			t.Run(sdk.name+"/"+tc.name, func(t *testing.T) {
				w := newWorld(t, tc.script)
				d, err := w.run(t, func(ctx context.Context) error { return sdk.ask(w, ctx, otelllm.NewTransport(w.wire, tc.opts...)) })
				assert.Equal(t, tc.outcome, d.Outcome)
				if !tc.errors {
					require.NoError(t, err)
					return
				}
				var broke *otelllm.StreamError
				require.ErrorAs(t, err, &broke)
				require.ErrorIs(t, err, io.ErrUnexpectedEOF)
				assert.Equal(t, semconv.CauseCleanEOF, broke.Diagnosis.Cause)
				assert.Equal(t, d.Retry.Safety, broke.Diagnosis.Retry.Safety)
			})
		}
	}
}

func (w *world) askResponses(ctx context.Context, rt http.RoundTripper) error {
	client := openai.NewClient(option.WithBaseURL(w.srv.BaseURL("c", faultyllm.Responses)), option.WithAPIKey("sk-test"),
		option.WithHTTPClient(&http.Client{Transport: rt}))
	stream := client.Responses.NewStreaming(ctx, responses.ResponseNewParams{
		Model: model, Input: responses.ResponseNewParamsInputUnion{OfString: openai.String("hello")},
	})
	defer stream.Close()
	for stream.Next() {
		_ = stream.Current()
	}
	return stream.Err()
}
