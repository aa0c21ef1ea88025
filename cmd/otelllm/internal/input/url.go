package input

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path"
	"strings"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/cmd/otelllm/backend"
)

// stored is a trace in a backend.
type stored struct {
	read func(context.Context, pcommon.TraceID) (ptrace.Traces, error)
	id   pcommon.TraceID
}

// parseURL parses the URL of a trace in a backend: jaeger://host:port/TRACEID over HTTP,
// jaeger+https://host/TRACEID over HTTPS, and the same with tempo. What is before the id in
// the path is that of the backend. It reports false for everything else, which is the name
// of a file.
func parseURL(name string) (stored, bool, error) {
	scheme, _, isURL := strings.Cut(name, "://")
	kind, transport, _ := strings.Cut(scheme, "+")
	if !isURL || kind != "jaeger" && kind != "tempo" {
		return stored{}, false, nil
	}
	if transport == "" {
		transport = "http"
	}
	u, err := url.Parse(name)
	switch {
	case err != nil:
		return stored{}, true, errors.New("it is not a URL: write " + kind + "://host:port/TRACEID")
	case transport != "http" && transport != "https":
		return stored{}, true, fmt.Errorf("%s:// is not known: write %s:// for HTTP, or %s+https:// for HTTPS", scheme, kind, kind)
	case u.Host == "" || u.RawQuery != "" || u.Fragment != "":
		return stored{}, true, fmt.Errorf("write %s://host:port/TRACEID", scheme)
	}
	id, err := backend.ParseTraceID(path.Base(u.Path))
	if err != nil {
		return stored{}, true, fmt.Errorf("write %s://host:port/TRACEID: %w", scheme, err)
	}
	u.Scheme, u.Path = transport, strings.TrimSuffix(path.Dir(u.Path), "/")
	if kind == "jaeger" {
		b, err := backend.NewJaeger(u.String())
		if err != nil {
			return stored{}, true, err
		}
		return stored{b.Trace, id}, true, nil
	}
	b, err := backend.NewTempo(u.String())
	if err != nil {
		return stored{}, true, err
	}
	return stored{b.Trace, id}, true, nil
}

// readBackend reads a trace from a backend.
func (s *source) readBackend(b stored) error {
	if u, err := url.Parse(s.name); err == nil {
		s.name = u.Redacted()
	}
	td, err := b.read(s.ctx, b.id)
	if s.ctx.Err() != nil {
		return s.ctx.Err()
	}
	if err != nil {
		s.report(&Problem{Err: err})
		return nil
	}
	return s.add(td)
}
