//go:build unix

package agents

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
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

// Patience is how long an agent may do nothing that the server sees, at its start and later.
// One that does less is interrupted, the same way whether directly or through otelllm. On a
// machine with much to do agents take a minute to start.
const (
	startPatience = 3 * time.Minute
	patience      = time.Minute
)

// outcome is what an agent did.
type outcome struct {
	main, side int
	exit       int
	stdout     string
	stderr     string
	toolRuns   int
	killed     bool // it was still trying
	accepted   []string
	compressed int  // answers
	plain      bool // none was, although the server compresses: it did not ask for it
	unread     bool // they were, although it did not ask for it
	records    []report.Record
}

func TestAgents(t *testing.T) {
	t.Parallel() // what waits in one, such as an agent that backs off, takes no time of the others
	matrix(t, agents, (*agent).title)
}

// Programs that are no agent's command get the environment variables, and no more.
func TestPrograms(t *testing.T) {
	t.Parallel() // what waits in one, such as an agent that backs off, takes no time of the others
	matrix(t, programs, func(a *agent) string { return a.program + "_" + a.needs })
}

// matrix plays every fault to every agent, directly and through otelllm.
func matrix(t *testing.T, agents []agent, name func(*agent) string) {
	t.Helper()
	bin := built.Otelllm(t)
	srv, err := faultyllm.Start()
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, srv.Close()) })
	for i := range agents {
		a := &agents[i]
		t.Run(name(a), func(t *testing.T) {
			argv := a.command(t)
			t.Parallel()
			for j := range faults {
				f := faults[j].of(a)
				if !f.concerns(a) || testing.Short() && !f.short {
					continue
				}
				t.Run(f.name, func(t *testing.T) {
					compare(t, a, f, argv, bin, func(key string, s *script) string {
						srv.Choose(key, s.choose)
						return a.base(srv, key)
					})
				})
			}
		})
	}
}

// serving makes a server play a script, and returns the base URL of it. The key is unique.
type serving func(key string, s *script) string

// compare plays a fault twice.
func compare(t *testing.T, a *agent, f *fault, argv []string, bin string, serve serving) {
	t.Helper()
	direct := play(t, a, f, argv, way{}, serve)
	through := play(t, a, f, argv, way{bin: bin}, serve)
	t.Logf("direct:  %d+%d requests, exit %d, tool %d, killed %v, accepted %q, compressed %d", direct.main, direct.side, direct.exit, direct.toolRuns, direct.killed, direct.accepted, direct.compressed)
	t.Logf("through: %d+%d requests, exit %d, tool %d, killed %v, accepted %q, compressed %d\n%s", through.main, through.side, through.exit, through.toolRuns, through.killed, through.accepted, through.compressed, through.stderr)
	note(t, a, f, byProxy, through.did(), &through)
	if f.races {
		direct.toolRuns, direct.stdout = through.toolRuns, through.stdout
	}
	if a.bun && through.compressed > 0 && f.breaks() {
		// Whether it shows the text, and asks again, depends on what was delivered.
		direct.stdout, direct.main, direct.killed, direct.exit = through.stdout, through.main, through.killed, through.exit
	}
	same(t, direct, through)
	judge(t, f, through)
	private(t, through)
}

// way is how an agent is run: directly, through otelllm, or with telemetry of its own. The
// zero value is directly.
type way struct {
	bin  string // otelllm
	otlp string // the endpoint for what the agent exports
}

// play runs the agent once.
func play(t *testing.T, a *agent, f *fault, program []string, by way, serve serving) outcome {
	t.Helper()
	key := strings.ReplaceAll(t.Name(), "/", ".")
	if by.bin != "" {
		key += ".through"
	}
	mark := filepath.Join(t.TempDir(), "ran")
	s := newScript(a, f, mark)
	base := serve(key, s)
	var through *proxied
	if by.bin != "" && a.settings {
		through = startProxy(t, by.bin, base)
		base = through.url
	}
	h := a.home(t, base)
	t.Cleanup(func() { endDaemons(h.dir) })
	env := a.environment(h, base)
	if by.otlp != "" {
		env = append(env, a.exports(t, h, by.otlp)...)
	}

	argv := slices.Clone(program)
	for _, arg := range a.args {
		argv = append(argv, strings.ReplaceAll(arg, "PROMPT", prompt))
	}
	jsonl := filepath.Join(h.dir, "runs.jsonl")
	if by.bin != "" && !a.settings {
		argv = append([]string{by.bin, "run", "--set", a.name, "--log-level", "debug", "--json", jsonl, "--"}, argv...)
	}
	var out outcome
	var stdout, stderr bytes.Buffer
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = env, h.work, &stdout, &stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = 5 * time.Second
	require.NoError(t, cmd.Start())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // its status is read below
	}()
	if f.stop != nil {
		out.killed = f.stop.send(t, cmd.Process.Pid, by.bin != "" && !a.settings, s, ended)
	} else {
		out.killed = await(cmd.Process, s, ended)
	}

	out.exit = cmd.ProcessState.ExitCode()
	out.stdout, out.stderr = stdout.String(), stderr.String()
	if raw, err := os.ReadFile(s.mark); err == nil {
		out.toolRuns = bytes.Count(raw, []byte("\n"))
	}
	s.mu.Lock()
	out.main, out.side, out.accepted, out.compressed = s.main, s.side, s.accepted, s.compressed
	asked := slices.ContainsFunc(out.accepted, func(accept string) bool { return strings.Contains(accept, "gzip") })
	out.plain, out.unread = f.gzip && out.compressed == 0, f.unasked && !asked || f.asJSON && out.toolRuns == 0
	s.mu.Unlock()
	switch {
	case through != nil:
		out.records = through.end(t)
		out.stderr += through.stderr.String()
	case by.bin != "":
		out.records = read(t, jsonl)
	}
	return out
}

