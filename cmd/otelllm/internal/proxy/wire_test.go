package proxy

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	oteltrace "go.opentelemetry.io/otel/trace"
)

// The upstream gets the request that the client sent.
func TestRequestAsSent(t *testing.T) {
	got := make(chan string, 1)
	up := serveRaw(t, func(_ *upstream, p *peer) {
		got <- p.request()
		p.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
		p.request()
	})
	proxy := start(t, up.url())
	for _, tt := range []struct{ name, path, headers string }{
		{"few headers", "/v1/chat/completions", ""},
		{"an agent's", "/v1/chat/completions", "User-Agent: codex/1.0\r\nAccept: text/event-stream\r\nAuthorization: Bearer sk-secret\r\n"},
		{"trace context", "/v1/chat/completions", "Traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\nTracestate: a=b\r\nBaggage: c=d\r\n"},
		{"encodings", "/v1/chat/completions", "Accept-Encoding: br, zstd\r\n"},
		{"forwarding", "/v1/chat/completions", "Forwarded: for=a\r\nX-Forwarded-For: 1.2.3.4\r\nX-Forwarded-Host: h\r\nX-Forwarded-Proto: https\r\nVia: x\r\n"},
		{"a query", "/v1beta/models/g:streamGenerateContent?alt=sse&key=a;b&c=%zz&d", ""},
		{"an escaped path", "/v1/models/a%2Fb%20c", ""},
		{"an unusual path", "/v1//models/a|b/%7e", ""},
		{"an empty query", "/v1/models?", ""},
		{"two values", "/v1/models", "X-Twice: a\r\nX-Twice: b\r\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			conn := dial(t, proxy.addr)
			_, err := io.WriteString(conn, "POST "+tt.path+" HTTP/1.1\r\nHost: "+proxy.addr+"\r\nContent-Length: 4\r\nContent-Type: text/plain\r\n"+
				tt.headers+"\r\nbody")
			require.NoError(t, err)
			sent := <-got
			line, rest, _ := strings.Cut(sent, "\r\n")
			assert.Equal(t, "POST "+tt.path+" HTTP/1.1", line)
			head, content, _ := strings.Cut(rest, "\r\n\r\n")
			assert.Equal(t, "body", content)
			want := strings.Split(strings.TrimSuffix("Host: "+up.Addr().String()+"\r\nContent-Length: 4\r\nContent-Type: text/plain\r\n"+tt.headers, "\r\n"), "\r\n")
			assert.ElementsMatch(t, want, strings.Split(head, "\r\n"))
		})
	}
}

// The client gets the response that the upstream sent.
func TestResponseAsSent(t *testing.T) {
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	_, _ = io.WriteString(w, whole)
	require.NoError(t, w.Close())
	for _, tt := range []struct{ name, response string }{
		{"no headers", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n<a"},
		{"all headers", "HTTP/1.1 200 OK\r\nDate: Mon, 02 Jan 2006 15:04:05 GMT\r\nServer: x\r\nContent-Type: a/b\r\nX-Request-Id: r\r\nContent-Length: 2\r\n\r\nhi"},
		{"an error", "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 3\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"},
		{"an error of the gateway's", "HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n"},
		{"no content", "HTTP/1.1 204 No Content\r\nX-A: b\r\n\r\n"},
		{"gzip", "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: gzip\r\nContent-Length: " +
			strconv.Itoa(zipped.Len()) + "\r\n\r\n" + zipped.String()},
		{"early hints", "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"},
		{"a redirect", "HTTP/1.1 307 Temporary Redirect\r\nLocation: https://elsewhere/\r\nContent-Length: 0\r\n\r\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			up := serveRaw(t, func(_ *upstream, p *peer) {
				p.request()
				p.send(tt.response)
				p.request()
			})
			proxy := start(t, up.url())
			conn := dial(t, proxy.addr)
			_, err := io.WriteString(conn, post(proxy.addr, "/v1/chat/completions"))
			require.NoError(t, err)
			got := make([]byte, len(tt.response))
			n, err := io.ReadFull(conn, got)
			require.NoError(t, err, "%q", got[:n])
			wantParts, gotParts := strings.Split(tt.response, "\r\n\r\n"), strings.Split(string(got), "\r\n\r\n")
			require.Len(t, gotParts, len(wantParts))
			for i := range wantParts {
				assert.ElementsMatch(t, strings.Split(wantParts[i], "\r\n"), strings.Split(gotParts[i], "\r\n"))
			}
		})
	}
}

func TestTrailers(t *testing.T) {
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Trailer", "X-Announced")
		_, _ = io.WriteString(w, "a")
		w.(http.Flusher).Flush()
		w.Header().Set("X-Announced", r.Trailer.Get("X-Of-Request"))
		w.Header().Set(http.TrailerPrefix+"X-Sudden", "2")
	}))
	defer up.Close()
	to, _ := url.Parse(up.URL)
	proxy := start(t, to)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+proxy.addr+"/v1/models", strings.NewReader("body"))
	require.NoError(t, err)
	req.ContentLength, req.Trailer = -1, http.Header{"X-Of-Request": {"1"}}
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	_, err = io.ReadAll(resp.Body)
	require.NoError(t, err)
	assert.Equal(t, http.Header{"X-Announced": {"1"}, "X-Sudden": {"2"}}, resp.Trailer)
}

