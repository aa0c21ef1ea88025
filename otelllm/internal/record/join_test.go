package record

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/otelllm/otelllm-go/otelllm/internal/agentrun"
	"github.com/otelllm/otelllm-go/otelllm/internal/httpcall"
	"github.com/otelllm/otelllm-go/otelllm/internal/inferred"
	"github.com/otelllm/otelllm-go/otelllm/internal/kinship"
	"github.com/otelllm/otelllm-go/otelllm/internal/live"
	"github.com/otelllm/otelllm-go/otelllm/internal/spanfacts"
	"github.com/otelllm/otelllm-go/otelllm/internal/wire"
)

// hookSpan is a span whose SpanContext calls a hook.
type hookSpan struct {
	trace.Span

	hook func()
}

func (s *hookSpan) SpanContext() trace.SpanContext {
	if s.hook != nil {
		s.hook()
	}
	return s.Span.SpanContext()
}

// joinTest is an open recorder, and a request that it may join.
type joinTest struct {
	Recorder

	live live.Registry
	span *hookSpan
	last *agentrun.LastRequest
	runs inferred.Runs
	join *inferred.Request
}

func newJoinTest(t *testing.T) *joinTest {
	t.Helper()
	provider := sdktrace.NewTracerProvider()
	s := &joinTest{}
	t.Cleanup(s.runs.Shutdown)
	start := time.Now()
	ctx, last := agentrun.WithLastRequest(t.Context())
	id := spanfacts.Identity{Operation: "chat", Provider: "test", Model: "m"}
	_, span := StartSpan(ctx, provider, ClientKind, &id, start)
	s.span, s.last = &hookSpan{Span: span}, last
	s.Init(ctx, &Config{Live: &s.live}, s.span, &id, start)
	s.Begin(testSource{})
	source := inferred.Source{Runs: &s.runs, Limits: kinship.DefaultConfig(), Run: agentrun.Config{TracerProvider: provider, Live: &s.live}}
	s.join = source.Begin(ctx, start, http.Header{}, func(read func([]byte)) {
		read([]byte(`{"model":"m","messages":[{"role":"user","content":"fix it"}]}`))
	})
	return s
}

// A request that ends while it joins a run is in the run once, and is over.
func TestEndWhileJoining(t *testing.T) {
	s := newJoinTest(t)
	run, done := s.join.Run(), make(chan struct{})
	s.span.hook = func() {
		s.span.hook = nil
		go func() {
			defer close(done)
			s.End(s.Now(), closed)
		}()
		select { // only a recorder that does not wait for the join closes it by now
		case <-done:
		case <-time.After(50 * time.Millisecond):
		}
	}
	s.Join(s.join)
	<-done
	facts, settled := run.Facts()
	assert.Len(t, facts.Requests, 1)
	assert.True(t, settled, "nothing of the run goes on")
	_, _, runs := s.live.Len()
	assert.Equal(t, 1, runs, "the run waits for a further attempt")
}

// A panic in the application's SDK ends the recording, not the reading of the body.
func TestJoinLaterContainsPanics(t *testing.T) {
	s := newJoinTest(t)
	const text = `{"model":"m","messages":[]}`
	protocol, _, ok := wire.Match(http.MethodPost, "/v1/chat/completions")
	require.True(t, ok)
	body := httpcall.NewBody(io.NopCloser(strings.NewReader(text)), httpcall.BodyConfig{Protocol: protocol})
	s.JoinLater(body, func([]byte) *inferred.Request { panic("secret") })
	assert.NotPanics(t, func() {
		read, err := io.ReadAll(body)
		assert.NoError(t, err)
		assert.Len(t, read, len(text))
	})
}
