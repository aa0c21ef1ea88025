// Package proxy is a reverse proxy for model calls. It records each of them and changes nothing
// on the way: neither bytes and headers, nor moments, nor the kind of a failure.
//
// A model call is recorded once, where it is sent upstream: as the client itself would record it.
// What only the serving side sees is that the client leaves. That cancels the call, with a cause
// that says so.
//
// An agent has to find what it would have found without the proxy. A connection that breaks
// upstream breaks in the same way towards the client: a reset as a reset, a closed
// connection as a closed one, before the headers as within the body. An upstream that cannot be
// connected to is what [Config.Unreachable] says. The proxy answers in the provider's place only
// for one of these, or if it knows no upstream for a request, or refuses it.
//
// To a client of HTTP/2 every failure is RST_STREAM with INTERNAL_ERROR: net/http can send no
// other code, and ends no connection because of one stream. So what a client of HTTP/2 repeats
// unasked because the upstream has not seen it, after REFUSED_STREAM or GOAWAY, such a client
// does not repeat behind the proxy, and neither does one of HTTP/1: its own retries see a reset
// or a closed connection.
//
// Every connection of a client has connections of its own upstream. So an upstream
// connection is new, reused or stale where the client's is, and the proxy sends no request
// a second time unless [Config.Retry] asks for it.
package proxy

import (
	"cmp"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/propagation"

	"github.com/otelllm/otelllm-go/otelllm"
)

// Upstream is a provider that requests are sent to. A request has to match both Prefix and
// Host, as far as they are set. Those with a Host come before the others. With neither it is
// the upstream of all requests that no other matches.
type Upstream struct {
	// Prefix is what the path of a request begins with, in whole segments. It is removed.
	Prefix string
	// Host is that of a request, with or without its port.
	Host string
	// Provider is the host of a known provider, such as api.openai.com. The requests that match
	// no Prefix and no Host and name it by their path or headers go to URL instead, or are refused
	// if URL is nil. Prefix and Host have no effect then.
	Provider string
	// URL is where the requests go. Its path comes before theirs.
	URL *url.URL
}

// Config configures a [Server]. The zero value sends every request to the provider that its
// path names.
type Config struct {
	// Upstreams are the known providers. The first that matches a request counts. Where none
	// does it is the one of [UpstreamFor].
	Upstreams []Upstream
	// Instrumentation records the requests. Nil is that of the functions of package otelllm.
	Instrumentation *otelllm.Instrumentation
	// Retry sends a request again that failed before anything of the response was passed on,
	// if the verdict on it is safe_auto_retry.
	Retry bool
	// Unreachable is what a client sees of an upstream that cannot be connected to.
	Unreachable Unreachable
	// Failed, if set, is called for each request that fails, or that its upstream answers with an
	// error. It must be safe for concurrent use.
	Failed func(Failure)
	// Grace is how long open streams may go on when the server is to end.
	Grace time.Duration
	// Transport says how upstreams are connected to; nil for the defaults. Limits on the
	// number of connections have no effect.
	Transport *http.Transport
	// Logger gets what goes wrong, without queries, contents and credentials; nil for none.
	Logger *slog.Logger
	// HeaderLimit is how long a client may take to send the headers of a request; 0 is 10
	// seconds.
	HeaderLimit time.Duration
	// IdleLimit is how long a client's connection may be idle; 0 is half an hour. Clients and
	// providers end idle connections after minutes, so a client finds none closed because of it.
	IdleLimit time.Duration
	// TrustTraceContext makes the spans of requests children of the client's own, if a
	// request has trace context. It is passed on upstream as it came in any case.
	TrustTraceContext bool
}

// Server is the proxy. Create it with [New].
type Server struct {
	upstreams []Upstream
	named     map[string]bool // hosts that requests over loopback may ask for
	grace     time.Duration
	headers   time.Duration // the limit for those of a request
	idle      time.Duration // the limit for a connection
	log       *slog.Logger
	form      Unreachable
	gate      atomic.Pointer[gate] // while it serves
	failed    func(Failure)
	requests  atomic.Int64
	llm       *otelllm.Instrumentation
	transport *connector
	handler   http.Handler // records, and sends upstream
	open      *registry

	propagators propagation.TextMapPropagator // read the trace context of clients
}

