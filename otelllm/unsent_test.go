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

// wrappedBody is a body of a type that the transport does not know, such as openai-go's.
type wrappedBody struct{ io.ReadCloser }

// The history of a request that could not be sent is recorded: its body is read after
// sending has failed, even if it is not in memory.
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
