package faultyllm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Server is a model server that breaks as its scripts say. Its methods are safe for
// concurrent use.
type Server struct {
	addr    string
	http    *http.Server
	closing chan struct{}
	served  chan error
	once    sync.Once

	sessions sync.WaitGroup // WebSockets, which net/http does not track

	mu    sync.Mutex
	cases map[string]*caseState // guarded by mu
}

// caseState is the script of one case and its progress. Guarded by Server.mu.
type caseState struct {
	script  []Exchange
	choose  func(Request) Exchange // in place of the script, if set
	records []*Record
	extra   int // requests beyond the script's end
	running int
	idle    *sync.Cond
}

// Start returns a server on a free loopback port.
func Start() (*Server, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("faultyllm: listen on loopback: %w", err)
	}
	return Serve(ln), nil
}

// Serve returns a server on ln, which it takes ownership of.
func Serve(ln net.Listener) *Server {
	s := &Server{
		addr:    ln.Addr().String(),
		closing: make(chan struct{}),
		served:  make(chan error, 1),
		cases:   make(map[string]*caseState),
	}
	s.http = &http.Server{Handler: http.HandlerFunc(s.handle), ReadHeaderTimeout: 10 * time.Second}
	s.http.ConnContext = func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) }
	go func() { s.served <- s.http.Serve(ln) }()
	return s
}

// Close ends every stalled exchange and closes every connection.
func (s *Server) Close() error {
	var err error
	s.once.Do(func() {
		s.mu.Lock()
		close(s.closing)
		for _, c := range s.cases {
			c.idle.Broadcast() // wakes Await
		}
		s.mu.Unlock()
		err = s.http.Close()
		s.sessions.Wait()
		if serveErr := <-s.served; !errors.Is(serveErr, http.ErrServerClosed) {
			err = errors.Join(err, serveErr)
		}
	})
	return err
}

// Addr returns the host:port that the server listens on.
func (s *Server) Addr() string { return s.addr }

// Play sets the exchanges of a case: the first request gets the first exchange, and so on.
// The key is part of the URL and may hold letters, digits, '-', '_' and '.'. Calling Play
// again with the same key starts the case again.
func (s *Server) Play(key string, exchanges ...Exchange) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cases[key] = &caseState{script: exchanges, idle: sync.NewCond(&s.mu)}
}

// BaseURL returns the base URL of a case, as the wire protocol's SDK expects it.
func (s *Server) BaseURL(key string, w Wire) string {
	return "http://" + s.addr + "/case/" + key + w.base()
}

// Request is a request as an agent sent it.
type Request struct {
	Wire   Wire
	Header http.Header
	Body   []byte
}

// Choose sets a case whose exchanges depend on the requests. It is for agents whose
// requests are not known beforehand, or do not come in a fixed order. The server calls
// choose for one request at a time.
func (s *Server) Choose(key string, choose func(Request) Exchange) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cases[key] = &caseState{choose: choose, idle: sync.NewCond(&s.mu)}
}

// Records waits until no exchange of the case is running and returns what was sent, in the
// order of the requests. It returns an error if there were more requests than scripted
// exchanges.
func (s *Server) Records(key string) ([]Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.cases[key]
	if c == nil {
		return nil, fmt.Errorf("faultyllm: no case %q", key)
	}
	for c.running > 0 {
		c.idle.Wait()
	}
	records := make([]Record, len(c.records))
	for i, r := range c.records {
		records[i] = *r
	}
	if c.extra > 0 {
		return records, fmt.Errorf("faultyllm: case %q: %d requests, but only %d exchanges are scripted",
			key, len(c.script)+c.extra, len(c.script))
	}
	return records, nil
}

// Await waits until n exchanges of the case have ended in any way.
func (s *Server) Await(ctx context.Context, key string, n int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.cases[key]
	if c == nil {
		return fmt.Errorf("faultyllm: no case %q", key)
	}
	stop := context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		c.idle.Broadcast()
	})
	defer stop()
	for len(c.records)-c.running < n {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if s.closed() {
			return fmt.Errorf("faultyllm: case %q: closed before %d exchanges had ended", key, n)
		}
		c.idle.Wait()
	}
	return nil
}

