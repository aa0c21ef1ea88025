package otelllm

import (
	"bytes"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/otelllm/internal/nettest"
)

// wrappedBody is a body of a type of its own, as openai-go has one.
type wrappedBody struct{ io.ReadCloser }

// A request that could not be sent says what its history holds: its body is read once
// sending has failed, also where it does not lie in memory.
func TestBodyOfARequestThatWasNotSent(t *testing.T) {
	r := newRecorder(t)
	rt := NewTransport(base(t), WithTracerProvider(r), WithVerdicts())
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+nettest.Refused(t)+chatPath, wrappedBody{io.NopCloser(bytes.NewReader([]byte(historyBody)))})
	require.NoError(t, err)
	req.ContentLength = int64(len(historyBody))
	req.GetBody = func() (io.ReadCloser, error) {
		return wrappedBody{io.NopCloser(bytes.NewReader([]byte(historyBody)))}, nil
	}
	_, err = rt.RoundTrip(req)
	require.Error(t, err)
	s := r.only(t)
	assert.NotNil(t, s.get("llm.history.tool_calls"))
	assert.Equal(t, "connect_refused", s.get("llm.failure.cause"))
}
