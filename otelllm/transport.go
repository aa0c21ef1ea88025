package otelllm

import (
	"net/http"
	"time"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/otelllm/internal/client"
	"github.com/otelllm/otelllm-go/otelllm/internal/watchdog"
	"github.com/otelllm/otelllm-go/semconv"
)

// Transport is an http.RoundTripper that records model calls. It passes every other
// request through untouched. It does the same with model calls while nothing would be
// recorded: no TracerProvider is set, no run is open, no metrics are kept, and no option
// asks for more than recording. It is safe for concurrent use.
//
// Every attempt becomes one span of kind CLIENT, `chat {model}`. The span ends when the
// response's body has been read to its end, has failed or is closed. If a body is never
// read to its end or closed, its span ends when the body is garbage collected. If one
// Transport wraps another, the outer one records, and only its options count.
type Transport struct{ transport client.Transport }

// NewTransport wraps base, or http.DefaultTransport if base is nil.
//
// It reads the request's body for the model and for the ids in the history. A body in
// memory of a kind that http.NewRequest knows is read in place, before it is sent, so that
// samplers see the model. Any other body is read while it is sent, up to 8 MiB.
// NewTransport never calls GetBody. It reads the response's body as the consumer reads it.
func NewTransport(base http.RoundTripper, opts ...TransportOption) *Transport {
	return global.NewTransport(base, opts...)
}

// NewTransport is [NewTransport] with the options of i.
func (i *Instrumentation) NewTransport(base http.RoundTripper, opts ...TransportOption) *Transport {
	if base == nil {
		base = http.DefaultTransport
	}
	c := configure(i, opts, TransportOption.applyTransport)
	t := &Transport{client.Transport{Base: base, Config: client.Config{
		Record:         c.recorder(i),
		Recogniser:     c.recogniser,
		Propagator:     c.propagator,
		TracerProvider: c.tracerProvider,
		Inferred:       c.source(i),
		Watchdog:       watchdog.Limits(c.watchdog),
		WatchdogError: func(kind semconv.WatchdogKind, limit time.Duration) error {
			return &WatchdogError{Kind: kind, Limit: limit}
		},
	}}}
	if c.streamErrors {
		t.transport.Config.StreamError = func(d classify.Diagnosis, err error) error {
			return &StreamError{Diagnosis: d, err: err}
		}
	}
	return t
}

var _ http.RoundTripper = (*Transport)(nil)

// RoundTrip implements http.RoundTripper. It neither changes nor keeps req.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	return t.transport.RoundTrip(req)
}

// CloseIdleConnections closes the idle connections of the transport below, if
// it has them: http.Client.CloseIdleConnections finds it here.
func (t *Transport) CloseIdleConnections() {
	if base, ok := t.transport.Base.(interface{ CloseIdleConnections() }); ok {
		base.CloseIdleConnections()
	}
}
