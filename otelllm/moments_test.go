package otelllm

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// readCall is one Read of a body: the size of the buffer and the result.
type readCall struct {
	size, n int
	bytes   string
	err     error
}

// recordedBody records every Read of a body.
type recordedBody struct {
	io.ReadCloser

	calls  []readCall
	closes int
}

func (w *recordedBody) Read(p []byte) (int, error) {
	n, err := w.ReadCloser.Read(p)
	w.calls = append(w.calls, readCall{len(p), n, string(p[:n]), err})
	return n, err
}

func (w *recordedBody) Close() error {
	w.closes++
	return w.ReadCloser.Close()
}

// bodyRecorder records every Read from the transport below the one that is tested.
type bodyRecorder struct {
	http.RoundTripper

	body *recordedBody
}

func (b *bodyRecorder) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := b.RoundTripper.RoundTrip(req)
	if err == nil {
		b.body = &recordedBody{ReadCloser: resp.Body}
		resp.Body = b.body
	}
	return resp, err
}

// TestSameBytesAtTheSameMoments plays every stream event by event. The server
// sends an event only when the consumer has received the whole previous one, so a byte
// that was held back would block the stream forever. Every Read of the consumer is
// one Read of the body below, with the same buffer size and the same result.
func TestSameBytesAtTheSameMoments(t *testing.T) {
	var (
		events []string
		ack    = make(chan struct{})
	)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		for _, e := range events {
			_, _ = io.WriteString(w, e)
			_ = http.NewResponseController(w).Flush()
			select {
			case <-ack:
			case <-r.Context().Done():
				return
			}
		}
	})
	h1 := httptest.NewServer(handler)
	defer h1.Close()
	h2 := httptest.NewUnstartedServer(handler)
	h2.EnableHTTP2 = true
	h2.StartTLS()
	defer h2.Close()

	// play reads a stream and acknowledges every event.
	play := func(t *testing.T, rt http.RoundTripper, url string) *recordedBody {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(chatBody))
		require.NoError(t, err)
		resp, err := rt.RoundTrip(req)
		require.NoError(t, err)
		if resp.ProtoMajor == 1 { // over HTTP/2, net/http sets a copy of its own
			assert.Same(t, req, resp.Request)
		}
		top := &recordedBody{ReadCloser: resp.Body}
		buf := make([]byte, 4096)
		for _, e := range events {
			for left := len(e); left > 0; {
				n, err := top.Read(buf[:min(left, len(buf))])
				require.NoError(t, err)
				left -= n
			}
			ack <- struct{}{}
		}
		n, err := top.Read(buf)
		assert.Zero(t, n)
		assert.Equal(t, io.EOF, err)
		require.NoError(t, top.Close())
		return top
	}

	recorder := newRecorder(t)
	for _, s := range streams(t) {
		events = s.events
		for proto, server := range map[string]*httptest.Server{"HTTP/1": h1, "HTTP/2": h2} {
			t.Run(s.name+"/"+proto, func(t *testing.T) {
				bare := play(t, server.Client().Transport, server.URL+s.path)
				under := &bodyRecorder{RoundTripper: server.Client().Transport}
				seen := play(t, requestTransport(under, WithTracerProvider(recorder)), server.URL+s.path)
				assert.Equal(t, under.body.calls, seen.calls, "every Read")
				assert.Equal(t, 1, under.body.closes)
				assert.Equal(t, joinReads(bare.calls), joinReads(seen.calls), "with and without the transport")
				assert.Equal(t, strings.Join(s.events, ""), joinReads(seen.calls))
			})
		}
	}
	for _, sp := range recorder.spans.Ended() {
		assert.Equal(t, "terminal_event", span{sp}.get("llm.stream.end"))
	}
	assert.NotEmpty(t, recorder.spans.Ended())
}

func joinReads(calls []readCall) string {
	var b strings.Builder
	for _, c := range calls {
		b.WriteString(c.bytes)
	}
	return b.String()
}
