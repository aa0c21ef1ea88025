// Package nettest breaks connections for tests. It has real listeners on loopback that
// reset, truncate, fall silent or violate the protocol, over TCP, TLS, HTTP/2 and DNS.
package nettest

import (
	"bufio"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// Listen serves every connection to a new loopback listener with serve, and returns the
// listener's address. It closes the connection when serve returns or the test ends. The
// end of the test waits for serve.
func Listen(tb testing.TB, serve func(net.Conn)) (addr string) {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(tb, err)
	accept(tb, l, serve)
	return l.Addr().String()
}

// ListenTLS is like Listen, behind a TLS server; the handshake is complete when serve is
// called. It offers protos by ALPN and returns a client configuration that trusts the
// server.
func ListenTLS(tb testing.TB, serve func(*tls.Conn), protos ...string) (addr string, client *tls.Config) {
	tb.Helper()
	server, client := TLS(tb)
	server.NextProtos = protos
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(tb, err)
	accept(tb, l, func(c net.Conn) {
		conn := tls.Server(c, server)
		if conn.Handshake() == nil {
			serve(conn)
		}
	})
	return l.Addr().String(), client
}

// TLS returns a server configuration for loopback and a client configuration that trusts
// it.
func TLS(tb testing.TB) (server, client *tls.Config) {
	tb.Helper()
	s := httptest.NewTLSServer(http.NotFoundHandler())
	defer s.Close()
	transport, ok := s.Client().Transport.(*http.Transport)
	require.True(tb, ok)
	return &tls.Config{Certificates: s.TLS.Certificates, MinVersion: tls.VersionTLS12}, transport.TLSClientConfig.Clone()
}

func accept(tb testing.TB, l net.Listener, serve func(net.Conn)) {
	tb.Helper()
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		conns = map[net.Conn]struct{}{}
		over  bool
	)
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns[c] = struct{}{}
			if over {
				_ = c.Close()
			}
			mu.Unlock()
			wg.Go(func() {
				serve(c)
				_ = c.Close()
				mu.Lock()
				delete(conns, c)
				mu.Unlock()
			})
		}
	})
	tb.Cleanup(func() {
		_ = l.Close()
		mu.Lock()
		over = true
		for c := range conns {
			_ = c.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
}

// Refused returns the address of a loopback port on which nothing listens until the test
// ends. The local end of a connection occupies the port: a port that is only free could be
// given to the next listener, of this process or of another.
func Refused(tb testing.TB) (addr string) {
	tb.Helper()
	held, err := net.Dial("tcp", Listen(tb, Wait))
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = held.Close() })
	return held.LocalAddr().String()
}

// Reset closes a connection with a TCP RST, whatever protocol it carries.
func Reset(c net.Conn) {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetLinger(0)
	}
	_ = c.Close()
}

// HangUp sends a TCP FIN and then waits for the other side to close. A close could become
// an RST if received data is unread.
func HangUp(c net.Conn) {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.CloseWrite()
	}
	Wait(c)
}

// ReadRequest reads one HTTP/1 request with its body, so that what is written next is its
// response. It returns nil if the connection ended before.
func ReadRequest(c net.Conn) *http.Request {
	req, err := http.ReadRequest(bufio.NewReader(c))
	if err != nil {
		return nil
	}
	_, _ = io.Copy(io.Discard, req.Body)
	return req
}

// Wait blocks until the other side closes.
func Wait(c net.Conn) { _, _ = io.Copy(io.Discard, c) }
