package proxy

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	oteltrace "go.opentelemetry.io/otel/trace"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// h2Peer is the upstream's end of a connection of HTTP/2, after a request has come.
type h2Peer struct {
	*http2.Framer

	tcp    *net.TCPConn
	stream uint32
}

func (p *h2Peer) headers(t *testing.T, fields ...string) {
	t.Helper()
	var block bytes.Buffer
	e := hpack.NewEncoder(&block)
	for i := 0; i < len(fields); i += 2 {
		_ = e.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]}) // to a buffer
	}
	assert.NoError(t, p.WriteHeaders(http2.HeadersFrameParam{StreamID: p.stream, BlockFragment: block.Bytes(), EndHeaders: true}))
}

func (p *h2Peer) reset() {
	_ = p.tcp.SetLinger(0)
	_ = p.tcp.Close()
}

// close sends a FIN. Closing alone would be a reset: there are frames that were not read.
func (p *h2Peer) close() {
	_ = p.tcp.CloseWrite()
	_, _ = io.Copy(io.Discard, p.tcp)
}

// serveHTTP2 starts a server of raw frames over TLS. It calls serve for each request.
func serveHTTP2(t *testing.T, serve func(p *h2Peer)) (u *upstream, to *url.URL, trusting *http.Transport) {
	t.Helper()
	certified := httptest.NewUnstartedServer(http.NotFoundHandler())
	certified.StartTLS()
	t.Cleanup(certified.Close)
	config := &tls.Config{Certificates: certified.TLS.Certificates, NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS12}
	u = serveRaw(t, func(u *upstream, p *peer) {
		conn := tls.Server(p.TCPConn, config)
		preface := make([]byte, len(http2.ClientPreface))
		if _, err := io.ReadFull(conn, preface); err != nil {
			return
		}
		f := http2.NewFramer(conn, conn)
		_ = f.WriteSettings()
		for {
			frame, err := f.ReadFrame()
			if err != nil {
				return
			}
			switch frame := frame.(type) {
			case *http2.SettingsFrame:
				if !frame.IsAck() {
					_ = f.WriteSettingsAck()
				}
			case *http2.HeadersFrame, *http2.DataFrame:
				if _, ok := frame.(*http2.HeadersFrame); ok {
					u.requests.Add(1)
				}
				if frame.Header().Flags.Has(http2.FlagDataEndStream) {
					serve(&h2Peer{f, p.TCPConn, frame.Header().StreamID})
				}
			}
		}
	})
	roots := certified.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	return u, &url.URL{Scheme: "https", Host: u.Addr().String()}, &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
}

func TestKindOfFailureOverHTTP2(t *testing.T) {
	begin := func(p *h2Peer) {
		p.headers(t, ":status", "200", "content-type", "text/event-stream")
		assert.NoError(t, p.WriteData(p.stream, false, []byte(event)))
	}
	for _, tt := range []struct {
		name     string
		serve    func(p *h2Peer)
		end      string // of the client's connection
		answered bool
		cause    string
	}{
		{"stream refused", func(p *h2Peer) { _ = p.WriteRSTStream(p.stream, http2.ErrCodeRefusedStream) }, rst, false, "h2_stream_reset"},
		{"stream reset before the headers", func(p *h2Peer) { _ = p.WriteRSTStream(p.stream, http2.ErrCodeInternal) }, rst, false, "h2_stream_reset"},
		{"stream reset within the body", func(p *h2Peer) { begin(p); _ = p.WriteRSTStream(p.stream, http2.ErrCodeInternal) }, rst, true, "h2_stream_reset"},
		{"connection ended before the headers", func(p *h2Peer) { _ = p.WriteGoAway(0, http2.ErrCodeNo, nil); p.close() }, fin, false, "h2_goaway"},
		{"connection ended within the body", func(p *h2Peer) { begin(p); _ = p.WriteGoAway(0, http2.ErrCodeEnhanceYourCalm, nil); p.close() }, fin, true, "h2_goaway"},
		{"connection closed before the headers", func(p *h2Peer) { p.close() }, fin, false, "closed_before_headers"},
		{"connection closed within the body", func(p *h2Peer) { begin(p); p.close() }, fin, true, "body_truncated"},
		{"connection reset before the headers", func(p *h2Peer) { p.reset() }, rst, false, "connection_reset"},
		{"connection reset within the body", func(p *h2Peer) { begin(p); p.reset() }, rst, true, "connection_reset"},
		{"whole", func(p *h2Peer) { begin(p); _ = p.WriteData(p.stream, true, []byte(whole)) }, "", true, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			up, to, trusting := serveHTTP2(t, tt.serve)
			proxy := start(t, to, func(c *Config) { c.Transport = trusting })

			t.Run("a client of HTTP/1", func(t *testing.T) {
				got, end := exchangeRaw(t, proxy.addr, post(proxy.addr, "/v1/chat/completions", "Connection: close"))
				if tt.end != "" {
					assert.Equal(t, tt.end, end)
				}
				if !tt.answered {
					assert.Empty(t, got)
				} else {
					_, content, err := body(t, got)
					assert.True(t, strings.HasPrefix(content, event))
					assert.Equal(t, tt.end != "", err != nil)
				}
				assert.EqualValues(t, 1, up.requests.Swap(0))
				cause := attributes(proxy.ended(t, oteltrace.SpanKindClient, 1)[0])["llm.transport.cause"]
				if cause == "write_failed" { // by a frame that was on its way to the upstream
					cause = "connection_reset"
				}
				assert.Equal(t, tt.cause, cause)
			})
			t.Run("a client of HTTP/2", func(t *testing.T) {
				protocols := &http.Protocols{}
				protocols.SetUnencryptedHTTP2(true)
				transport := &http.Transport{Protocols: protocols}
				defer transport.CloseIdleConnections()
				resp, err := (&http.Client{Transport: transport}).Post("http://"+proxy.addr+"/v1/chat/completions", "application/json", strings.NewReader(chatBody))
				if tt.answered {
					require.NoError(t, err)
					assert.Equal(t, 2, resp.ProtoMajor)
					var content []byte
					content, err = io.ReadAll(resp.Body)
					assert.True(t, strings.HasPrefix(string(content), event))
					require.NoError(t, resp.Body.Close())
				}
				if tt.end != "" {
					assert.Equal(t, streamReset, http2Error(err), "%v", err)
				} else {
					require.NoError(t, err)
				}
				assert.EqualValues(t, 1, up.requests.Load())
			})
		})
	}
}

