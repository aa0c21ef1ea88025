package session

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

// endpoint is an OTLP client that takes a time for each call.
type endpoint struct {
	takes time.Duration
	fails error

	mu    sync.Mutex
	spans int
}

func (*endpoint) Start(context.Context) error { return nil }
func (*endpoint) Stop(context.Context) error  { return nil }

func (e *endpoint) UploadTraces(ctx context.Context, list []*tracepb.ResourceSpans) error {
	select {
	case <-time.After(e.takes):
	case <-ctx.Done():
		return ctx.Err()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, rs := range list {
		for _, ss := range rs.ScopeSpans {
			e.spans += len(ss.Spans)
		}
	}
	return e.fails
}

func some(n int) ptrace.Traces {
	td := ptrace.NewTraces()
	spans := td.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans()
	for range n {
		spans.AppendEmpty().SetName("chat")
	}
	return td
}

func start(t *testing.T, client *endpoint, maxBytes int) *exporter {
	t.Helper()
	e, err := startExporter(t.Context(), &Endpoint{
		NewClient: func() otlptrace.Client { return client }, MaxBytes: maxBytes, Patience: 5 * time.Second,
	}, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	return e
}

// What a slow endpoint takes in the time that there is gets there, in order of its coming.
func TestCloseSendsWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := &endpoint{takes: time.Second}
		e := start(t, client, 0)
		for range 4 {
			e.add(some(2))
		}
		require.NoError(t, e.close(t.Context()))
		assert.Equal(t, 8, client.spans)
	})
}

// Nothing waits for a dead endpoint but Close, and Close for no longer than its patience.
func TestDeadEndpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := &endpoint{takes: time.Hour}
		e := start(t, client, 0)
		begun := time.Now()
		for range 4 {
			e.add(some(2))
		}
		assert.Zero(t, time.Since(begun))
		err := e.close(t.Context())
		require.EqualError(t, err, "8 spans did not reach the OTLP endpoint")
		assert.Equal(t, 5*time.Second, time.Since(begun))
	})
}

// What waits is bounded, and all that is lost is counted.
func TestWhatWaitsIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := &endpoint{takes: time.Second}
		one, err := (&ptrace.ProtoMarshaler{}).MarshalTraces(some(1))
		require.NoError(t, err)
		e := start(t, client, 3*len(one))
		for range 10 {
			e.add(some(1))
		}
		require.EqualError(t, e.close(t.Context()), "7 spans did not reach the OTLP endpoint")
		assert.Equal(t, 3, client.spans)
		e.add(some(1)) // too late
	})
}

func TestRefusingEndpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := start(t, &endpoint{fails: errors.New("canary")}, 0)
		e.add(some(3))
		require.EqualError(t, e.close(t.Context()), "3 spans did not reach the OTLP endpoint")
	})
}
