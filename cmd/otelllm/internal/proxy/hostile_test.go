package proxy

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What an upstream sends without an end is bounded, and the log says what was wrong.
func TestHostileUpstream(t *testing.T) {
	endless := func(p *peer, begin, piece string) {
		p.request()
		p.send(begin)
		for err := error(nil); err == nil; {
			_, err = io.WriteString(p, piece)
		}
	}
	for _, tt := range []struct {
		name, begin, piece string
		answered           bool
		problem            string
	}{
		{"headers", "HTTP/1.1 200 OK\r\n", "X-Secret: " + strings.Repeat("x", 1000) + "\r\n", false, "not valid HTTP"},
		{"a header", "HTTP/1.1 200 OK\r\nX-Secret: ", strings.Repeat("x", 1000), false, "not valid HTTP"},
		{"a status line", "HTTP/1.1 200 ", strings.Repeat("secret", 1000), false, "not valid HTTP"},
		{"informational responses", "", "HTTP/1.1 102 Processing\r\n\r\n", false, "too many informational responses"},
		{"a chunk's extension", sseHead + chunked, "5;" + strings.Repeat("secret", 10000), true, "not valid HTTP"},
		{"chunks' extensions", sseHead + chunked, "1;" + strings.Repeat("secret", 100) + "\r\nx\r\n", true, "not valid HTTP"},
		{"a chunk's size", sseHead + chunked, "00000000000000000000000000", true, "not valid HTTP"},
		{"trailers", sseHead + chunked + "0\r\n", "X-Secret: " + strings.Repeat("x", 1000) + "\r\n", true, "not valid HTTP"},
		{"no HTTP", "SSH-2.0-secret\r\n", "secret\r\n", false, "not valid HTTP"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			up := serveRaw(t, func(_ *upstream, p *peer) { endless(p, tt.begin, tt.piece) })
			proxy := start(t, up.url())
			conn := dial(t, proxy.addr)
			_, err := io.WriteString(conn, post(proxy.addr, "/v1/chat/completions?key=secret"))
			require.NoError(t, err)
			r := bufio.NewReader(conn)
			var resp *http.Response
			for {
				resp, err = http.ReadResponse(r, nil)
				if err != nil || resp.StatusCode >= 200 {
					break
				}
			}
			if tt.answered {
				require.NoError(t, err)
				_, err = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			}
			require.Error(t, err)
			require.NoError(t, proxy.end())
			assert.Contains(t, proxy.logs.String(), tt.problem)
			assert.NotContains(t, proxy.logs.String(), "secret")
		})
	}
}

// What a client sends without an end is bounded, and gets no further than the proxy.
func TestHostileClient(t *testing.T) {
	up := serveRaw(t, func(u *upstream, p *peer) {
		if p.request() != "" {
			u.requests.Add(1)
		}
	})
	proxy := start(t, up.url())
	for _, tt := range []struct{ name, begin, piece string }{
		{"headers", "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n", "X-A: " + strings.Repeat("x", 1000) + "\r\n"},
		{"a path", "POST /", strings.Repeat("x", 1000)},
		{"no HTTP", "", "secret\r\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			conn := dial(t, proxy.addr)
			_, err := io.WriteString(conn, tt.begin)
			for sent := 0; err == nil && sent < 64<<20; sent += len(tt.piece) {
				_, err = io.WriteString(conn, tt.piece)
			}
			require.Error(t, err)
		})
	}
	assert.Zero(t, up.requests.Load())
	require.NoError(t, proxy.end())
	assert.NotContains(t, proxy.logs.String(), "secret")
}

// A client whose headers have no end is cut off after a while, however it sends them.
func TestSlowHeaders(t *testing.T) {
	const limit = 100 * time.Millisecond
	up := serveRaw(t, func(u *upstream, p *peer) {
		for p.request() != "" {
			u.requests.Add(1)
			p.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		}
	})
	proxy := start(t, up.url(), func(c *Config) { c.HeaderLimit = limit })
	const answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
	for _, tt := range []struct {
		name, begin, piece string
		answered           bool
	}{
		{"nothing", "", "", false},
		{"a part of the request line", "POST /v1/chat", "", false},
		{"a header now and then", "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n", "X-A: b\r\n", false},
		{"a byte now and then", "POST /", "x", false},
		{"after a request", "GET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\nPOST /v1/chat/completions HTTP/1.1\r\n", "X-A: b\r\n", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			began := time.Now() // the limit begins when the connection is there
			conn := dial(t, proxy.addr)
			_, err := io.WriteString(conn, tt.begin)
			require.NoError(t, err)
			ended := make(chan struct{})
			defer close(ended)
			go func() {
				for tick := time.Tick(limit / 20); tt.piece != ""; {
					select {
					case <-tick:
						_, _ = io.WriteString(conn, tt.piece)
					case <-ended:
						return
					}
				}
			}()
			got, err := io.ReadAll(conn)
			var timeout net.Error
			require.False(t, errors.As(err, &timeout) && timeout.Timeout(), "the connection is still open")
			assert.GreaterOrEqual(t, time.Since(began), limit)
			assert.Equal(t, tt.answered, strings.HasPrefix(string(got), answer))
		})
	}
	t.Cleanup(func() { assert.EqualValues(t, 1, up.requests.Load()) })
}

// A connection that is idle for too long is closed, and those upstream with it. A stream that
// takes longer is not.
func TestIdleConnection(t *testing.T) {
	const limit = 50 * time.Millisecond
	ended := make(chan struct{})
	up := serveRaw(t, func(_ *upstream, p *peer) {
		p.request()
		p.send(sseHead + chunked + chunk(event))
		time.Sleep(3 * limit) // a provider that thinks
		p.send(chunk(event) + "0\r\n\r\n")
		p.request()
		close(ended)
	})
	proxy := start(t, up.url(), func(c *Config) { c.IdleLimit = limit })
	got, end := exchangeRaw(t, proxy.addr, post(proxy.addr, "/v1/chat/completions"))
	_, content, err := body(t, got)
	require.NoError(t, err)
	assert.Equal(t, event+event, content)
	assert.Equal(t, fin, end)
	<-ended
}

// Credentials and queries of a request are not logged, whatever becomes of it.
func TestLogsKeepNoSecrets(t *testing.T) {
	up := serveRaw(t, func(_ *upstream, p *peer) { p.request(); p.reset() })
	proxy := start(t, up.url())
	other := start(t, nil)
	for _, addr := range []string{proxy.addr, other.addr} {
		exchangeRaw(t, addr, post(addr, "/unknown/secret?key=secret", "Authorization: Bearer secret", "X-Api-Key: secret", "Connection: close"))
	}
	require.NoError(t, proxy.end())
	require.NoError(t, other.end())
	assert.Contains(t, proxy.logs.String(), "connection reset")
	assert.Contains(t, other.logs.String(), "no upstream")
	assert.NotContains(t, proxy.logs.String()+other.logs.String(), "secret")
}
