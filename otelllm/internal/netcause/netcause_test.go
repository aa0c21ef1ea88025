package netcause_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/otelllm/internal/netcause"
	"github.com/otelllm/otelllm-go/otelllm/internal/nettest"
	"github.com/otelllm/otelllm-go/semconv"
)

// post sends one POST through rt and reads the response to its end, as a recorder does. It
// returns the error, the stage at which it occurred, and the trace.
func post(t *testing.T, ctx context.Context, rt http.RoundTripper, target string, body io.Reader) (semconv.TransportStage, *netcause.Trace, error) { //nolint:revive // t first, as in every helper
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, target, body)
	require.NoError(t, err)
	trace := newTrace(req.URL, time.Now)
	req = req.WithContext(httptrace.WithClientTrace(ctx, trace.Hooks()))
	resp, err := rt.RoundTrip(req)
	if err != nil {
		return trace.Stage(), trace, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return semconv.TransportStageBody, trace, err
}

const (
	chunkedHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
	chunk       = "5\r\nhello\r\n"
)

// answer returns a server that reads a request, writes text, and calls then.
func answer(text string, then func(net.Conn)) func(net.Conn) {
	return func(c net.Conn) {
		if nettest.ReadRequest(c) == nil {
			return
		}
		_, _ = io.WriteString(c, text)
		then(c)
	}
}

func finish(c net.Conn) { nettest.HangUp(c) }

