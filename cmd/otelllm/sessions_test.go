//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/sessionfiles/event"
	"github.com/otelllm/otelllm-go/cmd/otelllm/report"
	"github.com/otelllm/otelllm-go/semconv"
)

// agentHome makes a home directory with sessions of Codex, and lets the environment say so. The
// process of each is gone, by its lock.
func agentHome(t *testing.T, names ...string) (home string) {
	t.Helper()
	home = t.TempDir()
	for _, key := range []string{"CODEX_HOME", "CLAUDE_CONFIG_DIR", "XDG_DATA_HOME", "QWEN_HOME", "QWEN_RUNTIME_DIR", "PI_CODING_AGENT_DIR", "PI_CODING_AGENT_SESSION_DIR", "GEMINI_CLI_HOME", "CLINE_DIR", "CLINE_DATA_DIR", "CLINE_SESSION_DATA_DIR", "OPENCODE_DB"} {
		t.Setenv(key, "")
	}
	t.Setenv("HOME", home)
	for _, name := range names {
		codexSession(t, home, name)
	}
	return home
}

// codexSession puts a session of testdata into a home directory, and returns its lock.
func codexSession(t *testing.T, home, name string) (lock string) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("internal", "sessionfiles", "testdata", "codex", name+".jsonl"))
	require.NoError(t, err)
	var head struct{ Payload struct{ ID string } }
	first, _, _ := bytes.Cut(raw, []byte("\n"))
	require.NoError(t, json.Unmarshal(first, &head))
	sessions := filepath.Join(home, ".codex", "sessions", "2026", "11", "20")
	lock = filepath.Join(home, ".codex", "thread-writer-locks", head.Payload.ID+".lock")
	require.NoError(t, os.MkdirAll(sessions, 0o700))
	require.NoError(t, os.MkdirAll(filepath.Dir(lock), 0o700))
	require.NoError(t, os.WriteFile(lock, nil, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(sessions, "rollout-2026-11-20-"+head.Payload.ID+".jsonl"), raw, 0o600))
	return lock
}

// sessionsCommand runs `otelllm sessions`, and returns what it prints and its exit status.
func sessionsCommand(t *testing.T, args ...string) (out, diagnostics string, status int) {
	t.Helper()
	cmd := newCommand()
	var stdout, stderr bytes.Buffer
	cmd.SetOut(&stdout)
	cmd.SetErr(&stderr)
	cmd.SetArgs(append([]string{"sessions"}, args...))
	err := cmd.ExecuteContext(t.Context())
	if err != nil {
		status = exitStatus(err)
		stderr.WriteString(err.Error())
	}
	return stdout.String(), stderr.String(), status
}

func TestSessionsTable(t *testing.T) {
	agentHome(t, "ok_tool", "kill_in_tool", "kill_in_text", "r429", "int_in_tool", "call_no_end")
	out, diagnostics, status := sessionsCommand(t)
	assert.Zero(t, status)
	assert.Empty(t, diagnostics)
	assert.Regexp(t, `(?s)^2026-11-20 \d\d:32 +codex +[-0-9a-f]{36}  stopped by a person while exec_command was running
.* failed: rate limited; safe: run it again
.* died: before the model had answered; look first, then decide
.* died: exec_command may have run; look first, then decide

6 sessions, 2 fine, 1 failed, 1 stopped, 2 died
Codex: a resume tells the model that the call was aborted or returned nothing, although it may have run
What ran, and what to tell the model before you resume one: otelllm sessions --plan ID
$`, out)
	assert.NotContains(t, out, "Canary")

	out, _, status = sessionsCommand(t, "--agent", "claude")
	assert.Zero(t, status)
	assert.Equal(t, "no sessions were found; --since 0 reads old ones, too\n", out)
}

// A session that was resumed, and whose model was told something else than what happened, has a line.
func TestSessionsResumed(t *testing.T) {
	agentHome(t, "kill_in_tool_resumed")
	out, _, status := sessionsCommand(t)
	assert.Zero(t, status)
	assert.Contains(t, out, "fine, but it died before, while exec_command may have been running, and the model was told that the call was aborted or returned nothing\n")
	assert.Contains(t, out, "\n1 session, 1 fine\n")
	id := strings.Fields(out)[3]
	out, _, status = sessionsCommand(t, "--plan", id)
	assert.Zero(t, status)
	assert.Contains(t, out, "its last turn ended well; this is about an earlier one, which did not\n  may have run  exec_command (call_")
}

