package proxy

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	oteltrace "go.opentelemetry.io/otel/trace"
)

// begun asks for a stream and reads its first event.
func begun(t *testing.T, proxy *running) *bufio.Reader {
	t.Helper()
	conn := dial(t, proxy.addr)
	_, err := io.WriteString(conn, post(proxy.addr, "/v1/chat/completions"))
	require.NoError(t, err)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = resp.Body.Close() })
	got := make([]byte, len(event))
	_, err = io.ReadFull(resp.Body, got)
	require.NoError(t, err)
	return bufio.NewReader(resp.Body)
}

// What ends because the proxy does is recorded so, and not as the client's doing.
func TestShutdownCuts(t *testing.T) {
	const streams = 20
	up := serveRaw(t, func(_ *upstream, p *peer) {
		p.request()
		p.send(sseHead + chunked + chunk(event))
		_, _ = p.r.ReadByte()
	})
	proxy := start(t, up.url(), func(c *Config) { c.Grace = 10 * time.Millisecond })
	open := make([]*bufio.Reader, streams)
	for i := range open {
		open[i] = begun(t, proxy)
	}
	require.NoError(t, proxy.end())
	for _, r := range open {
		_, err := io.ReadAll(r)
		assert.Equal(t, rst, endOf(err))
	}
	for _, span := range proxy.ended(t, oteltrace.SpanKindClient, streams) {
		assert.Equal(t, "shutdown", attributes(span)["llm.abort.source"])
	}
}

// A stream that ends within the grace is whole, and Serve returns when it has.
func TestShutdownGrace(t *testing.T) {
	goOn := make(chan struct{})
	up := serveRaw(t, func(_ *upstream, p *peer) {
		p.request()
		p.send(sseHead + chunked + chunk(event))
		<-goOn
		p.send(chunk(whole) + "0\r\n\r\n")
		p.request()
	})
	proxy := start(t, up.url(), func(c *Config) { c.Grace = patience })
	r := begun(t, proxy)
	dial(t, proxy.addr) // a connection without a request is not waited for
	ended := make(chan error, 1)
	go func() { ended <- proxy.end() }()
	require.Eventually(t, func() bool { // until the end has begun
		conn, err := net.Dial("tcp", proxy.addr)
		if err == nil {
			_ = conn.Close()
		}
		return err != nil
	}, patience, time.Millisecond)
	close(goOn)
	got, err := io.ReadAll(r)
	require.NoError(t, err)
	assert.Equal(t, whole, string(got))
	require.NoError(t, <-ended)
	assert.Equal(t, "terminal_event", attributes(proxy.ended(t, oteltrace.SpanKindClient, 1)[0])["llm.stream.end"])
}

// Nothing that a client or an upstream does keeps the proxy from ending.
func TestShutdownEnds(t *testing.T) {
	silent := func(_ *upstream, p *peer) { _, _ = io.Copy(io.Discard, p.r) }
	for _, tt := range []struct {
		name   string
		serve  func(u *upstream, p *peer)
		client func(t *testing.T, proxy *running)
	}{
		{"an upstream that never answers", silent, func(t *testing.T, proxy *running) {
			_, err := io.WriteString(dial(t, proxy.addr), post(proxy.addr, "/v1/chat/completions"))
			require.NoError(t, err)
		}},
		{"a client that never sends its headers", silent, func(t *testing.T, proxy *running) {
			_, err := io.WriteString(dial(t, proxy.addr), "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nX-")
			require.NoError(t, err)
		}},
		{"a client that never sends its body", silent, func(t *testing.T, proxy *running) {
			_, err := io.WriteString(dial(t, proxy.addr), "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
			require.NoError(t, err)
		}},
		{"a client that never reads", func(_ *upstream, p *peer) {
			p.request()
			p.send(sseHead + "\r\n")
			for err := error(nil); err == nil; {
				_, err = io.WriteString(p, strings.Repeat(event, 1000))
			}
		}, func(t *testing.T, proxy *running) {
			begun(t, proxy)
		}},
		{"a client of a WebSocket that says nothing", func(_ *upstream, p *peer) {
			acceptRaw(p)
			silent(nil, p)
		}, func(t *testing.T, proxy *running) {
			conn, _, err := websocket.Dial(t.Context(), "ws://"+proxy.addr+"/v1/responses", nil) //nolint:bodyclose // the library closes it
			require.NoError(t, err)
			t.Cleanup(func() { _ = conn.CloseNow() })
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			proxy := start(t, serveRaw(t, tt.serve).url())
			tt.client(t, proxy)
			began := time.Now()
			require.NoError(t, proxy.end())
			assert.Less(t, time.Since(began), 2*unwindLimit)
		})
	}
}

// A listener that fails ends the server with its error.
func TestListenerFails(t *testing.T) {
	s, err := New(Config{})
	require.NoError(t, err)
	up := serveRaw(t, func(*upstream, *peer) {})
	require.NoError(t, up.Close())
	require.Error(t, s.Serve(t.Context(), up.TCPListener))
}
