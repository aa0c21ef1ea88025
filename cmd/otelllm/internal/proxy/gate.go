package proxy

import (
	"context"
	"net"
	"net/http/httptrace"
	"net/url"
	"sync"
	"time"
)

// gate is the listener of a server that refuses connections while an upstream cannot be
// connected to: a client then gets what it would get from that.
type gate struct {
	net.Listener

	connector *connector

	mu sync.Mutex
	// Everything below is guarded by mu.
	shut   chan struct{} // closed when it opens again; nil: it is open
	closed bool
	done   chan struct{} // closed with closed
}

func newGate(ln net.Listener, c *connector) *gate {
	return &gate{Listener: ln, connector: c, done: make(chan struct{})}
}

// Accept implements net.Listener.
func (g *gate) Accept() (net.Conn, error) {
	for {
		conn, err := g.Listener.Accept()
		if err == nil {
			return conn, nil
		}
		g.mu.Lock()
		shut, closed := g.shut, g.closed
		g.mu.Unlock()
		if shut == nil || closed {
			return nil, err
		}
		select {
		case <-shut:
		case <-g.done:
			return nil, net.ErrClosed
		}
	}
}

// Close implements net.Listener.
func (g *gate) Close() error {
	g.mu.Lock()
	if !g.closed {
		g.closed = true
		close(g.done)
	}
	g.mu.Unlock()
	return g.Listener.Close()
}

// refuse refuses connections from now on until base can be connected to. Where the system does
// not allow that it does nothing.
func (g *gate) refuse(base *url.URL) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut != nil || g.closed || !stopListening(g.Listener) {
		return
	}
	g.shut = make(chan struct{})
	go g.probe(base)
}

const (
	probePause = 500 * time.Millisecond // between two attempts to connect to an upstream
	probeLimit = 10 * time.Second
)

// probe tries to connect to base, and opens the gate when that succeeds.
func (g *gate) probe(base *url.URL) {
	for {
		select {
		case <-time.After(probePause):
		case <-g.done:
			return
		}
		if !g.connector.reaches(base) {
			continue
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		if !g.closed && listenAgain(g.Listener) {
			close(g.shut)
			g.shut = nil
		}
		return
	}
}

// reaches reports whether an upstream can be connected to.
func (c *connector) reaches(base *url.URL) bool {
	ctx, cancel := context.WithTimeout(context.Background(), probeLimit)
	defer cancel()
	conn, err := c.any.NewClientConn(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{}), base.Scheme, hostPort(base.Scheme, base.Host))
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}