func TestOf(t *testing.T) {
	type want struct {
		stage semconv.TransportStage
		cause semconv.TransportCause
		code  string
		sent  bool
	}
	for _, tt := range []struct {
		name  string
		setup func(t *testing.T) (http.RoundTripper, string)
		want  want
	}{
		{
			"refused", func(t *testing.T) (http.RoundTripper, string) {
				return &http.Transport{}, "http://" + nettest.Refused(t)
			},
			want{semconv.TransportStageConnect, semconv.TransportCauseConnectRefused, "ECONNREFUSED", false},
		},
		{
			"host not found", func(t *testing.T) (http.RoundTripper, string) {
				d := net.Dialer{Resolver: nettest.Resolver(t, nettest.NXDomain)}
				return &http.Transport{DialContext: d.DialContext}, "http://model.example.com"
			},
			want{semconv.TransportStageDNS, semconv.TransportCauseDNSNotFound, "", false},
		},
		{
			"name server fails", func(t *testing.T) (http.RoundTripper, string) {
				d := net.Dialer{Resolver: nettest.Resolver(t, nettest.ServFail)}
				return &http.Transport{DialContext: d.DialContext}, "http://model.example.com"
			},
			want{semconv.TransportStageDNS, semconv.TransportCauseDNSTemporary, "", false},
		},
		{
			"name server refuses", func(t *testing.T) (http.RoundTripper, string) {
				d := net.Dialer{Resolver: &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
					var d net.Dialer
					return d.DialContext(ctx, "tcp", nettest.Refused(t))
				}}}
				return &http.Transport{DialContext: d.DialContext}, "http://model.example.com"
			},
			want{semconv.TransportStageDNS, semconv.TransportCauseDNSTemporary, "", false},
		},
		{
			"unreachable", func(*testing.T) (http.RoundTripper, string) {
				d := net.Dialer{Control: func(string, string, syscall.RawConn) error {
					return os.NewSyscallError("connect", syscall.EHOSTUNREACH)
				}}
				return &http.Transport{DialContext: d.DialContext}, "http://127.0.0.1:1"
			},
			want{semconv.TransportStageConnect, semconv.TransportCauseConnectUnreachable, "EHOSTUNREACH", false},
		},
		{
			"no such port", func(*testing.T) (http.RoundTripper, string) {
				return &http.Transport{}, "http://127.0.0.1:99999"
			},
			want{semconv.TransportStageUnset, semconv.TransportCauseInvalidURL, "", false},
		},
		{
			"no such port, through a SOCKS proxy", func(t *testing.T) (http.RoundTripper, string) {
				proxy := nettest.Listen(t, nettest.Wait)
				return &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "socks5", Host: proxy})}, "http://127.0.0.1:99999"
			},
			want{semconv.TransportStageUnset, semconv.TransportCauseInvalidURL, "", false},
		},
		{
			"connect timeout", func(t *testing.T) (http.RoundTripper, string) {
				d := net.Dialer{Timeout: time.Nanosecond}
				return &http.Transport{DialContext: d.DialContext}, "http://" + nettest.Listen(t, nettest.Wait)
			},
			want{semconv.TransportStageConnect, semconv.TransportCauseConnectTimeout, "", false},
		},
		{
			"custom dialler times out", func(*testing.T) (http.RoundTripper, string) {
				return &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
					return nil, context.DeadlineExceeded
				}}, "http://127.0.0.1:1"
			},
			want{semconv.TransportStageConnect, semconv.TransportCauseConnectTimeout, "", false},
		},
		{
			"custom dialler says nothing", func(*testing.T) (http.RoundTripper, string) {
				return &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
					return nil, errors.New("service unavailable") // free text is not evidence
				}}, "http://127.0.0.1:1"
			},
			want{semconv.TransportStageConnect, semconv.TransportCauseUnset, "", false},
		},
		{
			"unknown authority", func(t *testing.T) (http.RoundTripper, string) {
				addr, _ := nettest.ListenTLS(t, func(c *tls.Conn) { nettest.Wait(c) })
				return &http.Transport{}, "https://" + addr
			},
			want{semconv.TransportStageTLS, semconv.TransportCauseTLS, "CERTIFICATE_VERIFY_FAILED", false},
		},
		{
			"wrong name in certificate", func(t *testing.T) (http.RoundTripper, string) {
				addr, client := nettest.ListenTLS(t, func(c *tls.Conn) { nettest.Wait(c) })
				client.ServerName = "other.invalid"
				return &http.Transport{TLSClientConfig: client}, "https://" + addr
			},
			want{semconv.TransportStageTLS, semconv.TransportCauseTLS, "CERTIFICATE_VERIFY_FAILED", false},
		},
		{
			"garbage for a handshake", func(t *testing.T) (http.RoundTripper, string) {
				return &http.Transport{}, "https://" + nettest.Listen(t, func(c net.Conn) {
					_, _ = io.WriteString(c, "220 mail.example.com ESMTP\r\n")
					nettest.Wait(c)
				})
			},
			want{semconv.TransportStageTLS, semconv.TransportCauseTLS, "NOT_TLS", false},
		},
		{
			"plain HTTP for a handshake", func(t *testing.T) (http.RoundTripper, string) {
				s := httptest.NewServer(http.NotFoundHandler())
				t.Cleanup(s.Close)
				return &http.Transport{}, "https://" + s.Listener.Addr().String()
			},
			want{semconv.TransportStageTLS, semconv.TransportCauseTLS, "NOT_TLS", false},
		},
		{
			"handshake closed", func(t *testing.T) (http.RoundTripper, string) {
				return &http.Transport{}, "https://" + nettest.Listen(t, func(c net.Conn) {
					_, _ = c.Read(make([]byte, 1))
					nettest.HangUp(c)
				})
			},
			want{semconv.TransportStageTLS, semconv.TransportCauseTLS, "EOF", false},
		},
		{
			"handshake reset", func(t *testing.T) (http.RoundTripper, string) {
				return &http.Transport{}, "https://" + nettest.Listen(t, func(c net.Conn) {
					_, _ = c.Read(make([]byte, 1))
					nettest.Reset(c)
				})
			},
			want{semconv.TransportStageTLS, semconv.TransportCauseTLS, "ECONNRESET", false},
		},
		{
			"handshake too slow", func(t *testing.T) (http.RoundTripper, string) {
				return &http.Transport{TLSHandshakeTimeout: time.Millisecond}, "https://" + nettest.Listen(t, nettest.Wait)
			},
			want{semconv.TransportStageTLS, semconv.TransportCauseTLS, "TIMEOUT", false},
		},
		{
			"handshake refused by alert", func(t *testing.T) (http.RoundTripper, string) {
				addr, client := nettest.ListenTLS(t, func(c *tls.Conn) { nettest.Wait(c) })
				client.MaxVersion = tls.VersionTLS11
				client.MinVersion = tls.VersionTLS10
				return &http.Transport{TLSClientConfig: client}, "https://" + addr
			},
			want{semconv.TransportStageTLS, semconv.TransportCauseTLS, "PROTOCOL_VERSION_NOT_SUPPORTED", false},
		},
		{
			"proxy refused", func(t *testing.T) (http.RoundTripper, string) {
				return &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: nettest.Refused(t)})}, "https://model.example.com"
			},
			want{semconv.TransportStageProxy, semconv.TransportCauseProxy, "ECONNREFUSED", false},
		},
		{
			"socks proxy refused", func(t *testing.T) (http.RoundTripper, string) {
				return &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "socks5", Host: nettest.Refused(t)})}, "https://model.example.com"
			},
			want{semconv.TransportStageProxy, semconv.TransportCauseProxy, "ECONNREFUSED", false},
		},
		{
			"CONNECT refused", func(t *testing.T) (http.RoundTripper, string) {
				proxy := nettest.Listen(t, answer("HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", finish))
				return &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: proxy})}, "https://model.example.com"
			},
			want{semconv.TransportStageProxy, semconv.TransportCauseProxyRefused, "407", false},
		},
		{
			"CONNECT forbidden, by a proxy over TLS", func(t *testing.T) (http.RoundTripper, string) {
				proxy, client := nettest.ListenTLS(t, func(c *tls.Conn) { answer("HTTP/1.1 403 Forbidden\r\n\r\n", finish)(c) })
				return &http.Transport{TLSClientConfig: client, Proxy: http.ProxyURL(&url.URL{Scheme: "https", Host: proxy})}, "https://model.example.com"
			},
			want{semconv.TransportStageProxy, semconv.TransportCauseProxyRefused, "403", false},
		},
		{
			"CONNECT without a way there", func(t *testing.T) (http.RoundTripper, string) {
				proxy := nettest.Listen(t, answer("HTTP/1.1 502 Bad Gateway\r\n\r\n", finish))
				return &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: proxy})}, "https://model.example.com"
			},
			want{semconv.TransportStageProxy, semconv.TransportCauseProxy, "502", false},
		},
		{
			"CONNECT, one too many", func(t *testing.T) (http.RoundTripper, string) {
				proxy := nettest.Listen(t, answer("HTTP/1.1 429 Too Many Requests\r\n\r\n", finish))
				return &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: proxy})}, "https://model.example.com"
			},
			want{semconv.TransportStageProxy, semconv.TransportCauseProxy, "429", false},
		},
		{
			"a SOCKS proxy that wants another password", func(t *testing.T) (http.RoundTripper, string) {
				proxy := socks(t, "\x05\x02", "\x01\x01")
				return &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "socks5", Host: proxy, User: url.UserPassword("u", "p")})}, "https://model.example.com"
			},
			want{semconv.TransportStageProxy, semconv.TransportCauseProxyRefused, "SOCKS_AUTH", false},
		},
		{
			"a SOCKS proxy whose rules forbid it", func(t *testing.T) (http.RoundTripper, string) {
				proxy := socks(t, "\x05\x00", "\x05\x02\x00\x01\x00\x00\x00\x00\x00\x00")
				return &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "socks5", Host: proxy})}, "https://model.example.com"
			},
			want{semconv.TransportStageProxy, semconv.TransportCauseProxyRefused, "SOCKS_RULESET", false},
		},
		{
			"a SOCKS proxy without a way there", func(t *testing.T) (http.RoundTripper, string) {
				proxy := socks(t, "\x05\x00", "\x05\x04\x00\x01\x00\x00\x00\x00\x00\x00")
				return &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "socks5", Host: proxy})}, "https://model.example.com"
			},
			want{semconv.TransportStageProxy, semconv.TransportCauseProxy, "", false},
		},
		{
			"CONNECT refused in the proxy's own words", func(t *testing.T) (http.RoundTripper, string) {
				proxy := nettest.Listen(t, answer("HTTP/1.1 403 secret words of the proxy\r\n\r\n", finish))
				return &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: proxy})}, "https://model.example.com"
			},
			want{semconv.TransportStageProxy, semconv.TransportCauseProxy, "", false},
		},
		{
			"CONNECT closed", func(t *testing.T) (http.RoundTripper, string) {
				proxy := nettest.Listen(t, answer("", finish))
				return &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: proxy})}, "https://model.example.com"
			},
			want{semconv.TransportStageProxy, semconv.TransportCauseProxy, "EOF", false},
		},
		{
			"CONNECT reset", func(t *testing.T) (http.RoundTripper, string) {
				proxy := nettest.Listen(t, answer("", nettest.Reset))
				return &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: proxy})}, "https://model.example.com"
			},
			want{semconv.TransportStageProxy, semconv.TransportCauseProxy, "ECONNRESET", false},
		},
		{
			"certificate behind a proxy", func(t *testing.T) (http.RoundTripper, string) {
				server, _ := nettest.TLS(t)
				proxy := nettest.Listen(t, func(c net.Conn) {
					if nettest.ReadRequest(c) == nil {
						return
					}
					_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n")
					_ = tls.Server(c, server).Handshake()
				})
				return &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: proxy})}, "https://model.example.com"
			},
			want{semconv.TransportStageTLS, semconv.TransportCauseTLS, "CERTIFICATE_VERIFY_FAILED", false},
		},
		{
			"no write gets through", func(t *testing.T) (http.RoundTripper, string) {
				addr := nettest.Listen(t, func(net.Conn) { <-t.Context().Done() })
				return &http.Transport{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
					var d net.Dialer
					c, err := d.DialContext(ctx, network, addr)
					if tcp, ok := c.(*net.TCPConn); ok {
						_ = tcp.CloseWrite()
					}
					return writeOnly{c, t.Context()}, err
				}}, "http://" + addr
			},
			want{semconv.TransportStageWrite, semconv.TransportCauseWriteFailed, "EPIPE", true},
		},
		{
			"header timeout", func(t *testing.T) (http.RoundTripper, string) {
				return &http.Transport{ResponseHeaderTimeout: time.Millisecond}, "http://" + nettest.Listen(t, nettest.Wait)
			},
			want{semconv.TransportStageHeaders, semconv.TransportCauseHeaderTimeout, "", true},
		},
		{
			"header timeout over HTTP/2", func(t *testing.T) (http.RoundTripper, string) {
				target, client := nettest.ListenH2(t, func(*nettest.H2Conn, uint32) {})
				return &http.Transport{TLSClientConfig: client, ForceAttemptHTTP2: true, ResponseHeaderTimeout: time.Millisecond}, target
			},
			want{semconv.TransportStageHeaders, semconv.TransportCauseHeaderTimeout, "", true},
		},
		{
			"closed before headers", func(t *testing.T) (http.RoundTripper, string) {
				return &http.Transport{}, "http://" + nettest.Listen(t, answer("", finish))
			},
			want{semconv.TransportStageHeaders, semconv.TransportCauseClosedBeforeHeaders, "", true},
		},
		{
			"closed inside headers", func(t *testing.T) (http.RoundTripper, string) {
				return &http.Transport{}, "http://" + nettest.Listen(t, answer("HTTP/1.1 200 OK\r\n", finish))
			},
			want{semconv.TransportStageHeaders, semconv.TransportCauseClosedBeforeHeaders, "", true},
		},
		{
			"not a status", func(t *testing.T) (http.RoundTripper, string) {
				return &http.Transport{}, "http://" + nettest.Listen(t, answer("HTTP/1.1 abc OK\r\n\r\n", finish))
			},
			want{semconv.TransportStageHeaders, semconv.TransportCauseMalformedEvent, "", true},
		},
		{
			"not a header", func(t *testing.T) (http.RoundTripper, string) {
				return &http.Transport{}, "http://" + nettest.Listen(t, answer("HTTP/1.1 200 OK\r\nno header at all\r\n\r\n", finish))
			},
			want{semconv.TransportStageHeaders, semconv.TransportCauseMalformedEvent, "", true},
		},
		{
			"not a trailer", func(t *testing.T) (http.RoundTripper, string) {
				return &http.Transport{}, "http://" + nettest.Listen(t, answer(chunkedHead+chunk+"0\r\nTrailer\r\n\r\n", finish))
			},
			want{semconv.TransportStageBody, semconv.TransportCauseMalformedEvent, "", true},
		},
		{
			"reset before headers", func(t *testing.T) (http.RoundTripper, string) {
				return &http.Transport{}, "http://" + nettest.Listen(t, answer("", nettest.Reset))
			},
			want{semconv.TransportStageHeaders, semconv.TransportCauseConnectionReset, "ECONNRESET", true},
		},
		{
			"not HTTP", func(t *testing.T) (http.RoundTripper, string) {
				return &http.Transport{}, "http://" + nettest.Listen(t, answer("220 mail.example.com ESMTP\r\n", nettest.Wait))
			},
			want{semconv.TransportStageHeaders, semconv.TransportCauseMalformedEvent, "", true},
		},
		{
			"endless headers", func(t *testing.T) (http.RoundTripper, string) {
				return &http.Transport{MaxResponseHeaderBytes: 64}, "http://" + nettest.Listen(t,
					answer("HTTP/1.1 200 OK\r\nA: "+strings.Repeat("a", 1<<16)+"\r\n\r\n", nettest.Wait))
			},
			want{semconv.TransportStageHeaders, semconv.TransportCauseMalformedEvent, "", true},
		},
		{
			"reset in the body", func(t *testing.T) (http.RoundTripper, string) {
				return &http.Transport{}, "http://" + nettest.Listen(t, answer(chunkedHead+chunk, func(c net.Conn) { nettest.Reset(c) }))
			},
			want{semconv.TransportStageBody, semconv.TransportCauseConnectionReset, "ECONNRESET", true},
		},
		{
			"chunked body cut short", func(t *testing.T) (http.RoundTripper, string) {
				return &http.Transport{}, "http://" + nettest.Listen(t, answer(chunkedHead+chunk+"5\r\nhe", finish))
			},
			want{semconv.TransportStageBody, semconv.TransportCauseBodyTruncated, "", true},
		},
		{
			"body shorter than its length", func(t *testing.T) (http.RoundTripper, string) {
				return &http.Transport{}, "http://" + nettest.Listen(t, answer("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello", finish))
			},
			want{semconv.TransportStageBody, semconv.TransportCauseBodyTruncated, "", true},
		},
		{
			"chunks that are none", func(t *testing.T) (http.RoundTripper, string) {
				return &http.Transport{}, "http://" + nettest.Listen(t, answer(chunkedHead+chunk+"zz\r\n", nettest.Wait))
			},
			want{semconv.TransportStageBody, semconv.TransportCauseMalformedEvent, "", true},
		},
		{
			"not gzip", func(t *testing.T) (http.RoundTripper, string) {
				return &http.Transport{}, "http://" + nettest.Listen(t,
					answer("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 20\r\n\r\nthis is not gzipped.", nettest.Wait))
			},
			want{semconv.TransportStageBody, semconv.TransportCauseMalformedEvent, "", true},
		},
		{
			"gzip cut short", func(t *testing.T) (http.RoundTripper, string) {
				var b bytes.Buffer
				z := gzip.NewWriter(&b)
				_, _ = io.WriteString(z, "hello")
				_ = z.Flush()
				return &http.Transport{}, "http://" + nettest.Listen(t,
					answer("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nConnection: close\r\n\r\n"+b.String(), finish))
			},
			want{semconv.TransportStageBody, semconv.TransportCauseBodyTruncated, "", true},
		},
		{
			"connection deadline in the body", func(t *testing.T) (http.RoundTripper, string) {
				addr := nettest.Listen(t, answer(chunkedHead+chunk, nettest.Wait))
				return &http.Transport{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
					var d net.Dialer
					c, err := d.DialContext(ctx, network, addr)
					return idleConn{c}, err
				}}, "http://" + addr
			},
			want{semconv.TransportStageBody, semconv.TransportCauseConnectionLost, "TIMEOUT", true},
		},
		{
			"HTTP/2 stream reset in the body", func(t *testing.T) (http.RoundTripper, string) {
				target, client := nettest.ListenH2(t, func(c *nettest.H2Conn, id uint32) {
					c.Headers(id, "text/event-stream")
					c.Data(id, "hello")
					c.RST(id, 2)
				})
				return &http.Transport{TLSClientConfig: client, ForceAttemptHTTP2: true}, target
			},
			want{semconv.TransportStageBody, semconv.TransportCauseH2StreamReset, "INTERNAL_ERROR", true},
		},
		{
			"HTTP/2 stream reset by net/http's server", func(t *testing.T) (http.RoundTripper, string) {
				s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					_, _ = io.Copy(io.Discard, r.Body)
					_, _ = io.WriteString(w, "hello")
					_ = http.NewResponseController(w).Flush()
					panic(http.ErrAbortHandler)
				}))
				s.EnableHTTP2 = true
				s.StartTLS()
				t.Cleanup(s.Close)
				return s.Client().Transport, s.URL
			},
			want{semconv.TransportStageBody, semconv.TransportCauseH2StreamReset, "INTERNAL_ERROR", true},
		},
		{
			"HTTP/2 stream reset before headers", func(t *testing.T) (http.RoundTripper, string) {
				target, client := nettest.ListenH2(t, func(c *nettest.H2Conn, id uint32) { c.RST(id, 11) })
				return &http.Transport{TLSClientConfig: client, ForceAttemptHTTP2: true}, target
			},
			want{semconv.TransportStageHeaders, semconv.TransportCauseH2StreamReset, "ENHANCE_YOUR_CALM", true},
		},
		{
			"GOAWAY and closed in the body", func(t *testing.T) (http.RoundTripper, string) {
				target, client := nettest.ListenH2(t, func(c *nettest.H2Conn, id uint32) {
					c.Headers(id, "text/event-stream")
					c.Data(id, "hello")
					c.GoAway(id, 2, "secret words of the server")
					nettest.HangUp(c.Conn)
				})
				return &http.Transport{TLSClientConfig: client, ForceAttemptHTTP2: true}, target
			},
			want{semconv.TransportStageBody, semconv.TransportCauseH2Goaway, "INTERNAL_ERROR", true},
		},
		{
			"GOAWAY instead of headers", func(t *testing.T) (http.RoundTripper, string) {
				target, client := nettest.ListenH2(t, func(c *nettest.H2Conn, _ uint32) { c.GoAway(0, 11, "") })
				return &http.Transport{TLSClientConfig: client, ForceAttemptHTTP2: true}, target
			},
			want{semconv.TransportStageHeaders, semconv.TransportCauseH2Goaway, "ENHANCE_YOUR_CALM", true},
		},
		{
			"HTTP/2 connection closed in the body", func(t *testing.T) (http.RoundTripper, string) {
				target, client := nettest.ListenH2(t, func(c *nettest.H2Conn, id uint32) {
					c.Headers(id, "text/event-stream")
					c.Data(id, "hello")
					nettest.HangUp(c.Conn)
				})
				return &http.Transport{TLSClientConfig: client, ForceAttemptHTTP2: true}, target
			},
			want{semconv.TransportStageBody, semconv.TransportCauseBodyTruncated, "", true},
		},
		{
			"HTTP/2 connection reset in the body", func(t *testing.T) (http.RoundTripper, string) {
				target, client := nettest.ListenH2(t, func(c *nettest.H2Conn, id uint32) {
					c.Headers(id, "text/event-stream")
					c.Data(id, "hello")
					nettest.Reset(c.Conn)
				})
				return &http.Transport{TLSClientConfig: client, ForceAttemptHTTP2: true}, target
			},
			want{semconv.TransportStageBody, semconv.TransportCauseConnectionReset, "ECONNRESET", true},
		},
		{
			"HTTP/2 connection lost", func(t *testing.T) (http.RoundTripper, string) {
				target, client := nettest.ListenH2(t, func(c *nettest.H2Conn, id uint32) {
					c.Headers(id, "text/event-stream")
					c.Data(id, "hello")
					c.Mute = true
				})
				return &http.Transport{
					TLSClientConfig: client, ForceAttemptHTTP2: true,
					HTTP2: &http.HTTP2Config{SendPingTimeout: time.Millisecond, PingTimeout: 200 * time.Millisecond},
				}, target
			},
			want{semconv.TransportStageBody, semconv.TransportCauseConnectionLost, "", true},
		},
		{
			"HTTP/2 frames that are none", func(t *testing.T) (http.RoundTripper, string) {
				target, client := nettest.ListenH2(t, func(c *nettest.H2Conn, id uint32) {
					c.Headers(id, "text/event-stream")
					c.Data(id, "hello")
					c.Data(0, "a stream that cannot be") // a connection error, PROTOCOL_ERROR
				})
				return &http.Transport{TLSClientConfig: client, ForceAttemptHTTP2: true}, target
			},
			want{semconv.TransportStageBody, semconv.TransportCauseConnectionLost, "PROTOCOL_ERROR", true},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rt, target := tt.setup(t)
			if closer, ok := rt.(interface{ CloseIdleConnections() }); ok {
				t.Cleanup(closer.CloseIdleConnections)
			}
			at, trace, err := post(t, t.Context(), rt, target, strings.NewReader("{}"))
			require.Error(t, err)
			f := netcause.Of(err, at)
			sent, known := trace.Sent()
			assert.True(t, known)
			assert.Equal(t, tt.want, want{f.Stage, f.Cause, f.Code, sent}, "%v\nat %v, chain %v", err, at, f.Chain)
			assert.False(t, netcause.Cancelled(t.Context(), err, time.Now()), "not cancelled: %v", err)
			assert.NotEmpty(t, f.Chain)
			assert.LessOrEqual(t, len(f.Chain), 5)
			assert.NotContains(t, fmt.Sprint(f), "secret")
		})
	}
}