func TestSessionsAllWell(t *testing.T) {
	agentHome(t, "ok_tool")
	out, _, status := sessionsCommand(t, "--fail-on", "any")
	assert.Zero(t, status)
	assert.Equal(t, "1 session, 1 fine\n", out)
}

func TestSessionsFailOn(t *testing.T) {
	agentHome(t, "ok_tool", "kill_in_tool")
	for on, want := range map[string]int{"any": 3, "incomplete": 3, "run_abandoned": 3, "failed": 0, "none": 2} {
		_, diagnostics, status := sessionsCommand(t, "--fail-on", on)
		assert.Equal(t, want, status, on)
		if want == 3 {
			assert.Contains(t, diagnostics, "exit status 3, because of --fail-on "+on)
		}
	}
}

// TestSessionsFiles writes one line of JSON a turn, and the page.
func TestSessionsFiles(t *testing.T) {
	home := agentHome(t, "kill_in_tool_resumed", "r429")
	file, page := filepath.Join(home, "out.jsonl"), filepath.Join(home, "out.html")
	_, _, status := sessionsCommand(t, "--json", file, "--report", page)
	assert.Zero(t, status)
	raw, err := os.ReadFile(file)
	require.NoError(t, err)
	causes := make(map[string]int)
	for line := range bytes.Lines(raw) {
		var r report.Record
		require.NoError(t, json.Unmarshal(line, &r))
		assert.Equal(t, report.RecordRun, r.Kind)
		causes[r.Text(semconv.FailureCauseKey)]++
	}
	assert.Equal(t, map[string]int{"": 1, "process_died": 1, "rate_limited": 1}, causes)
	html, err := os.ReadFile(page)
	require.NoError(t, err)
	assert.Contains(t, string(html), "process_died")
	for _, canary := range []string{"Canary", "4711", "anna"} {
		assert.NotContains(t, string(raw), canary)
		assert.NotContains(t, string(html), canary)
	}
}

func TestSessionsPlan(t *testing.T) {
	home := agentHome(t, "kill_in_second_of_two_tools", "ok_tool")
	file := filepath.Join(home, "out.jsonl")
	_, _, _ = sessionsCommand(t, "--json", file)
	raw, err := os.ReadFile(file)
	require.NoError(t, err)
	ids := make(map[string]string) // by cause
	for line := range bytes.Lines(raw) {
		var r report.Record
		require.NoError(t, json.Unmarshal(line, &r))
		ids[r.Text(semconv.FailureCauseKey)], _ = r.Attributes["gen_ai.conversation.id"].(string)
	}
	out, _, status := sessionsCommand(t, "--plan", ids["process_died"][:8])
	assert.Zero(t, status)
	words := strings.Join(strings.Fields(out), " ")
	for _, want := range []string{
		"died: exec_command may have run",
		" ran exec_command (call_",
		": its output is in the file, and the model has not answered it may have run exec_command (call_",
		"aborted or returned nothing",
		"To tell the model, before anything else:",
		"ran, and the output is still to be sent.",
		"may have run. Check what it did before you call it",
	} {
		assert.Contains(t, words, want)
	}
	assert.NotContains(t, out, "never ran")
	out, _, status = sessionsCommand(t, "--plan", ids[""])
	assert.Zero(t, status)
	assert.Contains(t, out, "its last turn ended well, there is nothing to make good")

	_, diagnostics, status := sessionsCommand(t, "--plan", "zzz")
	assert.Equal(t, 2, status)
	assert.Contains(t, diagnostics, "no session was found")
}

