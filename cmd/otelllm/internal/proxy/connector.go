package proxy

import (
	"cmp"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// connector sends requests over the connections of their clients' links. It never sends a
// request twice: a http.Transport repeats some, which the client would then repeat as well.
type connector struct {
	any   *http.Transport
	http1 *http.Transport // for requests to switch protocols, which HTTP/2 does not know
}

const (
	connectLimit = 30 * time.Second // for a connection, and for its TLS handshake
	// connBuffer is the size of the buffers of a connection, half of net/http's: there are as many connections as streams.
	// Headers and a short body fit in, and what is longer goes past them.
	connBuffer = 2 << 10
	// maxInformational bounds the informational responses before a response.
	maxInformational = 1000
)

func newConnector(t *http.Transport) *connector {
	if t == nil {
		t = &http.Transport{Proxy: http.ProxyFromEnvironment}
	}
	t = t.Clone()
	if t.Protocols == nil && t.TLSNextProto == nil {
		t.ForceAttemptHTTP2 = true // a dialer of one's own would switch it off
	}
	t.DisableCompression = true
	t.DisableKeepAlives = false
	t.TLSHandshakeTimeout = cmp.Or(t.TLSHandshakeTimeout, connectLimit)
	t.MaxResponseHeaderBytes = cmp.Or(t.MaxResponseHeaderBytes, maxHeader)
	t.ExpectContinueTimeout = cmp.Or(t.ExpectContinueTimeout, time.Second)
	t.ReadBufferSize, t.WriteBufferSize = cmp.Or(t.ReadBufferSize, connBuffer), cmp.Or(t.WriteBufferSize, connBuffer)
	if t.HTTP2 == nil {
		t.HTTP2 = &http.HTTP2Config{MaxReceiveBufferPerStream: 512 << 10} // for a client that does not read
	}
	dial := t.DialContext
	if dial == nil {
		dial = (&net.Dialer{Timeout: connectLimit, KeepAlive: 30 * time.Second}).DialContext
	}
	t.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		sticky := &stickyConn{Conn: conn}
		if d, ok := ctx.Value(dialledKey{}).(*dialled); ok {
			d.tcp, d.conn = tcp(conn), sticky
		}
		return sticky, nil
	}
	plain := t.Clone()
	plain.Protocols = &http.Protocols{}
	plain.Protocols.SetHTTP1(true)
	plain.ForceAttemptHTTP2 = false
	if plain.TLSClientConfig != nil {
		plain.TLSClientConfig.NextProtos = nil // HTTP/2 is negotiated as soon as it is offered
	}
	return &connector{any: t, http1: plain}
}

// dialled is the connection below one that a transport makes.
type dialled struct {
	conn *stickyConn
	tcp  *net.TCPConn
}

type dialledKey struct{}

// stickyConn reports a reset at each Read after it. The system reports it once, to a Read or
// a Write, and net/http may lose a report of Read while it reads headers.
type stickyConn struct {
	net.Conn

	reset atomic.Pointer[error]
}

// NetConn returns the connection below.
func (c *stickyConn) NetConn() net.Conn { return c.Conn }

// Read implements io.Reader.
func (c *stickyConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err == nil {
		return n, nil
	}
	if resetErrno(err) {
		c.reset.Store(&err)
	}
	if reset := c.reset.Load(); reset != nil {
		err = *reset
	}
	return n, err
}

// Write implements io.Writer.
func (c *stickyConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if resetErrno(err) {
		reset := error(&net.OpError{Op: "read", Net: "tcp", Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: errReset})
		c.reset.CompareAndSwap(nil, &reset)
	}
	return n, err
}

// CloseWrite is for the tunnels.
func (c *stickyConn) CloseWrite() error {
	if conn, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return conn.CloseWrite()
	}
	return c.Close()
}

// RoundTrip implements http.RoundTripper.
func (c *connector) RoundTrip(req *http.Request) (*http.Response, error) {
	x := exchangeOf(req.Context())
	x.begins()
	resp, err := c.send(x, req)
	if err != nil {
		x.failed(err)
		return nil, err
	}
	x.mu.Lock()
	x.answered = true
	x.mu.Unlock()
	if resp.StatusCode != http.StatusSwitchingProtocols {
		resp.Body = &responseBody{ReadCloser: resp.Body, exchange: x}
	}
	return resp, nil
}

func (c *connector) send(x *exchange, req *http.Request) (*http.Response, error) {
	conn, err := c.connection(req.Context(), x.link, req)
	if err != nil {
		if req.Body != nil {
			x.readUnsent(req)
			_ = req.Body.Close()
		}
		return nil, err
	}
	sent := req
	if expectsContinue(req) {
		sent = gated(req)
	}
	x.sentOver(conn)
	resp, err := conn.RoundTrip(sent)
	if err != nil {
		if x.swamped() {
			err = errInformational
		}
		return nil, err
	}
	if resp.StatusCode == http.StatusSwitchingProtocols {
		x.link.remove(conn) // it belongs to the tunnel now
		x.mu.Lock()
		x.tunnel = &tunnel{conn: conn, upstream: conn.raw}
		x.mu.Unlock()
	}
	resp.Request = req
	if resp.ProtoMajor == 1 {
		x.sticky = conn.sticky
	}
	return resp, nil
}

