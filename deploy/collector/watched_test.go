package collector

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/deploy/collector/internal/traffic"
)

// watched is a Collector with its metrics, a Prometheus that scrapes it, and the alerts that were seen to fire.
type watched struct {
	otlp, grpc string
	*prometheus

	mu     sync.Mutex
	fired  map[string]*firing // by the alert's name and labels
	looked int                // how often
}

// firing is an alert that fired.
type firing struct {
	labels      map[string]string
	first, last time.Time
	times       int // how often it began
	look        int // the last look that saw it
}

// startWatched runs config.yaml and config-metrics.yaml with Prometheus and its rules. shipped keeps all times as they
// are shipped but for run_timeout; otherwise those are shortened that would make a test wait.
func startWatched(t *testing.T, shipped bool, runTimeout time.Duration, backend string) *watched {
	t.Helper()
	bin := binary(t)
	promBinary(t, "prometheus")
	w := &watched{otlp: freeAddress(t), grpc: freeAddress(t), fired: map[string]*firing{}}
	verdicts, own, health := freeAddress(t), freeAddress(t), freeAddress(t)
	ownHost, ownPort, _ := strings.Cut(own, ":")
	hold, batch, flush, retry := "", "", "", ""
	if !shipped {
		retry = "retry_on_failure: {initial_interval: 500ms, max_interval: 500ms, max_elapsed_time: 1s}"
		hold, batch, flush = "max_hold: 1s, settle: 500ms, ", "batch: {timeout: 100ms}", flushOften(t)
	}
	overlay := filepath.Join(t.TempDir(), "overlay.yaml")
	require.NoError(t, os.WriteFile(overlay, fmt.Appendf(nil, `
extensions: {health_check: {endpoint: %q}}
receivers: {otlp: {protocols: {grpc: {endpoint: %q}, http: {endpoint: %q}}}}
processors:
  llm_classify: {%srun_timeout: %s}
  %s
%s
exporters: {prometheus: {endpoint: %q}, otlp_grpc: {%s}}
service: {telemetry: {metrics: {readers: [{pull: {exporter: {prometheus: {host: %q, port: %s}}}}]}}}
`, health, w.grpc, w.otlp, hold, runTimeout, batch, flush, verdicts, retry, ownHost, ownPort), 0o600))
	cmd := exec.Command(bin, "--config=file:config.yaml", "--config=file:config-metrics.yaml", "--config=file:"+overlay)
	cmd.Env = environ(map[string]string{"BACKEND_OTLP": backend})
	run(t, cmd)
	healthy(t, health)
	targets := map[string]string{"127.0.0.1:8889": verdicts, "127.0.0.1:8888": own}
	if shipped {
		w.prometheus = startShippedPrometheus(t, targets)
	} else {
		w.prometheus = startPrometheus(t, targets)
	}
	require.EventuallyWithT(t, func(t *assert.CollectT) {
		require.InDelta(t, 2, w.number(t, `sum(up)`), 0)
	}, time.Minute, 100*time.Millisecond)

	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.watch(ctx, t.Logf, time.Second)
	}()
	t.Cleanup(func() { stop(); <-done }) // before Prometheus ends
	return w
}

// startShippedPrometheus starts Prometheus as it is shipped, but for addresses.
func startShippedPrometheus(t *testing.T, targets map[string]string) *prometheus {
	t.Helper()
	raw, err := os.ReadFile("prometheus/prometheus.yaml")
	require.NoError(t, err)
	text := string(raw)
	for shipped, used := range targets {
		require.Contains(t, text, shipped)
		text = strings.ReplaceAll(text, shipped, used)
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "prometheus.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	rules, err := filepath.Glob("prometheus/*.yaml")
	require.NoError(t, err)
	for _, file := range rules {
		if name := filepath.Base(file); name != "prometheus.yaml" {
			raw, err := os.ReadFile(file)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), raw, 0o600))
		}
	}
	p := &prometheus{address: freeAddress(t)}
	run(t, exec.Command(promBinary(t, "prometheus"), "--config.file="+path, "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+p.address, "--enable-feature=exemplar-storage", "--web.enable-remote-write-receiver"))
	eventually(t, func(t *assert.CollectT) {
		resp, err := http.Get("http://" + p.address + "/-/ready")
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusOK, resp.StatusCode)
	})
	return p
}

// watch notes which alerts fire, until the context ends.
func (w *watched) watch(ctx context.Context, log func(string, ...any), every time.Duration) {
	for ctx.Err() == nil {
		// Prometheus is asked as soon as it runs; an answer that is no answer yet is left out.
		alerts, err := w.alerts(ctx)
		now := time.Now()
		w.mu.Lock()
		for _, labels := range alerts {
			key := fmt.Sprint(labels)
			if w.fired[key] == nil {
				w.fired[key] = &firing{labels: labels, first: now, look: -1}
				log("fires: %v", labels)
			}
			f := w.fired[key]
			if f.look != w.looked-1 || f.times == 0 {
				f.times++
			}
			f.last, f.look = now, w.looked
		}
		if err == nil {
			w.looked++
		}
		w.mu.Unlock()
		_ = traffic.SystemClock{}.Sleep(ctx, every)
	}
}

// alerts returns the labels of the alerts that fire, as Prometheus' own list has them.
func (w *watched) alerts(ctx context.Context) (alerts []map[string]string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+w.address+"/api/v1/alerts", nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var answer struct {
		Data struct {
			Alerts []struct {
				Labels map[string]string
				State  string
			}
		}
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return nil, err
	}
	for _, a := range answer.Data.Alerts {
		if a.State == "firing" {
			alerts = append(alerts, a.Labels)
		}
	}
	return alerts, nil
}

// play sends the runs and waits until all of them are counted. Were one counted twice, that would never be.
func (w *watched) play(t *testing.T, runs []*traffic.Run, otlp string, lag time.Duration) {
	t.Helper()
	require.NoError(t, traffic.Play(t.Context(), traffic.SystemClock{}, runs, "http://"+otlp+"/v1/traces"))
	ledger := traffic.NewLedger(runs)
	var due time.Time
	for _, r := range runs {
		due = slices.MaxFunc([]time.Time{due, r.Due}, time.Time.Compare)
	}
	require.EventuallyWithT(t, func(t *assert.CollectT) {
		require.InDelta(t, ledger.Runs.Sum(), w.number(t, `sum(llm_run_calls_total)`), 0)
	}, time.Until(due)+lag, time.Second, "the runs that were counted, of those that there were")
}

// counted waits until all that the ledger has is counted, and compares it.
func (w *watched) counted(t *testing.T, ledger *traffic.Ledger) {
	t.Helper()
	// What is of the same flush comes with the same scrape, but not always in the same query.
	eventually(t, func(t *assert.CollectT) {
		require.InDelta(t, ledger.Requests.Sum(), w.number(t, `sum(llm_request_calls_total)`), 0)
		require.InDelta(t, ledger.Tools.Sum(), w.number(t, `sum(llm_tool_calls_total)`), 0)
	})
	assert.Empty(t, w.query(t, `{otel_metric_overflow="true"}`), "series without labels: the limits of config-metrics.yaml are too small")
	holdCounters(t, w.prometheus, ledger)
	holdStalls(t, w.prometheus, ledger)
}
