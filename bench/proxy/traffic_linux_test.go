package proxy

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The answers of the upstream: 1 KB of text in one piece, or as a stream of events.
var (
	whole = `{"id":"chatcmpl-1","object":"chat.completion","model":"gpt-5.1","choices":[{"index":0,"message":{"role":"assistant","content":"` +
		strings.Repeat("Rayleigh ", 100) + `"},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":200,"total_tokens":209}}`
	events = append(deltas(50),
		`data: {"id":"chatcmpl-1","object":"chat.completion.chunk","model":"gpt-5.1","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`+"\n\n",
		"data: [DONE]\n\n")
)

func deltas(n int) (list []string) {
	for range n {
		list = append(list, `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","model":"gpt-5.1","choices":[{"index":0,"delta":{"content":"Rayleigh "}}]}`+"\n\n")
	}
	return list
}

// answer is what the upstream does. With the header X-Hold a stream stays open after its first
// event.
func answer(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	if !strings.Contains(string(body), `"stream":true`) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, whole)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	flush := http.NewResponseController(w)
	for _, event := range events {
		_, _ = io.WriteString(w, event)
		_ = flush.Flush()
		if r.Header.Get("X-Hold") != "" {
			<-r.Context().Done()
			return
		}
	}
}

// client is a connection that asks a model, one request after the other.
type client struct {
	conn   net.Conn
	reader *bufio.Reader
	addr   string
	stream bool
}

// asked numbers all requests, since each is the first of a conversation of its own.
var asked atomic.Int64

func connect(tb testing.TB, addr string, stream bool) *client {
	tb.Helper()
	conn, err := net.Dial("tcp", addr)
	require.NoError(tb, err)
	return &client{conn: conn, reader: bufio.NewReaderSize(conn, 2<<10), addr: addr, stream: stream}
}

// send sends one request, as an agent does: with instructions, and a task.
func (c *client) send() error {
	body := task(c.stream)
	_, err := fmt.Fprintf(c.conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		c.addr, len(body), body)
	return err
}

// task is the body of a request for a task that was not asked for before.
func task(stream bool) string {
	return `{"model":"gpt-5.1","stream":` + strconv.FormatBool(stream) + `,"messages":[{"role":"system","content":"` +
		strings.Repeat("instructions ", 60) + `"},{"role":"user","content":"task ` + strconv.FormatInt(asked.Add(1), 10) + `"}]}`
}

// ask sends one request and reads its answer.
func (c *client) ask() error {
	if err := c.send(); err != nil {
		return err
	}
	resp, err := http.ReadResponse(c.reader, nil)
	if err != nil {
		return err
	}
	n, err := io.Copy(io.Discard, resp.Body)
	if err == nil && (resp.StatusCode != http.StatusOK || n < 900) {
		err = fmt.Errorf("status %d, %d bytes", resp.StatusCode, n)
	}
	return err
}

// clients are connections that stay open. Each has asked once.
func clients(b *testing.B, addr string, n int, stream bool) []*client {
	b.Helper()
	var list []*client
	b.Cleanup(func() {
		for _, c := range list {
			_ = c.conn.Close()
		}
	})
	for range n {
		c := connect(b, addr, stream)
		list = append(list, c)
		require.NoError(b, c.ask())
	}
	return list
}

// hold opens streams that stay open, some on each connection, reads the first event of each, and returns
// what ends them all.
func hold(b *testing.B, p *process, streams, onConnection int) (end func()) {
	b.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(certificate(b)[certFile])
	transport := &http.Transport{
		Protocols: p.wire.protocols(), DisableCompression: true, ReadBufferSize: 2 << 10, WriteBufferSize: 2 << 10,
		TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
	}
	var conns []*http.ClientConn
	end = sync.OnceFunc(func() {
		for _, c := range conns {
			_ = c.Close()
		}
	})
	b.Cleanup(end)
	for i := range streams {
		if i%onConnection == 0 {
			c, err := transport.NewClientConn(b.Context(), p.wire.scheme(), p.addr)
			require.NoError(b, err)
			conns = append(conns, c)
		}
		req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, p.url()+"/v1/chat/completions", strings.NewReader(task(true)))
		require.NoError(b, err)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("X-Hold", "1")
		resp, err := conns[len(conns)-1].RoundTrip(req)
		require.NoError(b, err)
		_, err = io.ReadFull(resp.Body, make([]byte, len(events[0])))
		require.NoError(b, err) // the connection's end closes the body
	}
	return end
}

// askAll makes the clients ask n times in all, as fast as they can.
func askAll(b *testing.B, list []*client, n int) {
	b.Helper()
	var left atomic.Int64
	left.Store(int64(n))
	var all sync.WaitGroup
	for _, c := range list {
		all.Go(func() {
			for left.Add(-1) >= 0 {
				if !assert.NoError(b, c.ask()) {
					return
				}
			}
		})
	}
	all.Wait()
}

// askAt makes the clients ask n times at a rate, and returns how long each answer took from the
// moment at which it was due: a late one delays those behind it, as it does for who waits.
func askAt(b *testing.B, list []*client, n, perSecond int) []time.Duration {
	b.Helper()
	took := make([]time.Duration, n)
	due := make(chan int, n)
	begin := time.Now()
	at := func(i int) time.Time { return begin.Add(time.Duration(i) * time.Second / time.Duration(perSecond)) }
	var all sync.WaitGroup
	for _, c := range list {
		all.Go(func() {
			for i := range due {
				if err := c.ask(); !assert.NoError(b, err) {
					return
				}
				took[i] = time.Since(at(i))
			}
		})
	}
	for i := range n {
		time.Sleep(time.Until(at(i)))
		due <- i
	}
	close(due)
	all.Wait()
	return took
}