// connection returns a reserved connection for req: one that the link has, or a new one.
func (c *connector) connection(ctx context.Context, l *link, req *http.Request) (*clientConn, error) {
	a := address{scheme: req.URL.Scheme, host: hostPort(req.URL.Scheme, req.URL.Host), http1: req.Header.Get("Upgrade") != ""}
	trace := httptrace.ContextClientTrace(ctx)
	if trace == nil {
		trace = &httptrace.ClientTrace{}
	}
	if trace.GetConn != nil {
		trace.GetConn(a.host)
	}
	info := httptrace.GotConnInfo{Reused: true}
	conn := l.reserve(a)
	if conn == nil {
		t := c.any
		if a.http1 {
			t = c.http1
		}
		var below dialled
		made, err := t.NewClientConn(context.WithValue(ctx, dialledKey{}, &below), a.scheme, a.host)
		if err != nil {
			return nil, &connectError{err}
		}
		conn = &clientConn{ClientConn: made, to: a, raw: below.tcp, sticky: below.conn}
		if err := conn.Reserve(); err != nil {
			_ = conn.Close()
			return nil, err
		}
		conn.SetStateHook(func(made *http.ClientConn) {
			if made.InFlight() == 0 {
				conn.idleSince.Store(time.Now().UnixNano())
			}
		})
		l.add(conn)
		info.Reused = false
	} else if since := conn.idleSince.Load(); since != 0 && conn.InFlight() == 1 {
		info.WasIdle, info.IdleTime = true, time.Since(time.Unix(0, since))
	}
	if trace.GotConn != nil {
		if conn.raw != nil { // otherwise there is nothing to give
			info.Conn = conn.raw
		}
		trace.GotConn(info)
	}
	return conn, nil
}

// hostPort adds the scheme's port to a host without one.
func hostPort(scheme, host string) string {
	if _, _, err := net.SplitHostPort(host); err == nil {
		return host
	}
	port := "80"
	if scheme == "https" {
		port = "443"
	}
	return net.JoinHostPort(strings.Trim(host, "[]"), port)
}

// connectError is a failure to connect.
type connectError struct{ error }

func (e *connectError) Unwrap() error { return e.error }

// sentOver notes the connection that the request is sent over.
func (x *exchange) sentOver(conn *clientConn) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.conn = conn
}

// gotInformational takes an informational response. Too many of them end the connection.
func (x *exchange) gotInformational() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.informational++; x.informational == maxInformational+1 {
		_ = x.conn.Close()
	}
}

// swamped reports whether too many informational responses came.
func (x *exchange) swamped() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.informational > maxInformational
}

func expectsContinue(req *http.Request) bool {
	return req.Body != nil && strings.EqualFold(req.Header.Get("Expect"), "100-continue")
}

// gated returns req, whose client waits for 100 (Continue), with a body that is held back.
func gated(req *http.Request) *http.Request {
	b := &gatedBody{ReadCloser: req.Body, goOn: make(chan struct{}), closed: make(chan struct{})}
	sent := req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
		GotFirstResponseByte: func() { b.began.Store(true) },
		Got100Continue:       sync.OnceFunc(func() { close(b.goOn) }),
	}))
	sent.Body = b
	return sent
}

// gatedBody is the body of a request whose client waits for 100 (Continue). Reading it
// makes net/http's server send that. So it is not read once a final response has begun,
// although the transport would.
type gatedBody struct {
	io.ReadCloser

	began  atomic.Bool   // a response has
	goOn   chan struct{} // closed by 100 (Continue)
	closed chan struct{}
	once   atomic.Bool
}

// Read implements io.Reader.
func (b *gatedBody) Read(p []byte) (int, error) {
	if b.began.Load() {
		select {
		case <-b.goOn:
		case <-b.closed:
			return 0, http.ErrBodyReadAfterClose
		}
	}
	return b.ReadCloser.Read(p)
}

// Close implements io.Closer.
func (b *gatedBody) Close() error {
	if b.once.CompareAndSwap(false, true) {
		close(b.closed)
	}
	return b.ReadCloser.Close()
}

// responseBody tells the exchange how the upstream ended a body. The end comes by itself, never with the last
// bytes: the next Read means that these have been passed on.
type responseBody struct {
	io.ReadCloser

	exchange *exchange
	end      error // that came with the last bytes
}

// Read implements io.Reader.
func (b *responseBody) Read(p []byte) (int, error) {
	if b.end != nil {
		return 0, b.end
	}
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		// Of a reset within the end of chunks net/http says that it is no valid end.
		if conn := b.exchange.sticky; conn != nil && !resetErrno(err) {
			if reset := conn.reset.Load(); reset != nil {
				err = *reset
			}
		}
		b.exchange.failed(err)
	}
	if n > 0 && err != nil {
		b.end, err = err, nil
	}
	return n, err
}