// TestSessionsPlanOfUndetermined prints the plan of a session whose process may be gone.
func TestSessionsPlanOfUndetermined(t *testing.T) {
	home := agentHome(t)
	raw, err := os.ReadFile(filepath.Join("internal", "sessionfiles", "testdata", "pi", "kill_in_tool.jsonl"))
	require.NoError(t, err)
	file := filepath.Join(home, "x.jsonl")
	require.NoError(t, os.WriteFile(file, raw, 0o600))
	out, _, status := sessionsCommand(t, "--plan", "", file)
	assert.Zero(t, status)
	assert.Contains(t, out, "1 undetermined", "it has changed just now")
	out, _, status = sessionsCommand(t, "--plan", strings.Fields(out)[3], file)
	assert.Zero(t, status)
	assert.Regexp(t, `undetermined: it may still be running\nIf its process is gone:\n  may have run  bash \(`, out)
}

// TestSessionsProblems says what could not be read, and exits 2.
func TestSessionsProblems(t *testing.T) {
	home := agentHome(t, "ok_tool")
	data := filepath.Join(home, ".local", "share", "opencode")
	require.NoError(t, os.MkdirAll(data, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(data, "opencode.db"), []byte("Canary 4711"), 0o600))
	out, diagnostics, status := sessionsCommand(t)
	assert.Equal(t, 2, status)
	assert.Equal(t, "1 session, 1 fine\n", out)
	assert.Contains(t, diagnostics, "otelllm: opencode, opencode.db: the database cannot be read")
	assert.NotContains(t, diagnostics, home)

	for _, args := range [][]string{{"--agent", "x"}, {"--since", "-1h"}, {"--follow", "--plan", "x"}, {filepath.Join(home, "none")}} {
		_, _, status := sessionsCommand(t, args...)
		assert.Equal(t, 2, status, args)
	}
}

// lockedBuffer is a buffer that is read while it is written.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// TestSessionsFollow says that a session died at the tick after its process let go of its lock.
func TestSessionsFollow(t *testing.T) {
	home := agentHome(t, "ok_tool")
	lock := codexSession(t, home, "kill_in_tool")
	f, err := os.Open(lock)
	require.NoError(t, err)
	require.NoError(t, unix.Flock(int(f.Fd()), unix.LOCK_EX))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out lockedBuffer
	o := &sessionsOptions{follow: true, since: 24 * time.Hour}
	require.NoError(t, o.check())
	s := &sessionScan{options: o, all: &tally{}, out: &out, err: &out}
	ticks, done := make(chan time.Time), make(chan error)
	go func() { done <- s.follow(ctx, time.Now, ticks) }()
	tick := func() { ticks <- time.Time{}; ticks <- time.Time{} } // the second is taken when the first round is over
	tick()
	assert.Equal(t, "following; Ctrl-C ends it\n", out.String(), "it runs, and the other one is well")
	require.NoError(t, f.Close())
	tick()
	assert.Equal(t, 1, strings.Count(out.String(), "died: exec_command may have run; look first, then decide"))
	tick()
	assert.Equal(t, 1, strings.Count(out.String(), "died:"), "it is said once")
	codexSession(t, home, "r429")
	tick()
	assert.Contains(t, out.String(), "failed: rate limited; safe: run it again")
	cancel()
	require.NoError(t, <-done)
}

