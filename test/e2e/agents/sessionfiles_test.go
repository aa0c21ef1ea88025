//go:build unix

package agents

import (
	"bytes"
	"context"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/cmd/otelllm/report"
	"github.com/otelllm/otelllm-go/semconv"
	"github.com/otelllm/otelllm-go/test/built"
	"github.com/otelllm/otelllm-go/test/faultyllm"
)

// kill is a moment at which an agent is killed, with all of its processes.
type kill struct {
	name string
	// tool: after its tool began, text: while an answer stalls. Otherwise after a part of the time
	// that the agent takes when it is well.
	tool, text bool
	after      time.Duration // since that moment, at most
	healthy    bool          // it is not killed
}

// kills returns the moments: fixed ones, and random ones, SESSIONS_KILLS of them.
func kills() []kill {
	list := []kill{
		{name: "healthy", healthy: true},
		{name: "when_its_tool_began", tool: true},
		{name: "in_its_tool", tool: true, after: time.Second},
		{name: "in_its_answer", text: true, after: 500 * time.Millisecond},
	}
	n, err := strconv.Atoi(os.Getenv("SESSIONS_KILLS"))
	if err != nil {
		n = 3
	}
	for i := range n {
		list = append(list, kill{name: "random_" + strconv.Itoa(i)})
	}
	return list
}

// TestSessionFiles kills agents, and compares what otelllm says of their session files with what
// happened.
func TestSessionFiles(t *testing.T) {
	t.Parallel()
	bin := built.Otelllm(t)
	srv, err := faultyllm.Start()
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, srv.Close()) })
	for _, name := range []string{"codex", "claude", "opencode", "qwen", "pi", "gemini", "cline"} {
		a := &agents[slices.IndexFunc(agents, func(a agent) bool { return a.name == name && a.label == "" })]
		t.Run(name, func(t *testing.T) {
			program := a.command(t)
			t.Parallel()
			takes := 5 * time.Second
			for _, k := range kills() {
				t.Run(k.name, func(t *testing.T) {
					took := killed(t, a, &k, program, bin, srv, takes)
					if k.healthy {
						takes = took
					}
				})
			}
		})
	}
}

// killed runs an agent and kills it, and checks what is said of its session. It returns how long the
// agent ran.
func killed(t *testing.T, a *agent, k *kill, program []string, bin string, srv *faultyllm.Server, takes time.Duration) time.Duration {
	t.Helper()
	mark := filepath.Join(t.TempDir(), "ran")
	pause := ""
	if k.tool {
		pause = "; sleep 60"
	}
	f := &fault{answer: func(s *script, _ int, outputs bool) faultyllm.Exchange {
		switch {
		case k.text:
			return cut(faultyllm.Pause(time.Minute))
		case outputs:
			return done()
		default:
			command := "echo canary-output-91c2 >> " + s.mark + "; echo canary-output-91c2" + pause
			return faultyllm.Answer(faultyllm.ToolCall("call_e2e_5Yq8", a.tool, strings.ReplaceAll(a.input, "COMMAND", command)), faultyllm.Finish(faultyllm.ToolCalls))
		}
	}}
	s := newScript(a, f, mark)
	key := strings.ReplaceAll(t.Name(), "/", ".")
	srv.Choose(key, s.choose)
	base := a.base(srv, key)
	h := a.home(t, base)
	t.Cleanup(func() { endDaemons(h.dir) })
	argv := slices.Clone(program)
	for _, arg := range a.args {
		argv = append(argv, strings.ReplaceAll(arg, "PROMPT", prompt))
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env, cmd.Dir = a.environment(h, base), h.work
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = time.Second
	follower := startFollowing(t, bin, cmd.Env)
	require.NoError(t, cmd.Start())
	began := time.Now()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // its status is read below
	}()
	if !k.healthy {
		k.wait(t, s, ended, takes)
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
	select {
	case <-ended:
	case <-time.After(startPatience):
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		require.FailNow(t, "the agent did not end")
	}
	took := time.Since(began)
	endDaemons(h.dir) // what outlives the group, as a tool in a group of its own
	status, _ := cmd.ProcessState.Sys().(syscall.WaitStatus)
	checkSessions(t, a, k, s, bin, cmd.Env, status.Signaled(), follower)
	return took
}

// wait waits for the moment of a kill, or for the agent's end.
func (k *kill) wait(t *testing.T, s *script, ended <-chan struct{}, takes time.Duration) {
	t.Helper()
	deadline := time.After(startPatience)
	poll := time.NewTicker(2 * time.Millisecond)
	defer poll.Stop()
	after := k.after
	if !k.tool && !k.text {
		after = takes
	}
	for k.tool || k.text {
		select {
		case <-poll.C:
		case <-ended:
			return
		case <-deadline:
			require.FailNow(t, "the moment never came")
		}
		if k.tool {
			if _, err := os.Stat(s.mark); err == nil {
				break
			}
			continue
		}
		s.mu.Lock()
		asked := s.main > 0
		s.mu.Unlock()
		if asked {
			break
		}
	}
	wait := time.Duration(0)
	if after > 0 {
		wait = time.Duration(rand.Int64N(int64(after))) //nolint:gosec // moments
	}
	select {
	case <-time.After(wait):
	case <-ended:
	}
}

// following is `otelllm sessions --follow`.
type following struct {
	mu  sync.Mutex
	out bytes.Buffer
}

func (f *following) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.out.Write(p)
}

