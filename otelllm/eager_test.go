package otelllm

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/otelllm/internal/nettest"
	"github.com/otelllm/otelllm-go/semconv"
)

// A client executed a call whose arguments were whole, and the stream broke before its finish
// reason: the tool did what it was asked for, and must not run again unasked.
func TestToolOfACallThatWasWhole(t *testing.T) {
	const begin = "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"call_1\",\"function\":{\"name\":\"pay\",\"arguments\":"
	const end = "}}]}}]}\n\n"
	for _, tt := range []struct {
		name, events string
		recorded     bool // the application records its tools
		ran          bool
		safety       semconv.RetrySafety
		reason       semconv.RetryReason
	}{
		{"whole, and nothing records tools", begin + `"{}"` + end, false, true, classify.UserConfirmedRetry, semconv.RetryReasonToolStateUnknown},
		{"whole, and it ran", begin + `"{}"` + end, true, true, classify.UserConfirmedRetry, semconv.RetryReasonToolSideEffect},
		{"whole, and it did not run", begin + `"{}"` + end, true, false, classify.SafeAutoRetry, semconv.RetryReasonToolCallNotExecuted},
		{"open, and nothing records tools", begin + `"{\"a\":1"` + end, false, false, classify.SafeAutoRetry, semconv.RetryReasonIncompleteToolInput},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRecorder(t)
			ctx := t.Context()
			var run *Run
			if tt.recorded {
				ctx, run = StartRun(ctx, "coder", WithTracerProvider(r), WithToolsRecorded())
			}
			ctx, last := WithLastRequest(ctx)
			_, err := call(ctx, NewTransport(base(t), WithTracerProvider(r), WithVerdicts()), scriptedServer(t, sseHead+tt.events, nettest.Reset)+chatPath, chatBody)
			d := last.Diagnosis()
			if tt.recorded {
				if tt.ran {
					_, tool := StartTool(ctx, ToolCall{ID: "call_1", Name: "pay", Effect: EffectNonIdempotent})
					tool.End(nil)
				}
				d = run.Diagnosis()
				run.End(err)
			}
			assert.Equal(t, semconv.ClassStreamInterrupted, d.Class, d.Summary)
			assert.Equal(t, tt.safety, d.Retry.Safety, d.Summary)
			assert.Equal(t, tt.reason, d.Retry.Reason, d.Summary)
			for _, s := range r.spans.Ended() {
				assert.NotEqual(t, "tool_failed", span{s}.get(semconv.FailureClassKey), s.Name())
			}
		})
	}
}
