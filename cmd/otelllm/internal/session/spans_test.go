package session

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/otelllm/otelllm-go/cmd/otelllm/engine"
)

// exercise does with a tracer all that the library does.
func exercise(ctx context.Context, tracer trace.Tracer) {
	at := time.Unix(1_700_000_000, 0)
	remote := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled, Remote: true})
	ctx, parent := tracer.Start(trace.ContextWithSpanContext(ctx, remote), "run", trace.WithTimestamp(at),
		trace.WithAttributes(attribute.String("a", "first"), attribute.StringSlice("list", []string{"x", "y"})))
	_, child := tracer.Start(ctx, "before", trace.WithTimestamp(at), trace.WithSpanKind(trace.SpanKindServer), trace.WithLinks(trace.Link{SpanContext: remote}))
	mine := []attribute.KeyValue{attribute.Int("n", 1), attribute.Bool("yes", true), attribute.Float64("f", 1.5)}
	child.SetAttributes(mine...)
	child.AddEvent("event", trace.WithTimestamp(at.Add(time.Second)), trace.WithAttributes(mine...))
	mine[0] = attribute.Int("n", 2) // the caller's memory is the caller's
	child.SetAttributes(mine[0])
	child.SetName("after")
	child.SetStatus(codes.Error, "why")
	child.SetStatus(codes.Unset, "ignored")
	child.End(trace.WithTimestamp(at.Add(time.Minute)))
	child.SetAttributes(attribute.String("late", "ignored"))
	child.End()
	parent.SetStatus(codes.Ok, "ignored")
	parent.SetStatus(codes.Error, "ignored")
	parent.End(trace.WithTimestamp(at.Add(time.Hour)))
}

// sameIDs replaces what is chosen at random.
func sameIDs(td ptrace.Traces) ptrace.Traces {
	spans := td.ResourceSpans().At(0).ScopeSpans().At(0).Spans()
	for i, s := range spans.All() {
		s.SetSpanID([8]byte{byte(i + 1)})
		if s.ParentSpanID() != [8]byte{2} {
			s.SetParentSpanID([8]byte{9})
		}
	}
	return td
}

// The spans are those that the SDK makes of the same calls.
func TestSpansAreAsTheSDKs(t *testing.T) {
	var got []ptrace.Traces
	take := func(_ context.Context, td ptrace.Traces) error {
		copied := ptrace.NewTraces()
		td.CopyTo(copied)
		got = append(got, copied)
		return nil
	}
	e, err := engine.Start(t.Context(), engine.Config{}, take) // passes on at once what is no model call
	require.NoError(t, err)
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(e.NewExporter()))
	exercise(t.Context(), provider.Tracer("test", trace.WithInstrumentationVersion("1")))
	require.NoError(t, provider.Shutdown(t.Context()))
	require.NoError(t, e.Shutdown(t.Context()))

	td := ptrace.NewTraces()
	scope := td.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty()
	p := &spans{ended: func(s *span) {
		scope.Scope().SetName(s.tracer.scope.name)
		scope.Scope().SetVersion(s.tracer.scope.version)
		s.put(scope.Spans().AppendEmpty())
		s.giveBack()
	}}
	exercise(t.Context(), p.Tracer("test", trace.WithInstrumentationVersion("1")))

	require.Len(t, got, 1)
	want, err := (&ptrace.JSONMarshaler{}).MarshalTraces(sameIDs(got[0]))
	require.NoError(t, err)
	got[0].ResourceSpans().At(0).Resource().CopyTo(td.ResourceSpans().At(0).Resource())
	td.ResourceSpans().At(0).SetSchemaUrl(got[0].ResourceSpans().At(0).SchemaUrl())
	have, err := (&ptrace.JSONMarshaler{}).MarshalTraces(sameIDs(td))
	require.NoError(t, err)
	assert.JSONEq(t, string(want), string(have))
}

// Spans that are used by several goroutines, and whose memory is used again, do not mix.
func TestMemoryOfSpansIsNotShared(t *testing.T) {
	p := &spans{ended: func(s *span) { s.giveBack() }}
	tracer := p.Tracer("test")
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for n := range 1000 {
				want := []attribute.KeyValue{attribute.Int("i", i)}
				_, s := tracer.Start(context.Background(), "span", trace.WithAttributes(want...))
				for k := range n % (manyAttributes + 2) { // one by one, beyond what there is room for
					want = append(want, attribute.Int("k", i+k))
					s.SetAttributes(want[len(want)-1])
				}
				list := s.(*span).Attributes()
				s.End()
				assert.Equal(t, want, list)
			}
		})
	}
	all.Wait()
}
