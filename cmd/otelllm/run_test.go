package main

import (
	"bufio"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/cmd/otelllm/report"
	"github.com/otelllm/otelllm-go/semconv"
)

func TestRunExitsAsItsCommand(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for _, tt := range []struct {
		name string
		args []string
		want int
	}{
		{"success", []string{"run", "--", "true"}, 0},
		{"status", []string{"run", "--", "sh", "-c", "exit 7"}, 7},
		{"signal", []string{"run", "--", "sh", "-c", "kill -9 $$"}, 128 + 9},
		{"not found", []string{"run", "--", "no-such-command-here"}, 127},
		{"not a file", []string{"run", "--", "/no/such/file"}, 127},
		{"not executable", []string{"run", "--", file}, 126},
		{"no command", []string{"run"}, statusError},
		{"unknown agent", []string{"run", "--set", "nobody", "--", "true"}, statusError},
		{"unknown outcome", []string{"run", "--fail-on", "broke", "--", "true"}, statusError},
		{"unusable upstream", []string{"run", "--upstream", "gw.example", "--", "true"}, statusError},
		{"unwritable file", []string{"run", "--json", "/no/such/dir/x", "--", "true"}, statusError},
		{"unknown level", []string{"run", "--log-level", "loud", "--", "true"}, statusError},
		{"flags of the command", []string{"run", "sh", "-c", "exit 8"}, 8},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := otelllm(t, nil, tt.args...)
			assert.Equal(t, tt.want, p.run(t), "%s", &p.stderr)
			assert.Empty(t, p.stdout.String())
		})
	}
}

func TestRunLeavesInputAndOutputAlone(t *testing.T) {
	t.Parallel()
	p := otelllm(t, nil, "run", "--quiet", "--", "sh", "-c", "cat; echo err >&2; pwd; echo $KEEP")
	p.Env = append(p.Env, "KEEP=me")
	p.Stdin = strings.NewReader("in\n")
	assert.Equal(t, 0, p.run(t))
	assert.Equal(t, "in\n"+p.Dir+"\nme\n", p.stdout.String())
	assert.Equal(t, "err\n", p.stderr.String())
}

func TestRunReportsRuns(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, mode, failOn string
		answer             http.HandlerFunc
		want               int
		outcome            semconv.RunOutcome
		class              semconv.Class
		says               string
	}{
		{name: "healthy", mode: "ask", answer: whole, outcome: semconv.RunOutcomeSucceeded, says: "1 run, 1 model call; ok"},
		{name: "healthy with fail-on", mode: "ask", failOn: "failed,interrupted", answer: whole, outcome: semconv.RunOutcomeSucceeded, says: "ok"},
		{name: "broken", mode: "ask", answer: broken, outcome: semconv.RunOutcomeFailed, class: semconv.ClassStreamInterrupted, says: "connection reset"},
		{name: "interrupted", mode: "ask", failOn: "interrupted", answer: broken, want: statusFailOn, outcome: semconv.RunOutcomeFailed, class: semconv.ClassStreamInterrupted, says: "retry"},
		{name: "failed", mode: "ask", failOn: "failed", answer: broken, want: statusFailOn, outcome: semconv.RunOutcomeFailed, class: semconv.ClassStreamInterrupted, says: "retry"},
		{name: "another outcome", mode: "ask", failOn: "incomplete,provider_error", answer: broken, outcome: semconv.RunOutcomeFailed, class: semconv.ClassStreamInterrupted, says: "retry"},
		{name: "own status first", mode: "strict", failOn: "failed", answer: broken, want: 4, outcome: semconv.RunOutcomeFailed, class: semconv.ClassStreamInterrupted, says: "retry"},
		{name: "no answer", mode: "impatient", answer: silent, outcome: semconv.RunOutcomeAborted, class: semconv.ClassLocalAbort, says: "1 run, 1 model call (1 stopped by the command); ok"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			srv := model(t, tt.answer)
			file := filepath.Join(t.TempDir(), "runs.jsonl")
			args := []string{"run", "--json", file, "--log-level", "debug"}
			if tt.failOn != "" {
				args = append(args, "--fail-on", tt.failOn)
			}
			p := otelllm(t, asks(srv), append(append(args, "--"), asking(t, tt.mode)...)...)
			assert.Equal(t, tt.want, p.run(t))
			assert.Contains(t, p.stderr.String(), tt.says)
			records := readRecords(t, file)
			require.Len(t, records, 1)
			assert.Equal(t, tt.outcome.String(), text(&records[0], semconv.RunOutcomeKey))
			assert.Equal(t, tt.class.String(), text(&records[0], semconv.FailureClassKey))
			require.Len(t, records[0].Requests, 1)
			assert.Len(t, records[0].Served, 1)

			raw, err := os.ReadFile(file)
			require.NoError(t, err)
			for _, canary := range []string{canaryPrompt, canaryAnswer, canaryKey} {
				assert.NotContains(t, p.stderr.String(), canary)
				assert.NotContains(t, string(raw), canary)
			}
		})
	}
}

