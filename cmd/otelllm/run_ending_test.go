//go:build unix

package main

import (
	"context"
	"encoding/xml"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/semconv"
)

// redirects answers with a redirect to a page for signing in.
func redirects(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Location", "http://127.0.0.1:1/login?"+canaryKey)
	w.WriteHeader(http.StatusFound)
}

// inOnePiece answers a request for a stream with one JSON document.
func inOnePiece(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"id":"c","object":"chat.completion","model":"gpt-5","choices":[{"index":0,"message":{"role":"assistant","content":"`+canaryAnswer+`"},"finish_reason":"stop"}]}`)
}

// resetsAtTheEnd sends a whole stream, and then breaks the connection off.
func resetsAtTheEnd(w http.ResponseWriter, _ *http.Request) {
	begin(w)
	_, _ = io.WriteString(w, sseEnd+sseDone)
	_ = http.NewResponseController(w).Flush()
	reset(w)
}

// callsTool answers with a call.
func callsTool(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = io.WriteString(w, `data: {"id":"c","object":"chat.completion.chunk","model":"gpt-5","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"exec_command","arguments":"{}"}}]}}]}`+"\n\n"+
		`data: {"id":"c","object":"chat.completion.chunk","model":"gpt-5","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`+"\n\n"+sseDone)
}

// answersInAnotherForm sends a stream without one chunk of Chat Completions.
func answersInAnotherForm(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = io.WriteString(w, `data: {"output":"`+canaryAnswer+`","stop":true}`+"\n\n"+sseDone)
}

// breaksAChunk sends a stream that ends well, and of which one chunk is not JSON.
func breaksAChunk(w http.ResponseWriter, _ *http.Request) {
	begin(w)
	_, _ = io.WriteString(w, `data: {"id":"c","object":"chat.cdata: {"id":"c","choices":[]}`+"\n\n"+sseEnd+sseDone)
}

// shell returns a command that asks as often as %s stands in it.
func shell(t *testing.T, script string) []string {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	ask := fmt.Sprintf("%s=ask %q >%s", asClient, self, os.DevNull)
	return []string{"sh", "-c", strings.ReplaceAll(script, "ASK", ask)}
}

// "ok" is said only of what was asked and answered; what the command's end says counts as well.
func TestRunSaysHowTheCommandEnded(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, script, failOn string
		answer               http.HandlerFunc
		want                 int
		says                 string
	}{
		{"redirect", "ASK; exit 1", "", redirects, 1, "1 did not end well; sh exited 1"},
		{"redirect, and the command makes nothing of it", "ASK", "any", redirects, statusFailOn, "it is not known how 1 run ended"},
		{"an answer that cannot be read", "ASK", "any", answersInAnotherForm, statusFailOn, "1 model call; it is not known how 1 run ended"},
		{"a broken chunk", "ASK", "any", breaksAChunk, statusFailOn, "1 did not end well"},
		{"JSON for a stream", "ASK", "any", inOnePiece, 0, "; ok"},
		{"JSON for a stream, again and again", "for i in 1 2 3 4 5; do ASK; done", "any", inOnePiece, statusFailOn, "the same was asked 5 times although the answer came whole"},
		{"reset after the end", "for i in 1 2 3 4; do ASK; done; exit 1", "", resetsAtTheEnd, 1, "the same was asked 4 times although the answer came whole; sh exited 1 although every model call was answered"},
		{"killed in a tool", "ASK; kill -9 $$", "", callsTool, 137, "1 did not end well; sh was killed by signal 9 while exec_command may have been running"},
		{"told to end in a tool", "ASK; kill -TERM $PPID; exec sleep 60", "", callsTool, 143, "1 did not end well; sh was told to end while exec_command may have been running"},
		{"told to end after the same calls", "for i in 1 2 3; do ASK; done; kill -TERM $PPID; exec sleep 60", "", callsTool, 143, "1 did not end well; the same was asked 3 times although the answer came whole; 1 warning; sh was told to end"},
		{"told to end in a tool, and it ended well", "trap 'exit 0' TERM; ASK; kill -TERM $PPID; while :; do sleep 0.1; done", "any", callsTool, statusFailOn, "it is not known how 1 run ended"},
		{"failed with a call", "ASK; exit 1", "", callsTool, 1, "it is not known how 1 run ended; sh exited 1 and sent no output of exec_command, which may have run"},
		{"left with a call", "ASK", "any", callsTool, statusFailOn, "it is not known how 1 run ended"},
		{"well", "ASK", "any", whole, 0, "; ok"},
		{"well, and the command failed", "ASK; exit 7", "any", whole, 7, "sh exited 7 although every model call was answered"},
		{"no model call", "true", "any", whole, statusFailOn, "exit status 3, because of --fail-on any"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			args := []string{"run"}
			if tt.failOn != "" {
				args = append(args, "--fail-on", tt.failOn)
			}
			p := otelllm(t, asks(model(t, tt.answer)), append(append(args, "--"), shell(t, tt.script)...)...)
			assert.Equal(t, tt.want, p.run(t), "%s", &p.stderr)
			assert.Contains(t, p.stderr.String(), tt.says)
			if tt.says != "; ok" {
				assert.NotContains(t, p.stderr.String(), "; ok")
			}
		})
	}
}

