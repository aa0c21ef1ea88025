package otelllm

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/otelllm/internal/nettest"
	"github.com/otelllm/otelllm-go/semconv"
)

// TestLastRequest checks that a retry loop gets the diagnosis that the call's span holds,
// in a run or not, and also if the span is not sampled.
func TestLastRequest(t *testing.T) {
	noLeak(t)
	overloaded := "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 7\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
	for _, tt := range []struct {
		name, answer string
		then         func(net.Conn)
		safety       semconv.RetrySafety
	}{
		{"complete", sseHead + firstText + chatStop + chatDone, nil, semconv.RetrySafetyUnset},
		{"reset before anything", sseHead, nettest.Reset, classify.SafeAutoRetry},
		{"reset after text", sseHead + firstText, nettest.Reset, classify.UserConfirmedRetry},
		{"a clean end, which is not an error for the SDK", sseHead, nil, classify.SafeAutoRetry},
		{"overloaded", overloaded, nil, classify.SafeAutoRetry},
	} {
		for _, sampler := range []sdktrace.Sampler{sdktrace.AlwaysSample(), sdktrace.NeverSample()} {
			for _, inRun := range []bool{false, true} {
				name := tt.name + ", " + sampler.Description()
				r := newRecorder(t, sdktrace.WithSampler(sampler))
				ctx := t.Context()
				if inRun {
					ctx, _ = StartRun(ctx, "coder", WithTracerProvider(r), WithToolsRecorded())
				}
				ctx, last := WithLastRequest(ctx)
				assert.Zero(t, last.Diagnosis(), name)
				_, _ = call(ctx, NewTransport(base(t), WithTracerProvider(r), WithVerdicts()), scriptedServer(t, tt.answer, tt.then)+chatPath, chatBody)
				d := last.Diagnosis()
				assert.Equal(t, tt.safety, d.Retry.Safety, name)
				for _, s := range r.spans.Ended() {
					recorded, _ := span{s}.get(semconv.RetrySafetyKey).(string)
					assert.Equal(t, recorded, d.Retry.Safety.String(), name)
					recorded, _ = span{s}.get(semconv.FailureSummaryKey).(string)
					assert.Equal(t, recorded, d.Summary, name)
				}
			}
		}
	}
}

// Of several attempts under one context, the last one counts as soon as it has begun.
func TestLastRequestOfSeveral(t *testing.T) {
	r := newRecorder(t)
	ctx, last := WithLastRequest(t.Context())
	rt := NewTransport(base(t), WithTracerProvider(r))
	_, err := call(ctx, rt, scriptedServer(t, sseHead+firstText, nettest.Reset)+chatPath, chatBody)
	require.Error(t, err)
	assert.True(t, func() bool { d := last.Diagnosis(); return d.Failed() }())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, scriptedServer(t, sseHead+firstText+chatStop+chatDone, nil)+chatPath, strings.NewReader(chatBody))
	require.NoError(t, err)
	resp, err := rt.RoundTrip(req)
	require.NoError(t, err)
	assert.Zero(t, last.Diagnosis(), "the second one is open")
	_, err = io.Copy(io.Discard, resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	assert.Zero(t, last.Diagnosis())
}

