//go:build unix

package agents

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"

	"github.com/otelllm/otelllm-go/cmd/otelllm/report"
	"github.com/otelllm/otelllm-go/semconv"
	"github.com/otelllm/otelllm-go/test/built"
	"github.com/otelllm/otelllm-go/test/faultyllm"
)

// kill is a moment at which an agent is killed, with all of its processes.
type kill struct {
	name   string
	answer func(s *script, n int, outputs bool) faultyllm.Exchange // what the server does; nil: a call, then an answer
	// The moment: after its tool has run so often, or after so many requests. Neither: after a part of the time that
	// the agent takes when it is well.
	ran, asked int
	after      time.Duration // since that moment, at least
	within     time.Duration // after that, at most
	answers    bool          // it may have its last answer by then
	healthy    bool          // it is not killed
	subAgent   bool          // the call is that of a sub-agent
	resumes    bool          // it is resumed after that
	wires      []faultyllm.Wire
}

// firstCall and secondCall are the ids of its calls. The tool writes them to the file that shows that it ran.
const firstCall, secondCall = "call_e2e_5Yq8", "call_e2e_7Kd2"

// toolCall is a call that runs for so many seconds after it has taken effect.
func toolCall(s *script, id string, seconds int) faultyllm.Step {
	command := "echo " + id + " >> " + s.mark + "; echo canary-output-91c2"
	if seconds > 0 {
		command += "; sleep " + strconv.Itoa(seconds)
	}
	return faultyllm.ToolCall(id, s.agent.tool, strings.ReplaceAll(s.agent.input, "COMMAND", command))
}

// calling is an answer that calls the tool.
func calling(calls ...faultyllm.Step) faultyllm.Exchange {
	return faultyllm.Answer(append(calls, faultyllm.Finish(faultyllm.ToolCalls))...)
}

// until answers the first requests one after the other, and all later ones as the last.
func until(answers ...func(s *script) faultyllm.Exchange) func(*script, int, bool) faultyllm.Exchange {
	return func(s *script, n int, _ bool) faultyllm.Exchange { return answers[min(n, len(answers)-1)](s) }
}

// subAgents are the tools that begin a sub-agent.
var subAgents = map[string]struct{ tool, input string }{
	"claude":   {"Agent", `{"description":"look","prompt":"canary-prompt-7f3a","subagent_type":"general-purpose","run_in_background":false}`},
	"opencode": {"task", `{"description":"look","prompt":"canary-prompt-7f3a","subagent_type":"general"}`},
	"codex":    {"spawn_agent", `{"message":"canary-prompt-7f3a","task_name":"look","fork_turns":"none"}`},
	"qwen":     {"agent", `{"description":"look","prompt":"canary-prompt-7f3a","subagent_type":"general-purpose"}`},
}

// subAgentCall is the id of the call that begins a sub-agent.
const subAgentCall = "call_e2e_3Nw6"

// beginning is an answer that begins a sub-agent. The tool of Codex is in a namespace.
func beginning(agent string) faultyllm.Exchange {
	of := subAgents[agent]
	if agent != "codex" {
		return calling(faultyllm.ToolCall(subAgentCall, of.tool, of.input))
	}
	call := fmt.Sprintf(`{"type":"function_call","id":"fc_1","call_id":%q,"namespace":"collaboration","name":%q,"arguments":%q,"status":"completed"}`, subAgentCall, of.tool, of.input)
	return faultyllm.Body("text/event-stream", []byte(`event: response.created
data: {"type":"response.created","response":{"id":"resp_1"}}

event: response.output_item.done
data: {"type":"response.output_item.done","output_index":0,"item":`+call+`}

event: response.completed
data: {"type":"response.completed","response":{"id":"resp_1","output":[`+call+`],"usage":{"input_tokens":1,"input_tokens_details":null,"output_tokens":1,"output_tokens_details":null,"total_tokens":2}}}

`))
}