// send sends the signal when its moment has come, and waits for the agent's end.
func (st *stop) send(t *testing.T, pid int, through bool, s *script, ended <-chan struct{}) (sent bool) {
	t.Helper()
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for deadline := time.After(startPatience); ; {
		if st.inTool && len(effects(s)) > 0 || !st.inTool && s.requests() > 0 {
			break
		}
		select {
		case <-poll.C:
		case <-ended:
			return false
		case <-deadline:
			_ = syscall.Kill(-pid, syscall.SIGKILL)
			require.FailNow(t, "the moment never came")
		}
	}
	time.Sleep(500 * time.Millisecond)
	for range 3 { // some ask again whether they shall end
		switch {
		case st.signal == syscall.SIGKILL && through:
			for _, child := range descendants(pid) {
				_ = syscall.Kill(child, st.signal)
			}
		default:
			_ = syscall.Kill(-pid, st.signal)
		}
		select {
		case <-ended:
			return true
		case <-time.After(10 * time.Second):
		}
	}
	_ = syscall.Kill(-pid, syscall.SIGKILL)
	<-ended
	return true
}

// descendants returns the processes that a process began, and those that they did. Where there is no /proc, there are none.
func descendants(pid int) (list []int) {
	lines, _ := filepath.Glob("/proc/[0-9]*/stat")
	children := make(map[int][]int)
	for _, line := range lines {
		stat, err := os.ReadFile(line)
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if err != nil || len(fields) < 2 {
			continue // it has ended
		}
		child, _ := strconv.Atoi(filepath.Base(filepath.Dir(line)))
		parent, _ := strconv.Atoi(fields[1])
		children[parent] = append(children[parent], child)
	}
	for next := children[pid]; len(next) > 0; {
		list = append(list, next[0])
		next = append(next[1:], children[next[0]]...)
	}
	return list
}

// endDaemons ends what an agent has left running: processes that are called with a path in
// its home. Where there is no /proc, they stay.
func endDaemons(dir string) {
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, line := range lines {
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(line)))
		if called, err := os.ReadFile(line); err == nil && pid != os.Getpid() && bytes.Contains(called, []byte(dir)) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// await waits for the agent's end. It interrupts one whose stream stalls, as a person does who
// has waited long enough, one that does not give up, and one that does nothing.
func await(p *os.Process, s *script, ended <-chan struct{}) (killed bool) {
	stalled, enough := s.stalled, s.enough
	timeout := time.After(startPatience)
	for {
		select {
		case <-ended:
			return killed
		case <-s.asked:
			if !killed && stalled != nil && enough != nil {
				timeout = time.After(patience)
			}
		case <-stalled:
			// Codex has a limit of its own, which ends the stream before this.
			stalled, timeout = nil, time.After(6*time.Second)
		case <-enough:
			enough, timeout = nil, time.After(0)
		case <-timeout:
			sig := syscall.SIGINT
			if killed {
				sig = syscall.SIGTERM
			}
			killed = true
			_ = p.Signal(sig)
			timeout = time.After(10 * time.Second)
		}
	}
}

// read returns the records of --json.
func read(t *testing.T, path string) []report.Record {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	var records []report.Record
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var r report.Record
		require.NoError(t, json.Unmarshal(lines.Bytes(), &r))
		records = append(records, r)
	}
	require.NoError(t, lines.Err())
	return records
}

var changing = regexp.MustCompile(`(?i)[0-9a-f]{8}-[0-9a-f-]{27}|(ses|req|agent|conv|msg|run)_\w+|/tmp/\S+|127\.0\.0\.1:\d+\S*|[0-9]+`)

