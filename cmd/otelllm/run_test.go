package main

import (
	"bufio"
	"encoding/json"
	"encoding/pem"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
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
			assert.Empty(t, records[0].Served, "a call is recorded once")

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
	for name, tt := range map[string]struct {
		args []string
		file string
		says string
	}{
		"not an agent":     {[]string{"true"}, "", "true is no agent that is known"},
		"a file":           {[]string{"true"}, ".env", ".env sets ANTHROPIC_BASE_URL"},
		"settings":         {[]string{"--set", "qwen", "--", "true"}, ".qwen/settings.json", ".qwen/settings.json has baseUrl"},
		"its own settings": {[]string{"--set", "cline", "--", "true"}, "", "cline auth -b URL"},
		"an agent":         {[]string{"--set", "gemini", "--", "true"}, "", "Gemini CLI called no model"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := otelllm(t, nil, append([]string{"run"}, tt.args...)...)
			if tt.file != "" {
				require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(p.Dir, tt.file)), 0o755))
				require.NoError(t, os.WriteFile(filepath.Join(p.Dir, tt.file), []byte(`ANTHROPIC_BASE_URL="https://x.example/canary" "baseUrl"`), 0o600))
			}
			assert.Equal(t, 0, p.run(t))
			assert.Contains(t, p.stderr.String(), "otelllm: no model call went through the proxy\notelllm: why: ")
			assert.Contains(t, p.stderr.String(), tt.says)
			assert.NotContains(t, p.stderr.String(), "canary")
		})
	}
}

// Requests of which none called a model have come all the same.
func TestRunWithOtherRequestsSaysSo(t *testing.T) {
	t.Parallel()
	srv := model(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) })
	p := otelllm(t, asks(srv), "run", "--", "bash", "-c", `u=${OPENAI_BASE_URL#http://}; h=${u%%/*}; exec 3<>/dev/tcp/${h%:*}/${h#*:}
printf 'GET /%s/models HTTP/1.0\r\nHost: localhost\r\n\r\n' "${u#*/}" >&3; cat <&3 >/dev/null`)
	assert.Zero(t, p.run(t))
	assert.Equal(t, "otelllm: 1 request went through the proxy, and no model was called\n", p.stderr.String())
}

// What is wrong with the set-up is an error that says what to do, and the command is not started.
func TestRunSetUpFails(t *testing.T) {
	t.Parallel()
	broken := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(broken, []byte("canary"), 0o600))
	for name, tt := range map[string]struct {
		env, flags []string
		file       string
		says       string
	}{
		"no such file":        {[]string{"NODE_EXTRA_CA_CERTS=/no/such/file"}, nil, "", "NODE_EXTRA_CA_CERTS names /no/such/file, which does not exist: name a file with certificates in PEM, or unset it"},
		"no certificate":      {[]string{"REQUESTS_CA_BUNDLE=" + broken}, nil, "", "has no certificate"},
		"no proxy":            {[]string{"HTTPS_PROXY=ftp://canary"}, nil, "", "HTTPS_PROXY is not the URL"},
		"configuration":       {nil, []string{"--set", "codex"}, ".codex/config.toml", "config.toml is not valid TOML: mend it"},
		"configuration of pi": {nil, []string{"--set", "pi"}, ".pi/agent/models.json", "models.json is not valid JSON: mend it"},
		"kind":                {nil, []string{"--unreachable", "loud"}, "", "--unreachable"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := otelllm(t, tt.env, append(append([]string{"run"}, tt.flags...), "--", "sh", "-c", "echo started")...)
			if tt.file != "" {
				require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(p.Dir, tt.file)), 0o755))
				require.NoError(t, os.WriteFile(filepath.Join(p.Dir, tt.file), []byte(`{"canary`), 0o600))
			}
			assert.Equal(t, statusError, p.run(t))
			assert.Empty(t, p.stdout.String())
			assert.Contains(t, p.stderr.String(), tt.says)
			assert.NotContains(t, p.stderr.String(), "canary")
			left, err := filepath.Glob(filepath.Join(p.Dir, "otelllm-*"))
			require.NoError(t, err)
			assert.Empty(t, left)
		})
	}
}

// An address that is taken is named, with what to do.
func TestProxyAddressInUse(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	p := otelllm(t, nil, "proxy", "--listen", ln.Addr().String())
	assert.Equal(t, statusError, p.run(t))
	assert.Contains(t, p.stderr.String(), ln.Addr().String()+" is in use")
	assert.Contains(t, p.stderr.String(), "choose another address")
}

// An upstream that cannot be reached is said at once, with its host and the cause, and judged as that in every form.
func TestRunSaysWhatCannotBeReached(t *testing.T) {
	t.Parallel()
	for _, form := range []string{"reset", "close", "status"} {
		t.Run(form, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "runs.jsonl")
			p := otelllm(t, []string{"OPENAI_BASE_URL=http://no-such-host.invalid/v1"},
				append([]string{"run", "--unreachable", form, "--json", file, "--"}, asking(t, "ask")...)...)
			p.run(t)
			assert.Contains(t, p.stderr.String(), "otelllm: no-such-host.invalid cannot be reached: host not found\n")
			records := readRecords(t, file)
			require.Len(t, records, 1)
			assert.Equal(t, semconv.ClassConnectionFailed.String(), text(&records[0], semconv.FailureClassKey))
		})
	}
}

// A server with the certificate of a company is reached as the agent itself would reach it.
func TestRunTrustsTheAuthoritiesOfTheAgent(t *testing.T) {
	t.Parallel()
	srv := httptest.NewTLSServer(http.HandlerFunc(whole))
	t.Cleanup(srv.Close)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}), 0o600))
	for _, name := range []string{"NODE_EXTRA_CA_CERTS", "CODEX_CA_CERTIFICATE", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "AWS_CA_BUNDLE"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := otelllm(t, []string{"OPENAI_BASE_URL=" + srv.URL + "/v1", name + "=" + ca}, append([]string{"run", "--"}, asking(t, "ask")...)...)
			assert.Zero(t, p.run(t))
			assert.Contains(t, p.stderr.String(), "1 run, 1 model call; ok")
		})
	}
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

// The command does not go on without the program, if that is killed: its requests would find
// nothing where they are sent to.
func TestRunKilled(t *testing.T) {
	t.Parallel()
	began := make(chan struct{}, 1)
	srv := model(t, func(w http.ResponseWriter, r *http.Request) { begin(w); began <- struct{}{}; silent(w, r) })
	p := otelllm(t, asks(srv), append([]string{"run", "--"}, asking(t, "ask")...)...)
	p.WaitDelay = patience // the command has the program's output
	require.NoError(t, p.Start())
	<-began
	await(t, &p.stdout, canaryAnswer)
	require.NoError(t, p.Process.Kill())
	require.NotErrorIs(t, p.Wait(), exec.ErrWaitDelay, "the command has ended, and closed its output")
	assert.Equal(t, -1, p.ProcessState.ExitCode())
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