// kills returns the moments: one at each thing that an agent does, and random ones, SESSIONS_KILLS of them.
func kills() []kill {
	silent := func(*script) faultyllm.Exchange { return faultyllm.BeforeHeaders(faultyllm.Stall()) }
	text := func(*script) faultyllm.Exchange { return cut(faultyllm.Stall()) }
	call := func(s *script) faultyllm.Exchange { return calling(toolCall(s, firstCall, 0)) }
	long := func(s *script) faultyllm.Exchange { return calling(toolCall(s, firstCall, 60)) }
	list := []kill{
		{name: "healthy", healthy: true, answers: true},
		{name: "when_it_asks", asked: 1, within: 200 * time.Millisecond, answer: until(silent)},
		{name: "in_its_answer", asked: 1, within: 500 * time.Millisecond, answer: until(text)},
		{
			name: "in_its_call", asked: 1, within: 500 * time.Millisecond, wires: []faultyllm.Wire{faultyllm.Chat, faultyllm.Responses, faultyllm.Anthropic},
			answer: until(func(s *script) faultyllm.Exchange {
				return faultyllm.Answer(faultyllm.ToolInput(firstCall, s.agent.tool, `{"comm`), faultyllm.Stall())
			}),
		},
		{
			name: "after_its_call", asked: 1, within: 1500 * time.Millisecond, // some run it before the answer ends
			answer: until(func(s *script) faultyllm.Exchange {
				return faultyllm.Answer(toolCall(s, firstCall, 0), faultyllm.Stall())
			}),
		},
		{name: "when_its_tool_began", ran: 1, answer: until(long)},
		{name: "in_its_tool", ran: 1, within: time.Second, answer: until(long)},
		{name: "late_in_its_tool", ran: 1, after: 3 * time.Second, within: time.Second, answer: until(long)},
		{name: "in_its_tool_and_resumed", ran: 1, resumes: true, answer: until(long, func(*script) faultyllm.Exchange { return done() })},
		{name: "in_one_of_two_tools", ran: 1, within: time.Second, answer: until(func(s *script) faultyllm.Exchange {
			return calling(toolCall(s, firstCall, 0), toolCall(s, secondCall, 60))
		})},
		{name: "when_it_sends_the_output", asked: 2, within: 200 * time.Millisecond, answer: until(call, silent)},
		{name: "in_a_later_tool", ran: 2, within: time.Second, answer: until(call, func(s *script) faultyllm.Exchange {
			return calling(toolCall(s, secondCall, 60))
		})},
		{name: "in_its_last_answer", asked: 2, within: 500 * time.Millisecond, answer: until(call, text)},
		{name: "when_it_ends", asked: 2, within: 300 * time.Millisecond, answers: true},
	}
	for name, reason := range map[string]faultyllm.Reason{"stop": faultyllm.Stop, "length": faultyllm.Length} { // with a call
		list = append(list, kill{
			name: "after_" + name, asked: 1, after: 2 * time.Second, within: time.Second, answers: true,
			answer: until(func(s *script) faultyllm.Exchange {
				return faultyllm.Answer(toolCall(s, firstCall, 60), faultyllm.Finish(reason))
			}, func(*script) faultyllm.Exchange { return done() }),
		})
	}
	begin := func(s *script) faultyllm.Exchange { return beginning(s.agent.name) }
	list = append(list,
		kill{name: "in_its_sub_agent", ran: 1, within: time.Second, subAgent: true, answer: until(begin, long)},
		kill{name: "in_a_later_tool_of_its_sub_agent", ran: 2, within: time.Second, subAgent: true, answer: until(begin, call, func(s *script) faultyllm.Exchange {
			return calling(toolCall(s, secondCall, 60))
		})},
	)
	n, err := strconv.Atoi(os.Getenv("SESSIONS_KILLS"))
	if err != nil {
		n = 3
	}
	for i := range n {
		list = append(list, kill{name: "random_" + strconv.Itoa(i), answers: true})
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
				_, begins := subAgents[name]
				_, resumes := resumed[name]
				if k.subAgent && !begins || k.resumes && !resumes || len(k.wires) > 0 && !slices.Contains(k.wires, a.wire) {
					continue
				}
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
	f := &fault{answer: k.answer}
	if f.answer == nil {
		f.answer = func(s *script, _ int, outputs bool) faultyllm.Exchange {
			if outputs {
				return done()
			}
			return calling(toolCall(s, firstCall, 0))
		}
	}
	s := newScript(a, f, mark)
	key := strings.ReplaceAll(t.Name(), "/", ".")
	srv.Choose(key, func(r faultyllm.Request) faultyllm.Exchange {
		if bytes.Contains(r.Body, []byte(subAgentCall)) {
			return cut(faultyllm.Stall()) // the agent itself waits
		}
		return s.choose(r)
	})
	base := a.base(srv, key)
	h := a.home(t, base)
	t.Cleanup(func() { endDaemons(h.dir) })
	argv := slices.Clone(program)
	if k.subAgent && a.name == "codex" {
		argv = append(argv, "--enable", "multi_agent_v2")
	}
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
	gone := time.Now()
	took := gone.Sub(began)
	endDaemons(h.dir) // what outlives the group, as a tool in a group of its own
	status, _ := cmd.ProcessState.Sys().(syscall.WaitStatus)
	checkSessions(t, a, k, s, bin, cmd.Env, status.Signaled(), gone, follower)
	if k.resumes {
		resume(t, a, program, bin, h, cmd.Env)
	}
	return took
}

// resumed are the arguments that resume the last session.
var resumed = map[string][]string{
	"codex":    {"exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "resume", "--last", "go on"},
	"claude":   {"-c", "-p", "go on", "--allowedTools", "Bash"},
	"opencode": {"run", "-c", "-m", "openai/gpt-5.5", "go on"},
	"qwen":     {"--continue", "--auth-type", "openai", "-m", "qwen3-coder-plus", "--yolo", "-p", "go on"},
	"pi":       {"-c", "-p", "--provider", "anthropic", "--model", "claude-sonnet-4-5", "go on"},
	"gemini":   {"--resume", "latest", "-m", "gemini-2.5-flash", "--yolo", "-p", "go on"},
}

// resume resumes a session that died, under `otelllm run`. The server answers.
func resume(t *testing.T, a *agent, program []string, bin string, h home, env []string) {
	t.Helper()
	file := filepath.Join(h.dir, "resumed.jsonl")
	argv := slices.Concat([]string{bin, "run", "--set", a.name, "--json", file, "--"}, program, resumed[a.name])
	ctx, cancel := context.WithTimeout(t.Context(), startPatience)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env, cmd.Dir, cmd.WaitDelay = env, h.work, time.Second
	out, err := cmd.CombinedOutput()
	t.Logf("resumed: %v\n%s", err, out)
	require.NoError(t, err)
	records := read(t, file)
	require.NotEmpty(t, records)
	for _, r := range records {
		assert.Contains(t, []string{"succeeded", "recovered", ""}, attr(&r, semconv.RunOutcomeKey), "it was answered")
	}
	list := exec.CommandContext(ctx, bin, "sessions", "--since", "0")
	list.Env = env
	out, err = list.CombinedOutput()
	require.NoError(t, err, string(out))
	t.Logf("%s", out)
	states := ofSessions.FindStringSubmatch(string(out))
	require.NotNil(t, states)
	assert.Regexp(t, `^\d+ (fine|undetermined)$`, states[1])
}

// wait waits for the moment of a kill, or for the agent's end.
func (k *kill) wait(t *testing.T, s *script, ended <-chan struct{}, takes time.Duration) {
	t.Helper()
	deadline := time.After(startPatience)
	poll := time.NewTicker(2 * time.Millisecond)
	defer poll.Stop()
	for k.ran > 0 || k.asked > 0 {
		if k.ran > 0 && len(effects(s)) >= k.ran || k.asked > 0 && s.requests() >= k.asked {
			break
		}
		select {
		case <-poll.C:
		case <-ended:
			return
		case <-deadline:
			require.FailNow(t, "the moment never came")
		}
	}
	within := k.within
	if k.ran == 0 && k.asked == 0 {
		within = takes
	}
	wait := k.after
	if within > 0 {
		wait += time.Duration(rand.Int64N(int64(within))) //nolint:gosec // moments
	}
	select {
	case <-time.After(wait):
	case <-ended:
	}
}

// effects returns the ids of the calls that took effect.
func effects(s *script) []string {
	raw, err := os.ReadFile(s.mark)
	if err != nil {
		return nil // none did
	}
	return strings.Fields(string(raw))
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
var hasSigns = map[string]bool{"codex": true, "claude": true, "cline": true, "opencode": true}

// watched are those whose process --follow has to see before it is gone, on Linux.
var watched = map[string]bool{"pi": true, "gemini": true, "qwen": true}

var ofSessions = regexp.MustCompile(`(?m)^\d+ sessions?, (.*)$`)

// checkSessions compares what is said of the agent's session with what happened.
func checkSessions(t *testing.T, a *agent, k *kill, s *script, bin string, env []string, signaled bool, gone time.Time, live *following) {
	t.Helper()
	ran := effects(s)
	answered := k.answers && s.requests() >= 2
	file := filepath.Join(t.TempDir(), "sessions.jsonl")
	cmd := exec.CommandContext(t.Context(), bin, "sessions", "--since", "0", "--json", file)
	cmd.Env = env
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	t.Logf("signaled %v, ran %v, asked %d: %s", signaled, ran, s.requests(), out)
	assert.NotContains(t, string(out), "canary")
	states := ofSessions.FindStringSubmatch(string(out))
	if states == nil {
		assert.True(t, signaled && len(ran) == 0, "no session was found") // it was killed before its first write
		return
	}
	if signaled && (hasSigns[a.name] && strings.HasSuffix(states[1], " died") || watched[a.name] && k.after > 0 && !answered && runtime.GOOS == "linux") {
		assert.Eventually(t, func() bool { return live.says("died: ") }, 5*time.Second-time.Since(gone), 50*time.Millisecond, "--follow says it within 5 seconds")
		t.Logf("--follow said it %v later", time.Since(gone))
	}
	for _, r := range read(t, file) {
		assert.Equal(t, report.RecordRun, r.Kind)
		verdict := attr(&r, semconv.RunOutcomeKey) + " / " + attr(&r, semconv.FailureCauseKey) + ", " + attr(&r, semconv.RetrySafetyKey)
		t.Log(verdict)
		assert.False(t, len(ran) > 0 && attr(&r, semconv.RetrySafetyKey) == "safe_auto_retry", "a tool ran, and it is said: %s", verdict)
		assert.False(t, signaled && !answered && attr(&r, semconv.RunOutcomeKey) == "succeeded", "it was killed before its answer")
		checkPlan(t, a, k, &r, ran)
	}
	well := states[1] == "1 fine" || a.name == "gemini" && states[1] == "1 undetermined"
	switch {
	case k.healthy:
		assert.True(t, well, "it is well, and it is said: %s", states[1])
		assert.Never(t, func() bool { return live.says("died: ") || live.says("failed: ") }, 3*time.Second, 100*time.Millisecond, "--follow says nothing")
	case signaled && !answered:
		assert.NotEqual(t, "1 fine", states[1], "it was killed")
	}
	if signaled && hasSigns[a.name] && !k.answers {
		assert.Regexp(t, `^\d+ died$`, states[1])
	}
}

// checkPlan checks that the plan, if there is one, has every call that took effect.
func checkPlan(t *testing.T, a *agent, k *kill, r *report.Record, ran []string) {
	t.Helper()
	if attr(r, semconv.ResumeSendKey) == "" {
		return
	}
	never, ranOrMay := idsOf(r, semconv.ResumeNeverRanIDsKey), append(idsOf(r, semconv.ResumeRanIDsKey), idsOf(r, semconv.ResumeMayHaveRunIDsKey)...)
	more, _ := r.Attributes[string(semconv.ResumeMoreKey)].(bool)
	t.Logf("plan: %v ran or may have run, more: %v, %v never ran", ranOrMay, more, never)
	if a.name == "gemini" { // it gives calls ids of its own
		assert.True(t, len(ran) == 0 || len(never) == 0, "it never ran")
		return
	}
	if k.subAgent && listsSubAgents[a.name] && slices.Contains(ranOrMay, subAgentCall) {
		more = false // they are all in the files
	}
	for _, id := range ran {
		assert.NotContains(t, never, id, "it ran")
		assert.True(t, more || slices.Contains(ranOrMay, id), "%s ran, and is not listed", id)
	}
}

// listsSubAgents are the agents whose sub-agents' calls are on the disk before they run, and are read.
var listsSubAgents = map[string]bool{"codex": true, "opencode": true, "qwen": true}

// idsOf returns a list of ids among the attributes.
func idsOf(r *report.Record, key attribute.Key) (ids []string) {
	values, _ := r.Attributes[string(key)].([]any)
	for _, v := range values {
		ids = append(ids, fmt.Sprint(v))
	}
	return ids
}