// closed reports, with mu held, whether the server is being closed.
func (s *Server) closed() bool {
	select {
	case <-s.closing:
		return true
	default:
		return false
	}
}

// Started returns how many exchanges of the case have begun.
func (s *Server) Started(key string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.cases[key]; c != nil {
		return len(c.records)
	}
	return 0
}

// next returns the next exchange of a case.
func (s *Server) next(key string, asked Request) (e Exchange, r *Record, index int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.cases[key]
	if c == nil {
		return Exchange{}, nil, 0, false
	}
	index = len(c.records)
	if c.choose == nil && index >= len(c.script) {
		c.extra++
		return Exchange{}, nil, 0, false
	}
	r = &Record{}
	c.records = append(c.records, r)
	c.running++
	if c.choose != nil {
		return c.choose(asked), r, index, true
	}
	return c.script[index], r, index, true
}

// end publishes the record of an exchange.
func (s *Server) end(key string, r *Record, done Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	*r = done
	if c := s.cases[key]; c != nil {
		c.running--
		c.idle.Broadcast()
	}
}

// sessionBegins adds a session to the count, unless the server is being closed.
func (s *Server) sessionBegins() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed() {
		return false
	}
	s.sessions.Add(1)
	return true
}

func (s *Server) handle(w http.ResponseWriter, r *http.Request) {
	key, ok := caseKey(r.URL.Path)
	wire, known := WireOf(r.URL.Path)
	method := http.MethodPost
	if wire == Realtime {
		method = http.MethodGet
	}
	if !ok || !known || r.Method != method {
		notFound(w, "no such endpoint")
		return
	}
	if wire == Realtime {
		if !s.sessionBegins() {
			return // the server is being closed
		}
		defer s.sessions.Done()
		s.realtime(w, r, key)
		return
	}
	// Read the whole body: unread data would turn a FIN into a reset.
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client disconnected while it sent the request
	}
	asked, err := wire.read(r.URL, body)
	if err != nil {
		http.Error(w, "faultyllm: "+err.Error(), http.StatusBadRequest)
		return
	}
	e, record, index, ok := s.next(key, Request{Wire: wire, Header: r.Header, Body: body})
	if !ok {
		notFound(w, "no exchange is scripted for this request")
		return
	}
	p := &player{
		w: w, rc: http.NewResponseController(w), gone: r.Context(), closing: s.closing, asked: r.Header,
		ids: ids{seed: fmt.Sprintf("%s/%d", key, index), model: asked.Model},
		record: Record{
			Wire: wire, Streamed: asked.Stream, RetryCount: r.Header.Get("X-Stainless-Retry-Count"),
		},
	}
	defer func() { s.end(key, record, p.record) }()
	p.play(e)
}

// caseKey returns the key in /case/{key}/….
func caseKey(path string) (string, bool) {
	rest, ok := strings.CutPrefix(path, "/case/")
	if !ok {
		return "", false
	}
	key, _, ok := strings.Cut(rest, "/")
	return key, ok && key != ""
}

func notFound(w http.ResponseWriter, why string) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("x-should-retry", "false")
	w.WriteHeader(http.StatusNotFound)
	_, _ = fmt.Fprintf(w, `{"error":{"message":%s,"type":"invalid_request_error","param":null,"code":"not_found"}}`, q("faultyllm: "+why))
}

// wait waits for d, for the client to disconnect or for the server to close, and reports
// whether d passed. If d is 0 it waits only for the other two.
func wait(gone context.Context, closing <-chan struct{}, d time.Duration) bool {
	var passed <-chan time.Time
	if d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		passed = t.C
	}
	select {
	case <-passed:
		return true
	case <-gone.Done():
	case <-closing:
	}
	return false
}