// progress is a line about the output of a running command: how many of them Cline writes depends on its speed.
var progress = regexp.MustCompile(`(?m)^.*"type":"content_update","contentType":"tool".*\n`)

// said returns what an agent wrote without what differs between two runs.
func said(stdout string) string {
	return changing.ReplaceAllString(progress.ReplaceAllString(stdout, ""), "#")
}

// same checks that the agent did the same both times.
func same(t *testing.T, direct, through outcome) {
	t.Helper()
	if !direct.killed && !through.killed {
		assert.Equal(t, direct.main, through.main, "requests of the main loop")
		assert.Equal(t, direct.exit, through.exit, "exit status")
		assert.Equal(t, said(direct.stdout), said(through.stdout), "standard output")
	}
	assert.Equal(t, direct.killed, through.killed, "it was interrupted")
	assert.Equal(t, direct.accepted, through.accepted, "encodings that it accepts")
	assert.Equal(t, direct.toolRuns, through.toolRuns, "times the tool ran")
}

// judge compares the verdict with what the server did.
func judge(t *testing.T, f *fault, o outcome) {
	t.Helper()
	require.NotEmpty(t, o.records, "no run was seen")
	if o.unread {
		well := 0
		for i := range o.records {
			if slices.Contains([]string{"succeeded", "recovered"}, attr(&o.records[i], semconv.RunOutcomeKey)) {
				well++
			}
		}
		assert.LessOrEqual(t, well, o.side, "runs that went well; those beside the prompt did")
		if strings.Contains(o.stderr, "otelllm: ") {
			assert.NotRegexp(t, `(?m)^otelllm: .*\bok$`, o.stderr)
		}
		return
	}
	failed := 0
	for i := range o.records {
		r := &o.records[i]
		verdict := fmt.Sprintf("%s: %s / %s / %s, %s", r.Name, attr(r, semconv.RunOutcomeKey), attr(r, semconv.FailureClassKey), attr(r, semconv.FailureCauseKey), attr(r, semconv.RetrySafetyKey))
		t.Log(verdict)
		switch attr(r, semconv.RunOutcomeKey) {
		case "failed", "aborted", "incomplete":
			failed++
			assert.False(t, f.healed(o.went()) && !o.killed, "the server answered the last request, and it is said: %s", verdict)
			class, _ := semconv.ParseClass(attr(r, semconv.FailureClassKey))
			if !f.healed(o.went()) && (!o.killed || f.stop != nil || class != semconv.ClassLocalAbort) {
				assert.Contains(t, f.classes, class, verdict)
			}
		case "succeeded":
			assert.Empty(t, attr(r, semconv.FailureClassKey), verdict)
		case "":
			if attr(r, semconv.FailureClassKey) != "" {
				failed++ // a request of no run
			}
		}
		if safe := attr(r, semconv.RetrySafetyKey) == "safe_auto_retry"; safe {
			assert.False(t, o.toolRuns > 0 && len(r.Requests)+len(r.Tools) > 1, "a tool ran, and it is said: %s", verdict)
			assert.False(t, f.shows, "text was shown, and it is said: %s", verdict)
		}
		for j := range r.Requests {
			safe := attr(&r.Requests[j], semconv.RetrySafetyKey) == "safe_auto_retry"
			assert.False(t, safe && f.races && o.toolRuns > 0, "a tool ran on a call that was cut, and it is said of the request: safe")
		}
	}
	if f.healed(o.went()) {
		return
	}
	assert.NotRegexp(t, `(?m)^otelllm: .*\bok$`, o.stderr)
	if f.stop == nil && !f.decides { // of one that was stopped it may not be known how it ended
		assert.Positive(t, failed, "the last request failed, and no run is said to have failed")
	}
}

func attr(r *report.Record, key attribute.Key) string {
	s, _ := r.Attributes[string(key)].(string)
	return s
}

// private checks that nothing of the conversation, and no key, is where otelllm writes.
func private(t *testing.T, o outcome) {
	t.Helper()
	written, err := json.Marshal(o.records)
	require.NoError(t, err)
	for line := range strings.SplitSeq(o.stderr, "\n") {
		if strings.HasPrefix(line, "otelllm: ") || strings.HasPrefix(line, "  ") || strings.HasPrefix(line, "time=") {
			written = append(written, line...)
		}
	}
	for _, canary := range []string{"canary-answer-22d0", "canary-4be1"} {
		assert.NotContains(t, string(written), canary)
	}
	for _, canary := range []string{"canary-prompt-7f3a", "canary-output-91c2"} {
		asJSON, err := json.Marshal(o.records)
		require.NoError(t, err)
		assert.NotContains(t, string(asJSON), canary)
	}
}
