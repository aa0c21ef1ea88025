package stacktest

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
)

// receiver takes traces in OTLP over HTTP and keeps what their spans say.
type receiver struct {
	url string

	mu    sync.Mutex
	spans []span // under mu
}

type span struct {
	name       string
	attributes map[string]any
}

func receive(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{}
	srv := httptest.NewServer(http.HandlerFunc(r.take))
	t.Cleanup(srv.Close)
	r.url = srv.URL
	return r
}

// named are the spans of this name, in the order of their ends.
func (r *receiver) named(name string) []span {
	r.mu.Lock()
	defer r.mu.Unlock()
	var found []span
	for _, s := range r.spans {
		if s.name == name || name == "" {
			found = append(found, s)
		}
	}
	return found
}

func (r *receiver) take(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return
	}
	export := ptraceotlp.NewExportRequest()
	if err := export.UnmarshalProto(body); err != nil {
		http.Error(w, "stacktest: not an export of traces", http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, rs := range export.Traces().ResourceSpans().All() {
		for _, ss := range rs.ScopeSpans().All() {
			for _, s := range ss.Spans().All() {
				r.spans = append(r.spans, span{s.Name(), s.Attributes().AsRaw()})
			}
		}
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
}
