package collector

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// promBinary returns the path of one of Prometheus' programs. PROMETHEUS_BIN names the folder, which scripts/prometheus
// finds or fetches. Without it, the test is skipped.
func promBinary(t *testing.T, name string) string {
	t.Helper()
	dir := os.Getenv("PROMETHEUS_BIN")
	if dir == "" {
		t.Skipf("LEFT OUT: no %s; run `make validate`, which fetches one where it can", name)
	}
	bin := filepath.Join(dir, name)
	require.FileExists(t, bin, "PROMETHEUS_BIN")
	return bin
}

func TestPromtool(t *testing.T) {
	promtool := promBinary(t, "promtool")
	for _, args := range [][]string{
		{"check", "config", "prometheus/prometheus.yaml"},
		{"check", "rules", "prometheus/recording.yaml", "prometheus/alerts.yaml"},
		{"test", "rules", "prometheus/rules_test.yaml"},
		{"test", "rules", "prometheus/incidents_test.yaml"},
	} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			out, err := exec.CommandContext(t.Context(), promtool, args...).CombinedOutput()
			assert.NoError(t, err, "%s", out)
		})
	}
}

type rule struct {
	Record, Alert, Expr string
	For                 time.Duration
	KeepFiringFor       time.Duration `yaml:"keep_firing_for"`
	Annotations         map[string]string
}

// readRules returns the rules under prometheus/ that record a metric, and those that are alerts.
func readRules(t *testing.T) (records, alerts []rule) {
	t.Helper()
	for _, path := range []string{"prometheus/recording.yaml", "prometheus/alerts.yaml"} {
		raw, err := os.ReadFile(path)
		require.NoError(t, err)
		var file struct {
			Groups []struct{ Rules []rule }
		}
		require.NoError(t, yaml.Unmarshal(raw, &file), path)
		require.NotEmpty(t, file.Groups, path)
		for _, group := range file.Groups {
			for _, r := range group.Rules {
				if r.Alert == "" {
					records = append(records, r)
				} else {
					alerts = append(alerts, r)
				}
			}
		}
	}
	return records, alerts
}

// An alert without a test may never fire.
func TestEveryAlertIsTested(t *testing.T) {
	raw, err := os.ReadFile("prometheus/rules_test.yaml")
	require.NoError(t, err)
	var tests struct {
		Tests []struct {
			AlertRuleTest []struct {
				AlertName string `yaml:"alertname"`
				ExpAlerts []any  `yaml:"exp_alerts"`
			} `yaml:"alert_rule_test"`
		}
	}
	require.NoError(t, yaml.Unmarshal(raw, &tests))
	fires := map[string]bool{}
	for _, test := range tests.Tests {
		for _, a := range test.AlertRuleTest {
			fires[a.AlertName] = fires[a.AlertName] || len(a.ExpAlerts) > 0
		}
	}
	page, err := os.ReadFile("../../docs/operate/alerts.md")
	require.NoError(t, err)
	_, alerts := readRules(t)
	for _, rule := range alerts {
		assert.True(t, fires[rule.Alert], "no test in prometheus/rules_test.yaml makes %s fire", rule.Alert)
		_, section, found := strings.Cut(string(page), "\n### "+rule.Alert+"\n")
		require.True(t, found, "docs/operate/alerts.md does not describe %s", rule.Alert)
		section, _, _ = strings.Cut(section, "\n#")
		for _, part := range []string{"**What it means.** ", "**Look first at** ", "**What to do.** ", "**When it is over.** "} {
			assert.Contains(t, section, part, rule.Alert)
		}
		assert.Equal(t, "https://github.com/otelllm/otelllm-go/blob/main/docs/operate/alerts.md#"+strings.ToLower(rule.Alert), rule.Annotations["runbook_url"], rule.Alert)
	}
}

// prometheus is a real Prometheus with the shipped rules and chosen targets.
type prometheus struct{ address string }

