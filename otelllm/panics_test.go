package otelllm_test

import (
	"context"
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/embedded"

	"github.com/otelllm/otelllm-go/otelllm"
	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/otelllm/internal/agentrun"
	"github.com/otelllm/otelllm-go/otelllm/manual"
	"github.com/otelllm/otelllm-go/otelllm/realtime"
)

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
				llm := otelllm.New(otelllm.WithTracerProvider(panickingProvider{at: at}))
				ctx, run := llm.StartRun(t.Context(), "coder", otelllm.WithVerdicts())
				_, tool := otelllm.StartTool(ctx, otelllm.ToolCall{ID: "call_1", Name: "pay", Effect: otelllm.EffectNonIdempotent})
				tool.RecordOutputFailure(io.EOF)
				tool.End(context.Canceled)
				tool.RecordOutputSent()
				tool.RecordOutputFailure(io.EOF)
				_, q := manual.Start(ctx, manual.RequestInfo{Model: "m", Instrumentation: llm})
				q.RecordSent()
				q.RecordText()
				q.End(connReset)
				session := realtime.NewSession(ctx, realtime.Config{Instrumentation: llm})
				session.RecordSent([]byte(`{"type":"response.create"}`))
				session.RecordReceived([]byte(`{"type":"response.created","response":{"id":"resp_1"}}`))
				session.Close(io.ErrUnexpectedEOF)
				d := run.Diagnosis()
				assert.True(t, d.Failed())
				assert.NotEqual(t, classify.SafeAutoRetry, d.Retry.Safety)
				run.End(connReset)
				facts, _ := agentrun.Of(ctx).Facts()
				assert.Equal(t, 2, facts.AnnouncedRequests.N())
				assert.Equal(t, 2, agentrun.Of(ctx).Kept().Requests)
				assert.Equal(t, 1, agentrun.Of(ctx).Kept().Tools)
			})
		})
	}
}
