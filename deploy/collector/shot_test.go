package collector

import (
	"context"
	"crypto/sha256"
	"fmt"
	"image/png"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/deploy/collector/internal/traffic"
)

// TestDashboardsShot draws the dashboards for the documentation: the shipped Collector, Prometheus and, where TEMPO_BIN
// names one, Tempo see eight minutes of traffic that end in an outage. `make dashboards-shot` runs it.
func TestDashboardsShot(t *testing.T) {
	packages := os.Getenv("SHOT_PACKAGES")
	if packages == "" {
		t.Skip("SHOT_PACKAGES names no npm packages: run `make dashboards-shot`, which draws the dashboards")
	}
	promBinary(t, "prometheus")
	tempo := os.Getenv("TEMPO_BIN")

	// The shipped files as they are, on a loopback address that nothing else uses.
	const host = "127.0.34.1"
	dir := t.TempDir()
	for _, pattern := range []string{"config.yaml", "config-metrics.yaml", "prometheus/*.yaml"} {
		files, err := filepath.Glob(pattern)
		require.NoError(t, err)
		require.NotEmpty(t, files, pattern)
		for _, file := range files {
			raw, err := os.ReadFile(file)
			require.NoError(t, err)
			moved := strings.ReplaceAll(string(raw), "127.0.0.1", host)
			require.NoError(t, os.WriteFile(filepath.Join(dir, filepath.Base(file)), []byte(moved), 0o600))
		}
	}
	backend := host + ":14317"
	if tempo != "" {
		cmd := exec.CommandContext(t.Context(), tempo, "-config.file=tempo/tempo.yaml", "-config.expand-env=true")
		cmd.Env = append(os.Environ(), "TEMPO_LISTEN="+host, "TEMPO_DATA="+t.TempDir(), "TEMPO_METRICS=http://"+host+":9090/api/v1/write")
		require.NoError(t, cmd.Start())
		t.Cleanup(func() { _ = cmd.Wait() }) // killed: an orderly shutdown takes half a minute
		ready(t, "http://"+host+":3200/ready")
	} else {
		backend = startBackend(t, binary(t), nil).env["OTLP_GRPC_ENDPOINT"]
	}
	collector := exec.Command(binary(t), "--config", "file:"+filepath.Join(dir, "config.yaml"),
		"--config", "file:"+filepath.Join(dir, "config-metrics.yaml"),
		"--config", "yaml:processors::llm_classify::run_timeout: "+runTimeout.String())
	collector.Env = environ(map[string]string{"BACKEND_OTLP": backend})
	run(t, collector)
	healthy(t, host+":13133")
	data := t.TempDir()
	dayBefore(t, data, time.Now())
	run(t, exec.Command(promBinary(t, "prometheus"), "--config.file="+filepath.Join(dir, "prometheus.yaml"),
		"--storage.tsdb.path="+data, "--web.listen-address="+host+":9090", "--enable-feature=exemplar-storage",
		"--web.enable-remote-write-receiver"))
	ready(t, "http://"+host+":9090/-/ready")

	play(t, "http://"+host+":4318/v1/traces")

	dashboards := dashboardFiles(t)
	out := os.Getenv("SHOT_OUT")
	now := time.Now()
	args := []string{
		filepath.Join(packages, "shot.mjs"), "--prometheus", "http://" + host + ":9090", "--out", out,
		"--from", unix(now.Add(-playFor)), "--to", unix(now),
	}
	if tempo != "" {
		args = append(args, "--tempo", "http://"+host+":3200")
	}
	draw := exec.Command("node", append(args, dashboards...)...)
	draw.Stdout, draw.Stderr = os.Stdout, os.Stderr
	require.NoError(t, draw.Run())

	// The pages show those at 1,280 pixels.
	old, err := filepath.Glob(filepath.Join(pictures, "*.png"))
	require.NoError(t, err)
	for _, picture := range old {
		require.NoError(t, os.Remove(picture))
	}
	require.NoError(t, os.MkdirAll(pictures, 0o755))
	for _, name := range pictureNames(dashboards) {
		raw, err := os.ReadFile(filepath.Join(out, pageWidth.Replace(name)))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(pictures, name), raw, 0o644))
	}
	require.NoError(t, os.WriteFile(drawn, []byte(hashes(t, drawnFrom(t))), 0o644))
}

// TestPicturesAreNew fails when a dashboard, its traffic or what draws it has changed since its pictures were made.
func TestPicturesAreNew(t *testing.T) {
	dashboards := dashboardFiles(t)
	then, err := os.ReadFile(drawn)
	require.NoError(t, err)
	require.Equal(t, string(then), hashes(t, drawnFrom(t)),
		"what the pictures in docs/operate are made from has changed: run `make dashboards-shot` and look at the pictures")

	found, err := filepath.Glob(filepath.Join(pictures, "*.png"))
	require.NoError(t, err)
	var names []string
	for _, picture := range found {
		names = append(names, filepath.Base(picture))
		file, err := os.Open(picture)
		require.NoError(t, err)
		image, err := png.DecodeConfig(file)
		require.NoError(t, err, picture)
		require.NoError(t, file.Close())
		assert.Equal(t, 1280, image.Width, picture)
	}
	require.ElementsMatch(t, pictureNames(dashboards), names, "run `make dashboards-shot`")
	page, err := os.ReadFile("../../docs/operate/dashboards.md")
	require.NoError(t, err)
	for _, name := range names {
		assert.Contains(t, string(page), "images/"+name, "docs/operate/dashboards.md does not show it")
	}
}