// A retry of a call is as safe as the least safe of its attempts: what one of them showed or set
// off, the next call repeats. What failed is the last one.
func TestLastRequestJoinsAttempts(t *testing.T) {
	noLeak(t)
	const (
		overloaded = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
		refused    = "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
		toolCall   = `data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_1","function":{"name":"pay","arguments":"{}"}}]}}]}` + "\n\n"
	)
	type answer struct {
		name, text string
		then       func(net.Conn)
	}
	firsts := []struct {
		answer
		safety semconv.RetrySafety
		reason semconv.RetryReason
	}{
		{answer{"nothing", sseHead, nettest.Reset}, classify.SafeAutoRetry, semconv.RetryReasonNoOutput},
		{answer{"overloaded", overloaded, nil}, classify.SafeAutoRetry, semconv.RetryReasonNoOutput},
		{answer{"text, then a reset", sseHead + firstText, nettest.Reset}, classify.UserConfirmedRetry, semconv.RetryReasonVisibleOutput},
		{answer{"text, then a clean end", sseHead + firstText, nil}, classify.UserConfirmedRetry, semconv.RetryReasonVisibleOutput},
		{answer{"a complete answer", sseHead + firstText + chatStop + chatDone, nil}, classify.UserConfirmedRetry, semconv.RetryReasonVisibleOutput},
		{answer{"a call, then a reset", sseHead + toolCall, nettest.Reset}, classify.UserConfirmedRetry, semconv.RetryReasonToolStateUnknown},
		{answer{"refused", refused, nil}, classify.NoRetry, semconv.RetryReasonNotTransient},
	}
	lasts := []struct {
		answer
		class semconv.Class
	}{
		{answer{"overloaded", overloaded, nil}, semconv.ClassProviderError},
		{answer{"reset", sseHead, nettest.Reset}, semconv.ClassStreamInterrupted},
	}
	for _, first := range firsts {
		for _, last := range lasts {
			for _, inRun := range []bool{false, true} {
				for _, between := range []int{0, 1} {
					ctx := t.Context()
					if inRun {
						ctx, _ = StartRun(ctx, "coder", WithTracerProvider(newRecorder(t)))
					}
					ctx, call1 := WithLastRequest(ctx)
					rt := NewTransport(base(t), WithTracerProvider(newRecorder(t)))
					_, _ = call(ctx, rt, scriptedServer(t, first.text, first.then)+chatPath, chatBody)
					for range between {
						_, _ = call(ctx, rt, scriptedServer(t, sseHead, nettest.Reset)+chatPath, chatBody)
					}
					_, _ = call(ctx, rt, scriptedServer(t, last.text, last.then)+chatPath, chatBody)
					d := call1.Diagnosis()
					name := first.name + ", " + last.name
					assert.Equal(t, last.class, d.Class, name)
					assert.Equal(t, first.safety, d.Retry.Safety, name)
					assert.Equal(t, first.reason, d.Retry.Reason, name)
				}
			}
		}
	}
}

// An attempt that goes on beside the last one may do anything next, and so may those that are
// not kept any more.
func TestLastRequestOfOpenAttempts(t *testing.T) {
	noLeak(t)
	ctx, last := WithLastRequest(t.Context())
	rt := NewTransport(base(t), WithTracerProvider(newRecorder(t)), WithoutInferredRuns())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, scriptedServer(t, sseHead, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })+chatPath, strings.NewReader(chatBody))
	require.NoError(t, err)
	resp, err := rt.RoundTrip(req)
	require.NoError(t, err)
	reset := scriptedServer(t, sseHead, nettest.Reset) + chatPath
	_, _ = call(ctx, rt, reset, chatBody)
	assert.Equal(t, semconv.RetryReasonEvidenceIncomplete, last.Diagnosis().Retry.Reason)
	require.NoError(t, resp.Body.Close())

	ctx, last = WithLastRequest(t.Context())
	for range 32 {
		_, _ = call(ctx, rt, reset, chatBody)
	}
	assert.Equal(t, classify.SafeAutoRetry, last.Diagnosis().Retry.Safety)
	_, _ = call(ctx, rt, reset, chatBody)
	assert.Equal(t, semconv.RetryReasonEvidenceIncomplete, last.Diagnosis().Retry.Reason)
}

// An SDK returns an in-band error before it closes the body: the diagnosis is available by then.
func TestLastRequestBeforeClose(t *testing.T) {
	r := newRecorder(t)
	ctx, last := WithLastRequest(t.Context())
	url := scriptedServer(t, sseHead+"data: {\"error\":{\"code\":\"rate_limit_exceeded\"}}\n\n", func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+chatPath, strings.NewReader(chatBody))
	require.NoError(t, err)
	resp, err := NewTransport(base(t), WithTracerProvider(r)).RoundTrip(req)
	require.NoError(t, err)
	_, err = resp.Body.Read(make([]byte, 1<<10))
	require.NoError(t, err)
	open := last.Diagnosis()
	assert.Equal(t, classify.SafeAutoRetry, open.Retry.Safety)
	assert.Equal(t, semconv.ClassProviderError, open.Class)
	require.NoError(t, resp.Body.Close())
	assert.Equal(t, open.Retry, last.Diagnosis().Retry)
	assert.Zero(t, (*LastRequest)(nil).Diagnosis())
	_, other := WithLastRequest(context.Background())
	assert.Zero(t, other.Diagnosis())
}
