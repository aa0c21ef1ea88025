package proxy

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"sync"
	"time"

	"go.opentelemetry.io/otel/propagation"

	"github.com/otelllm/otelllm-go/otelllm"
	"github.com/otelllm/otelllm-go/semconv"
)

// exchange is a request that is being served, until its handler has returned.
type exchange struct {
	base   *url.URL    // the upstream
	target *url.URL    // of the request
	link   *link       // the client's connection
	proto  int         // the major version of HTTP that the client speaks
	sticky *stickyConn // the connection of the response, over HTTP/1; nil: not known
	client *http.ResponseController
	whole  bool // the request's body has been read into memory
	closes bool // a failure to connect is a close for the client
	late   bool // the body did not come in time, for which net/http cancels the request's context
	abort  func(source otelllm.AbortSource, reason string)

	recorded io.ReadCloser // the body of the response, with its recording; nil: no response came

	mu sync.Mutex
	// Everything below is guarded by mu.
	failure       error       // what the upstream did; nil: it did not fail
	status        int         // of the response; 0: no response came
	answered      bool        // the headers of the response have come
	conn          *clientConn // upstream; nil before the first dial
	informational int         // responses before the response
	cut           bool        // the server is ending, and has cut this exchange
	tunnel        *tunnel
}

type exchangeKey struct{}

// exchangeOf returns the exchange that ctx belongs to.
func exchangeOf(ctx context.Context) *exchange {
	return ctx.Value(exchangeKey{}).(*exchange)
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if why := s.foreign(r); why != "" {
		s.log.Warn("request refused", "why", why)
		refuse(w, why)
		return
	}
	base, prefix, ok := s.route(r)
	if !ok {
		s.log.Warn("no upstream for this path", "method", r.Method)
		noUpstream(w)
		return
	}
	// The context that net/http made does not say why it ends: the client has left.
	ctx, abort := otelllm.WithAbort(context.WithoutCancel(r.Context()))
	defer abort(otelllm.AbortApplication, "served")
	x := &exchange{
		base: base, target: target(base, r, prefix), link: linkOf(ctx), proto: r.ProtoMajor,
		client: http.NewResponseController(w), abort: abort,
	}
	defer context.AfterFunc(r.Context(), x.clientLeft)()
	ctx = s.propagators.Extract(ctx, propagation.HeaderCarrier(r.Header))
	served := r.WithContext(context.WithValue(ctx, exchangeKey{}, x))
	if r.Body != nil && r.Body != http.NoBody {
		served.Body = &requestBody{r.Body, served.Context(), x}
	}
	if prefix != "" {
		u := *r.URL
		u.Path, u.RawPath = r.URL.Path[len(prefix):], ""
		served.URL = &u
	}
	s.requests.Add(1)
	if !s.open.begin(x) {
		x.reset()
		panic(http.ErrAbortHandler)
	}
	returned := false
	defer func() { //nolint:contextcheck // it is the client's context that matters
		if !returned {
			s.breakOff(r.Context(), x)
		}
		s.reportFailure(x)
		s.open.end(x)
	}()
	// Without it net/http ends a request's body when the response begins.
	_ = x.client.EnableFullDuplex()
	s.handler.ServeHTTP(&responseWriter{w, x}, served)
	returned = true
}

// clientLeft ends what goes on upstream for a client that has left.
func (x *exchange) clientLeft() { x.abort(semconv.AbortSourceConsumer, "") }

// requestBody is the body of a request. One that breaks off is a client that leaves while it
// sends, which no context of net/http's says.
type requestBody struct {
	io.ReadCloser

	ctx      context.Context
	exchange *exchange
}

// Read implements io.Reader.
func (b *requestBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == nil || err == io.EOF || err == http.ErrBodyReadAfterClose || errors.Is(err, os.ErrDeadlineExceeded) { //nolint:errorlint // bodies return them bare
		return n, err
	}
	b.exchange.clientLeft()
	return n, context.Cause(b.ctx)
}

const (
	maxUnsent   = 8 << 20         // of the body of a request that is not sent, in bytes; the recording keeps no more
	unsentLimit = 2 * time.Second // for the rest of such a body to arrive
)

// readUnsent reads the body of a request that there is no connection for. The body alone says
// which run the request belongs to, and that it repeats an earlier one. A body that its
// client holds back until it is asked for is not read.
//
// Closing a body that is not whole waits for more of it. The deadline ends that as well.
func (x *exchange) readUnsent(req *http.Request) {
	if x.whole || req.Context().Err() != nil {
		return
	}
	if expectsContinue(req) {
		_ = x.client.SetReadDeadline(time.Now())
		return
	}
	if x.client.SetReadDeadline(time.Now().Add(unsentLimit)) != nil {
		return
	}
	switch _, err := io.CopyN(io.Discard, req.Body, maxUnsent); {
	case err == io.EOF: //nolint:errorlint // bodies return it bare
		_ = x.client.SetReadDeadline(time.Time{}) // net/http goes on reading, to see whether the client leaves
	case errors.Is(err, os.ErrDeadlineExceeded):
		x.late = true
	}
}

