package proxy

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	oteltrace "go.opentelemetry.io/otel/trace"
)

// The proxy itself may serve TLS, with HTTP/2, and its failures are of the same kinds.
func TestServeTLS(t *testing.T) {
	certified := httptest.NewTLSServer(http.NotFoundHandler())
	defer certified.Close()
	up := serveRaw(t, func(_ *upstream, p *peer) {
		request := p.request()
		if strings.Contains(request, "/v1/models") {
			p.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
			p.request()
			return
		}
		p.send(sseHead + chunked + chunk(event))
		if strings.Contains(request, "X-End: "+rst) {
			p.reset()
		}
	})
	s, err := New(Config{Upstreams: []Upstream{{URL: up.url()}}})
	require.NoError(t, err)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() {
		served <- s.Serve(ctx, tls.NewListener(ln, &tls.Config{
			Certificates: certified.TLS.Certificates, NextProtos: []string{"h2", "http/1.1"}, MinVersion: tls.VersionTLS12,
		}))
	}()
	roots := certified.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs

	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true}
	resp, err := (&http.Client{Transport: transport}).Get("https://" + ln.Addr().String() + "/v1/models")
	require.NoError(t, err)
	got, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	assert.Equal(t, "HTTP/2.0 ok", resp.Proto+" "+string(got))
	transport.CloseIdleConnections()

	for _, end := range []string{rst, fin} {
		conn := tls.Client(dial(t, ln.Addr().String()), &tls.Config{RootCAs: roots, ServerName: "127.0.0.1", MinVersion: tls.VersionTLS12})
		_, err = io.WriteString(conn, post("localhost", "/v1/chat/completions", "X-End: "+end))
		require.NoError(t, err)
		all, err := io.ReadAll(conn)
		require.NoError(t, err) // net/http says close_notify first, whatever the kind
		_, content, err := body(t, string(all))
		assert.Equal(t, event, content)
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		// The connection below TLS ends as the upstream's did.
		_, err = conn.NetConn().Read(make([]byte, 1))
		require.Error(t, err)
		assert.Equal(t, end, endOf(err))
	}

	cancel()
	require.NoError(t, <-served)
}

// Nothing is left running when Serve has returned.
func TestNothingIsLeft(t *testing.T) {
	raw := serveRaw(t, func(_ *upstream, p *peer) {
		p.request()
		p.send(sseHead + chunked + chunk(event))
		_, _ = p.r.ReadByte()
	})
	for range 3 {
		proxy := start(t, raw.url())
		begun(t, proxy)
		gone := dial(t, proxy.addr)
		_, err := io.WriteString(gone, post(proxy.addr, "/v1/chat/completions"))
		require.NoError(t, err)
		require.NoError(t, gone.Close())
		require.NoError(t, proxy.end())
	}
	stacks := make([]byte, 1<<20)
	require.Eventually(t, func() bool {
		n := runtime.Stack(stacks, true)
		for g := range strings.SplitSeq(string(stacks[:n]), "\n\n") {
			if strings.Contains(g, "proxy.(*Server)") || strings.Contains(g, "proxy.(*connector)") || strings.Contains(g, "httputil.") {
				return false
			}
		}
		return true
	}, patience, 10*time.Millisecond)
}

// The record of an attempt says whether its connection is an old one, as a client's would.
func TestConnectionFacts(t *testing.T) {
	up := serveRaw(t, func(_ *upstream, p *peer) {
		for p.request() != "" {
			p.send(sseHead + chunked + chunk(whole) + "0\r\n\r\n")
		}
	})
	proxy := start(t, up.url())
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	for range 2 {
		resp, err := client.Post("http://"+proxy.addr+"/v1/chat/completions", "application/json", strings.NewReader(chatBody))
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
	}
	spans := proxy.ended(t, oteltrace.SpanKindClient, 2)
	assert.Equal(t, "false", attributes(spans[0])["llm.connection.reused"])
	assert.Equal(t, "true", attributes(spans[1])["llm.connection.reused"])
	assert.NotEmpty(t, attributes(spans[1])["llm.connection.idle"])
	assert.Equal(t, "127.0.0.1", attributes(spans[0])["server.address"])
}
