package collector

import (
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/deploy/collector/internal/traffic"
)

// needsPrograms skips a test where the programs are not there.
func needsPrograms(t *testing.T) {
	t.Helper()
	if os.Getenv("PROMETHEUS_BIN") == "" || os.Getenv("OTELCOL_BIN") == "" {
		t.Skip("LEFT OUT: the dashboards against the truth: `make validate` has a Collector, and fetches a Prometheus where it can")
	}
}

// A minute of much traffic, with an outage and a restart: the short form of `make eyes`.
func TestLedger(t *testing.T) {
	t.Parallel()
	needsPrograms(t)
	const length, runTimeout = 45 * time.Second, 3 * time.Second
	backend := startBackend(t, binary(t), nil)
	w := startWatched(t, false, runTimeout, backend.env["OTLP_GRPC_ENDPOINT"])
	began := time.Now()
	config := traffic.Config{
		Seed: seed(t), Start: began, For: length, Rate: 600, RunTimeout: runTimeout,
		Outages:  []traffic.Outage{{Provider: "anthropic", From: length / 3, To: length}},
		Restarts: []traffic.Restart{{Service: "coder-cli", At: length / 4, Open: 3}},
	}
	runs := traffic.New(config)
	w.play(t, runs, w.otlp, 30*time.Second)
	ledger := traffic.NewLedger(runs)
	w.counted(t, ledger)
	now := time.Now()
	holdPanels(t, w.prometheus, ledger, now, now.Sub(began)+time.Minute, 0)
	holdOthers(t, w.prometheus, ledger, now)
	w.holdAlertPanels(t)
	w.holdAlerts(t, ledger, config, time.Minute)
}

// What llm_classify has judged, a second one on its way judges no more: each run is counted once, those included that
// never ended and got a span of their own.
func TestSecondCollectorChangesNothing(t *testing.T) {
	t.Parallel()
	needsPrograms(t)
	const length, runTimeout = 15 * time.Second, 3 * time.Second
	backend := startBackend(t, binary(t), nil)
	w := startWatched(t, false, runTimeout, backend.env["OTLP_GRPC_ENDPOINT"])
	front := start(t, binary(t), map[string]string{"FORWARD_ENDPOINT": w.grpc}, "config-demo.yaml", "config-forward.yaml")
	runs := traffic.New(traffic.Config{
		Seed: seed(t) + 1, Start: time.Now(), For: length, Rate: 600, RunTimeout: runTimeout,
		Restarts: []traffic.Restart{{Service: "coder-web", At: length / 4, Open: 5}},
	})
	w.play(t, runs, front.env["OTLP_HTTP_ENDPOINT"], 30*time.Second)
	w.counted(t, traffic.NewLedger(runs))
}

// A backend that is away: the spans are lost by the exporter, and the first rows of two dashboards say how many.
func TestSpansLost(t *testing.T) {
	t.Parallel()
	needsPrograms(t)
	w := startWatched(t, false, 3*time.Second, freeAddress(t))
	runs := traffic.New(traffic.Config{Seed: seed(t), Start: time.Now(), For: 5 * time.Second, Rate: 600})
	w.play(t, runs, w.otlp, 30*time.Second)
	var sent float64
	for _, r := range runs {
		sent += float64(r.Spans)
	}
	for _, name := range []string{"llm-runs.json", "llm-classifier.json"} {
		d := readDashboards(t)[name]
		for _, panel := range d.Panels {
			if panel.Title != "Spans lost" && panel.Title != "How they were lost" {
				continue
			}
			eventually(t, func(t *assert.CollectT) {
				var lost float64
				for _, target := range panel.Targets {
					lost += w.number(t, d.fill(target.Expr, "5m", nil))
				}
				assert.InEpsilon(t, sent, lost, 0.05, "%s: %s", name, panel.Title)
			})
		}
	}
	assert.InDelta(t, sent, w.number(t, `sum(otelcol_exporter_send_failed_spans) + (sum(otelcol_exporter_enqueue_failed_spans) or vector(0))`), 0)
}

const eyesRunTimeout = time.Minute

// eyesTraffic is what `make eyes` plays: 60 runs a minute, an outage in the middle third, and a process that is killed.
func eyesTraffic(seed uint64, start time.Time, length time.Duration) traffic.Config {
	return traffic.Config{
		Seed: seed, Start: start, For: length, Rate: 60, RunTimeout: eyesRunTimeout,
		Outages:  []traffic.Outage{{Provider: "anthropic", From: length / 3, To: length * 2 / 3}},
		Restarts: []traffic.Restart{{Service: "coder-cli", At: length / 4, Open: 3}},
	}
}

// `make eyes`: as long as EYES says, with all times as they are shipped, but for run_timeout.
func TestEyes(t *testing.T) {
	text := os.Getenv("EYES")
	if text == "" {
		t.Skip("a long one: run `make eyes`")
	}
	length, err := time.ParseDuration(text)
	require.NoError(t, err, "EYES")
	backend := startBackend(t, binary(t), nil)
	w := startWatched(t, true, eyesRunTimeout, backend.env["OTLP_GRPC_ENDPOINT"])
	began := time.Now()
	config := eyesTraffic(seed(t), began, length)
	runs := traffic.New(config)
	ledger := traffic.NewLedger(runs)
	t.Logf("%d runs: %v", len(runs), ledger.Runs.By("llm_run_outcome"))
	w.play(t, runs, w.otlp, 2*time.Minute)
	w.counted(t, ledger)
	// The numbers at the end, and those that were shown on the way: a verdict is shown up to verdictLag after its run.
	for at := began.Add(2 * time.Minute); at.Before(began.Add(length)); at = at.Add(2 * time.Minute) {
		holdPanels(t, w.prometheus, ledger, at, at.Sub(began)+time.Minute, verdictLag)
	}
	now := time.Now()
	holdPanels(t, w.prometheus, ledger, now, now.Sub(began)+time.Minute, verdictLag)
	// A provider with 50 runs a minute is alerted on within a minute, as the replay has it. This one has 18, which fail one by one.
	w.holdAlerts(t, ledger, config, 90*time.Second)
}

// seed is the one that SEED names, or 1.
func seed(t *testing.T) uint64 {
	t.Helper()
	text := os.Getenv("SEED")
	if text == "" {
		return 1
	}
	n, err := strconv.ParseUint(text, 10, 64)
	require.NoError(t, err, "SEED")
	return n
}