// A client that waits for 100 (Continue) gets what the upstream says.
func TestExpectContinue(t *testing.T) {
	head := "POST /v1/models HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n"
	t.Run("go on", func(t *testing.T) {
		up := serveRaw(t, func(_ *upstream, p *peer) {
			for line := ""; line != "\r\n"; {
				line, _ = p.r.ReadString('\n')
			}
			p.send("HTTP/1.1 100 Continue\r\n\r\n")
			read := make([]byte, 4)
			_, _ = io.ReadFull(p.r, read)
			p.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n" + string(read))
			p.request()
		})
		proxy := start(t, up.url())
		conn := dial(t, proxy.addr)
		_, err := io.WriteString(conn, head)
		require.NoError(t, err)
		r := bufio.NewReader(conn)
		line, err := r.ReadString('\n')
		require.NoError(t, err)
		assert.Equal(t, "HTTP/1.1 100 Continue\r\n", line)
		_, err = io.WriteString(conn, "body")
		require.NoError(t, err)
		_, err = r.Discard(2)
		require.NoError(t, err)
		resp, err := http.ReadResponse(r, nil)
		require.NoError(t, err)
		defer resp.Body.Close()
		got, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		assert.Equal(t, "body", string(got))
	})
	t.Run("no", func(t *testing.T) {
		up := serveRaw(t, func(_ *upstream, p *peer) {
			for line := ""; line != "\r\n"; {
				line, _ = p.r.ReadString('\n')
			}
			p.send("HTTP/1.1 417 Expectation Failed\r\nContent-Length: 2\r\n\r\nno")
			_, _ = p.r.ReadByte()
		})
		proxy := start(t, up.url())
		conn := dial(t, proxy.addr)
		_, err := io.WriteString(conn, head)
		require.NoError(t, err)
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err)
		defer resp.Body.Close()
		assert.Equal(t, http.StatusExpectationFailed, resp.StatusCode)
		got, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		assert.Equal(t, "no", string(got))
	})
}

// Each piece gets to the client when it comes, and the headers before the first.
func TestFlushes(t *testing.T) {
	step := make(chan struct{})
	up := serveRaw(t, func(_ *upstream, p *peer) {
		p.request()
		p.send(sseHead + chunked)
		for range 3 {
			<-step
			p.send(chunk(event))
		}
		<-step
		p.send("0\r\n\r\n")
		p.request()
	})
	proxy := start(t, up.url())
	resp, err := http.Post("http://"+proxy.addr+"/v1/chat/completions", "application/json", strings.NewReader(chatBody))
	require.NoError(t, err) // the headers are there
	defer resp.Body.Close()
	got := make([]byte, len(event))
	for range 3 {
		step <- struct{}{}
		_, err := io.ReadFull(resp.Body, got)
		require.NoError(t, err)
		assert.Equal(t, event, string(got))
	}
	step <- struct{}{}
	_, err = resp.Body.Read(got)
	assert.Equal(t, io.EOF, err)
}

// A client that goes away takes its upstream request with it, at once.
func TestClientGoes(t *testing.T) {
	for _, kind := range []string{fin, rst} {
		for _, when := range []string{"before the headers", "within the body"} {
			t.Run(kind+" "+when, func(t *testing.T) {
				asked, gone := make(chan struct{}), make(chan error, 1)
				up := serveRaw(t, func(_ *upstream, p *peer) {
					p.request()
					if when == "within the body" {
						p.send(sseHead + chunked + chunk(event))
					}
					close(asked)
					_, err := p.r.ReadByte()
					gone <- err
				})
				proxy := start(t, up.url())
				conn := dial(t, proxy.addr)
				_, err := io.WriteString(conn, post(proxy.addr, "/v1/chat/completions"))
				require.NoError(t, err)
				<-asked
				if kind == rst {
					require.NoError(t, conn.SetLinger(0))
				}
				require.NoError(t, conn.Close())
				select {
				case err := <-gone:
					require.Error(t, err)
				case <-time.After(patience):
					t.Fatal("the upstream request goes on")
				}
				asking := attributes(proxy.ended(t, oteltrace.SpanKindClient, 1)[0])
				assert.Equal(t, "consumer", asking["llm.abort.source"])
				assert.NotContains(t, proxy.logs.String(), "upstream failed")
			})
		}
	}
}