// A client makes as many attempts behind the proxy as without it, over HTTP/1 as over HTTP/2. The
// exception is what a client of HTTP/2 repeats unasked, since it cannot be told.
func TestAttemptsOverHTTP2(t *testing.T) {
	begin := func(p *h2Peer) {
		p.headers(t, ":status", "200", "content-type", "text/event-stream")
		assert.NoError(t, p.WriteData(p.stream, false, []byte(event)))
	}
	for _, tt := range []struct {
		name           string
		first          func(p *h2Peer) // what becomes of the first request
		direct, behind int             // attempts
	}{
		{"stream refused", func(p *h2Peer) { _ = p.WriteRSTStream(p.stream, http2.ErrCodeRefusedStream) }, 2, 1},
		{"connection ended before the headers", func(p *h2Peer) { _ = p.WriteGoAway(0, http2.ErrCodeNo, nil); p.close() }, 2, 1},
		{"stream reset before the headers", func(p *h2Peer) { _ = p.WriteRSTStream(p.stream, http2.ErrCodeInternal) }, 1, 1},
		{"stream reset within the body", func(p *h2Peer) { begin(p); _ = p.WriteRSTStream(p.stream, http2.ErrCodeInternal) }, 1, 1},
		{"connection ended within the body", func(p *h2Peer) { begin(p); _ = p.WriteGoAway(0, http2.ErrCodeNo, nil); p.close() }, 1, 1},
		{"connection closed before the headers", func(p *h2Peer) { p.close() }, 1, 1},
		{"connection reset before the headers", func(p *h2Peer) { p.reset() }, 1, 1},
		{"connection reset within the body", func(p *h2Peer) { begin(p); p.reset() }, 1, 1},
		{"whole", func(p *h2Peer) { begin(p); _ = p.WriteData(p.stream, true, []byte(whole)) }, 1, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var served atomic.Int32
			up, to, trusting := serveHTTP2(t, func(p *h2Peer) {
				if served.Add(1) == 1 {
					tt.first(p)
					return
				}
				begin(p)
				_ = p.WriteData(p.stream, true, []byte(whole))
			})
			proxy := start(t, to, func(c *Config) { c.Transport = trusting })
			direct := trusting.Clone()
			direct.ForceAttemptHTTP2 = true
			http1, http2c := &http.Transport{}, &http.Transport{Protocols: &http.Protocols{}}
			http2c.Protocols.SetUnencryptedHTTP2(true)
			// ask returns how many requests come, and whether the answer does.
			ask := func(base string, transport *http.Transport) (attempts int, answered bool) {
				defer transport.CloseIdleConnections()
				served.Store(0)
				up.requests.Store(0)
				resp, err := (&http.Client{Transport: transport}).Post(base+"/v1/chat/completions", "application/json", strings.NewReader(chatBody))
				if err == nil {
					_, err = io.Copy(io.Discard, resp.Body)
					require.NoError(t, resp.Body.Close())
				}
				return int(up.requests.Load()), err == nil
			}
			attempts, answered := ask(to.String(), direct)
			assert.Equal(t, tt.direct, attempts, "without the proxy")
			assert.Equal(t, tt.direct == 2 || tt.name == "whole", answered)
			for _, transport := range []*http.Transport{http1, http2c} {
				attempts, answered := ask(proxy.url().String(), transport)
				assert.Equal(t, tt.behind, attempts, "behind the proxy")
				assert.Equal(t, tt.name == "whole", answered)
			}
		})
	}
}

// The requests of one client's connection share connections upstream, and no others do.
func TestConnectionsFollowTheClient(t *testing.T) {
	var connections atomic.Int32
	up := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Proto) }))
	up.EnableHTTP2 = true
	up.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	up.StartTLS()
	defer up.Close()
	to, _ := url.Parse(up.URL)
	proxy := start(t, to, func(c *Config) { c.Transport = up.Client().Transport.(*http.Transport) })
	for client := range 2 {
		transport := &http.Transport{}
		for range 3 {
			resp, err := (&http.Client{Transport: transport}).Get("http://" + proxy.addr + "/v1/models")
			require.NoError(t, err)
			got, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			assert.Equal(t, "HTTP/2.0", string(got))
			assert.EqualValues(t, client+1, connections.Load())
		}
		transport.CloseIdleConnections()
	}
}