// TestSessionsFollowGone says that a session of pi or Gemini CLI died when the process that it has seen is gone. A session that
// looks the same, and whose process it has not seen, is not mentioned, nor one that may have ended well. As long as the process
// is there, an error is not mentioned: it may try again.
func TestSessionsFollowGone(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("processes are looked at on Linux")
	}
	home, work := agentHome(t), t.TempDir()
	now := time.Now().UTC()
	at := func(seconds int) string {
		return now.Add(time.Duration(seconds) * time.Second).Format(time.RFC3339Nano)
	}
	put := func(name string, lines ...string) {
		path := filepath.Join(home, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600))
	}
	for id, folder := range map[string]string{"seen": work, "elsewhere": "/container/work"} {
		put(".pi/agent/sessions/x/"+id+".jsonl",
			fmt.Sprintf(`{"type":"session","version":3,"id":"pi-%s","timestamp":%q,"cwd":%q}`, id, at(1), folder),
			fmt.Sprintf(`{"type":"message","id":"1","timestamp":%q,"message":{"role":"user","content":"x"}}`, at(1)),
			fmt.Sprintf(`{"type":"message","id":"2","timestamp":%q,"message":{"role":"assistant","stopReason":"toolUse","content":[{"type":"toolCall","id":"c1","name":"bash"}]}}`, at(2)))
	}
	put(".pi/agent/sessions/x/error.jsonl",
		fmt.Sprintf(`{"type":"session","version":3,"id":"pi-error","timestamp":%q,"cwd":%q}`, at(1), work),
		fmt.Sprintf(`{"type":"message","id":"1","timestamp":%q,"message":{"role":"user","content":"x"}}`, at(1)),
		fmt.Sprintf(`{"type":"message","id":"2","timestamp":%q,"message":{"role":"assistant","stopReason":"error","errorMessage":"429 x"}}`, at(2)))
	for id, answer := range map[string]string{"open": "", "answered": fmt.Sprintf(`{"id":"2","timestamp":%q,"type":"gemini","content":"x"}`, at(2))} {
		put(".gemini/tmp/x/chats/session-"+id+".jsonl",
			fmt.Sprintf(`{"sessionId":"gemini-%s","projectHash":"%x","kind":"main"}`, id, event.FolderOf(work)),
			fmt.Sprintf(`{"id":"1","timestamp":%q,"type":"user","content":"x"}`, at(1)), answer)
	}
	var stand []*exec.Cmd
	for _, name := range []string{"pi", "gemini"} {
		sleep, err := exec.LookPath("sleep")
		require.NoError(t, err)
		cmd := &exec.Cmd{Path: sleep, Args: []string{name, "60"}, Dir: work}
		require.NoError(t, cmd.Start())
		stand = append(stand, cmd)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out lockedBuffer
	file := filepath.Join(home, "out.jsonl")
	o := &sessionsOptions{follow: true, since: 24 * time.Hour, json: file}
	require.NoError(t, o.check())
	all := &tally{}
	require.NoError(t, all.open(file))
	s := &sessionScan{options: o, all: all, out: &out, err: &out}
	ticks, done := make(chan time.Time), make(chan error)
	go func() { done <- s.follow(ctx, time.Now, ticks) }()
	tick := func() { ticks <- time.Time{}; ticks <- time.Time{} } // two looks, of which one is over
	tick()
	assert.Equal(t, "following; Ctrl-C ends it\n", out.String())
	for _, cmd := range stand {
		require.NoError(t, cmd.Process.Kill())
		_ = cmd.Wait()
	}
	tick()
	tick()
	assert.Regexp(t, `pi +pi-seen  died: bash may have run; look first, then decide\n`, out.String())
	assert.Regexp(t, `gemini +gemini-open  died: before the model had answered; a tool may have run`, out.String())
	assert.Regexp(t, `pi +pi-error  failed: rate limited`, out.String())
	assert.Equal(t, 2, strings.Count(out.String(), "died: "))
	assert.NotContains(t, out.String(), "elsewhere")
	assert.NotContains(t, out.String(), "answered  ")
	cancel()
	require.NoError(t, <-done)
	_, err := all.close()
	require.NoError(t, err)
	raw, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, 2, strings.Count(string(raw), `"`+string(semconv.RunEndKey)+`":"process_silent"`), "medium confidence")
	assert.NotContains(t, string(raw), work)
	assert.NotContains(t, out.String(), work)
}

// TestSessionsPrivate prints, writes and draws the sessions of every agent with files of lines: none
// of what is planted in them is anywhere.
func TestSessionsPrivate(t *testing.T) {
	home := agentHome(t)
	file, page := filepath.Join(home, "out.jsonl"), filepath.Join(home, "out.html")
	args := []string{"--since", "0", "--json", file, "--report", page}
	for _, agent := range []string{"codex", "claude", "qwen", "pi", "gemini"} {
		args = append(args, filepath.Join("internal", "sessionfiles", "testdata", agent))
	}
	out, diagnostics, status := sessionsCommand(t, args...)
	assert.Zero(t, status)
	assert.Regexp(t, `(?m)^42 sessions, `, out)
	raw, err := os.ReadFile(file)
	require.NoError(t, err)
	html, err := os.ReadFile(page)
	require.NoError(t, err)
	for _, text := range []string{out, diagnostics, string(raw), string(html)} {
		for _, canary := range []string{"Canary", "4711", "anna", "transfer the money"} {
			assert.NotContains(t, text, canary)
		}
	}
}
