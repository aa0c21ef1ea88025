package collector

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// otherSpan is not the span of a model call. It is never held, so these tests see the configuration and not a verdict.
const otherSpan = `{"resourceSpans":[{"scopeSpans":[{"spans":[{
	"traceId":"5b8efff798038103d269b633813fc60c","spanId":"eee19b7ec3c1b174","name":"SELECT",
	"startTimeUnixNano":"1000","endTimeUnixNano":"2000"}]}]}]}`

// The demo waits for the content of this file, and one Collector forwards to another.
func TestDemoWritesAndForwards(t *testing.T) {
	bin := binary(t)
	backend := startBackend(t, bin, nil)
	front := start(t, bin, map[string]string{"FORWARD_ENDPOINT": backend.env["OTLP_GRPC_ENDPOINT"]},
		"config-demo.yaml", "config-forward.yaml")

	resp, err := http.Post("http://"+front.env["OTLP_HTTP_ENDPOINT"]+"/v1/traces", "application/json",
		strings.NewReader(otherSpan))
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusOK, resp.StatusCode)

	for _, c := range []*running{front, backend} {
		require.EventuallyWithT(t, func(t *assert.CollectT) {
			assert.Equal(t, []string{"SELECT"}, c.spanNames(t))
		}, 20*time.Second, 10*time.Millisecond)
	}
}

type span struct {
	Name       string
	Kind       int
	TraceID    string `json:"traceId"`
	SpanID     string `json:"spanId"`
	Attributes []struct {
		Key   string
		Value map[string]any
	}
}

// spans returns the spans that the file exporter has written so far. It reads complete lines only, as every reader of a
// growing file has to.
func (c *running) spans(t require.TestingT) []span {
	raw, err := os.ReadFile(c.env["OUT_FILE"])
	require.NoError(t, err)
	var spans []span
	for line := range bytes.Lines(raw) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break
		}
		var batch struct {
			ResourceSpans []struct {
				ScopeSpans []struct{ Spans []span }
			}
		}
		require.NoError(t, json.Unmarshal(line, &batch))
		for _, r := range batch.ResourceSpans {
			for _, s := range r.ScopeSpans {
				spans = append(spans, s.Spans...)
			}
		}
	}
	return spans
}

func (c *running) spanNames(t require.TestingT) []string {
	var names []string
	for _, s := range c.spans(t) {
		names = append(names, s.Name)
	}
	return names
}

type running struct{ env map[string]string }

// start runs the Collector on free loopback ports until the test ends, and returns when its health check responds with
// 200. configs are files, or anything with a scheme.
func start(t *testing.T, bin string, extra map[string]string, configs ...string) *running {
	t.Helper()
	env := map[string]string{
		"OTLP_GRPC_ENDPOINT": freeAddress(t),
		"OTLP_HTTP_ENDPOINT": freeAddress(t),
		"HEALTH_ENDPOINT":    freeAddress(t),
		"OUT_FILE":           filepath.Join(t.TempDir(), "made", "traces.jsonl"),
	}
	maps.Copy(env, extra)

	var args []string
	for _, config := range configs {
		if !strings.Contains(config, ":") {
			config = "file:" + config
		}
		args = append(args, "--config", config)
	}
	cmd := exec.Command(bin, args...)
	cmd.Env = environ(env)
	run(t, cmd)
	healthy(t, env["HEALTH_ENDPOINT"])
	return &running{env: env}
}

// startBackend runs the Collector as a trace backend: it writes what it receives and judges nothing, so that no verdict
// in its file is its own.
func startBackend(t *testing.T, bin string, extra map[string]string, configs ...string) *running {
	t.Helper()
	return start(t, bin, extra, append([]string{"config-demo.yaml", "yaml:service::pipelines::traces::processors: []"}, configs...)...)
}

// healthy waits until every pipeline of the Collector runs.
func healthy(t *testing.T, address string) {
	t.Helper()
	require.Eventually(t, func() bool {
		resp, err := http.Get("http://" + address)
		if err != nil {
			return false
		}
		return resp.Body.Close() == nil && resp.StatusCode == http.StatusOK
	}, 30*time.Second, 20*time.Millisecond, "the Collector is not healthy")
	time.Sleep(time.Second) // llm_classify calls no run safe to repeat that began within a second of its start
}

// freeAddress returns a loopback address that has just been free. Its port is below those that Linux gives to connections and
// to listeners on port 0: one of them could take it before the program that it is for.
func freeAddress(t *testing.T) string {
	t.Helper()
	for range 100 {
		address := fmt.Sprintf("127.0.0.1:%d", 20_000+rand.IntN(10_000)) //nolint:gosec // no secret
		if l, err := net.Listen("tcp", address); err == nil {
			require.NoError(t, l.Close())
			return address
		}
	}
	t.Fatal("no port is free")
	return ""
}

// The classifier of the two layers on Kubernetes, with its journal: no acknowledged span is lost while its backend is
// down, and it starts again on the same volume.
func TestClassifierKeepsWhatItHas(t *testing.T) {
	bin := binary(t)
	traces := demoTraces(t, readVocabulary(t))
	journal, backendAt := t.TempDir(), freeAddress(t)
	overlay := filepath.Join(t.TempDir(), "overlay.yaml")
	classifier := func(t *testing.T) string {
		otlp, health := freeAddress(t), freeAddress(t)
		require.NoError(t, os.WriteFile(overlay, fmt.Appendf(nil, `
extensions: {health_check: {endpoint: %q}}
receivers: {otlp: {protocols: {grpc: {endpoint: %q}, http: {endpoint: %q}}}}
processors: {llm_classify: {max_hold: 1s, settle: 500ms}}
exporters: {prometheus: {endpoint: %q}, otlp_grpc: {retry_on_failure: {initial_interval: 100ms, max_interval: 200ms}}}
service: {telemetry: {metrics: {level: none, readers: []}}}
`, health, freeAddress(t), otlp, freeAddress(t)), 0o600))
		cmd := exec.Command(bin, "--config=file:config.yaml", "--config=file:config-metrics.yaml",
			"--config=file:kubernetes/two-layers/collector-classifier.yaml", "--config=file:"+overlay)
		cmd.Env = environ(map[string]string{"BACKEND_OTLP": backendAt, "JOURNAL": journal})
		run(t, cmd)
		healthy(t, health)
		return otlp
	}
	t.Run("while the backend is down", func(t *testing.T) { replay(t, classifier(t), traces) })

	backend := startBackend(t, bin, map[string]string{"OTLP_GRPC_ENDPOINT": backendAt})
	classifier(t)
	var want int
	for _, batch := range traces {
		eachScope(batch, func(scope map[string]any) { want += len(list(scope["spans"])) })
	}
	eventually(t, func(t *assert.CollectT) {
		sent := map[string]bool{}
		for _, s := range backend.spans(t) {
			sent[s.TraceID+s.SpanID] = true
		}
		require.GreaterOrEqual(t, len(sent), want)
	})
}