// idleConn has an idle timeout, which some custom dialers set on their connections.
type idleConn struct{ net.Conn }

func (c idleConn) Read(p []byte) (int, error) {
	_ = c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	return c.Conn.Read(p)
}

// writeOnly blocks its readers until the connection is closed, so that only a write can
// fail. net/http closes a connection that cannot be written; its reader sees that, and
// net/http returns whichever of the two errors comes first.
type writeOnly struct {
	net.Conn
	over context.Context
}

func (c writeOnly) Read([]byte) (int, error) {
	<-c.over.Done()
	return 0, net.ErrClosed
}

// socks returns a SOCKS proxy that sends the answers one after the other.
func socks(t *testing.T, answers ...string) (addr string) {
	t.Helper()
	return nettest.Listen(t, func(c net.Conn) {
		for _, text := range answers {
			if _, err := c.Read(make([]byte, 512)); err != nil {
				return
			}
			_, _ = io.WriteString(c, text)
		}
		nettest.Wait(c)
	})
}

// TestClosedInHead closes a connection after every byte of a response's head.
func TestClosedInHead(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nX-Request-Id: req_1\r\nConnection: close\r\n\r\n"
	cuts := make(chan int, 1)
	addr := nettest.Listen(t, func(c net.Conn) { answer(head[:<-cuts], finish)(c) })
	for cut := range len(head) {
		cuts <- cut
		rt := &http.Transport{}
		at, _, err := post(t, t.Context(), rt, "http://"+addr, strings.NewReader("{}"))
		rt.CloseIdleConnections()
		if at == semconv.TransportStageBody { // the last line break is not needed
			assert.Equal(t, len(head)-1, cut)
			continue
		}
		f := netcause.Of(err, at)
		assert.Equal(t, semconv.TransportCauseClosedBeforeHeaders, f.Cause, "%q: %v", head[:cut], err)
		assert.Equal(t, semconv.TransportStageHeaders, f.Stage)
	}
}

