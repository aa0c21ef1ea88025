package otelllm

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// FuzzBody answers with any bytes under any status and content type, in pieces of
// any size: the consumer gets them as they are, and the span ends with a phase.
func FuzzBody(f *testing.F) {
	for _, s := range ownStreams() {
		f.Add(s.path, "text/event-stream", strings.Join(s.events, ""), chatBody, uint16(200), uint8(7))
	}
	f.Add(chatPath, "text/html", "<html>", "{", uint16(503), uint8(0))
	f.Add(messagesPath, "application/json", `{"type":"error"}`, `{"messages":[{"content":[{"type":"tool_use","id":"a"}]}]}`, uint16(529), uint8(1))
	r := newRecorder(f)
	f.Fuzz(func(t *testing.T, path, contentType, answer, request string, status uint16, piece uint8) {
		r.spans.Reset()
		var body io.Reader = strings.NewReader(answer)
		switch {
		case piece == 1:
			body = iotest.OneByteReader(body)
		case piece%3 == 0:
			body = iotest.DataErrReader(body)
		case piece%3 == 1:
			body = iotest.TimeoutReader(body)
		}
		rt := NewTransport(roundTripper(func(req *http.Request) (*http.Response, error) {
			sent, err := io.ReadAll(req.Body)
			require.NoError(t, err)
			require.Equal(t, request, string(sent))
			return &http.Response{StatusCode: int(status), Header: http.Header{"Content-Type": {contentType}}, Body: io.NopCloser(body)}, nil
		}), WithTracerProvider(r), WithProvider("", "openai_chat"))
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://x/", io.MultiReader(strings.NewReader(request)))
		require.NoError(t, err)
		req.URL.Path = path
		resp, err := rt.RoundTrip(req)
		require.NoError(t, err)
		var got strings.Builder
		_, err = io.Copy(&got, resp.Body)
		if err == nil {
			assert.Equal(t, answer, got.String())
		} else {
			require.ErrorIs(t, err, iotest.ErrTimeout)
			assert.True(t, strings.HasPrefix(answer, got.String()))
		}
		require.NoError(t, resp.Body.Close())
		s := r.only(t)
		if status != http.StatusSwitchingProtocols {
			assert.NotNil(t, s.get("llm.stream.phase"))
		}
		assert.LessOrEqual(t, len(s.Events()), maxEvents)
	})
}

func FuzzRetryAfter(f *testing.F) {
	f.Add("7", "", "")
	f.Add("", "1500", "")
	f.Add("Fri, 02 Jan 2026 03:04:05 GMT", "", "Fri, 02 Jan 2026 03:04:00 GMT")
	f.Fuzz(func(t *testing.T, after, ms, date string) {
		h := http.Header{"Retry-After": {after}, "Retry-After-Ms": {ms}, "Date": {date}}
		got := retryAfter(h, time.Unix(0, 0))
		assert.GreaterOrEqual(t, got, time.Duration(0))
		assert.LessOrEqual(t, got, maxRetryAfter)
	})
}
