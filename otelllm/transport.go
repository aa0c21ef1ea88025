package otelllm

import (
	"net/http"
	"time"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/otelllm/internal/client"
	"github.com/otelllm/otelllm-go/otelllm/internal/watchdog"
	"github.com/otelllm/otelllm-go/semconv"
)

// Transport is an http.RoundTripper that records model calls. Requests that are
// none pass untouched, and so does everything while nothing is recorded: no
// TracerProvider is set, no run is open, no metrics are kept, and no option asks
// for more than recording. It is safe for concurrent use.
//
// Every attempt becomes one span of kind CLIENT, `chat {model}`, which ends when
// the response's body has been read, has failed or is closed. A body that is
// never read to its end or closed ends its span when it is garbage collected.
// Where one Transport lies above another, the one above records, and only its
// options count.
type Transport struct{ transport client.Transport }

// NewTransport wraps base, http.DefaultTransport when it is nil. The request's
// body is read for its model and the ids in its history: where it lies, before it is sent,
// if it is one of those in memory that http.NewRequest knows, so that samplers see the
// model; else as it is sent, at most 8 MiB. GetBody is left to net/http. The response's
// body is read as the consumer reads it.
func NewTransport(base http.RoundTripper, opts ...TransportOption) *Transport {
	return newTransport(global, base, opts)
}

func newTransport(i *Instrumentation, base http.RoundTripper, opts []TransportOption) *Transport {
	if base == nil {
		base = http.DefaultTransport
	}
	c := configure(i, opts, TransportOption.applyTransport)
	t := &Transport{client.Transport{Base: base, Config: client.Config{
		Record:         c.recorder(i),
		Recogniser:     c.recogniser,
		Propagator:     c.propagator,
		TracerProvider: c.tracerProvider,
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