// TestInvalidRequests checks requests that are invalid by themselves, over both versions
// of HTTP. net/http reports them before it sends anything, or while it sends.
func TestInvalidRequests(t *testing.T) {
	h1 := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
	h2 := httptest.NewUnstartedServer(h1.Config.Handler)
	h2.EnableHTTP2 = true
	h2.StartTLS()
	t.Cleanup(h1.Close)
	t.Cleanup(h2.Close)
	h1.Client().Transport.(*http.Transport).DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		var d net.Dialer
		c, err := d.DialContext(ctx, network, addr)
		return writeOnly{c, t.Context()}, err
	}
	failing := io.MultiReader(strings.NewReader("{"), iotest.ErrReader(errors.New("secret")))
	for name, tt := range map[string]struct {
		change func(*http.Request)
		cause  semconv.TransportCause
		h1only bool // over HTTP/2 the server detects it
	}{
		"no scheme":            {func(r *http.Request) { r.URL.Scheme = "" }, semconv.TransportCauseInvalidURL, false},
		"host for a scheme":    {func(r *http.Request) { r.URL = &url.URL{Scheme: "localhost", Opaque: "8080/v1"} }, semconv.TransportCauseInvalidURL, false},
		"unknown scheme":       {func(r *http.Request) { r.URL.Scheme = "ftp" }, semconv.TransportCauseInvalidURL, false},
		"no host":              {func(r *http.Request) { r.URL.Host = "" }, semconv.TransportCauseInvalidURL, false},
		"no URL":               {func(r *http.Request) { r.URL = nil }, semconv.TransportCauseInvalidURL, false},
		"port out of range":    {func(r *http.Request) { r.URL.Host = "127.0.0.1:65536" }, semconv.TransportCauseInvalidURL, false},
		"no headers":           {func(r *http.Request) { r.Header = nil }, semconv.TransportCauseInvalidRequest, false},
		"header name":          {func(r *http.Request) { r.Header["a b"] = []string{"c"} }, semconv.TransportCauseInvalidRequest, false},
		"header value":         {func(r *http.Request) { r.Header.Set("Authorization", "secret\n") }, semconv.TransportCauseInvalidRequest, false},
		"method":               {func(r *http.Request) { r.Method = "P O" }, semconv.TransportCauseInvalidRequest, true},
		"length without body":  {func(r *http.Request) { r.ContentLength, r.Body = 7, nil }, semconv.TransportCauseInvalidRequest, true},
		"body longer":          {func(r *http.Request) { r.ContentLength = 1 }, semconv.TransportCauseInvalidRequest, false},
		"body shorter":         {func(r *http.Request) { r.ContentLength = 7 }, semconv.TransportCauseInvalidRequest, true},
		"connection header":    {func(r *http.Request) { r.Header.Set("Connection", "secret") }, semconv.TransportCauseInvalidRequest, false},
		"a body that fails":    {func(r *http.Request) { r.Body = io.NopCloser(failing) }, semconv.TransportCauseUnset, false},
		"control in the path":  {func(r *http.Request) { r.URL.Opaque = "//h/a\x01b" }, semconv.TransportCauseInvalidURL, true},
		"path of another kind": {func(r *http.Request) { r.URL.Opaque = "v1/messages" }, semconv.TransportCauseInvalidURL, false},
	} {
		for _, s := range []*httptest.Server{h1, h2} {
			if s == h2 && tt.h1only || s == h1 && (name == "connection header" || name == "path of another kind") {
				continue
			}
			t.Run(fmt.Sprint(name, " h2=", s == h2), func(t *testing.T) {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL, strings.NewReader("{}"))
				require.NoError(t, err)
				trace := newTrace(req.URL, time.Now)
				tt.change(req)
				resp, err := s.Client().Transport.RoundTrip(req.WithContext(httptrace.WithClientTrace(t.Context(), trace.Hooks())))
				if err == nil {
					resp.Body.Close()
				}
				require.Error(t, err)
				f := netcause.Of(err, trace.Stage())
				assert.Equal(t, tt.cause, f.Cause, "%T %v", err, err)
				assert.Empty(t, f.Code)
				assert.NotContains(t, fmt.Sprint(f), "secret")
				if tt.cause == semconv.TransportCauseInvalidURL {
					assert.Equal(t, semconv.TransportStageUnset, f.Stage)
				}
			})
		}
	}
}