// New returns a Server. It fails if an upstream's URL is not one to send requests to.
func New(config Config) (*Server, error) {
	for _, u := range config.Upstreams {
		if u.URL == nil && u.Provider != "" {
			continue
		}
		if err := check(u.URL); err != nil {
			return nil, err
		}
	}
	s := &Server{
		upstreams: config.Upstreams,
		named:     namedHosts(config.Upstreams),
		grace:     config.Grace,
		headers:   cmp.Or(config.HeaderLimit, headerLimit),
		idle:      cmp.Or(config.IdleLimit, idleLimit),
		log:       cmp.Or(config.Logger, slog.New(slog.DiscardHandler)),
		form:      config.Unreachable,
		failed:    config.Failed,
		llm:       config.Instrumentation,
		transport: newConnector(config.Transport),
		open:      newRegistry(),
		// One of nothing, since without any the global ones count.
		propagators: propagation.NewCompositeTextMapPropagator(),
	}
	newTransport := otelllm.NewTransport
	if s.llm != nil {
		newTransport = s.llm.NewTransport
	}
	var sending http.RoundTripper = newTransport(s.transport)
	if config.Retry {
		retry := &retrying{next: sending, log: s.log}
		retry.room.Store(maxRepeats)
		sending = retry
	}
	proxy := &httputil.ReverseProxy{
		Rewrite:        rewrite,
		Transport:      sending,
		BufferPool:     &buffers{},
		ModifyResponse: s.modifyResponse,
		ErrorHandler:   s.unreachable,
		ErrorLog:       log.New(discard{}, "", 0), // the exchange logs its failure, without addresses
	}
	if config.TrustTraceContext {
		s.propagators = propagation.TraceContext{}
	}
	s.handler = proxy
	return s, nil
}

// check reports what is wrong with an upstream's URL. The error does not contain the URL,
// which may have credentials in it.
func check(u *url.URL) error {
	switch {
	case u == nil || u.Host == "":
		return errors.New("an upstream needs a URL with a host, such as https://api.openai.com")
	case u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("upstream %s: the scheme has to be http or https", u.Host)
	case u.User != nil:
		return fmt.Errorf("upstream %s: the URL must not contain credentials", u.Host)
	case u.RawQuery != "" || u.Fragment != "":
		return fmt.Errorf("upstream %s: the URL must have neither a query nor a fragment", u.Host)
	}
	return nil
}

// Requests returns how many requests have been sent upstream, or would have been if that could
// be connected to.
func (s *Server) Requests() int64 { return s.requests.Load() }

// buffers is the pool of the buffers that bodies are copied with. They are smaller than
// those of httputil: most bodies are streams of short events, of which thousands may be open.
type buffers struct{ pool sync.Pool }

const bufferSize = 4 << 10

// Get implements httputil.BufferPool.
func (b *buffers) Get() []byte {
	if buf, ok := b.pool.Get().(*[bufferSize]byte); ok {
		return buf[:]
	}
	return make([]byte, bufferSize)
}

// Put implements httputil.BufferPool.
func (b *buffers) Put(buf []byte) { b.pool.Put((*[bufferSize]byte)(buf)) }

// discard is the output of a log that nothing is to be written to.
type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

// newHTTPServer returns the net/http server for s.
func (s *Server) newHTTPServer() *http.Server {
	protocols := &http.Protocols{}
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Server{
		Handler:                      s,
		Protocols:                    protocols,
		ReadHeaderTimeout:            s.headers,
		IdleTimeout:                  s.idle,
		MaxHeaderBytes:               maxHeader,
		ConnContext:                  s.open.connected,
		ConnState:                    s.open.changed,
		ErrorLog:                     ServerLog(s.log),
		DisableGeneralOptionsHandler: true,
	}
}

const (
	// maxHeader bounds the headers of a request, and those of a response, in bytes.
	maxHeader = 1 << 20
	// headerLimit is the default of [Config.HeaderLimit].
	headerLimit = 10 * time.Second
	// idleLimit is the default of [Config.IdleLimit].
	idleLimit = 30 * time.Minute
)

// ServerLog returns a log for a server of net/http. Of its messages it passes on only their
// kind: the rest may be what a client sent.
func ServerLog(to *slog.Logger) *log.Logger { return log.New(serverLog{to}, "", 0) }

// serverLog is the output of [ServerLog].
type serverLog struct{ log *slog.Logger }

// Write implements io.Writer.
func (l serverLog) Write(p []byte) (int, error) {
	kind, _, _ := strings.Cut(strings.TrimPrefix(string(p), "http: "), ": ")
	for _, known := range []string{"panic serving", "TLS handshake error", "Accept error"} {
		if strings.HasPrefix(kind, known) {
			l.log.Warn("server", "problem", known)
		}
	}
	return len(p), nil
}

// tcp returns the TCP connection below conn, or nil.
func tcp(conn net.Conn) *net.TCPConn {
	for {
		switch c := conn.(type) {
		case *net.TCPConn:
			return c
		case interface{ NetConn() net.Conn }:
			conn = c.NetConn()
		default:
			return nil
		}
	}
}