func readRecords(t *testing.T, path string) []report.Record {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	var records []report.Record
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var r report.Record
		require.NoError(t, json.Unmarshal(lines.Bytes(), &r))
		records = append(records, r)
	}
	return records
}

func TestRunWithoutModelCallsSaysSo(t *testing.T) {
	t.Parallel()
	p := otelllm(t, nil, "run", "--", "true")
	assert.Equal(t, 0, p.run(t))
	assert.Equal(t, "otelllm: no model call went through the proxy\n", p.stderr.String())
}

// What this process was started to ignore, as by nohup, its command ignores too.
func TestRunLeavesIgnoredSignalsIgnored(t *testing.T) {
	t.Parallel()
	p := otelllm(t, nil)
	program := append([]string{"-c", `trap "" HUP INT; exec "$@"`, "sh", p.Path}, "run", "--", "sh", "-c", `kill -HUP $$; kill -INT $$; echo alive`)
	p.Path, p.Args = "/bin/sh", append([]string{"sh"}, program...)
	assert.Equal(t, 0, p.run(t), "%s", &p.stderr)
	assert.Equal(t, "alive\n", p.stdout.String())
}

// The command's requests end with an error, and not never, if the program is killed.
func TestRunKilled(t *testing.T) {
	t.Parallel()
	began := make(chan struct{}, 1)
	srv := model(t, func(w http.ResponseWriter, r *http.Request) { begin(w); began <- struct{}{}; silent(w, r) })
	p := otelllm(t, asks(srv), append([]string{"run", "--"}, asking(t, "ask")...)...)
	require.NoError(t, p.Start())
	<-began
	await(t, &p.stdout, canaryAnswer)
	require.NoError(t, p.Process.Kill())
	await(t, &p.stdout, "client: broken")
	assert.Equal(t, -1, p.exit(t))
}

// A command that is ended while its answer comes leaves a run behind that says so.
func TestRunOfEndedCommand(t *testing.T) {
	t.Parallel()
	began := make(chan struct{}, 1)
	srv := model(t, func(w http.ResponseWriter, r *http.Request) { begin(w); began <- struct{}{}; silent(w, r) })
	file := filepath.Join(t.TempDir(), "runs.jsonl")
	p := otelllm(t, asks(srv), append([]string{"run", "--json", file, "--"}, asking(t, "ask")...)...)
	require.NoError(t, p.Start())
	<-began
	start := time.Now()
	require.NoError(t, p.Process.Signal(syscall.SIGTERM))
	assert.Equal(t, 128+15, p.exit(t))
	assert.Less(t, time.Since(start), 10*time.Second)
	records := readRecords(t, file)
	require.Len(t, records, 1)
	assert.Equal(t, "aborted", text(&records[0], semconv.RunOutcomeKey), "%s", &p.stderr)
}
