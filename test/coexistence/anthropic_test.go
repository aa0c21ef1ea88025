package coexistence

import (
	"context"
	"net/http"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/otelllm"
	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
	"github.com/otelllm/otelllm-go/test/faultyllm"
)

const anthropicScope = "com.anthropic.sdk.go"

// anthropic-sdk-go traces its calls if there is a global TracerProvider: its span is
// the logical call, and our spans, one per attempt, are below it.
func TestUnderTheAnthropicSDKsOwnTelemetry(t *testing.T) {
	for _, tc := range []struct {
		name     string
		script   []faultyllm.Exchange
		attempts []int64
		fails    bool
		verdict  func(*testing.T, *classify.Diagnosis)
	}{
		{"whole", []faultyllm.Exchange{answered}, []int64{1}, false, func(t *testing.T, d *classify.Diagnosis) {
			t.Helper()
			assert.Equal(t, semconv.RunOutcomeSucceeded, d.Outcome)
		}},
		{"the SDK retries", []faultyllm.Exchange{limited, answered}, []int64{1, 2}, false, recovered},
		{"cut, which the SDK does not retry", []faultyllm.Exchange{cut}, []int64{1}, true, func(t *testing.T, d *classify.Diagnosis) {
			t.Helper()
			assert.Equal(t, semconv.CauseConnectionReset, d.Cause)
			assert.Equal(t, semconv.RetrySafetyUserConfirmedRetry, d.Retry.Safety)
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, tc.script...)
			d, err := w.run(t, func(ctx context.Context) error { return w.askAnthropic(ctx, otelllm.NewTransport(w.wire)) })
			assert.Equal(t, tc.fails, err != nil, "%v", err)
			tc.verdict(t, &d)

			requests := w.oneSpanAnAttempt(t, len(tc.attempts))
			assert.Equal(t, tc.attempts, numbers(requests))
			calls := w.scope(anthropicScope)
			require.Len(t, calls, 1, "the SDK has to trace for this test to prove anything")
			underOneOf(t, requests, calls)
			assert.Equal(t, w.runSpan(t).SpanContext().SpanID(), calls[0].Parent().SpanID())
		})
	}
}

func (w *world) askAnthropic(ctx context.Context, rt http.RoundTripper, opts ...option.RequestOption) error {
	client := anthropic.NewClient(append([]option.RequestOption{
		option.WithBaseURL(w.srv.BaseURL("c", faultyllm.Anthropic)), option.WithAPIKey("sk-test"), option.WithMaxRetries(1),
		option.WithHTTPClient(&http.Client{Transport: rt}),
	}, opts...)...)
	stream := client.Messages.NewStreaming(ctx, anthropic.MessageNewParams{
		Model: model, MaxTokens: 1024,
		Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("hello"))},
	})
	defer stream.Close()
	for stream.Next() {
		_ = stream.Current()
	}
	return stream.Err()
}

// The SDK sends the context of its own span unless an option disables it; ours is not
// sent, even though a propagator is set.
func TestWhoseTraceContextIsSent(t *testing.T) {
	w := newWorld(t, answered)
	_, err := w.run(t, func(ctx context.Context) error { return w.askAnthropic(ctx, otelllm.NewTransport(w.wire)) })
	require.NoError(t, err)
	theirs := w.scope(anthropicScope)[0].SpanContext()
	assert.Equal(t, []string{"00-" + theirs.TraceID().String() + "-" + theirs.SpanID().String() + "-01"}, w.wire.traceparents)

	w = newWorld(t, answered)
	_, err = w.run(t, func(ctx context.Context) error {
		return w.askAnthropic(ctx, otelllm.NewTransport(w.wire), option.WithOpenTelemetryPropagation(false))
	})
	require.NoError(t, err)
	assert.Equal(t, []string{""}, w.wire.traceparents)
}