// startPrometheus starts Prometheus with the shipped configuration, except for addresses and times: targets maps each
// shipped target to the address that is scraped instead.
func startPrometheus(t *testing.T, targets map[string]string) *prometheus {
	t.Helper()
	bin := promBinary(t, "prometheus")
	raw, err := os.ReadFile("prometheus/prometheus.yaml")
	require.NoError(t, err)
	var config map[string]any
	require.NoError(t, yaml.Unmarshal(raw, &config))
	config["global"] = map[string]any{"scrape_interval": "500ms", "scrape_timeout": "500ms", "evaluation_interval": "500ms"}
	dir := t.TempDir()
	for i, file := range list(config["rule_files"]) {
		path, err := filepath.Abs(filepath.Join("prometheus", file.(string)))
		require.NoError(t, err)
		config["rule_files"].([]any)[i] = path
	}
	for _, job := range list(config["scrape_configs"]) {
		for _, static := range list(job.(map[string]any)["static_configs"]) {
			addresses := list(static.(map[string]any)["targets"])
			for i := range addresses {
				require.Contains(t, targets, addresses[i])
				addresses[i] = targets[addresses[i].(string)]
			}
		}
	}
	raw, err = yaml.Marshal(config)
	require.NoError(t, err)
	path := filepath.Join(dir, "prometheus.yaml")
	require.NoError(t, os.WriteFile(path, raw, 0o600))

	p := &prometheus{address: freeAddress(t)}
	run(t, exec.Command(bin, "--config.file="+path, "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+p.address, "--enable-feature=exemplar-storage"))
	eventually(t, func(t *assert.CollectT) {
		resp, err := http.Get("http://" + p.address + "/-/ready")
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusOK, resp.StatusCode)
	})
	return p
}

type sample struct {
	labels map[string]string
	value  float64
}

// query returns the samples of an instant query.
func (p *prometheus) query(t require.TestingT, expr string) []sample {
	var result struct {
		Result []struct {
			Metric map[string]string
			Value  [2]any
		}
	}
	p.get(t, "query", url.Values{"query": {expr}}, &result)
	var samples []sample
	for _, r := range result.Result {
		value, err := strconv.ParseFloat(r.Value[1].(string), 64)
		require.NoError(t, err)
		samples = append(samples, sample{r.Metric, value})
	}
	return samples
}

// number returns the value of a query that has a single one.
func (p *prometheus) number(t require.TestingT, expr string) float64 {
	samples := p.query(t, expr)
	require.Len(t, samples, 1, expr)
	return samples[0].value
}

// exemplars returns the trace IDs of the exemplars of the last minutes.
func (p *prometheus) exemplars(t require.TestingT, expr string) []string {
	var result []struct {
		Exemplars []struct{ Labels map[string]string }
	}
	now := time.Now()
	p.get(t, "query_exemplars", url.Values{
		"query": {expr}, "start": {now.Add(-5 * time.Minute).Format(time.RFC3339)}, "end": {now.Add(time.Minute).Format(time.RFC3339)},
	}, &result)
	var ids []string
	for _, series := range result {
		for _, e := range series.Exemplars {
			ids = append(ids, e.Labels["trace_id"])
		}
	}
	return ids
}

func (p *prometheus) get(t require.TestingT, what string, values url.Values, data any) {
	resp, err := http.Get("http://" + p.address + "/api/v1/" + what + "?" + values.Encode())
	require.NoError(t, err)
	defer resp.Body.Close()
	var answer struct {
		Status, Error string
		Data          json.RawMessage
	}
	require.NoError(t, json.NewDecoder(resp.Body).Decode(&answer))
	require.Equal(t, "success", answer.Status, "%s: %s", values.Get("query"), answer.Error)
	require.NoError(t, json.Unmarshal(answer.Data, data))
}

// flushOften returns the part of a configuration that shortens the time until counts are shown.
func flushOften(t *testing.T) string {
	t.Helper()
	raw, err := os.ReadFile("config-metrics.yaml")
	require.NoError(t, err)
	var config struct{ Connectors map[string]any }
	require.NoError(t, yaml.Unmarshal(raw, &config))
	var out strings.Builder
	out.WriteString("connectors:\n")
	for name := range config.Connectors {
		if strings.HasPrefix(name, "span_metrics/") {
			fmt.Fprintf(&out, "  %s: {metrics_flush_interval: 1s}\n", name)
		}
	}
	return out.String()
}

// readPage returns what Prometheus would scrape, with exemplars.
func readPage(t require.TestingT, address string) string {
	req, err := http.NewRequest(http.MethodGet, "http://"+address+"/metrics", nil)
	require.NoError(t, err)
	req.Header.Set("Accept", "application/openmetrics-text; version=1.0.0")
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	page, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, resp.StatusCode, "%s", page)
	return string(page)
}

