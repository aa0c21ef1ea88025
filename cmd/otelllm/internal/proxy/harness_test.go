package proxy

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	oteltrace "go.opentelemetry.io/otel/trace"

	"github.com/otelllm/otelllm-go/otelllm"
)

// patience is the timeout for what happens in this process.
const patience = 20 * time.Second

// peer is the upstream's end of a connection.
type peer struct {
	*net.TCPConn

	r *bufio.Reader
}

// request reads a request's head, and its body if it has a length. It returns all as sent.
func (p *peer) request() string {
	var head strings.Builder
	length := 0
	for {
		line, err := p.r.ReadString('\n')
		if err != nil {
			return head.String()
		}
		head.WriteString(line)
		if name, value, _ := strings.Cut(line, ":"); strings.EqualFold(name, "Content-Length") {
			for _, digit := range strings.TrimSpace(value) {
				length = 10*length + int(digit-'0')
			}
		}
		if line == "\r\n" {
			break
		}
	}
	body := make([]byte, length)
	n, _ := io.ReadFull(p.r, body)
	return head.String() + string(body[:n])
}

func (p *peer) send(text string) { _, _ = io.WriteString(p.TCPConn, text) }

// reset closes the connection with a RST.
func (p *peer) reset() {
	_ = p.SetLinger(0)
	_ = p.Close()
}

// upstream is a server of raw connections.
type upstream struct {
	*net.TCPListener

	accepted, requests atomic.Int32
	wg                 sync.WaitGroup
}

// serveRaw starts a server that calls serve for each connection, and closes what serve left open.
func serveRaw(tb testing.TB, serve func(u *upstream, p *peer)) *upstream {
	tb.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(tb, err)
	u := &upstream{TCPListener: ln.(*net.TCPListener)}
	u.wg.Go(func() {
		for {
			conn, err := u.AcceptTCP()
			if err != nil {
				return
			}
			u.accepted.Add(1)
			u.wg.Go(func() {
				defer conn.Close()
				serve(u, &peer{conn, bufio.NewReader(conn)})
			})
		}
	})
	tb.Cleanup(func() {
		_ = u.Close()
		u.wg.Wait()
	})
	return u
}

func (u *upstream) url() *url.URL { return &url.URL{Scheme: "http", Host: u.Addr().String()} }

// running is a proxy that serves.
type running struct {
	addr  string
	spans *tracetest.SpanRecorder
	llm   *otelllm.Instrumentation
	logs  *lockedBuffer
	end   func() error // ends it, and waits
}

type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// start starts a proxy with the upstream as its default.
func start(tb testing.TB, to *url.URL, change ...func(*Config)) *running {
	tb.Helper()
	spans := tracetest.NewSpanRecorder()
	llm := otelllm.New(otelllm.WithTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))))
	logs := &lockedBuffer{}
	config := Config{Instrumentation: llm, Logger: slog.New(slog.NewTextHandler(logs, nil))}
	if to != nil {
		config.Upstreams = []Upstream{{URL: to}}
	}
	for _, c := range change {
		c(&config)
	}
	s, err := New(config)
	require.NoError(tb, err)
	ln, err := Listen(tb.Context())
	require.NoError(tb, err)
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, ln) }()
	r := &running{addr: ln.Addr().String(), spans: spans, llm: llm, logs: logs}
	r.end = sync.OnceValue(func() error {
		cancel()
		select {
		case err := <-served:
			return err
		case <-time.After(patience):
			return errors.New("the proxy does not end")
		}
	})
	tb.Cleanup(func() {
		assert.NoError(tb, r.end())
		if tb.Failed() {
			tb.Log(logs.String())
		}
	})
	return r
}

func (r *running) url() *url.URL { return &url.URL{Scheme: "http", Host: r.addr} }

// ended waits for n spans of a kind.
func (r *running) ended(tb testing.TB, kind oteltrace.SpanKind, n int) []sdktrace.ReadOnlySpan {
	tb.Helper()
	var found []sdktrace.ReadOnlySpan
	require.Eventually(tb, func() bool {
		found = nil
		for _, s := range r.spans.Ended() {
			if s.SpanKind() == kind {
				found = append(found, s)
			}
		}
		return len(found) == n
	}, patience, time.Millisecond)
	return found
}

func attributes(s sdktrace.ReadOnlySpan) map[string]string {
	m := map[string]string{}
	for _, kv := range s.Attributes() {
		m[string(kv.Key)] = kv.Value.String()
	}
	return m
}

// The ends of a connection, as the client's system reports them.
const (
	fin = "FIN"
	rst = "RST"
)

func endOf(err error) string {
	switch {
	case errors.Is(err, io.EOF):
		return fin
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return rst
	default:
		return "other: " + err.Error()
	}
}

// dial connects to addr, for as long as the test has patience.
func dial(tb testing.TB, addr string) *net.TCPConn {
	tb.Helper()
	conn, err := net.Dial("tcp", addr)
	require.NoError(tb, err)
	require.NoError(tb, conn.SetDeadline(time.Now().Add(patience)))
	tb.Cleanup(func() { _ = conn.Close() })
	return conn.(*net.TCPConn)
}

// exchangeRaw sends text and reads until the connection ends.
func exchangeRaw(tb testing.TB, addr, text string) (got, end string) {
	tb.Helper()
	conn := dial(tb, addr)
	_, err := io.WriteString(conn, text)
	require.NoError(tb, err)
	all, err := io.ReadAll(conn)
	if err == nil {
		err = io.EOF
	}
	return string(all), endOf(err)
}

const chatBody = `{"model":"gpt-5","stream":true,"messages":[{"role":"user","content":"hi"}]}`

// post is a request over HTTP/1 for the raw wire.
func post(host, path string, headers ...string) string {
	return "POST " + path + " HTTP/1.1\r\nHost: " + host + "\r\nContent-Type: application/json\r\nContent-Length: 75\r\n" +
		strings.Join(append(headers, ""), "\r\n") + "\r\n" + chatBody
}

func init() {
	if len(chatBody) != 75 {
		panic("the length in post is wrong")
	}
}

// body dechunks what is left of a response that broke off.
func body(tb testing.TB, raw string) (status int, body string, err error) {
	tb.Helper()
	resp, err := http.ReadResponse(bufio.NewReader(strings.NewReader(raw)), nil)
	if err != nil {
		return 0, "", err
	}
	all, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(all), err
}