// net/http itself retries on a new connection if the old one is stale, and the trace
// records that.
func TestTraceResend(t *testing.T) {
	conns := make(chan struct{}, 10)
	addr := nettest.Listen(t, func(c net.Conn) {
		conns <- struct{}{}
		if nettest.ReadRequest(c) == nil {
			return
		}
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		_ = nettest.ReadRequest(c) // the second request gets no answer
		_ = c.Close()
	})
	rt := &http.Transport{}
	t.Cleanup(rt.CloseIdleConnections)
	_, trace, err := post(t, t.Context(), rt, "http://"+addr, strings.NewReader("{}"))
	require.NoError(t, err)
	assert.Zero(t, trace.Resends())
	assert.False(t, trace.WrittenAt().IsZero())

	req, err := http.NewRequest(http.MethodPost, "http://"+addr, strings.NewReader("{}"))
	require.NoError(t, err)
	req.Header.Set("Idempotency-Key", "1") // otherwise net/http does not repeat a POST
	trace = newTrace(&url.URL{Scheme: "http", Host: addr}, time.Now)
	resp, err := rt.RoundTrip(req.WithContext(httptrace.WithClientTrace(t.Context(), trace.Hooks())))
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, resp.Body) // to the end, so that the connection is kept
	require.NoError(t, err)
	resp.Body.Close()
	assert.Equal(t, 1, trace.Resends())
	assert.Len(t, conns, 2)

	// Without that header the error is returned.
	at, trace, err := post(t, t.Context(), rt, "http://"+addr, strings.NewReader("{}"))
	require.Error(t, err)
	assert.Equal(t, semconv.TransportCauseClosedBeforeHeaders, netcause.Of(err, at).Cause)
	sent, _ := trace.Sent()
	assert.True(t, sent)
}