// An agent that is killed while a model answers has not cancelled anything.
func TestKilledAgentCancelsNothing(t *testing.T) {
	t.Parallel()
	began := make(chan struct{}, 1)
	srv := model(t, func(w http.ResponseWriter, r *http.Request) { begin(w); began <- struct{}{}; silent(w, r) })
	file := filepath.Join(t.TempDir(), "runs.jsonl")
	p := otelllm(t, asks(srv), append([]string{"run", "--json", file, "--"}, shell(t, "echo $$; exec env ASK")...)...)
	require.NoError(t, p.Start())
	<-began
	var pid int
	_, err := fmt.Sscan(p.stdout.String(), &pid)
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	assert.Equal(t, 137, p.exit(t))
	assert.Contains(t, p.stderr.String(), "sh was killed by signal 9 while gpt-5 was answering")
	records := readRecords(t, file)
	require.Len(t, records, 1)
	assert.Equal(t, semconv.RunOutcomeIncomplete.String(), text(&records[0], semconv.RunOutcomeKey))
	assert.Equal(t, semconv.ClassRunAbandoned.String(), text(&records[0], semconv.FailureClassKey))
	assert.NotContains(t, p.stderr.String(), "deliberately")
	require.Len(t, records[0].Requests, 1)
	assert.Equal(t, semconv.CauseConsumerClosed.String(), text(&records[0].Requests[0], semconv.FailureCauseKey))
	assert.Equal(t, semconv.RetrySafetyUserConfirmedRetry.String(), text(&records[0].Requests[0], semconv.RetrySafetyKey))
}

// leavesOver returns a client that asks over a connection of its own, and leaves it as end says.
func leavesOver(end func(t *testing.T, conn *net.TCPConn)) func(t *testing.T, base string, read *output) func() {
	return func(t *testing.T, base string, read *output) func() {
		t.Helper()
		address := strings.TrimPrefix(base, "http://")
		conn, err := net.Dial("tcp", address)
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		body := `{"model":"gpt-5","stream":true,"messages":[{"role":"user","content":"` + canaryPrompt + `"}]}`
		req, err := http.NewRequest(http.MethodPost, base+"/v1/chat/completions", strings.NewReader(body))
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/json")
		require.NoError(t, req.Write(conn))
		go func() { _, _ = io.Copy(read, conn) }()
		return func() { end(t, conn.(*net.TCPConn)) }
	}
}

// leavesStream asks over HTTP/2, and cancels the stream.
func leavesStream(t *testing.T, base string, read *output) func() {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	tr := &http.Transport{Protocols: &http.Protocols{}}
	tr.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(tr.CloseIdleConnections)
	body := `{"model":"gpt-5","stream":true,"messages":[{"role":"user","content":"` + canaryPrompt + `"}]}`
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/v1/chat/completions", strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	go func() {
		resp, err := tr.RoundTrip(req)
		if err == nil {
			_, _ = io.Copy(read, resp.Body)
			_ = resp.Body.Close()
		}
	}()
	return cancel // which leaves the connection open
}

// leavesByKill asks from a process that is killed.
func leavesByKill(t *testing.T, base string, read *output) func() {
	t.Helper()
	argv := asking(t, "ask")
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(cmd.Environ(), "OPENAI_BASE_URL="+base+"/v1")
	cmd.Stdout = read
	require.NoError(t, cmd.Start())
	return func() {
		require.NoError(t, cmd.Process.Signal(syscall.SIGKILL))
		_ = cmd.Wait()
	}
}

