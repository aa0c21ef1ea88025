package session

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace"

	"github.com/otelllm/otelllm-go/semconv"
)

// A request that names a run of another trace moves there with what is beneath it, whichever
// of its spans ends first. What names none stays.
func TestRequestsMoveToTheirRun(t *testing.T) {
	_, tracer, gathered := gathering()

	_, run := tracer.Start(t.Context(), "run")
	ctx, request := tracer.Start(t.Context(), "request")
	_, before := tracer.Start(ctx, "attempt before")
	_, after := tracer.Start(ctx, "attempt after")
	before.End()
	assert.Empty(t, *gathered, "it is not known yet where it belongs")
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

	spans := map[string]*span{}
	for _, s := range *gathered {
		spans[s.name] = s
	}
	id := run.SpanContext().TraceID()
	for _, name := range []string{"run", "request", "attempt before", "attempt after", "open"} {
		require.Contains(t, spans, name)
		assert.Equal(t, id, spans[name].context.TraceID(), name)
	}
	assert.Equal(t, run.SpanContext().SpanID(), spans["request"].parent.SpanID())
	assert.Equal(t, request.SpanContext().SpanID(), spans["attempt before"].parent.SpanID())
	assert.Equal(t, id, spans["attempt before"].parent.TraceID())
	assert.Equal(t, other.SpanContext().TraceID(), spans["another request"].context.TraceID())
	assert.Equal(t, other.SpanContext().TraceID(), spans["late attempt"].context.TraceID())
	assert.NotContains(t, spans, "lost attempt")
}

// gathering returns a gatherer, a tracer whose spans it gets, and what it lets pass.
func gathering() (*gatherer, trace.Tracer, *[]*span) {
	g, gathered := newGatherer(), &[]*span{}
	provider := &spans{ended: func(s *span) { *gathered = append(*gathered, g.gather([]*span{s})...) }}
	return g, provider.Tracer("test"), gathered
}

func TestNothingThatWaitsIsLost(t *testing.T) {
	g, tracer, gathered := gathering()
	ctx, _ := tracer.Start(t.Context(), "request")
	_, attempt := tracer.Start(ctx, "attempt")
	attempt.End()
	assert.Empty(t, *gathered)
	assert.Len(t, g.rest(), 1)
}

// Spans whose request is lost do not wait for ever.
func TestWaitsAreBounded(t *testing.T) {
	g, tracer, gathered := gathering()
	const over = 100
	for range maxWaits + over {
		ctx, _ := tracer.Start(t.Context(), "a request that is lost")
		_, attempt := tracer.Start(ctx, "attempt")
		attempt.End()
	}
	assert.Len(t, *gathered, over)
	assert.Len(t, g.waiting, maxWaits)
	assert.Equal(t, maxWaits, g.waits.Len())
	assert.Len(t, g.rest(), maxWaits)
}
