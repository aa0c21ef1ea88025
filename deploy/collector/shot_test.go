package collector

import (
	"context"
	"crypto/sha256"
	"fmt"
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
		cmd.Env = append(os.Environ(), "TEMPO_LISTEN="+host, "TEMPO_DATA="+t.TempDir())
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
	run(t, exec.Command(promBinary(t, "prometheus"), "--config.file="+filepath.Join(dir, "prometheus.yaml"),
		"--storage.tsdb.path="+t.TempDir(), "--web.listen-address="+host+":9090", "--enable-feature=exemplar-storage"))
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
	require.NoError(t, os.WriteFile(drawn, []byte(hashes(t, dashboards)), 0o644))
}

// TestPicturesAreNew fails when a dashboard has changed since its pictures were made.
func TestPicturesAreNew(t *testing.T) {
	dashboards := dashboardFiles(t)
	then, err := os.ReadFile(drawn)
	require.NoError(t, err)
	require.Equal(t, string(then), hashes(t, dashboards),
		"a dashboard has changed since it was drawn for docs/operate: run `make dashboards-shot` and look at the pictures")

	found, err := filepath.Glob(filepath.Join(pictures, "*.png"))
	require.NoError(t, err)
	var names []string
	for _, picture := range found {
		names = append(names, filepath.Base(picture))
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
	// drawn has the hash of each dashboard when it was drawn, as sha256sum writes it.
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
		fmt.Fprintf(&lines, "%x  %s\n", sha256.Sum256(raw), filepath.Base(file))
	}
	return lines.String()
}

const (
	playFor    = 8 * time.Minute
	runTimeout = time.Minute
)

// play sends the traffic: at first one region is unwell for a little, then a provider until the end.
func play(t *testing.T, url string) {
	config := traffic.Config{
		Seed: 1, Start: time.Now(), For: playFor, Rate: 60, RunTimeout: runTimeout,
		Outages: []traffic.Outage{
			{Provider: "azure.ai.openai", Address: "weu-prod.openai.azure.com", From: 2 * time.Minute, To: 3 * time.Minute},
			{Provider: "anthropic", From: 5 * time.Minute, To: playFor},
		},
		Restarts: []traffic.Restart{{Service: "coder-cli", At: 4 * time.Minute, Open: 3}},
	}
	ctx, cancel := context.WithTimeout(t.Context(), playFor+time.Minute)
	defer cancel()
	require.NoError(t, traffic.Play(ctx, traffic.SystemClock{}, traffic.New(config), url))
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
