package otelllm

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/felixge/httpsnoop"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/otelllm/otelllm-go/otelllm/internal/wire"
)

// handler records the model calls that a gateway serves.
type handler struct {
	next   http.Handler
	config config
}

// NewHandler wraps the serving side of a gateway: a proxy, or anything else that
// answers model calls by making some. Every model call that it serves becomes a
// span of kind SERVER, `chat {model}`, with the facts of the stream as it was
// served. Requests that are none pass untouched.
//
// Give the transport that the gateway calls its upstream with to [NewTransport]:
// attempts made under the context of a served request are its upstream. So the
// span tells apart an upstream that failed, also where the gateway hid it behind a
// clean `[DONE]`; a client that went away, which is no error; and a deliberate end
// by the gateway itself ([WithAbort]). What failed upstream is the cause: the
// span names it.
//
// Trace context is read from the request's headers, by [WithPropagators] or the
// global propagator, unless the request's context holds a span already. The
// optional interfaces of the ResponseWriter (http.Flusher and the others) and
// http.ResponseController work as without it. [WithWatchdog], [WithStreamErrors]
// and [WithMeterProvider] do not apply.
//
// A gateway that streams a request's body on, as httputil.ReverseProxy does, should
// call [http.ResponseController.EnableFullDuplex] first. Otherwise net/http closes
// the body over HTTP/1 when the response begins, and where the upstream answers
// before the transport has seen the body's end, the transport cuts the connection:
// the span then reports a read_error that the gateway itself brought about.
func NewHandler(next http.Handler, opts ...Option) http.Handler {
	h := &handler{next: next, config: newConfig(opts)}
	h.config.streamErrors, h.config.watchdog, h.config.meters = false, Watchdog{}, nil
	return h
}

// ServeHTTP implements http.Handler.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, s := h.prepare(r)
	if ctx != nil {
		r = r.WithContext(ctx) //nolint:contextcheck // it is derived of the request's, but for a panic of the tracer's
	}
	if s == nil {
		h.next.ServeHTTP(w, r)
		return
	}
	if s.tee != nil {
		if r.ProtoMajor == 1 {
			s.limit = &bodyLimit{w: w}
			s.tee.limit = s.limit
		}
		r.Body = s.tee
	}
	panics := true
	// A panic goes on as it is: it is how a proxy breaks off a response.
	defer func() { s.returned(panics) }()
	h.next.ServeHTTP(s.writer(w), r)
	panics = false
}

// prepare begins to record r, where it is a model call and is to be recorded. The context
// is nil where it would hold nothing new. A panic of what the application has given
// ends the recording only.
func (h *handler) prepare(r *http.Request) (ctx context.Context, s *serving) {
	defer func() {
		if p := recover(); p != nil {
			ctx, s = nil, nil
			panicked(p)
		}
	}()
	protocol, sure, ok := h.config.recognise(r)
	if !ok || !sure && !jsonBody(r) {
		return nil, nil
	}
	return h.begin(r.Context(), r, protocol, sure)
}

// begin starts the span of a served request; nil if nothing records it.
func (h *handler) begin(caller context.Context, r *http.Request, protocol wire.Protocol, sure bool) (context.Context, *serving) {
	start := time.Now()
	ctx := caller
	if !trace.SpanContextFromContext(ctx).IsValid() {
		p := h.config.propagator
		if p == nil {
			p = otel.GetTextMapPropagator()
		}
		ctx = p.Extract(ctx, propagation.HeaderCarrier(r.Header))
	}
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	target := &url.URL{Scheme: scheme, Host: r.Host}
	id := h.config.identify(protocol, target)
	runOf(ctx).identify(&id)
	ctx, span := startSpan(ctx, tracerOf(ctx, h.config.provider), serverKind, &id, start)
	if !span.IsRecording() {
		span.End()
		return ctx, nil
	}
	s := &serving{}
	s.protocol = protocol
	s.record.init(caller, &h.config, span, &id, start)
	s.facts.Attempt = attemptOf(r.Header)
	if r.Body != nil && r.Body != http.NoBody {
		s.teeAsked(&requestTee{ReadCloser: r.Body, protocol: protocol, or: h.config.other(r, protocol), unsure: !sure && !coded(r), length: r.ContentLength}, target)
	}
	s.begun(s)
	return context.WithValue(ctx, servingKey{}, s), s
}

