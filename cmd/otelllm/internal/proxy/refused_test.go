package proxy

import (
	"cmp"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	oteltrace "go.opentelemetry.io/otel/trace"
)

// refusing returns the URL of a port on which nothing listens until the test ends. A connection's own end
// occupies it: a port that is only free could be given to another listener.
func refusing(t *testing.T) *url.URL {
	t.Helper()
	held := dial(t, serveRaw(t, func(_ *upstream, p *peer) { _, _ = p.r.ReadByte() }).Addr().String())
	return &url.URL{Scheme: "http", Host: held.LocalAddr().String()}
}

const stepBody = `{"model":"gpt-5","stream":true,"messages":[{"role":"user","content":"fix it"},` +
	`{"role":"assistant","content":null,"tool_calls":[{"id":"call_0f9a8b7c6d5e4f30","type":"function","function":{"name":"run","arguments":"{}"}}]},` +
	`{"role":"tool","tool_call_id":"call_0f9a8b7c6d5e4f30","content":"done"}]}`

// A client that repeats a request which no connection could be made for has one run, with an attempt for
// each time, and what its history shows is recorded.
func TestRefusedAttempts(t *testing.T) {
	const attempts = 3
	for _, tt := range []struct {
		name   string
		retry  bool // the proxy makes the attempts
		http2  bool
		length int64
	}{
		{"HTTP/1", false, false, int64(len(stepBody))},
		{"HTTP/1, chunked", false, false, -1},
		{"HTTP/2", false, true, int64(len(stepBody))},
		{"by the proxy", true, false, int64(len(stepBody))},
	} {
		t.Run(tt.name, func(t *testing.T) {
			proxy := start(t, refusing(t), func(c *Config) { c.Retry = tt.retry })
			var protocols http.Protocols
			protocols.SetHTTP1(!tt.http2)
			protocols.SetUnencryptedHTTP2(tt.http2)
			client := &http.Client{Transport: &http.Transport{Protocols: &protocols}}
			defer client.CloseIdleConnections()
			requests := attempts
			if tt.retry {
				requests = 1
			}
			for range requests {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+proxy.addr+"/v1/chat/completions", io.NopCloser(strings.NewReader(stepBody)))
				require.NoError(t, err)
				req.Header.Set("Content-Type", "application/json")
				req.ContentLength = tt.length
				_, err = client.Do(req) //nolint:bodyclose // there is no response
				require.Error(t, err)
			}
			asked := proxy.ended(t, oteltrace.SpanKindClient, attempts)
			require.NoError(t, proxy.llm.Shutdown(t.Context()))
			runs := proxy.ended(t, oteltrace.SpanKindInternal, 1)
			run := attributes(runs[0])
			assert.Equal(t, "true", run["llm.run.inferred"])
			for i, s := range asked {
				assert.Equal(t, runs[0].SpanContext().SpanID().String(), attributes(s)["llm.run.id"])
				assert.Equal(t, strconv.Itoa(i+1), attributes(s)["llm.request.attempt"])
				assert.Equal(t, `["call_0f9a8b7c6d5e4f30"]`, attributes(s)["llm.history.tool_calls"])
				assert.Equal(t, "connect_refused", attributes(s)["llm.transport.cause"])
			}
		})
	}
}

// The body of a request without a connection is waited for, but not for ever, and not asked for.
func TestRefusedBody(t *testing.T) {
	const head = "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
	for name, request := range map[string]string{
		"never comes":  head + "Content-Length: 100\r\n\r\n{",
		"is held back": head + "Expect: 100-continue\r\nContent-Length: 100\r\n\r\n",
		"has no end":   head + "Transfer-Encoding: chunked\r\n\r\n" + strings.Repeat("10000\r\n"+strings.Repeat(" ", 0x10000)+"\r\n", 2*maxUnsent/0x10000),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proxy := start(t, refusing(t))
			conn := dial(t, proxy.addr)
			wrote := make(chan error, 1)
			go func() {
				_, err := io.WriteString(conn, request)
				wrote <- err
			}()
			got, err := io.ReadAll(conn)
			assert.Empty(t, string(got))
			failed := <-wrote
			assert.Equal(t, name == "has no end", failed != nil, "%v", failed)
			// The system reports a reset once, to a read or to a write.
			assert.Equal(t, rst, endOf(cmp.Or(err, failed, io.EOF)))
			asked := proxy.ended(t, oteltrace.SpanKindClient, 1)
			assert.Equal(t, "connect_refused", attributes(asked[0])["llm.transport.cause"])
		})
	}
}