const (
	pictures = "../../docs/operate/images"
	// drawn has the hash of each file that the pictures are made from, as sha256sum writes it.
	drawn = "grafana/shot/drawn.sha256"
)

// pageWidth names the file that shot.mjs writes for a picture of the pages.
var pageWidth = strings.NewReplacer("-light.png", "-1280-light.png", "-dark.png", "-1280-dark.png")

func dashboardFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("grafana/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	return files
}

// drawnFrom returns the files that the pictures are made from. The hash of the traffic is that of its ledger.
func drawnFrom(t *testing.T) []string {
	t.Helper()
	return append(dashboardFiles(t), "grafana/shot/page.jsx", "grafana/shot/shot.mjs", "grafana/shot/package-lock.json")
}

func pictureNames(dashboards []string) []string {
	var names []string
	for _, file := range dashboards {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		for _, part := range []string{"", "-first-row"} {
			for _, theme := range []string{"-light", "-dark"} {
				names = append(names, name+part+theme+".png")
			}
		}
	}
	return names
}

func hashes(t *testing.T, files []string) string {
	t.Helper()
	var lines strings.Builder
	for _, file := range files {
		raw, err := os.ReadFile(file)
		require.NoError(t, err)
		fmt.Fprintf(&lines, "%x  %s\n", sha256.Sum256(raw), file)
	}
	ledger := traffic.NewLedger(traffic.New(shotTraffic(time.Unix(0, 0).UTC())))
	fmt.Fprintf(&lines, "%x  traffic\n", sha256.Sum256(fmt.Append(nil, *ledger)))
	return lines.String()
}

const (
	playFor    = 8 * time.Minute
	runTimeout = time.Minute
)

// dayBefore gives Prometheus the counts of a day of traffic without outages that ended half an hour ago, as recording.yaml
// records them, so that each share stands beside that of its last day.
func dayBefore(t *testing.T, data string, now time.Time) {
	t.Helper()
	const window = 5 * time.Minute
	start, end := now.Add(-25*time.Hour), now.Add(-30*time.Minute)
	ledger := traffic.NewLedger(traffic.New(traffic.Config{Seed: 2, Start: start, For: end.Sub(start), Rate: 6, RunTimeout: runTimeout}))
	var text strings.Builder
	for metric, entries := range map[string]traffic.Entries{
		"target:llm_requests:increase5m": ledger.Requests, "target:llm_requests_failed:increase5m": brokenRequests(ledger),
	} {
		for _, e := range traffic.Endpoints {
			of := entries.Where("gen_ai_provider_name", e.Provider).Where("server_address", e.Address)
			for at := start.Add(window); at.Before(end); at = at.Add(window) {
				fmt.Fprintf(&text, "%s{gen_ai_provider_name=%q,gen_ai_request_model=%q,server_address=%q} %g %d\n",
					metric, e.Provider, e.Model, e.Address, of.Between(at.Add(-window), at).Sum(), at.Unix())
			}
		}
	}
	text.WriteString("# EOF\n")
	file := filepath.Join(t.TempDir(), "day.txt")
	require.NoError(t, os.WriteFile(file, []byte(text.String()), 0o600))
	out, err := exec.CommandContext(t.Context(), promBinary(t, "promtool"), "tsdb", "create-blocks-from", "openmetrics", file, data).CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// shotTraffic is what the pictures show: at first one region is unwell for a little, then a provider until the end.
func shotTraffic(start time.Time) traffic.Config {
	return traffic.Config{
		Seed: 1, Start: start, For: playFor, Rate: 60, RunTimeout: runTimeout,
		Outages: []traffic.Outage{
			{Provider: "azure.ai.openai", Address: "weu-prod.openai.azure.com", From: 2 * time.Minute, To: 3 * time.Minute},
			{Provider: "anthropic", From: 5 * time.Minute, To: playFor},
		},
		Restarts: []traffic.Restart{{Service: "coder-cli", At: 4 * time.Minute, Open: 3}},
	}
}

// play sends the traffic.
func play(t *testing.T, url string) {
	ctx, cancel := context.WithTimeout(t.Context(), playFor+time.Minute)
	defer cancel()
	require.NoError(t, traffic.Play(ctx, traffic.SystemClock{}, traffic.New(shotTraffic(time.Now())), url))
}

// ready waits for a server to respond with 200.
func ready(t *testing.T, url string) {
	t.Helper()
	eventually(t, func(t *assert.CollectT) {
		resp, err := http.Get(url)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusOK, resp.StatusCode)
	})
}

func unix(at time.Time) string { return strconv.FormatInt(at.Unix(), 10) }
