package otelllm

import (
	"net/http"

	"github.com/otelllm/otelllm-go/otelllm/internal/gateway"
)

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
// http.ResponseController work as without it.
//
// A gateway that streams a request's body on, as httputil.ReverseProxy does, should
// call [http.ResponseController.EnableFullDuplex] first. Otherwise net/http closes
// the body over HTTP/1 when the response begins, and where the upstream answers
// before the transport has seen the body's end, the transport cuts the connection:
// the span then reports a read_error that the gateway itself brought about.
func NewHandler(next http.Handler, opts ...HandlerOption) http.Handler {
	return newHandler(global, next, opts)
}

func newHandler(i *Instrumentation, next http.Handler, opts []HandlerOption) http.Handler {
	c := configure(i, opts, HandlerOption.applyHandler)
	recorder := c.recorder(i)
	recorder.Meters = nil // the conventions' client instruments are the transport's
	return &gateway.Handler{Next: next, Config: gateway.Config{
		Record:         recorder,
		Recogniser:     c.recogniser,
		TracerProvider: c.tracerProvider,
		Propagator:     c.propagator,
	}}
}