// Of a client whose connection goes away it is not known whether that is on purpose: the system closes those of a process
// that is killed. So the proxy says the same of each, and no more than it knows.
func TestProxyDoesNotKnowWhyAClientLeft(t *testing.T) {
	t.Parallel()
	ways := map[string]func(t *testing.T, base string, read *output) (leave func()){
		"FIN": leavesOver(func(t *testing.T, conn *net.TCPConn) {
			t.Helper()
			require.NoError(t, conn.CloseWrite())
		}),
		"RST": leavesOver(func(t *testing.T, conn *net.TCPConn) {
			t.Helper()
			require.NoError(t, conn.SetLinger(0))
			require.NoError(t, conn.Close())
		}),
		"RST_STREAM": leavesStream,
		"SIGKILL":    leavesByKill,
	}
	for name, tt := range map[string]struct {
		answer     http.HandlerFunc
		gets, says string
	}{
		"before the answer": {
			func(http.ResponseWriter, *http.Request) {}, "",
			"The client side stopped reading (it did not say why) before the model began to respond. Nothing had been shown yet. Do not retry unless asked to.",
		},
		"within the answer": {
			func(w http.ResponseWriter, _ *http.Request) { begin(w) }, canaryAnswer,
			"The client side stopped reading (it did not say why) while the assistant was still writing. Part of the answer had already been shown. Do not retry unless asked to.",
		},
	} {
		for way, client := range ways {
			t.Run(way+" "+name, func(t *testing.T) {
				t.Parallel()
				began, gone := make(chan struct{}), make(chan struct{})
				srv := model(t, func(w http.ResponseWriter, r *http.Request) { tt.answer(w, r); close(began); silent(w, r); close(gone) })
				sink := newBackend(t)
				p, base := startProxy(t, []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + sink.URL}, "--upstream", srv.URL)
				read := &output{}
				leave := client(t, base, read)
				<-began
				await(t, read, tt.gets)
				leave()
				<-gone
				require.NoError(t, p.Process.Signal(syscall.SIGTERM))
				assert.Zero(t, p.exit(t), "%s", &p.stderr)
				assert.Contains(t, p.stderr.String(), "outcome=aborted class=local_abort cause=consumer_closed")
				assert.Contains(t, p.stderr.String(), tt.says)
				require.Len(t, sink.spans, 2, "the run's and the request's")
				for _, span := range sink.spans {
					attributes := span.Attributes().AsRaw()
					assert.Equal(t, tt.says, attributes[string(semconv.FailureSummaryKey)])
					assert.Equal(t, semconv.RetrySafetyNoRetry.String(), attributes[string(semconv.RetrySafetyKey)])
					assert.Equal(t, ptrace.StatusCodeUnset, span.Status().Code())
					assert.NotRegexp(t, "deliberate|on purpose", fmt.Sprint(attributes))
				}
			})
		}
	}
}

// A call that a signal stopped is not one that the command did not need any more, whatever its exit status.
func TestToldToEndInAnAnswer(t *testing.T) {
	t.Parallel()
	began := make(chan struct{}, 1)
	srv := model(t, func(w http.ResponseWriter, r *http.Request) { begin(w); began <- struct{}{}; silent(w, r) })
	p := otelllm(t, asks(srv), append([]string{"run", "--"}, shell(t, `trap 'kill $!; exit 0' TERM; env ASK & wait`)...)...)
	require.NoError(t, p.Start())
	<-began
	require.NoError(t, p.Process.Signal(syscall.SIGTERM))
	assert.Zero(t, p.exit(t))
	assert.Contains(t, p.stderr.String(), "1 did not end well; sh was told to end while gpt-5 was answering")
	assert.NotContains(t, p.stderr.String(), "ok")
}

// An agent that is known executes its calls. If it is told to end long after one, and succeeds, the call was stopped.
func TestAgentToldToEndInATool(t *testing.T) {
	t.Parallel()
	script := "trap 'exit 0' TERM; ASK; sleep 1.2; kill -TERM $PPID; while :; do sleep 0.1; done"
	p := otelllm(t, asks(model(t, callsTool)), append([]string{"run", "--set", "qwen", "--"}, shell(t, script)...)...)
	assert.Zero(t, p.run(t), "%s", &p.stderr)
	assert.Contains(t, p.stderr.String(), "1 did not end well; sh was told to end while exec_command may have been running")
}

