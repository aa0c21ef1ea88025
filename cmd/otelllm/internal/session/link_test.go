package session

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/otel/trace"
)

// A request becomes a child of its run when it is linked to it. One that has a parent stays there.
func TestRequestsMoveToTheirRun(t *testing.T) {
	tracer := (&spans{ended: func(*span) {}}).Tracer("test")
	ctx, run := tracer.Start(t.Context(), "run")
	_, request := tracer.Start(t.Context(), "request")
	request.AddLink(trace.Link{SpanContext: run.SpanContext()})
	assert.Equal(t, run.SpanContext().TraceID(), request.SpanContext().TraceID())
	assert.Equal(t, run.SpanContext(), request.(*span).parent)

	_, other := tracer.Start(t.Context(), "another run")
	_, child := tracer.Start(ctx, "child")
	child.AddLink(trace.Link{SpanContext: other.SpanContext()})
	assert.Equal(t, run.SpanContext(), child.(*span).parent)
	_, root := tracer.Start(t.Context(), "a run after another", trace.WithLinks(trace.Link{SpanContext: run.SpanContext()}))
	assert.False(t, root.(*span).parent.IsValid())
}
