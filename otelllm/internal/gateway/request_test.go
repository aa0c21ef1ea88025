package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/otelllm/internal/live"
	"github.com/otelllm/otelllm-go/otelllm/internal/record"
	"github.com/otelllm/otelllm-go/otelllm/internal/spanfacts"
	"github.com/otelllm/otelllm-go/otelllm/internal/telemetry"
	"github.com/otelllm/otelllm-go/otelllm/internal/wire"
	"github.com/otelllm/otelllm-go/semconv"
)

func TestCutBy(t *testing.T) {
	for _, tt := range []struct {
		name string
		err  error
		want semconv.AbortSource
	}{
		{"no error", nil, semconv.AbortSourceUnset},
		{"a body that the status does not allow", http.ErrBodyNotAllowed, semconv.AbortSourceUnset},
		{"more than was declared, HTTP/1", fmt.Errorf("x: %w", http.ErrContentLength), semconv.AbortSourceUnset},
		{"more than was declared, HTTP/2", errors.New("http2: handler wrote more than declared Content-Length"), semconv.AbortSourceUnset},
		{"a writer that cannot flush", http.ErrNotSupported, semconv.AbortSourceUnset},
		{"a write timeout", fmt.Errorf("x: %w", os.ErrDeadlineExceeded), semconv.AbortSourceDeadline},
		{"a closed connection", syscall.EPIPE, semconv.AbortSourceConsumer},
		{"an unknown error", io.ErrShortWrite, semconv.AbortSourceConsumer},
	} {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, tt.want, cutBy(tt.err))
		})
	}
}

func TestUpstreamEnded(t *testing.T) {
	byConsumer := func() *spanfacts.Request {
		return &spanfacts.Request{Request: classify.Request{
			Ended: semconv.StreamEndCancelled, Abort: classify.Abort{Source: semconv.AbortSourceConsumer},
		}}
	}
	t.Run("the last attempt counts", func(t *testing.T) {
		s := &Request{}
		s.UpstreamEnded(&spanfacts.Request{Request: classify.Request{Ended: semconv.StreamEndReadError}})
		s.UpstreamEnded(byConsumer())
		assert.Equal(t, byConsumer(), s.upstream)
	})
	t.Run("a write timeout was the cause, and not the client", func(t *testing.T) {
		s := &Request{cut: semconv.AbortSourceDeadline}
		f := byConsumer()
		s.UpstreamEnded(f)
		assert.Equal(t, semconv.AbortSourceDeadline, f.Abort.Source)
		assert.Equal(t, f, s.upstream)
	})
	t.Run("only a cancellation is corrected", func(t *testing.T) {
		s := &Request{cut: semconv.AbortSourceDeadline}
		f := byConsumer()
		f.Ended = semconv.StreamEndConsumerClosed // by the handler
		s.UpstreamEnded(f)
		assert.Equal(t, semconv.AbortSourceConsumer, f.Abort.Source)
	})
	t.Run("no gateway", func(t *testing.T) {
		var s *Request
		f := byConsumer()
		s.UpstreamEnded(f)
		assert.Equal(t, byConsumer(), f)
		assert.False(t, s.BodyFailed(io.EOF))
	})
}

// newTestRequest returns a request that is being served, and the function that returns the
// attributes of its span.
func newTestRequest(t *testing.T) (s *Request, ended func() map[attribute.Key]string) {
	t.Helper()
	spans := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	id, start := spanfacts.Identity{Operation: "chat"}, time.Now()
	ctx, span := record.StartSpan(t.Context(), provider, record.ServerKind, &id, start)
	s = &Request{}
	s.rec.Init(ctx, &record.Config{Live: &live.Registry{}}, span, &id, start)
	protocol, _ := wire.ByName("openai_chat")
	s.rec.SetProtocol(protocol, false)
	s.rec.Begin(s)
	return s, func() map[attribute.Key]string {
		require.Len(t, spans.Ended(), 1)
		m := map[attribute.Key]string{}
		for _, kv := range spans.Ended()[0].Attributes() {
			m[kv.Key] = kv.Value.String()
		}
		return m
	}
}

// A gateway waits for no response: none of its requests is cancelled by a transport.
func TestShutdownBeforeTheResponse(t *testing.T) {
	s, ended := newTestRequest(t)
	s.rec.Shutdown()
	got := ended()
	assert.Equal(t, "cancelled", got[semconv.StreamEndKey])
	assert.Equal(t, "shutdown", got[semconv.AbortSourceKey])
	assert.NotContains(t, got, semconv.TransportCauseKey)
}

// What the handler wrote before it took the connection over counts.
func TestHijacked(t *testing.T) {
	event := func(delta, reason string) []byte {
		return fmt.Appendf(nil, "data: {\"choices\":[{\"index\":0,\"delta\":{%s},\"finish_reason\":%s}]}\n\n", delta, reason)
	}
	for _, tt := range []struct {
		name      string
		status    int
		writes    [][]byte
		end, kind string
	}{
		{"nothing", 0, nil, "", ""},
		{"another protocol", http.StatusSwitchingProtocols, nil, "", ""},
		{"an error", http.StatusTooManyRequests, nil, "http_error", "rate_limited"},
		{"a whole answer", http.StatusOK, [][]byte{event(`"content":"a"`, "null"), event("", `"stop"`)}, "terminal_event", ""},
		{"half an answer", http.StatusOK, [][]byte{event(`"content":"a"`, "null")}, "eof", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, ended := newTestRequest(t)
			if tt.status != 0 {
				s.header(tt.status, http.Header{"Content-Type": {"text/event-stream"}})
			}
			for _, p := range tt.writes {
				s.wrote(p, nil)
			}
			s.hijacked()
			got := ended()
			assert.Equal(t, tt.end, got[semconv.StreamEndKey])
			assert.Equal(t, tt.kind, got[semconv.ProviderErrorKindKey])
		})
	}
}

// panicContext is a context whose Err panics.
type panicContext struct{ context.Context }

func (panicContext) Err() error { panic("secret") }

// A context of the application that panics when the handler returns must not block the
// attempts upstream, which may outlive the handler.
func TestContextThatPanics(t *testing.T) {
	before := otel.GetErrorHandler()
	t.Cleanup(func() { otel.SetErrorHandler(before) })
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(error) {}))
	var open live.Registry
	s := &Request{}
	id := spanfacts.Identity{Operation: "chat"}
	s.rec.Init(panicContext{t.Context()}, &record.Config{Live: &open}, telemetry.NoSpan, &id, time.Now())
	s.rec.Begin(s)
	assert.NotPanics(t, func() { s.returned(false) })
	requests, _, _ := open.Len()
	assert.Zero(t, requests, "its recording has ended")

	done := make(chan struct{})
	go func() {
		defer close(done)
		s.UpstreamEnded(&spanfacts.Request{})
	}()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Fatal("the attempt upstream is blocked")
	}
}
