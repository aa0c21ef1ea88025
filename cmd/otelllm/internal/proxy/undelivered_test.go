package proxy

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	oteltrace "go.opentelemetry.io/otel/trace"

	"github.com/otelllm/otelllm-go/semconv"
)

// An answer the end of which cannot be written to the client any more is not whole, also if all of it has come from
// upstream. What the client had got whole before stays so.
func TestUndelivered(t *testing.T) {
	const (
		head  = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
		text  = `data: {"choices":[{"index":0,"delta":{"content":"hi"}}]}` + "\n\n"
		call  = `data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_1","function":{"name":"pay","arguments":"{}"}}]}}]}` + "\n\n"
		stop  = `data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n"
		calls = `data: {"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}` + "\n\n"
		done  = "data: [DONE]\n\n"
		whole = `{"choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}]}`
	)
	jsonHead := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", len(whole))
	for name, tt := range map[string]struct{ got, rest, end, phase string }{
		"the end of a text":          {head + text, stop + done, "cancelled", "text"},
		"all of a text":              {head, text + stop + done, "cancelled", ""},
		"the end of a call":          {head + call, calls + done, "cancelled", "tool_call_ready"},
		"a document":                 {jsonHead, whole, "cancelled", ""},
		"the last byte of it":        {jsonHead + whole[:len(whole)-1], whole[len(whole)-1:], "cancelled", ""},
		"the mark after the answer":  {head + text + stop, done, "terminal_event", "stream_end"},
		"a comment after the answer": {head + text + stop + done, ": bye\n\n", "terminal_event", "stream_end"},
	} {
		t.Run(name, func(t *testing.T) {
			gone := make(chan struct{})
			up := serveRaw(t, func(_ *upstream, p *peer) {
				p.request()
				p.send(tt.got)
				<-gone
				p.send(tt.rest)
			})
			proxy := start(t, up.url())
			conn := dial(t, proxy.addr)
			_, err := io.WriteString(conn, post(proxy.addr, "/v1/chat/completions"))
			require.NoError(t, err)
			_, want, _ := strings.Cut(tt.got, "\r\n\r\n")
			for r, read := bufio.NewReader(conn), ""; !strings.HasSuffix(read, "\r\n\r\n"+want); {
				c, err := r.ReadByte()
				require.NoError(t, err)
				read += string(c)
			}
			// The first byte of a next request: once net/http has it, it does not look for the end of the connection.
			_, err = io.WriteString(conn, "P")
			require.NoError(t, err)
			time.Sleep(20 * time.Millisecond)
			require.NoError(t, conn.SetLinger(0))
			require.NoError(t, conn.Close())
			time.Sleep(5 * time.Millisecond) // mostly enough for the reset to arrive
			close(gone)
			got := attributes(proxy.ended(t, oteltrace.SpanKindClient, 1)[0])
			assert.Equal(t, tt.end, got[string(semconv.StreamEndKey)])
			if tt.phase != "" { // otherwise it depends on when net/http sees that the client has gone
				assert.Equal(t, tt.phase, got[string(semconv.StreamPhaseKey)])
			}
			if tt.end == "cancelled" {
				assert.Equal(t, "consumer", got[string(semconv.AbortSourceKey)])
			}
		})
	}
}
