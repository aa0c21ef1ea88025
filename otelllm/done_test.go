package otelllm

import (
	"context"
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/embedded"

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

// panickingProvider is a provider of which one method panics, or one of its tracers or spans.
type panickingProvider struct {
	embedded.TracerProvider

	at string
}

type panickingTracer struct {
	embedded.Tracer
	panickingProvider
}

type panickingSpan struct {
	trace.Span
	panickingProvider
}

func (r panickingProvider) panicAt(at string) {
	if r.at == at || r.at == "everywhere" {
		panic(at)
	}
}

func (r panickingProvider) Tracer(string, ...trace.TracerOption) trace.Tracer {
	r.panicAt("Tracer")
	return panickingTracer{panickingProvider: r}
}

func (r panickingTracer) Start(ctx context.Context, _ string, _ ...trace.SpanStartOption) (context.Context, trace.Span) {
	r.panicAt("Start")
	_, span := sdktrace.NewTracerProvider().Tracer("").Start(ctx, "")
	s := panickingSpan{span, r.panickingProvider}
	return trace.ContextWithSpan(ctx, s), s
}

func (s panickingSpan) IsRecording() bool                     { s.panicAt("IsRecording"); return true }
func (s panickingSpan) End(...trace.SpanEndOption)            { s.panicAt("End") }
func (s panickingSpan) AddEvent(string, ...trace.EventOption) { s.panicAt("AddEvent") }
func (s panickingSpan) TracerProvider() trace.TracerProvider  { return s.panickingProvider }

// A provider that panics ends the recording. The application, and the run's own facts, are
// not affected.
func TestPanicsAreContained(t *testing.T) {
	for _, at := range []string{"Tracer", "Start", "IsRecording", "AddEvent", "End", "everywhere"} {
		t.Run(at, func(t *testing.T) {
			require.NotPanics(t, func() {
				ctx, run := StartRun(t.Context(), "coder", WithTracerProvider(panickingProvider{at: at}), WithVerdicts())
				_, tool := StartTool(ctx, ToolCall{ID: "call_1", Name: "pay", Effect: EffectNonIdempotent})
				tool.RecordOutputFailure(io.EOF)
				tool.End(context.Canceled)
				tool.RecordOutputSent()
				tool.RecordOutputFailure(io.EOF)
				_, q := StartRequest(ctx, RequestInfo{Model: "m"}, WithTracerProvider(panickingProvider{at: at}))
				q.RecordSent()
				q.RecordText()
				q.End(connReset)
				session := NewRealtime(ctx, WithTracerProvider(panickingProvider{at: at}))
				session.RecordSent([]byte(`{"type":"response.create"}`))
				session.RecordReceived([]byte(`{"type":"response.created","response":{"id":"resp_1"}}`))
				session.Close(io.ErrUnexpectedEOF)
				d := run.Diagnosis()
				assert.True(t, d.Failed())
				assert.NotEqual(t, classify.SafeAutoRetry, d.Retry.Safety)
				run.End(connReset)
				facts, _ := run.run.Facts()
				assert.Equal(t, 2, facts.AnnouncedRequests.N())
				assert.Equal(t, 2, run.run.Kept().Requests)
				assert.Equal(t, 1, run.run.Kept().Tools)
			})
		})
	}
}
