package instrumentations

import (
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/cmd/otelllm/report"
	"github.com/otelllm/otelllm-go/test/built"
	"github.com/otelllm/otelllm-go/test/faultyllm"
	"github.com/otelllm/otelllm-go/test/internal/process"
	"github.com/otelllm/otelllm-go/test/otlphttp"
)

// world holds the servers that the agents talk to.
type world struct {
	server   *faultyllm.Server
	refusing *faultyllm.Port
	full     *faultyllm.Port
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{}
	var err error
	w.server, err = faultyllm.Start()
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, w.server.Close()) })
	w.refusing, err = faultyllm.RefusingPort()
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, w.refusing.Close()) })
	w.full, err = faultyllm.FullPort()
	if !errors.Is(err, errors.ErrUnsupported) {
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, w.full.Close()) })
	}
	return w
}

// baseURL returns where a producer meets a fault, as the SDK expects it, or "" if this machine cannot make the fault.
func (w *world) baseURL(f *fault, p *producer) string {
	base := ""
	switch {
	case f.at == nil:
		key := p.key() + "-" + f.key
		w.server.Play(key, f.script...)
		base = w.server.BaseURL(key, p.wire)
	case f.key == "connect-timeout" && w.full == nil:
		return ""
	default:
		base = faultyllm.BaseURL("http", f.at(w), p.wire)
	}
	return strings.TrimSuffix(base, "/")
}

// collector is the built Collector and what it has exported.
type collector struct {
	*process.Process

	endpoint string // URL for OTLP over HTTP
	metrics  string // URL
	sink     *sink
}

// config is the Collector's configuration. The spans of an agent are exported in batches, 200 ms plus an export apart,
// and a tool that is stopped may be in the batch after its run's: a run has to settle for well longer than that, on a busy
// machine, too. Otherwise it is judged without the tool.
const config = `
extensions: {health_check: {endpoint: "${env:HEALTH}"}}
receivers: {otlp: {protocols: {http: {endpoint: "${env:OTLP}"}}}}
processors:
  llm_classify: {max_hold: 8s, settle: 5s, run_timeout: 8s}
exporters: {otlp_http: {endpoint: "${env:SINK}", compression: none, sending_queue: {enabled: false}}}
service:
  extensions: [health_check]
  pipelines: {traces: {receivers: [otlp], processors: [llm_classify], exporters: [otlp_http]}}
  telemetry:
    metrics: {readers: [{pull: {exporter: {prometheus: {host: "127.0.0.1", port: "${env:METRICS_PORT}"}}}}]}
    logs: {level: warn}
`

func startCollector(t *testing.T) *collector {
	t.Helper()
	bin := built.Collector(t)
	dir := t.TempDir()
	path := filepath.Join(dir, "collector.yaml")
	require.NoError(t, os.WriteFile(path, []byte(config), 0o600))
	c := &collector{sink: startSink(t)}
	var err error
	c.Process, err = process.StartOnFreePorts(t.Context(), 3, func(free []string) process.Spec {
		c.endpoint, c.metrics = "http://"+free[0], "http://"+free[2]+"/metrics"
		return process.Spec{
			Name: "the Collector", Path: bin, Args: []string{"--config", "file:" + path},
			Env: []string{
				"OTLP=" + free[0], "HEALTH=" + free[1], "METRICS_PORT=" + free[2][strings.LastIndexByte(free[2], ':')+1:],
				"SINK=" + c.sink.url,
			},
			Log: filepath.Join(dir, "collector.log"), Health: "http://" + free[1], Wait: process.NewCollector,
		}
	})
	require.NoError(t, err)
	return c
}

// drained waits until no span is held for any reason, and stops the Collector.
func (c *collector) drained(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool {
		resp, err := http.Get(c.metrics)
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		_, held, found := strings.Cut("\n"+string(body), "\notelcol_processor_llm_classify_traces_held ")
		return err == nil && found && strings.HasPrefix(held, "0\n")
	}, 30*time.Second, 50*time.Millisecond, "the Collector still holds spans%s", c.Tail())
	require.NoError(t, c.Stop(15*time.Second))
}

// sink is the backend of the Collector.
type sink struct {
	url string

	mu     sync.Mutex
	traces map[pcommon.TraceID][]span // guarded by mu
	spans  report.Spans               // guarded by mu: the same spans, as runs
}

// span is one exported span.
type span struct {
	ptrace.Span

	scope string
}

func startSink(t *testing.T) *sink {
	t.Helper()
	s := &sink{traces: make(map[pcommon.TraceID][]span)}
	srv := httptest.NewServer(otlphttp.Handler(s.take))
	t.Cleanup(srv.Close)
	s.url = srv.URL
	return s
}

func (s *sink) take(td ptrace.Traces) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spans.Add(td)
	for _, rs := range td.ResourceSpans().All() {
		for _, ss := range rs.ScopeSpans().All() {
			for _, one := range ss.Spans().All() {
				s.traces[one.TraceID()] = append(s.traces[one.TraceID()], span{one, ss.Scope().Name()})
			}
		}
	}
}

// trace returns the spans of a trace.
func (s *sink) trace(t *testing.T, id string) []span {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.traces[traceID(t, id)]
}

// runs returns the judged runs of a trace.
func (s *sink) runs(t *testing.T, id string) []report.Run {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.spans.Runs(traceID(t, id))
}

func traceID(t *testing.T, id string) (key pcommon.TraceID) {
	t.Helper()
	_, err := hex.Decode(key[:], []byte(id))
	require.NoError(t, err)
	return key
}