// Files are written as runs end: who kills the program loses nothing, and the agent does not go
// on without it.
func TestKilledProgramLeavesWholeFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	lines, page := filepath.Join(dir, "runs.jsonl"), filepath.Join(dir, "runs.html")
	p := otelllm(t, asks(model(t, whole)), append([]string{"run", "--json", lines, "--report", page, "--"}, shell(t, "ASK; echo $$; exec sleep 600")...)...)
	p.WaitDelay = 1 // the agent has the program's output, until it has ended
	require.NoError(t, p.Start())
	require.Eventually(t, func() bool {
		raw, err := os.ReadFile(page)
		return err == nil && strings.Contains(string(raw), "gpt-5") && strings.Contains(p.stdout.String(), "\n")
	}, patience, tick)
	var pid int
	_, err := fmt.Sscan(p.stdout.String(), &pid)
	require.NoError(t, err)
	require.NoError(t, p.Process.Kill())
	_ = p.Wait()
	records := readRecords(t, lines)
	require.Len(t, records, 1)
	assert.Equal(t, "succeeded", text(&records[0], semconv.RunOutcomeKey))
	raw, err := os.ReadFile(page)
	require.NoError(t, err)
	assert.True(t, strings.HasSuffix(strings.TrimSpace(string(raw)), "</html>"))
	if runtime.GOOS == "linux" {
		require.Eventually(t, func() bool { return syscall.Kill(pid, 0) != nil || zombie(pid) }, patience, tick)
	}
}

// zombie reports whether a process has ended, and its status has not been read.
func zombie(pid int) bool {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || strings.Contains(string(raw), ") Z ")
}

// JUnit's XML, annotations and the step's summary have each run, and nothing of what was said.
func TestContinuousIntegration(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		answer   http.HandlerFunc
		failures int
	}{"whole": {whole, 0}, "broken": {broken, 1}, "refused": {refusesWithCanary, 1}, "redirect": {redirects, 1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			junit, step := filepath.Join(dir, "junit.xml"), filepath.Join(dir, "step.md")
			env := append(asks(model(t, tt.answer)), "GITHUB_STEP_SUMMARY="+step)
			p := otelllm(t, env, append([]string{"run", "--junit", junit, "--github", "--"}, shell(t, "ASK")...)...)
			assert.Zero(t, p.run(t), "%s", &p.stderr)
			assert.Empty(t, p.stdout.String(), "which is the command's")
			raw, err := os.ReadFile(junit)
			require.NoError(t, err)
			var suite junitSuite
			require.NoError(t, xml.Unmarshal(raw, &suite))
			assert.Equal(t, 1, suite.Tests)
			assert.Equal(t, tt.failures, suite.Failures)
			require.Len(t, suite.Cases, 1)
			assert.Contains(t, suite.Cases[0].Name, "gpt-5")
			assert.Equal(t, tt.failures > 0, strings.HasPrefix(p.stderr.String(), "::"), "%s", &p.stderr)
			table, err := os.ReadFile(step)
			require.NoError(t, err)
			assert.Contains(t, string(table), "gpt-5")
			for _, canary := range []string{canaryPrompt, canaryAnswer, canaryKey} {
				assert.NotContains(t, string(raw)+string(table)+p.stderr.String(), canary)
			}
		})
	}
}

// What cannot be written is an error before the command starts.
func TestFilesAreTriedBeforeTheCommand(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	started := filepath.Join(dir, "started")
	for _, flag := range []string{"--json", "--report", "--junit"} {
		p := otelllm(t, nil, "run", flag, filepath.Join(dir, "missing", "file"), "--", "touch", started)
		assert.Equal(t, statusError, p.run(t))
		assert.Contains(t, p.stderr.String(), "otelllm: "+flag+": ")
		assert.NoFileExists(t, started)
	}
}

func TestReplaceOutputLeavesDevicesAndLinks(t *testing.T) {
	dir := t.TempDir()
	target, link := filepath.Join(dir, "target"), filepath.Join(dir, "link")
	require.NoError(t, os.WriteFile(target, []byte("old"), 0o600))
	require.NoError(t, os.Symlink(target, link))
	write := func(w io.Writer) error { _, err := io.WriteString(w, "new"); return err }
	require.NoError(t, replaceOutput(link, write))
	raw, err := os.ReadFile(target)
	require.NoError(t, err)
	assert.Equal(t, "new", string(raw))
	require.NoError(t, replaceOutput(os.DevNull, write))
	info, err := os.Stat(os.DevNull)
	require.NoError(t, err)
	assert.False(t, info.Mode().IsRegular())
	require.Error(t, replaceOutput(target, func(io.Writer) error { return net.ErrClosed }))
	raw, err = os.ReadFile(target)
	require.NoError(t, err)
	assert.Equal(t, "new", string(raw), "it is whole")
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, left, 2)
}