// writer lets s see what is written to w. It has those optional interfaces that w has.
func (s *serving) writer(w http.ResponseWriter) http.ResponseWriter {
	write := func(next httpsnoop.WriteFunc) httpsnoop.WriteFunc {
		return func(p []byte) (int, error) {
			s.header(http.StatusOK, w.Header())
			n, err := next(p)
			s.wrote(p[:max(0, min(n, len(p)))], err)
			return n, err
		}
	}
	failing, fails := w.(flushErrorer)
	flush := flushFunc(func() error {
		s.header(http.StatusOK, w.Header())
		err := failing.FlushError()
		s.wrote(nil, err)
		return err
	})
	hooked := httpsnoop.Wrap(w, httpsnoop.Hooks{
		WriteHeader: func(next httpsnoop.WriteHeaderFunc) httpsnoop.WriteHeaderFunc {
			return func(status int) {
				s.header(status, w.Header())
				next(status)
			}
		},
		Write: write,
		// What is copied into w is seen where it is written.
		ReadFrom: func(httpsnoop.ReadFromFunc) httpsnoop.ReadFromFunc {
			return func(src io.Reader) (int64, error) {
				return io.Copy(writerFunc(write(w.Write)), onlyReader{src})
			}
		},
		Flush: func(next httpsnoop.FlushFunc) httpsnoop.FlushFunc {
			if fails {
				return func() { _ = flush() }
			}
			return func() {
				s.header(http.StatusOK, w.Header())
				next()
			}
		},
		Hijack: func(next httpsnoop.HijackFunc) httpsnoop.HijackFunc {
			return func() (net.Conn, *bufio.ReadWriter, error) {
				conn, rw, err := next()
				if err == nil {
					s.hijacked()
				}
				return conn, rw, err
			}
		},
	})
	if !fails {
		return hooked
	}
	_, strings := w.(io.StringWriter)
	return withFlushError(hooked, strings, flush, func(text string) (int, error) { return write(w.Write)([]byte(text)) })
}

// withFlushError adds to w, which httpsnoop has made, what httpsnoop does not know.
// http.ResponseController asks for FlushError before Flush, which loses the error.
// It knows the interfaces that the writers of HTTP/1, HTTP/2 and HTTP/3 have; a
// writer of any other kind keeps those that httpsnoop has given it.
func withFlushError(w http.ResponseWriter, strings bool, flush flushFunc, write stringFunc) http.ResponseWriter {
	unwrapper, _ := w.(httpsnoop.Unwrapper)
	flusher, flushes := w.(http.Flusher)
	notifier, notifies := w.(closeNotifier)
	hijacker, hijacks := w.(http.Hijacker)
	reader, reads := w.(io.ReaderFrom)
	pusher, pushes := w.(http.Pusher)
	flushable := flushWriter{w, unwrapper, flusher, flush}
	switch (shape{flushes, strings, notifies, hijacks, reads, pushes}) {
	case shape{flushes: true, strings: true, notifies: true, hijacks: true, reads: true}: // HTTP/1
		return struct {
			flushWriter
			io.StringWriter
			closeNotifier
			http.Hijacker
			io.ReaderFrom
		}{flushable, write, notifier, hijacker, reader}
	case shape{flushes: true, strings: true, notifies: true, pushes: true}: // HTTP/2
		return struct {
			flushWriter
			io.StringWriter
			closeNotifier
			http.Pusher
		}{flushable, write, notifier, pusher}
	case shape{flushes: true}: // HTTP/3
		return flushable
	default:
		return w
	}
}

// shape says which optional interfaces a writer has.
type shape struct{ flushes, strings, notifies, hijacks, reads, pushes bool }

// flushWriter is a writer whose Flush can report a failure.
type flushWriter struct {
	http.ResponseWriter
	httpsnoop.Unwrapper
	http.Flusher
	flushErrorer
}

type flushErrorer interface{ FlushError() error }

// closeNotifier is http.CloseNotifier, which is deprecated but not gone.
type closeNotifier interface{ CloseNotify() <-chan bool }

type flushFunc func() error

func (f flushFunc) FlushError() error { return f() }

type stringFunc func(string) (int, error)

func (f stringFunc) WriteString(text string) (int, error) { return f(text) }

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// onlyReader hides a reader's WriteTo: what it writes has to pass the hook in
// pieces that a reader would get.
type onlyReader struct{ io.Reader }
