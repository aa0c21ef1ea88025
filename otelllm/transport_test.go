package otelllm

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSmoke(t *testing.T) {
	r := newRecorder(t)
	url := script(t, sseHead+`data: {"id":"c1","model":"gpt-5-x","choices":[{"index":0,"delta":{"content":"hi"}}]}

data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}

data: [DONE]

`, nil)
	_, err := call(t.Context(), NewTransport(base(t), WithTracerProvider(r)), url+chatPath, chatBody)
	require.NoError(t, err)
	s := r.only(t)
	for _, kv := range s.Attributes() {
		t.Log(kv.Key, kv.Value.AsInterface())
	}
	t.Log(s.events(), s.Name(), s.Status())
	assert.Equal(t, http.MethodPost, "POST")
}
