//go:build unix && go1.26

package otelllm

import (
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"

	"github.com/otelllm/otelllm-go/otelllm/internal/nettest"
	"github.com/otelllm/otelllm-go/otelllm/internal/spantest"
)

// A signal that signal.NotifyContext has received means that the process is going down. In
// Go 1.25, such a context does not report that a signal cancelled it.
func TestSignal(t *testing.T) {
	ctx, stop := signal.NotifyContext(t.Context(), syscall.SIGUSR1)
	defer stop()
	r := newRecorder(t)
	rt := onFirstByte{base(t), func() {
		assert.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGUSR1)) //nolint:testifylint // on another goroutine
		<-ctx.Done()
	}}
	_, err := call(ctx, NewTransport(rt, WithTracerProvider(r)), scriptedServer(t, sseHead+firstText, nettest.Wait)+chatPath, chatBody)
	require.Error(t, err)
	s := r.only(t)
	assertFacts(t, s, map[attribute.Key]any{"llm.abort.source": "shutdown", "llm.transport.error_chain": []string{"signal.signalError"}, "error.type": nil})
	assert.NotContains(t, spantest.Text(s), "signal received")
}
