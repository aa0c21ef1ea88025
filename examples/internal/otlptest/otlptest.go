// Package otlptest is an OTLP receiver for tests.
package otlptest

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/test/otlphttp"
)

// Receiver receives traces in OTLP over HTTP and keeps the content of their spans.
type Receiver struct {
	URL string // for OTEL_EXPORTER_OTLP_ENDPOINT

	mu    sync.Mutex
	spans []Span // guarded by mu
}

// Span is the content of a span.
type Span struct {
	Name       string
	Attributes map[string]any
}

// Start starts a receiver that runs until the test ends.
func Start(tb testing.TB) *Receiver {
	tb.Helper()
	r := &Receiver{}
	srv := httptest.NewServer(http.HandlerFunc(r.receive))
	tb.Cleanup(srv.Close)
	r.URL = srv.URL
	return r
}

// Names returns the names of the received spans, in the order of arrival.
func (r *Receiver) Names() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	names := make([]string, len(r.spans))
	for i, s := range r.spans {
		names[i] = s.Name
	}
	return names
}

// Named returns the spans with this name, in the order of arrival.
func (r *Receiver) Named(name string) []Span {
	r.mu.Lock()
	defer r.mu.Unlock()
	var found []Span
	for _, s := range r.spans {
		if s.Name == name {
			found = append(found, s)
		}
	}
	return found
}

func (r *Receiver) receive(w http.ResponseWriter, req *http.Request) {
	if req.URL.Path != "/v1/traces" {
		http.Error(w, "otlptest: not an export of traces", http.StatusBadRequest)
		return
	}
	otlphttp.Handler(r.take)(w, req)
}

func (r *Receiver) take(td ptrace.Traces) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, rs := range td.ResourceSpans().All() {
		for _, ss := range rs.ScopeSpans().All() {
			for _, s := range ss.Spans().All() {
				r.spans = append(r.spans, Span{s.Name(), s.Attributes().AsRaw()})
			}
		}
	}
}