// noUpstream answers a request that the proxy knows no upstream for. SDKs do not repeat it.
func noUpstream(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusNotFound)
	_, _ = io.WriteString(w, `{"error":{"type":"otelllm_no_upstream","message":"otelllm knows no upstream for this path: name one with --upstream"}}`+"\n")
}

// failed records how the upstream failed.
func (x *exchange) failed(err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.failure = err
}

// begins forgets the failure of an attempt before this one.
func (x *exchange) begins() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.failure, x.answered, x.sticky, x.conn, x.informational = nil, false, nil, nil, 0
}

// breakOff breaks the client's connection off in the way in which the upstream's broke off.
// HTTP/2 has one way, which net/http takes when the handler panics: RST_STREAM. Client is
// done when the client has gone.
func (s *Server) breakOff(client context.Context, x *exchange) {
	x.mu.Lock()
	failure, answered, cut := x.failure, x.answered, x.cut
	x.mu.Unlock()
	switch {
	case cut:
		x.reset()
	case client.Err() != nil && !x.late, failure == nil, errors.Is(failure, context.Canceled): // the client has gone, or cannot be written to
	case x.closes:
		s.logFailure(x, failure, answered)
		x.finish()
	case isReset(failure):
		s.logFailure(x, failure, answered)
		x.reset()
	default:
		s.logFailure(x, failure, answered)
		x.finish()
	}
}

// logFailure logs how the upstream failed: by a word of our own, since an error's text may
// be the upstream's.
func (s *Server) logFailure(x *exchange, err error, answered bool) {
	at := "before the response"
	if answered {
		at = "within the response"
	}
	s.log.Warn("upstream failed", "upstream", x.base.Host, "at", at, "problem", problem(err))
}

// reset makes net/http's closing of the client's connection a reset. What has been written
// gets to the client first, as far as it reads.
func (x *exchange) reset() {
	conn := x.link.tcp
	if x.proto != 1 || conn == nil {
		return
	}
	x.link.drain()
	_ = conn.SetLinger(0)
}

// finish ends what the client reads. Closing alone would be a reset if the client had sent
// something that was not read.
func (x *exchange) finish() {
	if conn := x.link.tcp; x.proto == 1 && conn != nil {
		_ = conn.CloseWrite()
	}
}

// rewrite makes the request that goes upstream the one that came.
func rewrite(r *httputil.ProxyRequest) {
	x := exchangeOf(r.In.Context())
	r.Out.URL, r.Out.Host = x.target, ""
	// ReverseProxy removes them.
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
		if values, ok := r.In.Header[name]; ok {
			r.Out.Header[name] = values
		}
	}
	r.Out.Trailer = r.In.Trailer // whose values come with the end of the body
}

// modifyResponse prepares the response of an upstream for the client.
func (s *Server) modifyResponse(resp *http.Response) error {
	x := exchangeOf(resp.Request.Context())
	x.recorded = resp.Body
	x.mu.Lock()
	x.status = resp.StatusCode
	x.mu.Unlock()
	if resp.StatusCode == http.StatusSwitchingProtocols {
		return s.openTunnel(x, resp)
	}
	// A body that ends with its connection does so on this side as well.
	if x.proto == 1 && resp.ProtoMajor == 1 && resp.ContentLength < 0 && len(resp.TransferEncoding) == 0 {
		resp.Header.Set("Transfer-Encoding", "identity")
	}
	return nil
}

// responseWriter adds no headers to the upstream's, as net/http's would.
type responseWriter struct {
	http.ResponseWriter

	exchange *exchange
}

// Unwrap is for http.ResponseController.
func (w *responseWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (w *responseWriter) WriteHeader(status int) {
	if status < 200 && status != http.StatusSwitchingProtocols {
		w.exchange.gotInformational()
	}
	if status >= 200 {
		h := w.Header()
		for _, name := range []string{"Date", "Content-Type"} {
			if _, ok := h[name]; !ok {
				h[name] = nil
			}
		}
	}
	w.ResponseWriter.WriteHeader(status)
	if status >= 200 {
		// Before the body, which may break off at once.
		_ = http.NewResponseController(w.ResponseWriter).Flush()
	}
}

// Write passes a piece of the response on at once. If it cannot, the answer is not whole for the client, even if
// the piece was the last one.
func (w *responseWriter) Write(p []byte) (int, error) {
	n, err := w.ResponseWriter.Write(p)
	if err == nil {
		err = http.NewResponseController(w.ResponseWriter).Flush()
	}
	if err != nil {
		if body, ok := w.exchange.recorded.(interface{ Undelivered() }); ok {
			body.Undelivered()
		}
		w.exchange.clientLeft()
	}
	return n, err
}

// FlushError is for ReverseProxy, which flushes after each Write: Write has done so.
func (w *responseWriter) FlushError() error { return nil }

// Hijack implements http.Hijacker: a tunnel sees what the client sends and gets.
func (w *responseWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	w.exchange.mu.Lock()
	defer w.exchange.mu.Unlock()
	return w.exchange.tunnel.client(conn, rw.Reader), rw, nil
}
