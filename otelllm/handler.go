package otelllm

import (
	"net/http"

	"github.com/otelllm/otelllm-go/otelllm/internal/gateway"
)

// NewHandler wraps the serving side of a gateway: a proxy, or any other handler that
// answers model calls by making some. Every model call that it serves becomes a span of
// kind SERVER, `chat {model}`, with the facts of the stream as it was served. All other
// requests pass through untouched.
//
// Wrap the transport to the gateway's upstream with [NewTransport]. Attempts that are made
// under the context of a served request are its upstream. So the span can distinguish an
// upstream that failed, even if the gateway hid it behind a clean `[DONE]`; a client that
// went away, which is not an error; and a deliberate end by the gateway itself
// ([WithAbort]). If an upstream failed, the span names that failure as the cause.
//
// The runs of the agents behind the gateway are inferred from the requests that it serves,
// as [Transport] describes. The gateway's own attempts are a part of these requests, and
// open no run. A request's body is read while the handler reads it, so a served request
// names its run and has a link to it, and is not its child.
//
// Trace context is read from the request's headers, by [WithPropagators] or the global
// propagator, unless the request's context already holds a span. The optional interfaces
// of the ResponseWriter (http.Flusher and others) and http.ResponseController work as they
// do without the wrapper.
//
// A gateway that streams a request's body to its upstream, as httputil.ReverseProxy does,
// should call [http.ResponseController.EnableFullDuplex] first. Otherwise net/http closes
// an HTTP/1 body when the response begins. If the upstream answers before the transport
// has seen the end of the body, the transport then cuts the connection, and the span
// reports a read_error that the gateway itself caused.
func NewHandler(next http.Handler, opts ...HandlerOption) http.Handler {
	return global.NewHandler(next, opts...)
}

// NewHandler is [NewHandler] with the options of i.
func (i *Instrumentation) NewHandler(next http.Handler, opts ...HandlerOption) http.Handler {
	c := configure(i, opts, HandlerOption.applyHandler)
	recorder := c.recorder(i)
	recorder.Meters = nil // the conventions' client instruments are the transport's
	return &gateway.Handler{Next: next, Config: gateway.Config{
		Record:         recorder,
		Recogniser:     c.recogniser,
		TracerProvider: c.tracerProvider,
		Inferred:       c.source(i),
		Propagator:     c.propagator,
	}}
}