func TestOfWords(t *testing.T) {
	for _, tt := range []struct {
		name  string
		err   error
		at    semconv.TransportStage
		cause semconv.TransportCause
		code  string
	}{
		{"goaway that cannot be retried", errors.New("http2: Transport: cannot retry err [http2: Transport received Server's graceful shutdown GOAWAY] after Request.Body was written; define Request.GetBody to avoid this error"), semconv.TransportStageHeaders, semconv.TransportCauseH2Goaway, "NO_ERROR"},
		{"refused stream that cannot be retried", errors.New("http2: Transport: cannot retry err [stream error: stream ID 7; REFUSED_STREAM; received from peer] after Request.Body was written; define Request.GetBody to avoid this error"), semconv.TransportStageHeaders, semconv.TransportCauseH2StreamReset, "REFUSED_STREAM"},
		{"what is not a code is not repeated", errors.New("http2: Transport received GOAWAY from server ErrCode:hunter2"), semconv.TransportStageHeaders, semconv.TransportCauseH2Goaway, ""},
		{"idle connection closed as it was taken", fmt.Errorf("net/http: HTTP/1.x transport connection broken: %w", errors.New("http: server closed idle connection")), semconv.TransportStageWrite, semconv.TransportCauseClosedBeforeHeaders, ""},
		{"free text that mentions a message", errors.New("tool said: http2: client connection lost"), semconv.TransportStageBody, semconv.TransportCauseUnset, ""},
		{"a foreign type that borrows a message", foreign("http2: client connection lost"), semconv.TransportStageBody, semconv.TransportCauseUnset, ""},
		{"the outermost decides", &net.OpError{Op: "proxyconnect", Net: "tcp", Err: &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}}, semconv.TransportStageConnect, semconv.TransportCauseProxy, "ECONNREFUSED"},
		{"joined errors", errors.Join(nil, io.ErrUnexpectedEOF), semconv.TransportStageBody, semconv.TransportCauseBodyTruncated, ""},
		{"unwraps to nothing", wrapped{}, semconv.TransportStageBody, semconv.TransportCauseUnset, ""},
		{"a panicking error", bomb{}, semconv.TransportStageBody, semconv.TransportCauseUnset, ""},
		{"closed under the request", net.ErrClosed, semconv.TransportStageBody, semconv.TransportCauseConnectionLost, ""},
		{"closed in a handshake by this side", net.ErrClosed, semconv.TransportStageTLS, semconv.TransportCauseTLS, "HANDSHAKE"},
		{"a read that failed on the way", &net.OpError{Op: "read", Err: os.NewSyscallError("read", syscall.ETIMEDOUT)}, semconv.TransportStageBody, semconv.TransportCauseConnectionLost, "ETIMEDOUT"},
		{"an errno without an operation, dialling", syscall.ENETUNREACH, semconv.TransportStageConnect, semconv.TransportCauseConnectUnreachable, "ENETUNREACH"},
		{"timed out by the kernel, dialling", syscall.ETIMEDOUT, semconv.TransportStageConnect, semconv.TransportCauseConnectTimeout, "ETIMEDOUT"},
		{"an errno without an operation, in a handshake", syscall.ECONNRESET, semconv.TransportStageTLS, semconv.TransportCauseTLS, "ECONNRESET"},
		{"a broken pipe in the body", syscall.EPIPE, semconv.TransportStageBody, semconv.TransportCauseConnectionReset, "EPIPE"},
		{"a broken pipe before it", syscall.EPIPE, semconv.TransportStageWrite, semconv.TransportCauseWriteFailed, "EPIPE"},
		{"an errno that networks do not have", syscall.ENOENT, semconv.TransportStageBody, semconv.TransportCauseUnset, ""},
		{"too slow, resolving", os.ErrDeadlineExceeded, semconv.TransportStageDNS, semconv.TransportCauseDNSTemporary, ""},
		{"too slow, at the proxy", os.ErrDeadlineExceeded, semconv.TransportStageProxy, semconv.TransportCauseProxy, ""},
		{"too slow, writing", os.ErrDeadlineExceeded, semconv.TransportStageWrite, semconv.TransportCauseWriteFailed, "TIMEOUT"},
		{"too slow, awaiting headers", os.ErrDeadlineExceeded, semconv.TransportStageHeaders, semconv.TransportCauseHeaderTimeout, ""},
		{"a scheme mismatch", http.ErrSchemeMismatch, semconv.TransportStageUnset, semconv.TransportCauseTLS, "NOT_TLS"},
		{"an unknown alert", tls.AlertError(199), semconv.TransportStageTLS, semconv.TransportCauseTLS, "HANDSHAKE"},
		{"no stage known, EOF", io.EOF, semconv.TransportStageUnset, semconv.TransportCauseClosedBeforeHeaders, ""},
		{"alert after the handshake", &net.OpError{Op: "remote error", Err: tls.AlertError(80)}, semconv.TransportStageBody, semconv.TransportCauseConnectionLost, "INTERNAL_ERROR"},
		{"alert about a certificate in the body", &net.OpError{Op: "remote error", Err: tls.AlertError(116)}, semconv.TransportStageBody, semconv.TransportCauseConnectionLost, "CERTIFICATE_VERIFY_FAILED"},
		{"alert about our certificate, late", &net.OpError{Op: "remote error", Err: tls.AlertError(116)}, semconv.TransportStageHeaders, semconv.TransportCauseTLS, "CERTIFICATE_VERIFY_FAILED"},
		{"alert about our certificate", &net.OpError{Op: "remote error", Err: tls.AlertError(42)}, semconv.TransportStageTLS, semconv.TransportCauseTLS, "CERTIFICATE_VERIFY_FAILED"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := netcause.Of(tt.err, tt.at)
			assert.Equal(t, tt.cause, f.Cause)
			assert.Equal(t, tt.code, f.Code)
		})
	}
	assert.Zero(t, netcause.Of(nil, semconv.TransportStageBody))
}

