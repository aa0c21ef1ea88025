package proxy

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	oteltrace "go.opentelemetry.io/otel/trace"
)

const (
	sseHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
	chunked = "Transfer-Encoding: chunked\r\n\r\n"
	event   = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Ray\"}}]}\n\n"
	whole   = event + "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"
)

func chunk(text string) string {
	const digits = "0123456789abcdef"
	n := len(text)
	return string([]byte{digits[n>>8&15], digits[n>>4&15], digits[n&15]}) + "\r\n" + text + "\r\n"
}

// An upstream that fails, fails in the same way for a client behind the proxy.
func TestKindOfFailure(t *testing.T) {
	for _, tt := range []struct {
		name  string
		serve func(p *peer)
		cause string // llm.transport.cause of the attempt upstream
	}{
		{"reset before the headers", func(p *peer) { p.reset() }, "connection_reset"},
		{"closed before the headers", func(*peer) {}, "closed_before_headers"},
		{"reset within the headers", func(p *peer) { p.send(sseHead); p.reset() }, "connection_reset"},
		{"closed within the headers", func(p *peer) { p.send(sseHead) }, "closed_before_headers"},
		{"reset after the headers", func(p *peer) { p.send(sseHead + chunked); p.reset() }, "connection_reset"},
		{"closed after the headers", func(p *peer) { p.send(sseHead + chunked) }, "body_truncated"},
		{"reset between chunks", func(p *peer) { p.send(sseHead + chunked + chunk(event)); p.reset() }, "connection_reset"},
		{"closed between chunks", func(p *peer) { p.send(sseHead + chunked + chunk(event)) }, "body_truncated"},
		{"reset within a chunk", func(p *peer) { p.send(sseHead + chunked + chunk(event)[:20]); p.reset() }, "connection_reset"},
		{"closed within a chunk", func(p *peer) { p.send(sseHead + chunked + chunk(event)[:20]) }, "body_truncated"},
		{"reset within the last chunk", func(p *peer) { p.send(sseHead + chunked + chunk(event) + "0\r\n\r"); p.reset() }, "connection_reset"},
		{"closed within the last chunk", func(p *peer) { p.send(sseHead + chunked + chunk(event) + "0\r\n") }, "body_truncated"},
		{"closed within the end of the chunks", func(p *peer) { p.send(sseHead + chunked + chunk(event) + "0\r\n\r") }, "body_truncated"},
		{"reset within a length", func(p *peer) { p.send(sseHead + "Content-Length: 500\r\n\r\n" + event); p.reset() }, "connection_reset"},
		{"closed within a length", func(p *peer) { p.send(sseHead + "Content-Length: 500\r\n\r\n" + event) }, "body_truncated"},
		{"reset without a length", func(p *peer) { p.send(sseHead + "\r\n" + event); p.reset() }, "connection_reset"},
		{"closed without a length", func(p *peer) { p.send(sseHead + "\r\n" + event) }, "clean_eof"},
		{"half closed between chunks", func(p *peer) {
			p.send(sseHead + chunked + chunk(event))
			_ = p.CloseWrite()
			_, _ = p.r.ReadByte() // until the other side has closed
		}, "body_truncated"},
		{"whole", func(p *peer) { p.send(sseHead + chunked + chunk(whole) + "0\r\n\r\n") }, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			up := serveRaw(t, func(u *upstream, p *peer) {
				if strings.HasPrefix(p.request(), "POST") {
					u.requests.Add(1)
					tt.serve(p)
				}
			})
			proxy := start(t, up.url())
			ask := func(addr string) (string, string) {
				request := post(addr, "/v1/chat/completions")
				if tt.cause == "" { // a whole answer ends the connection only if it is asked to
					request = post(addr, "/v1/chat/completions", "Connection: close")
				}
				return exchangeRaw(t, addr, request)
			}
			direct, directEnd := ask(up.Addr().String())
			before := up.requests.Swap(0)
			got, end := ask(proxy.addr)
			assert.Equal(t, directEnd, end)
			assert.Equal(t, before, up.requests.Load(), "attempts")
			if !strings.Contains(direct, "\r\n\r\n") {
				assert.Empty(t, got)
			} else {
				_, wantBody, wantErr := body(t, direct)
				_, gotBody, gotErr := body(t, got)
				assert.Equal(t, wantBody, gotBody)
				assert.Equal(t, wantErr == nil, gotErr == nil, "%v, %v", wantErr, gotErr)
			}
			assert.Equal(t, tt.cause, attributes(proxy.ended(t, oteltrace.SpanKindClient, 1)[0])["llm.transport.cause"])
			require.NoError(t, proxy.end())
			if tt.cause != "" && tt.cause != "clean_eof" {
				assert.Contains(t, proxy.logs.String(), "upstream failed")
			}
		})
	}
}
