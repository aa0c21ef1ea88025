package otelllm

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/otelllm/internal/spantest"
)

// compress returns text in an encoding.
func compress(t *testing.T, encoding, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	var w io.WriteCloser
	switch encoding {
	case "gzip":
		w = gzip.NewWriter(&b)
	case "br":
		w = brotli.NewWriter(&b)
	default:
		compressor, err := zstd.NewWriter(&b)
		require.NoError(t, err)
		w = compressor
	}
	_, err := io.WriteString(w, text)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return b.Bytes()
}

// TestEncodedRequestsAreRead checks that the requests of an agent that compresses them are read, by a client and
// by a gateway, and that the server receives them as they were sent: two of them are one run.
func TestEncodedRequestsAreRead(t *testing.T) {
	words := agentWords["chat"]
	for _, encoding := range []string{"gzip", "br", "zstd"} {
		for _, through := range []string{"transport", "streamed", "handler"} {
			t.Run(encoding+" "+through, func(t *testing.T) {
				r := newRecorder(t)
				with := inferring(r, time.Minute)
				var got [][]byte
				answers := []string{words.call("call_Xa81Zk20Q"), words.text}
				server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					assert.Equal(t, encoding, r.Header.Get("Content-Encoding"))
					body, _ := io.ReadAll(r.Body)
					got = append(got, body)
					w.Header().Set("Content-Type", "text/event-stream")
					_, _ = io.WriteString(w, answers[len(got)-1])
				}))
				defer server.Close()
				target, client := watched(t, with, server.URL, through == "handler")
				for n := range 2 {
					sent := compress(t, encoding, words.body("CANARY", n, "call_Xa81Zk20Q"))
					var body io.Reader = bytes.NewReader(sent)
					if through == "streamed" {
						body = io.MultiReader(body)
					}
					req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, target+words.path, body)
					require.NoError(t, err)
					req.Header.Set("Content-Type", "application/json")
					req.Header.Set("Content-Encoding", encoding)
					resp, err := client.Do(req)
					require.NoError(t, err)
					_, err = io.Copy(io.Discard, resp.Body)
					require.NoError(t, err)
					resp.Body.Close()
					assert.Equal(t, sent, got[n], "as it was sent")
				}
				require.NoError(t, with.Shutdown(t.Context()))
				assert.Len(t, r.named("invoke_agent agent"), 1)
				requests := r.named("chat m")
				require.Len(t, requests, 2)
				assert.Equal(t, []string{"call_Xa81Zk20Q"}, requests[1].get("llm.history.tool_outputs"))
				for _, s := range r.spans.Ended() {
					assert.NotContains(t, spantest.Text(s), "CANARY")
				}
			})
		}
	}
}
