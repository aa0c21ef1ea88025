package netcause

import (
	"crypto/tls"
	"net"
	"net/http/httptrace"
	"net/url"
	"sync"
	"time"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
)

// Trace follows one request through net/http by means of httptrace, so that a failure can
// be attributed to a stage. net/http calls the hooks on its own goroutines, some of them
// after RoundTrip has returned; a Trace is safe for concurrent use.
//
// If a RoundTripper calls no hooks, nothing is observed.
type Trace struct {
	target *url.URL
	now    func() time.Time

	mu sync.Mutex
	// Everything below is guarded by mu.
	called    bool // the RoundTripper itself calls hooks, not only a dialer or TLS below it
	proxied   bool // the first hop is not the target
	conns     int  // connections that the request was given, one for each attempt
	everWrote bool // on any connection
	writtenAt time.Time
	resolving bool
	connected bool
	tlsBegun  bool
	tlsDone   bool
	reused    bool          // whether the last connection had served another request before
	idle      time.Duration // how long it had been idle
	gotConn   bool          // in the current attempt, as are the next two
	wrote     bool
	firstByte bool
}

// Init initializes t for one request to target.
func (t *Trace) Init(target *url.URL, now func() time.Time) { t.target, t.now = target, now }

// Hooks returns the hooks to add to the request's context. httptrace.WithClientTrace
// combines them with those already there.
func (t *Trace) Hooks() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		GetConn:              t.getConn,
		GotConn:              t.onConn,
		DNSStart:             func(httptrace.DNSStartInfo) { t.dialling(&t.resolving, true) },
		DNSDone:              func(i httptrace.DNSDoneInfo) { t.dialling(&t.resolving, i.Err != nil) },
		ConnectDone:          t.connectDone,
		TLSHandshakeStart:    t.handshakeStart,
		TLSHandshakeDone:     func(_ tls.ConnectionState, err error) { t.dialling(&t.tlsDone, err == nil) },
		WroteRequest:         t.wroteRequest,
		GotFirstResponseByte: t.gotFirstByte,
	}
}

// getConn starts an attempt: net/http looks for a connection, to the proxy if there is
// one.
func (t *Trace) getConn(firstHop string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.called, t.proxied = true, firstHop != hostPort(t.target)
	t.resolving, t.connected, t.tlsBegun, t.tlsDone = false, false, false, false
	t.gotConn, t.wrote, t.firstByte = false, false, false
}

// hostPort returns the address that net/http dials for u without a proxy.
func hostPort(u *url.URL) string {
	port := u.Port()
	switch {
	case port != "":
	case u.Scheme == "https":
		port = "443"
	default:
		port = "80"
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// dialling records the progress of a dial. A dial may continue in the background after the
// request was given another connection; it then no longer belongs to the request.
func (t *Trace) dialling(field *bool, value bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.gotConn {
		*field = value
	}
}

// handshakeStart may be called twice: for the proxy, and through it for the target.
func (t *Trace) handshakeStart() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.gotConn {
		t.tlsBegun, t.tlsDone = true, false
	}
}

func (t *Trace) connectDone(_, _ string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.gotConn && err == nil { // one of several addresses is enough
		t.connected = true
	}
}

func (t *Trace) onConn(info httptrace.GotConnInfo) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.called = true
	t.conns++
	t.reused, t.idle = info.Reused, 0
	if info.WasIdle {
		t.idle = info.IdleTime
	}
	t.gotConn, t.wrote, t.firstByte = true, false, false
}

func (t *Trace) wroteRequest(info httptrace.WroteRequestInfo) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.called = true
	if info.Err == nil {
		t.wrote, t.everWrote, t.writtenAt = true, true, t.now()
	}
}

func (t *Trace) gotFirstByte() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.firstByte = true
}

// Stage returns the stage of the current attempt before its headers have arrived. It never
// returns [semconv.TransportStageBody], and returns unset if nothing is known.
func (t *Trace) Stage() semconv.TransportStage {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case !t.called:
		return semconv.TransportStageUnset
	case t.gotConn && t.wrote, t.firstByte:
		return semconv.TransportStageHeaders
	case t.gotConn:
		return semconv.TransportStageWrite
	case t.tlsBegun && !t.tlsDone:
		return semconv.TransportStageTLS
	case t.connected && t.proxied && t.target.Scheme == "https":
		return semconv.TransportStageProxy // only the CONNECT lies between the two hops
	case t.tlsDone:
		return semconv.TransportStageTLS
	case t.resolving:
		return semconv.TransportStageDNS
	default:
		return semconv.TransportStageConnect
	}
}

// Sent reports whether any part of the request may have left this side, and whether that
// is known.
func (t *Trace) Sent() (sent, known bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.everWrote || t.conns > 0, t.called
}

// Connection reports whether the last connection of the request had served another request
// before, and how long it had been idle.
func (t *Trace) Connection() (reused classify.Fact, idle time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.conns == 0 {
		return classify.NotObserved, 0
	}
	return classify.FactOf(t.reused), t.idle
}

// Connecting reports whether the request is still waiting for its first connection, and
// whether that is known.
func (t *Trace) Connecting() (yes, known bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.conns == 0, t.called
}

// WrittenAt returns the time at which the request was last written completely, or the zero
// time.
func (t *Trace) WrittenAt() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.writtenAt
}

// Resends returns how often net/http resent the request by itself.
func (t *Trace) Resends() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return max(0, t.conns-1)
}
