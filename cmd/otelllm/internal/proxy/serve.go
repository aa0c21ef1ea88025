package proxy

import (
	"context"
	"errors"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/otelllm/otelllm-go/otelllm"
)

// unwindLimit is how long handlers have to end after their exchanges were cut, before their
// clients' connections are closed: a handler may be writing to a client that does not read.
const unwindLimit = time.Second

// Serve serves the connections of ln until ctx is done. Then it takes no new ones, gives
// open streams their grace and cuts the rest, which are recorded as ended by the shutdown.
// It returns when all is over, with the error of ln if that ended before ctx. It closes ln.
// A Server serves once.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	server := s.newHTTPServer()
	gate := newGate(ln, s.transport)
	s.gate.Store(gate)
	ln = gate
	served := make(chan error, 1)
	go func() { served <- server.Serve(ln) }()
	var failed error
	select {
	case failed = <-served:
		served <- failed
	case <-ctx.Done():
	}
	s.end(context.WithoutCancel(ctx), server)
	if err := <-served; errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return failed
}

// end ends all exchanges, and the server.
func (s *Server) end(ctx context.Context, server *http.Server) {
	graceful, cancel := context.WithTimeout(ctx, s.grace)
	defer cancel()
	go func() { _ = server.Shutdown(graceful) }() // closes the listener, and connections that are idle
	s.open.close()
	select {
	case <-s.open.idle:
	case <-graceful.Done():
		s.open.cut()
		select {
		case <-s.open.idle:
		case <-time.After(unwindLimit):
			s.open.kill()
			<-s.open.idle
		}
	}
	_ = server.Close()
}

// registry knows what is open: the clients' connections, and the exchanges.
type registry struct {
	idle chan struct{} // closed when the registry is closed and nothing is open any more

	mu sync.Mutex
	// Everything below is guarded by mu.
	links     map[net.Conn]*link
	exchanges map[*exchange]struct{}
	closed    bool
	refuses   bool // no exchange may begin
}

func newRegistry() *registry {
	return &registry{links: map[net.Conn]*link{}, exchanges: map[*exchange]struct{}{}, idle: make(chan struct{})}
}

// connected implements http.Server's ConnContext.
func (r *registry) connected(ctx context.Context, conn net.Conn) context.Context {
	l := newLink(conn)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.links[conn] = l
	return context.WithValue(ctx, linkKey{}, l)
}

// changed implements http.Server's ConnState.
func (r *registry) changed(conn net.Conn, state http.ConnState) {
	r.mu.Lock()
	l := r.links[conn]
	if l == nil {
		r.mu.Unlock()
		return
	}
	l.active = state == http.StateActive
	gone := state == http.StateClosed || state == http.StateHijacked
	if gone {
		delete(r.links, conn)
	}
	r.settle()
	r.mu.Unlock()
	if gone {
		l.close() // but not a connection that has switched protocols
	}
}

// begin registers an exchange. It reports false if none may begin any more.
func (r *registry) begin(x *exchange) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refuses {
		return false
	}
	r.exchanges[x] = struct{}{}
	return true
}

// end removes an exchange.
func (r *registry) end(x *exchange) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.exchanges, x)
	r.settle()
}

// close makes the registry become idle when nothing is open any more.
func (r *registry) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	r.settle()
}

// settle looks, with mu held, whether a closed registry has become idle. A response is
// written whole only after its exchange has ended: then its connection is active no more.
func (r *registry) settle() {
	if !r.closed || len(r.exchanges) > 0 {
		return
	}
	for _, l := range r.links {
		if l.active {
			return
		}
	}
	r.refuses = true
	if !r.isIdle() {
		close(r.idle)
	}
}

func (r *registry) isIdle() bool {
	select {
	case <-r.idle:
		return true
	default:
		return false
	}
}

// cut ends all exchanges as this process's doing.
func (r *registry) cut() {
	r.mu.Lock()
	r.refuses = true
	open := slices.Collect(maps.Keys(r.exchanges))
	r.mu.Unlock()
	for _, x := range open {
		x.mu.Lock()
		x.cut = true
		x.mu.Unlock()
		x.abort(otelllm.AbortShutdown, "")
	}
}

// kill closes all connections.
func (r *registry) kill() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for x := range r.exchanges {
		x.link.kill()
	}
	for _, l := range r.links {
		l.kill()
	}
}
