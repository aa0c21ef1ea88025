package proxy

import (
	"context"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// link is a connection of a client, with the connections upstream that serve it alone.
type link struct {
	conn net.Conn
	tcp  *net.TCPConn // below conn; nil: it is of another kind

	active bool // a request or a response is on its way; guarded by the registry

	mu sync.Mutex
	// Everything below is guarded by mu.
	upstream []*clientConn
	closed   bool
}

// address is where an upstream connection goes.
type address struct {
	scheme, host string
	http1        bool // HTTP/2 must not be spoken: the request is to switch protocols
}

// clientConn is a connection upstream.
type clientConn struct {
	*http.ClientConn

	to        address
	raw       *net.TCPConn // nil: not known
	sticky    *stickyConn  // nil: not known
	idleSince atomic.Int64 // in Unix nanoseconds; 0: it has served no request so far
}

type linkKey struct{}

func linkOf(ctx context.Context) *link { return ctx.Value(linkKey{}).(*link) }

func newLink(conn net.Conn) *link {
	return &link{conn: conn, tcp: tcp(conn)}
}

// reserve returns an open connection to a that has room for a request, or nil.
func (l *link) reserve(a address) *clientConn {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.upstream = slices.DeleteFunc(l.upstream, func(c *clientConn) bool { return c.Err() != nil })
	for _, c := range l.upstream {
		if c.to == a && c.Reserve() == nil {
			return c
		}
	}
	return nil
}

// add takes over a new connection. It closes it if the client has gone already.
func (l *link) add(c *clientConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		_ = c.Close()
		return
	}
	l.upstream = append(l.upstream, c)
}

// remove forgets a connection, and leaves it open.
func (l *link) remove(c *clientConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.upstream = slices.DeleteFunc(l.upstream, func(other *clientConn) bool { return other == c })
}

// close closes the connections upstream.
func (l *link) close() {
	l.mu.Lock()
	open := l.upstream
	l.upstream, l.closed = nil, true
	l.mu.Unlock()
	for _, c := range open {
		_ = c.Close()
	}
}

// kill resets the client's connection at once.
func (l *link) kill() {
	if l.tcp != nil {
		_ = l.tcp.SetLinger(0)
		_ = l.tcp.Close()
		return
	}
	_ = l.conn.Close()
}

const (
	// drainLimit is how long a reset waits for the client to read what was sent before it.
	drainLimit = 10 * time.Second
	drainPause = 50 * time.Millisecond // between two looks at the end
)

// drain waits until the client's system has all that was sent: a reset discards the rest.
// Kill ends the wait.
func (l *link) drain() {
	pause := time.Millisecond
	for deadline := time.Now().Add(drainLimit); time.Now().Before(deadline); {
		left, ok := unsent(l.tcp)
		if !ok || left == 0 {
			return
		}
		time.Sleep(pause)
		pause = min(2*pause, drainPause)
	}
}