type foreign string

func (f foreign) Error() string { return string(f) }

type wrapped struct{}

func (wrapped) Error() string { return "wrapped" }
func (wrapped) Unwrap() error { return nil }

type bomb struct{}

func (bomb) Error() string { panic("Error") }
func (bomb) Unwrap() error { panic("Unwrap") }
func (bomb) Timeout() bool { panic("Timeout") }

func TestChainIsBoundedAndKeepsTheRoot(t *testing.T) {
	err := error(&net.OpError{Op: "read", Err: os.NewSyscallError("read", syscall.ECONNRESET)})
	for range 10 {
		err = fmt.Errorf("secret: %w", err)
	}
	f := netcause.Of(err, semconv.TransportStageBody)
	assert.Equal(t, semconv.TransportCauseConnectionReset, f.Cause)
	assert.Equal(t, []string{"*fmt.wrapError", "*fmt.wrapError", "*fmt.wrapError", "*fmt.wrapError", "syscall.Errno"}, f.Chain)
}

var errTyped = errors.New("typed cause")

// The error itself distinguishes an abort from a failure.
func TestCancelled(t *testing.T) {
	silent := func(t *testing.T) (http.RoundTripper, string) {
		return &http.Transport{}, "http://" + nettest.Listen(t, answer(chunkedHead+chunk, nettest.Wait))
	}
	silentH2 := func(t *testing.T) (http.RoundTripper, string) {
		target, client := nettest.ListenH2(t, func(c *nettest.H2Conn, id uint32) { c.Headers(id, "text/event-stream"); c.Data(id, "hello") })
		return &http.Transport{TLSClientConfig: client, ForceAttemptHTTP2: true}, target
	}
	mute := func(t *testing.T) (http.RoundTripper, string) {
		return &http.Transport{}, "http://" + nettest.Listen(t, nettest.Wait)
	}
	muteH2 := func(t *testing.T) (http.RoundTripper, string) {
		target, client := nettest.ListenH2(t, func(*nettest.H2Conn, uint32) {})
		return &http.Transport{TLSClientConfig: client, ForceAttemptHTTP2: true}, target
	}
	slowDial := func(t *testing.T) (http.RoundTripper, string) {
		return &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}}, "http://127.0.0.1:1"
	}
	for _, server := range []struct {
		name  string
		setup func(*testing.T) (http.RoundTripper, string)
	}{{"in the body", silent}, {"in the body, HTTP/2", silentH2}, {"before headers", mute}, {"before headers, HTTP/2", muteH2}, {"dialling", slowDial}} {
		for _, how := range []struct {
			name string
			ctx  func(context.Context) (context.Context, func())
		}{
			{"cancel", func(ctx context.Context) (context.Context, func()) {
				ctx, cancel := context.WithCancel(ctx)
				time.AfterFunc(20*time.Millisecond, cancel)
				return ctx, cancel
			}},
			{"typed cancel", func(ctx context.Context) (context.Context, func()) {
				ctx, cancel := context.WithCancelCause(ctx)
				time.AfterFunc(20*time.Millisecond, func() { cancel(errTyped) })
				return ctx, func() { cancel(nil) }
			}},
			{"deadline", func(ctx context.Context) (context.Context, func()) {
				return context.WithTimeout(ctx, 20*time.Millisecond)
			}},
		} {
			t.Run(server.name+"/"+how.name, func(t *testing.T) {
				rt, target := server.setup(t)
				t.Cleanup(rt.(*http.Transport).CloseIdleConnections)
				ctx, cancel := how.ctx(t.Context())
				defer cancel()
				_, _, err := post(t, ctx, rt, target, strings.NewReader("{}"))
				require.Error(t, err)
				assert.True(t, netcause.Cancelled(ctx, err, time.Now()), "%T %v", err, err)
			})
		}
	}

	t.Run("a failure while the context ends is a failure", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errTyped)
		for _, err := range []error{io.ErrUnexpectedEOF, syscall.ECONNRESET, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}} {
			assert.False(t, netcause.Cancelled(ctx, err, time.Now()), "%v", err)
		}
	})
	t.Run("net/http's own timeout is no deadline", func(t *testing.T) {
		rt := &http.Transport{ResponseHeaderTimeout: time.Millisecond}
		_, _, err := post(t, t.Context(), rt, "http://"+nettest.Listen(t, nettest.Wait), strings.NewReader("{}"))
		require.ErrorIs(t, err, context.DeadlineExceeded, "this is the trap")
		ctx, cancel := context.WithTimeout(t.Context(), 0)
		defer cancel()
		assert.False(t, netcause.Cancelled(ctx, err, time.Now()), "even when the caller's is over as well")
	})
	t.Run("a dial that the caller's deadline cut", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
		defer cancel()
		var d net.Dialer
		_, err := d.DialContext(ctx, "tcp", nettest.Listen(t, nettest.Wait))
		require.Error(t, err)
		assert.True(t, netcause.Cancelled(ctx, err, time.Now()), "%v", err)
	})
	t.Run("no error", func(t *testing.T) {
		assert.False(t, netcause.Cancelled(t.Context(), nil, time.Now()))
		assert.False(t, netcause.Cancelled(t.Context(), bomb{}, time.Now()))
	})
}

