package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
)

// end is how a body that was cut ends.
type end int

const (
	endClean end = iota // the framing ends normally
	endFIN              // the connection is closed, but the framing announces more
	endRST              // the connection is reset after the client has read everything
	ends
)

func (e end) String() string { return [...]string{"clean", "fin", "rst"}[e] }

// play is one response of the server.
type play struct {
	contentType string
	body        []byte // the part that is sent
	due         int    // number of bytes that the framing announces if the end is not clean
	end         end
	chunked     bool // otherwise the header has the length, or the body ends with the connection
	gate        *gate
}

// gate opens when the client has read everything that was sent, or stops reading. Without
// it, a reset would discard the data that is still in the client's socket.
type gate struct {
	need int64
	read atomic.Int64
	once sync.Once
	ch   chan struct{}
}

func newGate(need int) *gate { return &gate{need: int64(need), ch: make(chan struct{})} }

func (g *gate) open() { g.once.Do(func() { close(g.ch) }) }

func (g *gate) add(n int) {
	if g.read.Add(int64(n)) >= g.need {
		g.open()
	}
}

// server serves one play after another on a loopback port, with one connection each.
type server struct {
	listener net.Listener
	next     atomic.Pointer[play]
	served   chan struct{} // receives a value for each connection that has ended
}

func newServer() (*server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &server{listener: l, served: make(chan struct{}, 64)}
	go s.accept()
	return s, nil
}

func (s *server) url() string { return "http://" + s.listener.Addr().String() }

func (s *server) close() { _ = s.listener.Close() }

func (s *server) accept() {
	in := bufio.NewReader(nil)
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return
		}
		in.Reset(conn)
		s.serve(conn.(*net.TCPConn), in)
		s.served <- struct{}{}
	}
}

// serve answers one request with the current play. It ignores errors: they mean that the
// client has disconnected.
func (s *server) serve(conn *net.TCPConn, in *bufio.Reader) {
	defer conn.Close()
	req, err := http.ReadRequest(in)
	if err != nil {
		return
	}
	if _, err = io.Copy(io.Discard, req.Body); err != nil {
		return
	}
	p := s.next.Load()
	if p == nil {
		return
	}
	if _, err = conn.Write(p.bytes()); err != nil {
		return
	}
	if p.end == endRST {
		<-p.gate.ch
		_ = conn.SetLinger(0)
	}
}

// bytes returns the encoded response.
func (p *play) bytes() []byte {
	out := make([]byte, 0, len(p.body)+256)
	out = fmt.Appendf(out, "HTTP/1.1 200 OK\r\nContent-Type: %s\r\nConnection: close\r\n", p.contentType)
	whole := p.end == endClean
	switch {
	case p.chunked && whole:
		out = append(out, "Transfer-Encoding: chunked\r\n\r\n"...)
		if len(p.body) > 0 {
			out = fmt.Appendf(out, "%x\r\n%s\r\n", len(p.body), p.body)
		}
		return append(out, "0\r\n\r\n"...)
	case p.chunked && p.end == endRST:
		// Send a complete chunk: a client that reads an incomplete one waits for the
		// rest, and the gate would never open.
		out = append(out, "Transfer-Encoding: chunked\r\n\r\n"...)
		if len(p.body) > 0 {
			out = fmt.Appendf(out, "%x\r\n%s\r\n", len(p.body), p.body)
		}
		return out
	case p.chunked:
		out = fmt.Appendf(out, "Transfer-Encoding: chunked\r\n\r\n%x\r\n", p.due)
	case whole:
		out = append(out, "\r\n"...)
	default:
		out = append(append(append(out, "Content-Length: "...), strconv.Itoa(p.due)...), "\r\n\r\n"...)
	}
	return append(out, p.body...)
}

// counted is the transport below the one that records. It opens the gate.
type counted struct {
	base http.RoundTripper
	now  atomic.Pointer[exchange]
}

// exchange is what one case looked like below the recording.
type exchange struct {
	*gate
	begun atomic.Int32 // number of requests
}

func (t *counted) RoundTrip(req *http.Request) (*http.Response, error) {
	x := t.now.Load()
	x.begun.Add(1)
	resp, err := t.base.RoundTrip(req)
	if err != nil {
		x.open()
		return nil, err
	}
	x.add(0)
	resp.Body = &countedBody{resp.Body, x.gate}
	return resp, nil
}

type countedBody struct {
	io.ReadCloser
	gate *gate
}

func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.gate.add(n)
	return n, err
}

func (b *countedBody) Close() error {
	b.gate.open()
	return b.ReadCloser.Close()
}
