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

// The same holds for a WebSocket: a message that its client did not get does not end the answer, and one that it got
// does, however soon it leaves.
func TestUndeliveredMessage(t *testing.T) {
	frame := func(text string) string {
		if len(text) < 126 {
			return "\x81" + string(rune(len(text))) + text
		}
		return "\x81\x7e" + string([]byte{byte(len(text) >> 8), byte(len(text))}) + text
	}
	const created = `{"type":"response.created","response":{"id":"resp_1","status":"in_progress","model":"gpt-5"}}`
	const completed = `{"type":"response.completed","response":{"id":"resp_1","status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"Hel"}]}]}}`
	for name, leavesBefore := range map[string]bool{"left before": true, "left after": false} {
		t.Run(name, func(t *testing.T) {
			gone := make(chan struct{})
			up := serveRaw(t, func(_ *upstream, p *peer) {
				acceptRaw(p)
				_, _ = p.r.ReadByte() // the request
				p.send(frame(created))
				if leavesBefore {
					<-gone
				}
				p.send(frame(completed))
				_, _ = io.Copy(io.Discard, p.r)
			})
			proxy := start(t, up.url())
			conn := dial(t, proxy.addr)
			request := `{"type":"response.create","model":"gpt-5","input":[{"role":"user","content":"hi"}]}`
			_, err := io.WriteString(conn, handshake+"\x81"+string([]byte{0x80 | byte(len(request))})+"\x00\x00\x00\x00"+request)
			require.NoError(t, err)
			last := frame(completed)
			if leavesBefore {
				last = frame(created)
			}
			for r, read := bufio.NewReader(conn), []byte{}; !strings.HasSuffix(string(read), last); {
				c, err := r.ReadByte()
				require.NoError(t, err)
				read = append(read, c)
			}
			require.NoError(t, conn.SetLinger(0))
			require.NoError(t, conn.Close())
			close(gone)
			got := attributes(proxy.ended(t, oteltrace.SpanKindClient, 1)[0])
			if leavesBefore {
				assert.Equal(t, "consumer_closed", got[string(semconv.StreamEndKey)])
			} else {
				assert.Equal(t, "terminal_event", got[string(semconv.StreamEndKey)])
			}
		})
	}
}
