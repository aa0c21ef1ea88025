package telemetry

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
)

// sdk is an SDK that keeps its spans.
type sdk struct {
	*sdktrace.TracerProvider

	spans *tracetest.SpanRecorder
}

func newSDK() *sdk {
	spans := tracetest.NewSpanRecorder()
	return &sdk{sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)), spans}
}

// remoteSpan is a span with a provider, whose span context says that it is remote.
type remoteSpan struct{ trace.Span }

func (s remoteSpan) SpanContext() trace.SpanContext { return s.Span.SpanContext().WithRemote(true) }

func TestTracer(t *testing.T) {
	before := otel.GetTracerProvider()
	t.Cleanup(func() { otel.SetTracerProvider(before) })
	given, parents, global := newSDK(), newSDK(), newSDK()
	otel.SetTracerProvider(global)
	local, parent := parents.Tracer("app").Start(t.Context(), "parent")
	defer parent.End()
	remote := trace.ContextWithRemoteSpanContext(t.Context(), parent.SpanContext())
	carried := trace.ContextWithSpanContext(t.Context(), parent.SpanContext())
	require.True(t, trace.SpanContextFromContext(carried).IsValid())
	wrapped := trace.ContextWithSpan(t.Context(), remoteSpan{parent})

	for _, tt := range []struct {
		name  string
		ctx   context.Context
		given trace.TracerProvider
		want  *sdk
	}{
		{"given", t.Context(), given, given},
		{"given, and a local parent", local, given, given},
		{"given, and a remote parent", remote, given, given},
		{"a local parent", local, nil, parents},
		{"a remote parent", remote, nil, global},
		{"a remote parent with a provider", wrapped, nil, global},
		{"a parent that is only a span context", carried, nil, global},
		{"no parent", t.Context(), nil, global},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, s := range []*sdk{given, parents, global} {
				s.spans.Reset()
			}
			_, span := Tracer(tt.ctx, tt.given).Start(tt.ctx, "child")
			span.End()
			ended := tt.want.spans.Ended()
			require.Len(t, ended, 1)
			assert.Equal(t, ScopeName, ended[0].InstrumentationScope().Name)
			assert.Equal(t, Version(), ended[0].InstrumentationScope().Version)
			assert.Equal(t, "https://opentelemetry.io/schemas/1.41.0", ended[0].InstrumentationScope().SchemaURL)
		})
	}
}

// handle collects what is reported to the error handler during a test.
func handle(t *testing.T) *[]string {
	t.Helper()
	before := otel.GetErrorHandler()
	t.Cleanup(func() { otel.SetErrorHandler(before) })
	var reported []string
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { reported = append(reported, err.Error()) }))
	return &reported
}

func TestStartSpan(t *testing.T) {
	reported := handle(t)
	ctx, span := newSDK().Tracer("").Start(t.Context(), "span")
	defer span.End()
	gotCtx, got := StartSpan(t.Context(), func() (context.Context, trace.Span) { return ctx, span })
	assert.Equal(t, ctx, gotCtx)
	assert.Equal(t, span, got)
	assert.Empty(t, *reported)

	gotCtx, got = StartSpan(ctx, func() (context.Context, trace.Span) { panic("secret") })
	assert.Equal(t, ctx, gotCtx, "the parent stays in the context")
	assert.Equal(t, NoSpan, got)
	assert.False(t, got.IsRecording())
	assert.Len(t, *reported, 1)
}

// A panic ends the function and nothing else. Only the type of its value is reported.
func TestGuard(t *testing.T) {
	reported := handle(t)
	called := false
	Guard(func() { called = true })
	assert.True(t, called)
	assert.Empty(t, *reported)

	assert.NotPanics(t, func() { Guard(func() { panic(errors.New("secret")) }) })
	assert.Equal(t, []string{"otelllm: the recording of a model call ended by a panic (*errors.errorString); the call itself went on"}, *reported)
}

// A panic of the error handler itself is not reported, and ends nothing.
func TestErrorHandlerThatPanics(t *testing.T) {
	handle(t)
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(error) { panic("secret") }))
	assert.NotPanics(t, func() { Guard(func() { panic("first") }) })
	_, span := StartSpan(t.Context(), func() (context.Context, trace.Span) { panic("first") })
	assert.Equal(t, NoSpan, span)
}
