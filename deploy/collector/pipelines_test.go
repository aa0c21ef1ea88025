package collector

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// twoPipelines is a configuration in which two pipelines have a processor each, with the same storage.
const twoPipelines = `
extensions:
  health_check: {endpoint: %[1]q}
  file_storage: {directory: %[2]q}
receivers:
  otlp/a: {protocols: {http: {endpoint: %[3]q}}}
  otlp/b: {protocols: {http: {endpoint: %[4]q}}}
processors:
  llm_classify/a: {storage: file_storage, max_hold: 10m}
  llm_classify/b: {storage: file_storage, max_hold: 10m}
exporters:
  file/a: {path: %[5]q, flush_interval: 100ms}
  file/b: {path: %[6]q, flush_interval: 100ms}
service:
  extensions: [health_check, file_storage]
  telemetry: {metrics: {level: none, readers: []}}
  pipelines:
    traces/a: {receivers: [otlp/a], processors: [llm_classify/a], exporters: [file/a]}
    traces/b: {receivers: [otlp/b], processors: [llm_classify/b], exporters: [file/b]}
`

// Two pipelines with a processor each and one storage: what a pipeline held when the Collector
// was killed goes out by its own exporter, in every life.
func TestTwoPipelinesWithStorage(t *testing.T) {
	bin := binary(t)
	journal := t.TempDir()
	const lives = 4
	for life := range lives {
		dir, health := t.TempDir(), freeAddress(t)
		at := map[string]string{"a": freeAddress(t), "b": freeAddress(t)}
		files := map[string]string{"a": filepath.Join(dir, "a.jsonl"), "b": filepath.Join(dir, "b.jsonl")}
		config := filepath.Join(dir, "config.yaml")
		require.NoError(t, os.WriteFile(config, fmt.Appendf(nil, twoPipelines,
			health, journal, at["a"], at["b"], files["a"], files["b"]), 0o600))
		kill, log := launch(t, bin, config, health)
		require.NotNil(t, kill, "the Collector does not start: %s", log)

		for n, name := range []string{"a", "b"} {
			if life > 0 { // the run of the last life ends
				sendSpan(t, at[name], 2*(life-1)+n, runSpan)
			}
			sendSpan(t, at[name], 2*life+n, requestSpan) // held
		}
		for n, name := range []string{"a", "b"} {
			c := running{env: map[string]string{"OUT_FILE": files[name]}}
			want := 0
			if life > 0 {
				want = 2
			}
			eventually(t, func(t *assert.CollectT) { require.Len(t, c.spans(t), want) })
			for _, s := range c.spans(t) {
				assert.Equal(t, runTrace(2*(life-1)+n), s.TraceID, "pipeline %s", name)
			}
		}
		kill()
	}
}

// launch starts the Collector, and returns when it runs or has ended. kill kills it; it is
// nil if the Collector has ended.
func launch(t *testing.T, bin, config, health string) (kill func(), log *bytes.Buffer) {
	t.Helper()
	log = new(bytes.Buffer)
	cmd := exec.Command(bin, "--config=file:"+config)
	cmd.Stdout, cmd.Stderr = log, log
	require.NoError(t, cmd.Start())
	exited := make(chan struct{})
	go func() {
		assert.Error(t, cmd.Wait())
		close(exited)
	}()
	ended := func() bool {
		select {
		case <-exited:
			return true
		default:
			return false
		}
	}
	kill = sync.OnceFunc(func() {
		assert.NoError(t, cmd.Process.Kill())
		<-exited
	})
	require.Eventually(t, func() bool {
		resp, err := http.Get("http://" + health)
		return ended() || err == nil && resp.Body.Close() == nil && resp.StatusCode == http.StatusOK
	}, 30*time.Second, 20*time.Millisecond)
	if ended() {
		return nil, log
	}
	t.Cleanup(func() {
		if !ended() {
			kill()
		}
	})
	return kill, log
}

func runTrace(run int) string { return fmt.Sprintf("5b8efff798038103d269b633813f%04x", run) }

const (
	runSpan     = `"spanId":"eee19b7ec3c1b174","name":"invoke_agent"`
	requestSpan = `"spanId":"eee19b7ec3c1b175","parentSpanId":"eee19b7ec3c1b174","name":"chat"`
)

// sendSpan sends the span of a run, or of its only request.
func sendSpan(t *testing.T, address string, run int, span string) {
	t.Helper()
	attribute := func(key string, value any) string {
		kind := "stringValue"
		if _, ok := value.(int); ok {
			kind = "intValue"
		}
		raw, err := json.Marshal(map[string]any{"key": key, "value": map[string]any{kind: value}})
		require.NoError(t, err)
		return string(raw)
	}
	attributes := []string{attribute("gen_ai.operation.name", "chat"), attribute("llm.run.id", "eee19b7ec3c1b174")}
	if span == runSpan {
		attributes = []string{attribute("gen_ai.operation.name", "invoke_agent"), attribute("llm.run.requests", 1), attribute("llm.run.tools", 0)}
	}
	resp, err := http.Post("http://"+address+"/v1/traces", "application/json", strings.NewReader(fmt.Sprintf(
		`{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":%q,%s,"startTimeUnixNano":"1000","endTimeUnixNano":"2000","attributes":[%s]}]}]}]}`,
		runTrace(run), span, strings.Join(attributes, ","))))
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusOK, resp.StatusCode)
}
