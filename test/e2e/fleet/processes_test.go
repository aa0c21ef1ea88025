package fleet

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/test/built"
	"github.com/otelllm/otelllm-go/test/internal/process"
)

const (
	startPatience = 30 * time.Second
	stopPatience  = 15 * time.Second
)

// node is one Collector of the fleet. It keeps its addresses and its journal across
// restarts.
type node struct {
	spec    process.Spec
	otlp    string // host:port for OTLP over gRPC
	http    string // host:port for OTLP over HTTP
	metrics string // URL
	running *process.Process
}

// shipped returns the path of a configuration in deploy/collector.
func shipped(t *testing.T, file string) string {
	t.Helper()
	return filepath.Join(built.Root(t), "deploy", "collector", filepath.FromSlash(file))
}

// newNode returns a Collector with the shipped files and an overlay that moves it to
// loopback. The overlay may use ${env:…} of OTLP_GRPC, OTLP_HTTP, HEALTH, METRICS_HOST,
// METRICS_PORT, EXPORTED (another free address) and DIR.
func newNode(t *testing.T, name, overlay string, env []string, files ...string) *node {
	t.Helper()
	bin := built.Collector(t)
	dir := t.TempDir()
	path := filepath.Join(dir, "overlay.yaml")
	require.NoError(t, os.WriteFile(path, []byte(overlay), 0o600))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "journal"), 0o700))
	free, err := process.FreeAddresses(5)
	require.NoError(t, err)
	host, port, err := net.SplitHostPort(free[3])
	require.NoError(t, err)

	var args []string
	for _, file := range append(files, path) {
		args = append(args, "--config", "file:"+file)
	}
	n := &node{otlp: free[0], http: free[1], metrics: "http://" + free[3] + "/metrics"}
	n.spec = process.Spec{
		Name: name, Path: bin, Args: args,
		Env: append([]string{
			"OTLP_GRPC=" + free[0], "OTLP_HTTP=" + free[1], "HEALTH=" + free[2], "METRICS_HOST=" + host, "METRICS_PORT=" + port,
			"EXPORTED=" + free[4], "DIR=" + dir, "JOURNAL=" + filepath.Join(dir, "journal"),
		}, env...),
		Log: filepath.Join(dir, "collector.log"), Health: "http://" + free[2], Wait: process.NewCollector,
	}
	t.Cleanup(func() {
		if n.running != nil {
			assert.NoError(t, n.running.Stop(stopPatience))
		}
		if t.Failed() {
			t.Logf("the end of the log of %s:\n%s", name, process.LogTail(n.spec.Log, 15))
		}
	})
	return n
}

func (n *node) start(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startPatience)
	defer cancel()
	var err error
	n.running, err = process.Start(ctx, n.spec)
	require.NoError(t, err)
}

// kill kills the process, as in a crash.
func (n *node) kill() {
	n.running.Kill()
	n.running = nil
}

// metric adds up the series of one of the Collector's own metrics.
func (n *node) metric(t require.TestingT, name string) float64 {
	resp, err := http.Get(n.metrics)
	require.NoError(t, err)
	defer resp.Body.Close()
	total := 0.0
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		line := lines.Text()
		if strings.HasPrefix(line, name+"{") || strings.HasPrefix(line, name+" ") {
			v, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64)
			require.NoError(t, err, line)
			total += v
		}
	}
	require.NoError(t, lines.Err())
	return total
}

// eventually waits for a condition, with a timeout far beyond what a healthy run needs.
func eventually(t *testing.T, what string, check func(t *assert.CollectT)) {
	t.Helper()
	require.EventuallyWithT(t, check, 30*time.Second, 20*time.Millisecond, what)
}

// telemetry is the part that all overlays share.
const telemetry = `
  telemetry:
    metrics:
      readers: [{pull: {exporter: {prometheus: {host: "${env:METRICS_HOST}", port: "${env:METRICS_PORT}"}}}}]
    logs: {level: warn}
`

// newGateway returns the shipped gateway of the two layers, with a list of classifiers
// in place of the cluster's DNS.
func newGateway(t *testing.T, name string, classifiers ...*node) *node {
	t.Helper()
	var list []string
	for _, c := range classifiers {
		list = append(list, strconv.Quote(c.otlp))
	}
	return newNode(t, name, fmt.Sprintf(`
extensions: {health_check: {endpoint: "${env:HEALTH}"}}
receivers: {otlp: {protocols: {grpc: {endpoint: "${env:OTLP_GRPC}"}, http: {endpoint: "${env:OTLP_HTTP}"}}}}
exporters:
  load_balancing:
    resolver: {dns: null, static: {hostnames: [%s]}}
    # Five minutes of patience as shipped, in shorter steps.
    retry_on_failure: {initial_interval: 100ms, max_interval: 500ms}
service:`+telemetry, strings.Join(list, ", ")), nil, shipped(t, "kubernetes/two-layers/collector-gateway.yaml"))
}

// newClassifier returns the shipped classifier of the two layers, with more as an
// additional YAML overlay.
func newClassifier(t *testing.T, i int, backend *store, more string) *node {
	t.Helper()
	return newNode(t, fmt.Sprintf("classifier %d", i), `
extensions: {health_check: {endpoint: "${env:HEALTH}"}}
receivers: {otlp: {protocols: {grpc: {endpoint: "${env:OTLP_GRPC}"}, http: {endpoint: "${env:OTLP_HTTP}"}}}}
service:`+telemetry+more, []string{"BACKEND_OTLP=" + backend.listen(t, i)},
		shipped(t, "config.yaml"), shipped(t, "config-metrics.yaml"), shipped(t, "kubernetes/two-layers/collector-classifier.yaml"))
}
