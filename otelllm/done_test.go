package otelllm

import (
	"context"
	"io"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
)

// Done records the error that a function returned, or that it panicked. The panic continues.
func TestDone(t *testing.T) {
	for _, tt := range []struct {
		name    string
		err     error
		panics  any
		outcome string
		typ     any
	}{
		{"no error", nil, nil, "succeeded", nil},
		{"an error", io.EOF, nil, "failed", "*errors.errorString"},
		{"a panic", nil, "secret", "failed", "panic"},
		{"a panic and an error", FailedBeforeEffect(io.EOF), io.ErrUnexpectedEOF, "failed", "panic"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRecorder(t)
			var run *Run
			turn := func() (err error) {
				var ctx context.Context
				ctx, run = StartRun(t.Context(), "coder", WithTracerProvider(r))
				defer run.Done(&err)
				return func() (err error) {
					_, tool := StartTool(ctx, ToolCall{ID: "call_1", Name: "patch", Effect: EffectNonIdempotent})
					defer tool.Done(&err)
					err = tt.err
					if tt.panics != nil {
						panic(tt.panics)
					}
					return err
				}()
			}
			if tt.panics != nil {
				assert.PanicsWithValue(t, tt.panics, func() { _ = turn() })
				assert.Equal(t, semconv.CausePanic, run.Diagnosis().Cause)
				assert.NotEqual(t, classify.SafeAutoRetry, run.Diagnosis().Retry.Safety)
			} else {
				assert.Equal(t, tt.err, turn())
			}
			tool, s := r.named("execute_tool patch")[0], r.named("invoke_agent coder")[0]
			assert.Equal(t, tt.outcome, tool.get("llm.tool.outcome"))
			assert.Equal(t, tt.typ, tool.get("error.type"))
			assert.Equal(t, tt.typ, s.get("error.type"))
			assert.Equal(t, tt.typ != nil, s.failed())
			assert.Nil(t, tool.get("llm.tool.failed_before_effect"))
		})
	}
	var (
		run  *Run
		tool *Tool
	)
	run.Done(nil)
	tool.Done(nil)
	assert.Panics(t, func() { defer tool.Done(nil); panic("x") })
}
