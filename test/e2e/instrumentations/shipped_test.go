package instrumentations

import (
	"bufio"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"google.golang.org/grpc"

	"github.com/otelllm/otelllm-go/test/built"
	"github.com/otelllm/otelllm-go/test/internal/process"
)

// shipped is the built Collector as deploy/collector ships it for one machine, with its
// metrics of verdicts; only its addresses differ, and how long it waits for the end of a run.
type shipped struct {
	*process.Process

	endpoint      string // URL for OTLP over HTTP
	own, verdicts string // host:port of its own metrics, and of those of the verdicts
	runTimeout    time.Duration
}

// moved is what differs.
const moved = `
extensions: {health_check: {endpoint: "${env:HEALTH}"}}
receivers: {otlp: {protocols: {grpc: {endpoint: "${env:OTLP_GRPC}"}, http: {endpoint: "${env:OTLP_HTTP}"}}}}
processors: {llm_classify: {run_timeout: "${env:RUN_TIMEOUT}"}}
exporters: {prometheus: {endpoint: "${env:VERDICTS}"}}
service: {telemetry: {metrics: {readers: [{pull: {exporter: {prometheus: {host: "127.0.0.1", port: "${env:OWN_PORT}"}}}}]}}}
`

// startShipped starts the Collector. It gives take what it exports.
func startShipped(t *testing.T, runTimeout time.Duration, take func(ptrace.Traces)) *shipped {
	t.Helper()
	bin := built.Collector(t)
	dir := t.TempDir()
	overlay := filepath.Join(dir, "moved.yaml")
	require.NoError(t, os.WriteFile(overlay, []byte(moved), 0o600))
	var args []string
	for _, file := range []string{deployed(t, "config.yaml"), deployed(t, "config-metrics.yaml"), overlay} {
		args = append(args, "--config", "file:"+file)
	}
	backend := listenGRPC(t, take)
	s := &shipped{runTimeout: runTimeout}
	var err error
	s.Process, err = process.StartOnFreePorts(t.Context(), 5, func(free []string) process.Spec {
		s.endpoint, s.own, s.verdicts = "http://"+free[1], free[3], free[4]
		return process.Spec{
			Name: "the Collector", Path: bin, Args: args,
			Env: []string{
				"OTLP_GRPC=" + free[0], "OTLP_HTTP=" + free[1], "HEALTH=" + free[2], "OWN_PORT=" + free[3][strings.LastIndexByte(free[3], ':')+1:],
				"VERDICTS=" + free[4], "BACKEND_OTLP=" + backend, "RUN_TIMEOUT=" + runTimeout.String(),
			},
			Log: filepath.Join(dir, "collector.log"), Health: "http://" + free[2], Wait: process.NewCollector,
		}
	})
	require.NoError(t, err)
	return s
}

// deployed returns the path of a file in deploy/collector.
func deployed(t *testing.T, file string) string {
	t.Helper()
	return filepath.Join(built.Root(t), "deploy", "collector", filepath.FromSlash(file))
}

// rss returns the Collector's resident memory in MiB.
func (s *shipped) rss(t require.TestingT) int {
	return int(s.metric(t, "otelcol_process_memory_rss") / (1 << 20))
}

// quiet waits until no span waits for a verdict, and nothing for the end of a run.
func (s *shipped) quiet(t *testing.T) {
	t.Helper()
	require.EventuallyWithT(t, func(t *assert.CollectT) {
		require.Zero(t, s.metric(t, "otelcol_processor_llm_classify_traces_held"))
	}, s.runTimeout+90*time.Second, 200*time.Millisecond, "the Collector still waits")
}

// metric returns the value of one of the Collector's own metrics, which has one series.
func (s *shipped) metric(t require.TestingT, name string) float64 {
	resp, err := http.Get("http://" + s.own + "/metrics")
	require.NoError(t, err)
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if rest, ok := strings.CutPrefix(lines.Text(), name); ok && (rest[0] == ' ' || rest[0] == '{') {
			value, err := strconv.ParseFloat(rest[strings.LastIndexByte(rest, ' ')+1:], 64)
			require.NoError(t, err)
			return value
		}
	}
	require.NoError(t, lines.Err())
	require.Fail(t, "the Collector has no metric "+name)
	return 0
}

// receiver is a backend for OTLP over gRPC.
type receiver struct {
	ptraceotlp.UnimplementedGRPCServer
	take func(ptrace.Traces)
}

