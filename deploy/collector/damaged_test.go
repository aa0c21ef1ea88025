package collector

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const oneWithStorage = `
extensions:
  health_check: {endpoint: %[1]q}
  file_storage: {directory: %[2]q, recreate: %[5]t}
receivers:
  otlp: {protocols: {http: {endpoint: %[3]q}}}
processors:
  llm_classify: {storage: file_storage, max_hold: 10m}
exporters:
  file: {path: %[4]q, flush_interval: 100ms}
service:
  extensions: [health_check, file_storage]
  telemetry: {metrics: {level: none, readers: []}}
  pipelines:
    traces: {receivers: [otlp], processors: [llm_classify], exporters: [file]}
`

// What docs/operate/troubleshooting.md says of a damaged file of file_storage, on a real
// one: whether the Collector starts depends on what is damaged, and after the file has been
// moved away it does.
func TestDamagedFile(t *testing.T) {
	bin := binary(t)
	const name = "processor_llm_classify__traces"
	journal := t.TempDir()
	// startOn starts on a directory. It returns what kills it, its log, where spans are sent to
	// and what comes out.
	startOn := func(t *testing.T, journal string, recreate bool) (kill func(), log *bytes.Buffer, otlp string, out running) {
		t.Helper()
		dir, health, otlp := t.TempDir(), freeAddress(t), freeAddress(t)
		out = running{env: map[string]string{"OUT_FILE": filepath.Join(dir, "out.jsonl")}}
		config := filepath.Join(dir, "config.yaml")
		require.NoError(t, os.WriteFile(config, fmt.Appendf(nil, oneWithStorage, health, journal, otlp, out.env["OUT_FILE"], recreate), 0o600))
		kill, log = launch(t, bin, config, health)
		return kill, log, otlp, out
	}
	kill, log, otlp, _ := startOn(t, journal, false)
	require.NotNil(t, kill, log)
	for run := range 40 { // more than bbolt keeps in a page of others
		sendSpan(t, otlp, run, requestSpan)
	}
	kill()
	whole, err := os.ReadFile(filepath.Join(journal, name))
	require.NoError(t, err)
	for damage, tt := range map[string]struct {
		spoil func([]byte) []byte
		says  string // where it does not start, without recreate
		// with recreate
		starts bool
	}{
		// A page that is past the end, or of another kind: which one depends on where bbolt put it.
		"cut": {func(file []byte) []byte { return file[:8192] }, "go.etcd.io/bbolt", false},
		"of something else": {
			func(file []byte) []byte { return bytes.Repeat([]byte("what is this?"), 1000) },
			"invalid database", false,
		},
		"keys in disorder": {
			func(file []byte) []byte { return bytes.ReplaceAll(file, []byte("bounds"), []byte("!ounds")) },
			"its data is damaged, move it aside", true,
		},
	} {
		t.Run(damage, func(t *testing.T) {
			for _, recreate := range []bool{false, true} {
				dir := t.TempDir()
				path := filepath.Join(dir, name)
				require.NoError(t, os.WriteFile(path, tt.spoil(bytes.Clone(whole)), 0o600))
				kill, log, _, _ := startOn(t, dir, recreate)
				if recreate && tt.starts {
					require.NotNil(t, kill, log)
					backups, err := filepath.Glob(path + ".*.backup")
					require.NoError(t, err)
					assert.Len(t, backups, 1)
					continue
				}
				require.Nil(t, kill, "it starts, recreate %t", recreate)
				assert.Contains(t, log.String(), tt.says)
				require.NoError(t, os.Rename(path, path+".damaged"))
				kill, log, otlp, out := startOn(t, dir, recreate)
				require.NotNil(t, kill, log)
				sendSpan(t, otlp, 7, requestSpan)
				sendSpan(t, otlp, 7, runSpan)
				eventually(t, func(t *assert.CollectT) { require.Len(t, out.spans(t), 2) })
			}
		})
	}
	t.Run("a value", func(t *testing.T) { // bbolt has no checksum of it
		dir := t.TempDir()
		trace := []byte{0x5b, 0x8e, 0xff, 0xf7, 0x98, 0x03, 0x81, 0x03, 0xd2, 0x69, 0xb6, 0x33, 0x81, 0x3f, 0, 1}
		require.Positive(t, bytes.Count(whole, trace))
		wrong := bytes.Clone(trace)
		wrong[15] = 2
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), bytes.ReplaceAll(whole, trace, wrong), 0o600))
		kill, log, otlp, out := startOn(t, dir, false)
		require.NotNil(t, kill, log)
		for run := range 3 {
			sendSpan(t, otlp, run, runSpan)
		}
		eventually(t, func(t *assert.CollectT) { require.Len(t, out.spans(t), 4) })
		requests := map[string]int{}
		for _, s := range out.spans(t) {
			if s.Name == "chat" {
				requests[s.TraceID]++
			}
		}
		assert.Equal(t, map[string]int{runTrace(0): 1, runTrace(2): 1}, requests)
		kill()
		assert.Equal(t, 1, strings.Count(log.String(), "An entry of the journal is unreadable"))
	})
}