func (f *following) says(text string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Contains(f.out.String(), text)
}

func startFollowing(t *testing.T, bin string, env []string) *following {
	t.Helper()
	f := &following{}
	ctx, cancel := context.WithCancel(t.Context())
	cmd := exec.CommandContext(ctx, bin, "sessions", "--follow")
	cmd.Env, cmd.Stdout = env, f
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { cancel(); _ = cmd.Wait() })
	return f
}

// hasSigns are the agents whose files or processes show that their process is gone.
var hasSigns = map[string]bool{"codex": true, "claude": true, "cline": true, "opencode": true, "qwen": true}

var ofSessions = regexp.MustCompile(`(?m)^\d+ sessions?, (.*)$`)

// checkSessions compares what is said of the agent's session with what happened.
func checkSessions(t *testing.T, a *agent, k *kill, s *script, bin string, env []string, signaled bool, live *following) {
	t.Helper()
	raw, _ := os.ReadFile(s.mark)
	ran := bytes.Count(raw, []byte("\n")) > 0
	s.mu.Lock()
	answered := s.main >= 2 && !k.text && !k.tool
	s.mu.Unlock()
	if signaled && hasSigns[a.name] && k.tool && k.after > 0 {
		assert.Eventually(t, func() bool { return live.says("died: ") }, 5*time.Second, 50*time.Millisecond, "--follow says it within 5 seconds")
	}
	file := filepath.Join(t.TempDir(), "sessions.jsonl")
	cmd := exec.CommandContext(t.Context(), bin, "sessions", "--since", "0", "--json", file)
	cmd.Env = env
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	t.Logf("signaled %v, tool ran %v, asked %d: %s", signaled, ran, s.main, out)
	for _, canary := range []string{"canary"} {
		assert.NotContains(t, string(out), canary)
	}
	states := ofSessions.FindStringSubmatch(string(out))
	if states == nil {
		assert.True(t, signaled && !k.tool, "no session was found") // it was killed before its first write
		return
	}
	for _, r := range read(t, file) {
		verdict := attr(&r, semconv.RunOutcomeKey) + " / " + attr(&r, semconv.FailureCauseKey) + ", " + attr(&r, semconv.RetrySafetyKey)
		t.Log(verdict)
		assert.False(t, ran && attr(&r, semconv.RetrySafetyKey) == "safe_auto_retry", "a tool ran, and it is said: %s", verdict)
		assert.False(t, signaled && !answered && attr(&r, semconv.RunOutcomeKey) == "succeeded", "it was killed before its answer")
		assert.Equal(t, report.RecordRun, r.Kind)
	}
	well := states[1] == "1 fine" || a.name == "gemini" && states[1] == "1 undetermined"
	switch {
	case k.healthy:
		assert.True(t, well, "it is well, and it is said: %s", states[1])
	case signaled && !answered:
		assert.NotEqual(t, "1 fine", states[1], "it was killed")
	}
}
