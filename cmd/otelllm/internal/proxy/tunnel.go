package proxy

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/coder/websocket"
)

// tunnel is a connection that has switched protocols, which for model calls is a WebSocket.
// Its bytes pass as they are; the tunnel only sees to it that it ends on each side as it did
// on the other, and reads what passes for the record.
type tunnel struct {
	exchange *exchange
	conn     *clientConn
	upstream *net.TCPConn // below conn; nil: not known
	ctx      context.Context
	record   *recording

	first atomic.Int32 // the side that ended the tunnel: a side below, or 0
	end   sync.Once    // of the record

	// passing is held while something passes to the client. A client that leaves over what it has got has got it.
	passing sync.Mutex
}

// The sides of a tunnel.
const (
	sideClient = 1 + iota
	sideUpstream
)

// openTunnel begins a tunnel, with the response that switches protocols. It closes the
// connection of a response that switches to what the client did not ask for.
func (s *Server) openTunnel(x *exchange, resp *http.Response) error {
	x.mu.Lock()
	t := x.tunnel
	x.mu.Unlock()
	conn, ok := resp.Body.(io.ReadWriteCloser)
	if !ok || !strings.EqualFold(resp.Header.Get("Upgrade"), resp.Request.Header.Get("Upgrade")) {
		x.failed(errUpgrade)
		_ = t.conn.Close()
		return errUpgrade // ReverseProxy closes the body
	}
	t.exchange, t.ctx, t.record = x, resp.Request.Context(), &recording{}
	if strings.EqualFold(resp.Header.Get("Upgrade"), "websocket") {
		t.record = s.newRecording(resp)
	}
	resp.Body = &upstreamSide{ReadWriteCloser: conn, tunnel: t}
	return nil
}

// client returns the client's side of the tunnel. Early holds what it may have sent already.
func (t *tunnel) client(conn net.Conn, early *bufio.Reader) net.Conn {
	return &clientSide{conn, t, early}
}

// upstreamSide is the connection upstream of a tunnel. ReverseProxy copies what it reads to
// the clientSide, on one goroutine, and the other way round on another.
type upstreamSide struct {
	io.ReadWriteCloser

	tunnel *tunnel
	held   error // that came with the last bytes: these are to be passed on first
}

// Read implements io.Reader.
func (u *upstreamSide) Read(p []byte) (int, error) {
	n, err := 0, u.held
	if err == nil {
		n, err = u.ReadWriteCloser.Read(p)
	}
	if n > 0 {
		u.held, err = err, nil
	}
	t := u.tunnel
	t.record.fromUpstream.read(p[:n])
	if t.record.fromUpstream.closes() {
		t.first.CompareAndSwap(0, sideUpstream)
	}
	if err != nil {
		t.upstreamEnded(err)
	}
	return n, err
}

// Write implements io.Writer.
func (u *upstreamSide) Write(p []byte) (int, error) {
	n, err := u.ReadWriteCloser.Write(p)
	t := u.tunnel
	t.record.fromClient.passed(err)
	if t.record.fromClient.closes() {
		t.ended(sideClient, nil)
	}
	if err != nil {
		t.upstreamEnded(err)
	}
	return n, err
}

// CloseWrite tells the upstream that the client sends no more.
func (u *upstreamSide) CloseWrite() error {
	if c, ok := u.ReadWriteCloser.(interface{ CloseWrite() error }); ok {
		return c.CloseWrite()
	}
	return u.Close()
}

// clientSide is the client's connection of a tunnel.
type clientSide struct {
	net.Conn

	tunnel *tunnel
	early  *bufio.Reader
}

// Read implements io.Reader.
func (c *clientSide) Read(p []byte) (n int, err error) {
	if c.early != nil && c.early.Buffered() > 0 {
		n, err = c.early.Read(p[:min(len(p), c.early.Buffered())])
	} else {
		c.early = nil
		n, err = c.Conn.Read(p)
	}
	t := c.tunnel
	t.record.fromClient.read(p[:n])
	if t.record.fromClient.closes() {
		t.first.CompareAndSwap(0, sideClient)
	}
	if err != nil {
		t.clientEnded(err)
	}
	return n, err
}

// Write implements io.Writer.
func (c *clientSide) Write(p []byte) (int, error) {
	t := c.tunnel
	t.passing.Lock()
	n, err := c.Conn.Write(p)
	t.record.fromUpstream.passed(err)
	t.passing.Unlock()
	if t.record.fromUpstream.closes() {
		t.ended(sideUpstream, nil)
	}
	if err != nil {
		t.clientEnded(err)
	}
	return n, err
}

// CloseWrite tells the client that the upstream sends no more.
func (c *clientSide) CloseWrite() error {
	if conn, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return conn.CloseWrite()
	}
	return c.Close()
}

// upstreamEnded takes the error that the upstream's side ended with. A close is passed on
// by CloseWrite; a reset, and the end of this process, by the closing of the client's side.
func (t *tunnel) upstreamEnded(err error) {
	t.ended(sideUpstream, err)
	x := t.exchange
	x.mu.Lock()
	cut := x.cut
	x.mu.Unlock()
	if cut || resetErrno(err) {
		x.reset()
	}
}

// clientEnded is upstreamEnded for the client's side.
func (t *tunnel) clientEnded(err error) {
	t.ended(sideClient, err)
	if t.upstream != nil && resetErrno(err) {
		_ = t.upstream.SetLinger(0)
	}
}

// ended ends the record if side is the one that ended the tunnel: the one that sent a close
// frame, or else whose connection broke first. Err is nil after a close frame that has been
// passed on.
func (t *tunnel) ended(side int32, err error) {
	t.first.CompareAndSwap(0, side)
	if t.first.Load() != side {
		return
	}
	t.end.Do(func() {
		if side == sideUpstream {
			t.record.close(t.endOf(err))
			return
		}
		t.passing.Lock()
		defer t.passing.Unlock()
		t.record.close(nil) // by the client, or by the end of this process, which the context says
	})
}

// endOf returns what ended the upstream's side, whose read or write failed with err: its close frame, if
// it sent one. The reason in that is left out.
func (t *tunnel) endOf(err error) error {
	switch code := t.record.fromUpstream.frames.closed.Load(); {
	case t.ctx.Err() != nil:
		return context.Cause(t.ctx)
	case code != 0:
		return websocket.CloseError{Code: websocket.StatusCode(code)}
	case errors.Is(err, io.EOF):
		return io.ErrUnexpectedEOF
	default:
		return err
	}
}
