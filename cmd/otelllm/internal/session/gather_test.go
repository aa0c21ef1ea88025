package session

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/otelllm/otelllm-go/semconv"
)

// A request that names a run of another trace moves there with what is beneath it, whichever
// of its spans ends first. What names none stays.
func TestRequestsMoveToTheirRun(t *testing.T) {
	kept := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(newGatherer(kept)))
	tracer := provider.Tracer("test")

	_, run := tracer.Start(t.Context(), "run")
	ctx, request := tracer.Start(t.Context(), "request")
	_, before := tracer.Start(ctx, "attempt before")
	_, after := tracer.Start(ctx, "attempt after")
	before.End()
	assert.Empty(t, kept.GetSpans(), "it is not known yet where it belongs")
	request.SetAttributes(semconv.RunID(run.SpanContext().SpanID().String()))
	request.AddLink(trace.Link{SpanContext: run.SpanContext()})
	request.End()
	after.End()
	run.End()
	_, other := tracer.Start(t.Context(), "another request")
	other.AddLink(trace.Link{SpanContext: run.SpanContext()})
	other.End()
	_, open := tracer.Start(ctx, "open")
	open.End()
	_, late := tracer.Start(trace.ContextWithSpan(context.Background(), other), "late attempt")
	late.End()
	never, _ := tracer.Start(t.Context(), "a request that never ends")
	_, lost := tracer.Start(never, "lost attempt")
	lost.End()

	spans := map[string]tracetest.SpanStub{}
	all := kept.GetSpans()
	require.NoError(t, provider.ForceFlush(t.Context()))
	for _, s := range all {
		spans[s.Name] = s
	}
	id := run.SpanContext().TraceID()
	for _, name := range []string{"run", "request", "attempt before", "attempt after", "open"} {
		require.Contains(t, spans, name)
		assert.Equal(t, id, spans[name].SpanContext.TraceID(), name)
	}
	assert.Equal(t, run.SpanContext().SpanID(), spans["request"].Parent.SpanID())
	assert.Equal(t, request.SpanContext().SpanID(), spans["attempt before"].Parent.SpanID())
	assert.Equal(t, id, spans["attempt before"].Parent.TraceID())
	assert.Equal(t, other.SpanContext().TraceID(), spans["another request"].SpanContext.TraceID())
	assert.Equal(t, other.SpanContext().TraceID(), spans["late attempt"].SpanContext.TraceID())
	assert.NotContains(t, spans, "lost attempt")
}

// forwarded counts spans; tracetest's exporter forgets them when it is shut down.
type forwarded struct{ spans int }

func (f *forwarded) ExportSpans(_ context.Context, spans []sdktrace.ReadOnlySpan) error {
	f.spans += len(spans)
	return nil
}

func (*forwarded) Shutdown(context.Context) error { return nil }

func TestShutdownLosesNothing(t *testing.T) {
	next := &forwarded{}
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(newGatherer(next)))
	ctx, _ := provider.Tracer("test").Start(t.Context(), "request")
	_, attempt := provider.Tracer("test").Start(ctx, "attempt")
	attempt.End()
	assert.Zero(t, next.spans)
	require.NoError(t, provider.Shutdown(t.Context()))
	assert.Equal(t, 1, next.spans)
}

// Spans whose request is lost do not wait for ever.
func TestWaitsAreBounded(t *testing.T) {
	next := &forwarded{}
	g := newGatherer(next)
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(g))
	const over = 100
	for range maxWaits + over {
		ctx, _ := provider.Tracer("test").Start(t.Context(), "a request that is lost")
		_, attempt := provider.Tracer("test").Start(ctx, "attempt")
		attempt.End()
	}
	assert.Equal(t, over, next.spans)
	assert.Len(t, g.waiting, maxWaits)
	assert.Equal(t, maxWaits, g.waits.Len())
	require.NoError(t, provider.Shutdown(t.Context()))
	assert.Equal(t, maxWaits+over, next.spans)
}
