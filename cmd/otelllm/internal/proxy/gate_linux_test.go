package proxy

import (
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Connections are refused from the first failure on until the upstream can be connected to, and no other process gets the
// port meanwhile.
func TestUnreachableRefuse(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	held, err := net.Dial("tcp", ln.Addr().String()) // its own end is a port on which nothing listens
	require.NoError(t, err)
	require.NoError(t, ln.Close())
	at := held.LocalAddr().String()
	proxy := start(t, &url.URL{Scheme: "http", Host: at}, func(c *Config) { c.Unreachable = UnreachableRefuse })
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	idle := dial(t, proxy.addr) // a connection that is bound to the same port
	defer idle.Close()
	ask := func() error {
		resp, err := client.Post(proxy.url().String()+"/v1/chat/completions", "application/json", strings.NewReader("{}"))
		if err == nil {
			err = resp.Body.Close()
		}
		return err
	}
	require.ErrorIs(t, ask(), syscall.ECONNRESET)
	require.ErrorIs(t, ask(), syscall.ECONNREFUSED)
	_, err = net.Listen("tcp", proxy.addr)
	require.ErrorIs(t, err, syscall.EADDRINUSE)

	require.NoError(t, held.(*net.TCPConn).SetLinger(0))
	require.NoError(t, held.Close())
	var srv *httptest.Server
	require.Eventually(t, func() bool {
		ln, err := net.Listen("tcp", at)
		if err == nil {
			srv = &httptest.Server{Listener: ln, Config: &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}}
			srv.Start()
		}
		return err == nil
	}, patience, 10*time.Millisecond)
	defer srv.Close()
	require.Eventually(t, func() bool { return ask() == nil }, patience, 10*time.Millisecond)
	require.NoError(t, ask())
	srv.Close()
	require.ErrorIs(t, ask(), syscall.ECONNRESET)
	require.ErrorIs(t, ask(), syscall.ECONNREFUSED)
}

// A server ends while it refuses.
func TestUnreachableRefuseEnds(t *testing.T) {
	proxy := start(t, refusing(t), func(c *Config) { c.Unreachable = UnreachableRefuse })
	_, err := http.Post(proxy.url().String()+"/v1/chat/completions", "application/json", strings.NewReader("{}")) //nolint:bodyclose // there is no response
	require.Error(t, err)
	_, err = net.Dial("tcp", proxy.addr)
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	require.NoError(t, proxy.end())
}