type uncomparable struct{ _ []int }

func (uncomparable) Error() string { return "secret" }

func TestHolds(t *testing.T) {
	_, timeout := net.DialTimeout("tcp", "127.0.0.1:1", 1)
	require.ErrorIs(t, timeout, context.DeadlineExceeded, "this is the trap")
	for _, tt := range []struct {
		name        string
		err, target error
		want        bool
	}{
		{"itself", context.DeadlineExceeded, context.DeadlineExceeded, true},
		{"wrapped", fmt.Errorf("x: %w", &url.Error{Err: context.DeadlineExceeded}), context.DeadlineExceeded, true},
		{"what claims to be it", timeout, context.DeadlineExceeded, false},
		{"another", io.EOF, context.DeadlineExceeded, false},
		{"none", nil, context.DeadlineExceeded, false},
		{"no target", io.EOF, nil, false},
		{"one that cannot be compared", uncomparable{}, uncomparable{}, false},
		{"one that panics", bomb{}, io.EOF, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, tt.want, netcause.Holds(tt.err, tt.target))
		})
	}
}

func TestClosedHere(t *testing.T) {
	h2, client := nettest.ListenH2(t, func(c *nettest.H2Conn, id uint32) { c.Headers(id, "text/event-stream"); c.Data(id, "hello") })
	for name, target := range map[string]string{
		"HTTP/1": "http://" + nettest.Listen(t, answer(chunkedHead+chunk, nettest.Wait)),
		"HTTP/2": h2,
	} {
		t.Run(name, func(t *testing.T) {
			rt := &http.Transport{TLSClientConfig: client, ForceAttemptHTTP2: true}
			t.Cleanup(rt.CloseIdleConnections)
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, target, http.NoBody)
			require.NoError(t, err)
			resp, err := rt.RoundTrip(req)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			_, err = resp.Body.Read(make([]byte, 1))
			assert.True(t, netcause.ClosedHere(err), "%v", err)
		})
	}
	assert.False(t, netcause.ClosedHere(io.ErrUnexpectedEOF))
}

func TestRootType(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want string
	}{
		{errors.New("x"), "*errors.errorString"},
		{fmt.Errorf("x: %w", errors.New("x")), "*errors.errorString"},
		{&os.PathError{Err: syscall.ENOENT}, "syscall.Errno"},
		{&net.OpError{Err: errors.New("x")}, "*net.OpError"},
		{fmt.Errorf("x: %w", errors.Join(nil, foreign("x"))), "netcause_test.foreign"},
		{bomb{}, "netcause_test.bomb"},
		{generic[struct{ LongName map[string]map[string]int }]{}, ""},
	} {
		got := netcause.RootType(tt.err)
		assert.LessOrEqual(t, len(got), 256)
		if tt.want != "" {
			assert.Equal(t, tt.want, got)
		}
	}
}

type generic[T any] struct{}

func (generic[T]) Error() string { return "" }

// A connection that this process closed was closed on purpose if the context was
// cancelled, and lost otherwise.
func TestCancelledByClosing(t *testing.T) {
	closed := &net.OpError{Op: "read", Net: "tcp", Err: net.ErrClosed}
	ctx, cancel := context.WithCancel(t.Context())
	assert.False(t, netcause.Cancelled(ctx, closed, time.Now()))
	cancel()
	assert.True(t, netcause.Cancelled(ctx, closed, time.Now()))
	assert.False(t, netcause.Cancelled(ctx, &net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", syscall.ECONNRESET)}, time.Now()), "broken, not closed")
	assert.Equal(t, semconv.TransportCauseConnectionLost, netcause.Of(closed, semconv.TransportStageBody).Cause)
}

// A custom RoundTripper may dial under the request's context and call no other hook. If it
// reports no connection, that does not mean that nothing was sent.
func TestTraceOfDialerAlone(t *testing.T) {
	received := make(chan *http.Request, 1)
	addr := nettest.Listen(t, func(c net.Conn) { received <- nettest.ReadRequest(c); _ = c.Close() })
	_, port, err := net.SplitHostPort(addr)
	require.NoError(t, err)
	target := &url.URL{Scheme: "http", Host: net.JoinHostPort("localhost", port)} // a name that has to be resolved
	trace := newTrace(target, time.Now)
	var dialer net.Dialer
	conn, err := dialer.DialContext(httptrace.WithClientTrace(t.Context(), trace.Hooks()), "tcp4", target.Host)
	require.NoError(t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}")
	require.NoError(t, err)
	require.NotNil(t, <-received)

	_, known := trace.Sent()
	assert.False(t, known)
	assert.Equal(t, semconv.TransportStageUnset, trace.Stage())
}

func newTrace(target *url.URL, now func() time.Time) *netcause.Trace {
	t := &netcause.Trace{}
	t.Init(target, now)
	return t
}