func (r *receiver) Export(_ context.Context, req ptraceotlp.ExportRequest) (ptraceotlp.ExportResponse, error) {
	r.take(req.Traces())
	return ptraceotlp.NewExportResponse(), nil
}

// listenGRPC starts a backend and returns its address.
func listenGRPC(t *testing.T, take func(ptrace.Traces)) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	srv := grpc.NewServer()
	ptraceotlp.RegisterGRPCServer(srv, &receiver{take: take})
	go func() { _ = srv.Serve(ln) }()
	t.Cleanup(srv.Stop)
	return ln.Addr().String()
}

// prometheus is a real Prometheus with the shipped configuration and rules, except for the
// addresses that it scrapes.
type prometheus struct{ address string }

// startPrometheus starts the Prometheus in the folder that PROMETHEUS_BIN names, and waits
// until it has scraped both of the Collector's addresses. Without the variable it returns nil.
func startPrometheus(t *testing.T, s *shipped) *prometheus {
	t.Helper()
	bin := os.Getenv("PROMETHEUS_BIN")
	if bin == "" {
		return nil
	}
	dir := t.TempDir()
	moved := strings.NewReplacer("127.0.0.1:8889", s.verdicts, "127.0.0.1:8888", s.own)
	for _, file := range []string{"prometheus.yaml", "recording.yaml", "alerts.yaml"} {
		raw, err := os.ReadFile(deployed(t, "prometheus/"+file))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte(moved.Replace(string(raw))), 0o600))
	}
	p := &prometheus{}
	running, err := process.StartOnFreePorts(t.Context(), 1, func(free []string) process.Spec {
		p.address = free[0]
		return process.Spec{
			Name: "Prometheus", Path: filepath.Join(bin, "prometheus"), Args: []string{
				"--config.file=" + filepath.Join(dir, "prometheus.yaml"), "--storage.tsdb.path=" + filepath.Join(dir, "data"),
				"--web.listen-address=" + free[0], "--enable-feature=exemplar-storage",
			},
			Log: filepath.Join(dir, "prometheus.log"), Health: "http://" + free[0] + "/-/ready",
		}
	})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, running.Stop(20*time.Second)) })
	require.EventuallyWithT(t, func(t *assert.CollectT) {
		require.InDelta(t, 2, p.number(t, `sum(up)`), 0)
	}, time.Minute, 200*time.Millisecond, "Prometheus does not reach the Collector")
	return p
}

type point struct {
	labels map[string]string
	value  float64
}

// query returns the samples of an instant query.
func (p *prometheus) query(t require.TestingT, expr string) []point {
	var data struct {
		Result []struct {
			Metric map[string]string
			Value  [2]any
		}
	}
	p.get(t, "query?"+url.Values{"query": {expr}}.Encode(), &data)
	var samples []point
	for _, r := range data.Result {
		text, _ := r.Value[1].(string)
		value, err := strconv.ParseFloat(text, 64)
		require.NoError(t, err)
		samples = append(samples, point{r.Metric, value})
	}
	return samples
}

// number returns the value of a query that has a single one.
func (p *prometheus) number(t require.TestingT, expr string) float64 {
	samples := p.query(t, expr)
	require.Len(t, samples, 1, expr)
	return samples[0].value
}

// evaluated waits until the rules have been evaluated after now.
func (p *prometheus) evaluated(t *testing.T) {
	t.Helper()
	// This one is recorded every ten seconds, the others at least every thirty.
	due := float64(time.Now().Add(30*time.Second).UnixMilli()) / 1000
	require.EventuallyWithT(t, func(t *assert.CollectT) {
		require.Greater(t, p.number(t, `max(timestamp(service:llm_runs:increase5m))`), due)
	}, 2*time.Minute, time.Second, "Prometheus does not evaluate its rules")
}

// alerts returns the alerts that are pending or firing.
func (p *prometheus) alerts(t require.TestingT) []any {
	var data struct{ Alerts []any }
	p.get(t, "alerts", &data)
	return data.Alerts
}

func (p *prometheus) get(t require.TestingT, path string, data any) {
	resp, err := http.Get("http://" + p.address + "/api/v1/" + path)
	require.NoError(t, err)
	defer resp.Body.Close()
	var answer struct {
		Status, Error string
		Data          json.RawMessage
	}
	require.NoError(t, json.NewDecoder(resp.Body).Decode(&answer))
	require.Equal(t, "success", answer.Status, answer.Error)
	require.NoError(t, json.Unmarshal(answer.Data, data))
}