// eventually waits for a condition that depends on another process. A healthy process needs a second or two.
func eventually(t *testing.T, condition func(*assert.CollectT)) {
	t.Helper()
	require.EventuallyWithT(t, condition, 30*time.Second, 50*time.Millisecond)
}

// run starts a process that runs until the test ends. After an interrupt it has to end by itself, without an error.
func run(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	require.NoError(t, cmd.Start())
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	t.Cleanup(func() {
		assert.NoError(t, cmd.Process.Signal(os.Interrupt))
		select {
		case err := <-exited:
			assert.NoError(t, err, "the log of %s:\n%s", cmd.Path, &log)
		case <-time.After(20 * time.Second):
			assert.NoError(t, cmd.Process.Kill())
			err := <-exited
			t.Errorf("%s did not end when interrupted: %v; its log:\n%s", cmd.Path, err, &log)
		}
	})
}

// monitored is the Collector of one machine with its metrics, and a Prometheus that scrapes it.
type monitored struct {
	otlp    string
	backend *running
	*prometheus
}

// startMonitored runs config.yaml and config-metrics.yaml as they are shipped, except for addresses and for times that
// would make a test wait.
func startMonitored(t *testing.T, files ...string) *monitored {
	t.Helper()
	bin := binary(t)
	promBinary(t, "prometheus")
	m := &monitored{otlp: freeAddress(t), backend: startBackend(t, bin, nil)}
	verdicts, own, health := freeAddress(t), freeAddress(t), freeAddress(t)
	ownHost, ownPort, _ := strings.Cut(own, ":")
	overlay := filepath.Join(t.TempDir(), "overlay.yaml")
	require.NoError(t, os.WriteFile(overlay, fmt.Appendf(nil, `
extensions: {health_check: {endpoint: %q}}
receivers: {otlp: {protocols: {grpc: {endpoint: %q}, http: {endpoint: %q}}}}
processors:
  llm_classify: {max_hold: 1s, settle: 500ms}
  batch: {timeout: 100ms}
%s
exporters: {prometheus: {endpoint: %q}}
service: {telemetry: {metrics: {readers: [{pull: {exporter: {prometheus: {host: %q, port: %s}}}}]}}}
`, health, freeAddress(t), m.otlp, flushOften(t), verdicts, ownHost, ownPort), 0o600))

	args := []string{}
	for _, file := range append(append([]string{"config.yaml", "config-metrics.yaml"}, files...), overlay) {
		args = append(args, "--config", "file:"+file)
	}
	cmd := exec.Command(bin, args...)
	cmd.Env = environ(map[string]string{"BACKEND_OTLP": m.backend.env["OTLP_GRPC_ENDPOINT"]})
	run(t, cmd)
	healthy(t, health)
	m.prometheus = startPrometheus(t, map[string]string{"127.0.0.1:8889": verdicts, "127.0.0.1:8888": own})
	eventually(t, func(t *assert.CollectT) {
		require.InDelta(t, 2, m.number(t, `sum(up)`), 0)
	})
	return m
}
