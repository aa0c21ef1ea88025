package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"time"
)

// server is an HTTP server on loopback.
type server struct {
	*http.Server

	url    string
	served chan error
}

func serve(h http.Handler) (*server, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen on loopback: %w", err)
	}
	s := &server{
		Server: &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, ErrorLog: log.New(io.Discard, "", 0)},
		url:    "http://" + ln.Addr().String(), served: make(chan error, 1),
	}
	go func() { s.served <- s.Serve(ln) }()
	return s, nil
}

// stop waits for the handlers, whose spans end with them.
func (s *server) stop(ctx context.Context) error {
	err := s.Shutdown(ctx)
	if served := <-s.served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

// modelServer gives one answer after the other. The agent makes one request at a time.
type modelServer struct {
	answers []answer
	heard   <-chan struct{} // has an element for each event that the agent has read
	sent    int             // events so far
}

func (m *modelServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	if len(m.answers) == 0 {
		http.Error(w, "there is no further answer", http.StatusNotImplemented)
		return
	}
	a := m.answers[0]
	m.answers = m.answers[1:]
	w.Header().Set("Content-Type", "text/event-stream")
	for _, event := range a.events {
		fmt.Fprintf(w, "data: %s\n\n", event)
		m.sent++
	}
	rc := http.NewResponseController(w)
	if rc.Flush() != nil || !a.breaks {
		return
	}
	for range m.sent { // a reset discards what has not been read
		select {
		case <-m.heard:
		case <-r.Context().Done():
			return
		}
	}
	if conn, _, err := rc.Hijack(); err == nil {
		_ = conn.(*net.TCPConn).SetLinger(0) // the close becomes a reset
		_ = conn.Close()
	}
}

// gateway forwards the events of an answer that have choices, and ends every answer cleanly:
// an error of the provider is lost in it.
type gateway struct {
	url    string // of the model
	client *http.Client
}

func (g *gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	req, err := http.NewRequestWithContext(r.Context(), http.MethodPost, g.url+r.URL.Path, r.Body)
	if err != nil {
		http.Error(w, "bad request", http.StatusBadRequest)
		return
	}
	req.Header.Set("Content-Type", r.Header.Get("Content-Type"))
	resp, err := g.client.Do(req)
	if err != nil {
		http.Error(w, "bad gateway", http.StatusBadGateway)
		return
	}
	defer resp.Body.Close()
	w.Header().Set("Content-Type", "text/event-stream")
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		var event struct{ Choices []json.RawMessage }
		if ok && json.Unmarshal([]byte(data), &event) == nil && len(event.Choices) > 0 {
			fmt.Fprintf(w, "data: %s\n\n", data)
		}
	}
	fmt.Fprintf(w, "data: %s\n\n", done)
}