// A client that goes away while it sends its body has left: neither it nor the upstream is to blame.
func TestClientGoesWhileItSends(t *testing.T) {
	for _, kind := range []string{fin, rst} {
		t.Run(kind, func(t *testing.T) {
			asked, gone := make(chan struct{}), make(chan struct{})
			up := serveRaw(t, func(_ *upstream, p *peer) {
				_, _ = p.r.Peek(1)
				close(asked)
				_, _ = io.Copy(io.Discard, p.r)
				close(gone)
			})
			proxy := start(t, up.url())
			conn := dial(t, proxy.addr)
			request := post(proxy.addr, "/v1/chat/completions")
			_, err := io.WriteString(conn, request[:len(request)-10])
			require.NoError(t, err)
			<-asked
			if kind == rst {
				require.NoError(t, conn.SetLinger(0))
			}
			require.NoError(t, conn.Close())
			select {
			case <-gone:
			case <-time.After(patience):
				t.Fatal("the upstream request goes on")
			}
			span := attributes(proxy.ended(t, oteltrace.SpanKindClient, 1)[0])
			assert.Equal(t, "consumer", span["llm.abort.source"])
			assert.Equal(t, "cancelled", span["llm.stream.end"])
			require.NoError(t, proxy.end())
			assert.NotContains(t, proxy.logs.String(), "upstream failed")
		})
	}
}

// A client behind a slow reader gets all that came before a reset.
func TestResetAfterSlowReader(t *testing.T) {
	const size = 8 << 20
	up := serveRaw(t, func(_ *upstream, p *peer) {
		p.request()
		p.send(sseHead + "Content-Length: 100000000\r\n\r\n" + strings.Repeat("x", size))
		// The proxy has to have it all: a reset discards what the upstream has not sent.
		for {
			if left, ok := unsent(p.TCPConn); !ok || left == 0 {
				break
			}
			time.Sleep(time.Millisecond)
		}
		p.reset()
	})
	proxy := start(t, up.url())
	conn := dial(t, proxy.addr)
	_, err := io.WriteString(conn, post(proxy.addr, "/v1/chat/completions"))
	require.NoError(t, err)
	r := bufio.NewReader(conn)
	resp, err := http.ReadResponse(r, nil)
	require.NoError(t, err)
	defer resp.Body.Close()
	n := 0
	for buf := make([]byte, 64<<10); err == nil; {
		var m int
		m, err = resp.Body.Read(buf)
		n += m
		time.Sleep(100 * time.Microsecond)
	}
	assert.Equal(t, rst, endOf(err))
	assert.Equal(t, size, n)
}

// There is no connection upstream: the client's is reset, and gets no response.
func TestNoConnection(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	foreign := httptest.NewUnstartedServer(http.NotFoundHandler())
	foreign.Config.ErrorLog = log.New(io.Discard, "", 0)
	foreign.StartTLS()
	defer foreign.Close()
	for _, tt := range []struct {
		name, url, problem, end string
	}{
		{"refused", "http://" + closed.Addr().String(), "connection refused", rst},
		{"unknown host", "http://host.invalid", "host not found", rst},
		{"no TLS", "https://" + plain.Listener.Addr().String(), "TLS handshake failed", rst},
		{"unknown certificate", foreign.URL, "TLS certificate refused", rst},
	} {
		t.Run(tt.name, func(t *testing.T) {
			to, err := url.Parse(tt.url)
			require.NoError(t, err)
			proxy := start(t, to, func(c *Config) {
				c.Transport = &http.Transport{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
					if strings.HasPrefix(addr, "host.invalid") { // the machine's resolver is not to be asked
						return nil, &net.OpError{Op: "dial", Net: network, Err: &net.DNSError{Err: "no such host", Name: "host.invalid", IsNotFound: true}}
					}
					return (&net.Dialer{}).DialContext(ctx, network, addr)
				}}
			})
			got, end := exchangeRaw(t, proxy.addr, post(proxy.addr, "/v1/chat/completions"))
			assert.Empty(t, got)
			assert.Equal(t, tt.end, end)
			asked := attributes(proxy.ended(t, oteltrace.SpanKindClient, 1)[0])
			assert.Equal(t, "no_response", asked["llm.stream.end"])
			require.NoError(t, proxy.end())
			assert.Contains(t, proxy.logs.String(), tt.problem)
		})
	}
}

// The headers of a response do not wait for its body, which may come late or break off before its first byte.
func TestHeadersWithoutBody(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n"
	read := make(chan struct{})
	for name, tt := range map[string]struct {
		serve func(p *peer)
		end   string
	}{
		"late":   {func(p *peer) { p.send(head); <-read }, fin},
		"closed": {func(p *peer) { p.send(head) }, fin},
		"reset":  {func(p *peer) { p.send(head); p.reset() }, rst},
	} {
		t.Run(name, func(t *testing.T) {
			up := serveRaw(t, func(_ *upstream, p *peer) { p.request(); tt.serve(p) })
			proxy := start(t, up.url())
			conn := dial(t, proxy.addr)
			_, err := io.WriteString(conn, post(proxy.addr, "/v1/chat/completions"))
			require.NoError(t, err)
			got := make([]byte, len(head))
			_, err = io.ReadFull(conn, got)
			require.NoError(t, err)
			assert.Contains(t, string(got), "Content-Length: 500\r\n")
			if name == "late" {
				close(read)
			}
			_, err = conn.Read(got)
			assert.Equal(t, tt.end, endOf(err))
		})
	}
}
