package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/internal/sample"
	"github.com/otelllm/otelllm-go/otelllm"
	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/otelllm/retry"
	"github.com/otelllm/otelllm-go/test/built"
	llm "github.com/otelllm/otelllm-go/test/faultyllm"
	"github.com/otelllm/otelllm-go/test/nodeagent"
)

// nodeTask is a task of examples/node/retry-agent.mjs.
type nodeTask struct {
	Name string `json:"name"`
	URL  string `json:"url"`
	Wire string `json:"wire"`

	// Of a schedule only:
	Seed     *int   `json:"seed,omitempty"`
	Closed   string `json:"closed,omitempty"`
	Quick    bool   `json:"quick,omitempty"`
	SDK      int    `json:"sdk,omitempty"`
	Loop     string `json:"loop,omitempty"` // calls, turns, ai-sdk
	Eager    bool   `json:"eager,omitempty"`
	Declared bool   `json:"declared,omitempty"`
	Effect   string `json:"effect,omitempty"`
}

// nodeResult is what happened.
type nodeResult struct {
	Name     string         `json:"name"`
	Verdict  map[string]any `json:"verdict"`
	Decision string         `json:"decision"`
	Cause    string         `json:"cause"`
	Own      string         `json:"own"`

	Paid     map[string]int `json:"paid"`
	Asked    int            `json:"asked"`
	Due      int            `json:"due"` // of the questions; see asks
	Unknown  int            `json:"unknown"`
	Unasked  int            `json:"unasked"`
	Early    int            `json:"early"`
	Most     int            `json:"most"`
	Attempts int            `json:"attempts"`
	Error    string         `json:"error"`
}

// nodeFolder returns a folder with the helpers as the npm package has them, and with these files of examples/node.
func nodeFolder(t *testing.T, files ...string) string {
	t.Helper()
	dir, root := t.TempDir(), built.Root(t)
	node := filepath.Join(root, "examples", "node")
	helpers := []string{"facts", "catalogue", "judge", "retry", "ai-sdk", "openai-agents"}
	for _, name := range helpers {
		files = append(files, "otelllm-"+name+".mjs")
	}
	for _, name := range files {
		data, err := os.ReadFile(filepath.Join(node, name))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), data, 0o600))
	}
	require.NoError(t, os.Symlink(filepath.Join(node, "node_modules"), filepath.Join(dir, "node_modules")))
	build := exec.CommandContext(t.Context(), filepath.Join("scripts", "build-wasm"), filepath.Join(dir, "judge.wasm"))
	build.Dir = root
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))
	return dir
}

// The loops, and the hooks of the AI SDK and @openai/agents with the real packages.
func TestNodeLoops(t *testing.T) {
	agents := nodeagent.Find(t)
	tests := []string{"otelllm-retry.test.mjs", "otelllm-frameworks.test.mjs"}
	dir := nodeFolder(t, tests...)
	for _, name := range tests {
		out, err := agents.Command(t.Context(), "--test", filepath.Join(dir, name)).CombinedOutput()
		require.NoError(t, err, string(out))
		require.Regexp(t, `pass [1-9]`, string(out))
	}
}

// runNode runs tasks in Node, one after the other.
func runNode(t *testing.T, tasks []nodeTask) []nodeResult {
	t.Helper()
	agents := nodeagent.Find(t)
	dir := nodeFolder(t, "retry-agent.mjs")
	var in, stderr bytes.Buffer
	for i := range tasks {
		require.NoError(t, json.NewEncoder(&in).Encode(&tasks[i]))
	}
	cmd := agents.Command(t.Context(), filepath.Join(dir, "retry-agent.mjs"))
	cmd.Stdin, cmd.Stderr = &in, &stderr
	got, err := cmd.Output()
	require.NoError(t, err, stderr.String())
	return nodeResults(t, got, len(tasks), stderr.String())
}

// nodeResults reads the results of so many tasks.
func nodeResults(t *testing.T, got []byte, tasks int, stderr string) []nodeResult {
	t.Helper()
	var results []nodeResult
	for decoder := json.NewDecoder(bytes.NewReader(got)); ; {
		var r nodeResult
		err := decoder.Decode(&r)
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		results = append(results, r)
	}
	require.Len(t, results, tasks, stderr)
	return results
}

// nodeFaults are faults of one model call.
func nodeFaults() map[string]llm.Exchange {
	words := llm.Text("The bug ", "is in ", "main.go. ")
	call := llm.ToolCall("call_1", "pay", `{"invoice":`, `"17"}`)
	half := llm.ToolInput("call_1", "pay", `{"invoice":`)
	faults := map[string]llm.Exchange{
		"limit of tokens": llm.Answer(words, llm.Finish(llm.Length)), "a whole answer": llm.Answer(words, llm.Finish(llm.Stop)),
		"a whole call": llm.Answer(call, llm.Finish(llm.ToolCalls)), "silence": llm.Body("text/event-stream", nil),
		"a page": llm.Body("text/html", []byte("<html></html>")),
	}
	for name, trouble := range map[string]llm.Trouble{
		"rate limited": llm.RateLimited, "quota": llm.QuotaExhausted, "unauthorized": llm.Unauthorized, "context": llm.ContextTooLong,
		"overloaded": llm.Overloaded, "server error": llm.ServerError,
	} {
		faults[name] = llm.Refuse(llm.Failure{Trouble: trouble})
		faults[name+" in the stream"] = llm.Answer(llm.Begin(), llm.InBand(llm.Failure{Trouble: trouble}))
	}
	for name, fault := range map[string]llm.Step{
		"reset": llm.Reset(), "truncated": llm.Truncate(), "clean end": llm.CleanEnd(), "overloaded": llm.InBand(llm.Failure{Trouble: llm.Overloaded}),
	} {
		faults[name+" at once"] = llm.Answer(llm.Begin(), fault)
		faults[name+" after text"] = llm.Answer(words, fault)
		faults[name+" in a call"] = llm.Answer(half, fault)
		faults[name+" after a call"] = llm.Answer(call, fault)
	}
	return faults
}

// carefulInNode reports whether Node asks after a fault and Go does not: under some JavaScript clients a clean end within the input of a
// call lets the call be executed. Such clients name the SDK of the provider only; the AI SDK executes none, and names itself.
func carefulInNode(fault, wire string) bool {
	return fault == "clean end in a call" && !strings.HasPrefix(wire, "ai-sdk")
}

// Each fault of one model call has the same verdict in Node, under the SDKs of OpenAI and Anthropic, the AI SDK, without the
// middleware and with it, and @openai/agents, as in Go, or a more careful one.
func TestNodeVerdictsAreThoseOfGo(t *testing.T) {
	srv, err := llm.Start()
	require.NoError(t, err)
	defer func() { assert.NoError(t, srv.Close()) }()
	var tasks []nodeTask
	var want []classify.Diagnosis
	for name, exchange := range nodeFaults() {
		for wire, at := range map[string]llm.Wire{
			"chat": llm.Chat, "ai-sdk": llm.Chat, "ai-sdk-hook": llm.Chat, "openai-agents": llm.Chat, "messages": llm.Anthropic,
		} {
			key := fmt.Sprint("cell", len(tasks))
			srv.Play(key, exchange, exchange)
			url := srv.BaseURL(key, at)
			tasks = append(tasks, nodeTask{Name: name + ", " + wire, URL: url, Wire: wire})
			want = append(want, askInGo(t, url, at))
		}
	}
	results := runNode(t, tasks)
	askedByAgents := 0
	for i, got := range slices.Backward(results) {
		switch {
		case !strings.HasSuffix(got.Name, "openai-agents"):
		case got.Verdict == nil: // it asks no policy once it has passed on an event
			results, want = slices.Delete(results, i, i+1), slices.Delete(want, i, i+1)
		default:
			askedByAgents++
		}
	}
	assert.GreaterOrEqual(t, askedByAgents, 6)
	compareVerdicts(t, results, want, carefulInNode)
}

// compareVerdicts compares verdicts with those of Go. Careful reports whether the other one asks after a fault, and Go does not.
func compareVerdicts(t *testing.T, results []nodeResult, want []classify.Diagnosis, careful func(fault, wire string) bool) {
	t.Helper()
	failures := 0
	for i, got := range results {
		d := &want[i]
		verdict := map[string]any{}
		if d.Failed() {
			verdict = map[string]any{
				"llm.failure.class": d.Class.String(), "llm.failure.phase": d.Phase.String(), "llm.failure.origin": d.Origin.String(),
				"llm.failure.cause": d.Cause.String(), "llm.retry.safety": d.Retry.Safety.String(), "llm.retry.reason": d.Retry.Reason.String(),
			}
			failures++
		}
		if fault, wire, _ := strings.Cut(got.Name, ", "); careful(fault, wire) {
			assert.Equal(t, classify.SafeAutoRetry, d.Retry.Safety, got.Name)
			verdict["llm.retry.safety"], verdict["llm.retry.reason"] = classify.UserConfirmedRetry.String(), "tool_state_unknown"
			delete(verdict, "llm.failure.phase")
		}
		for key, value := range verdict {
			assert.Equal(t, value, got.Verdict[key], "%s: %s (own error: %q)", got.Name, key, got.Own)
		}
		if !d.Failed() {
			assert.Nil(t, got.Verdict, got.Name)
		}
	}
	assert.Greater(t, failures, 40)
}

// askInGo makes one model call under [retry.Do], with one attempt, and returns the diagnosis with which that gave up.
func askInGo(t *testing.T, url string, wire llm.Wire) classify.Diagnosis {
	t.Helper()
	path := map[llm.Wire]string{llm.Chat: "/chat/completions", llm.Anthropic: "/v1/messages"}[wire]
	body := `{"model":"m","max_tokens":100,"stream":true,"messages":[{"role":"user","content":"pay"}],"tools":[]}`
	client := &http.Client{Transport: otelllm.NewTransport(&http.Transport{DisableKeepAlives: true}), Timeout: time.Minute}
	err := retry.Do(t.Context(), retry.Policy{Attempts: 1, Budget: new(retry.Budget)}, func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(url, "/")+path, strings.NewReader(body))
		require.NoError(t, err)
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if _, err = io.Copy(io.Discard, resp.Body); err == nil && resp.StatusCode != http.StatusOK {
			err = errors.New(resp.Status)
		}
		return err
	})
	if gaveUp, ok := errors.AsType[*retry.Error](err); ok {
		return gaveUp.Diagnosis
	}
	return classify.Diagnosis{}
}

// Random schedules of faults, as those of [TestSchedules], for agents in Node.
func TestNodeSchedules(t *testing.T) {
	t.Parallel()
	schedules := 1000 / sample.Every(40)
	m := startModel(t)
	var tasks []nodeTask
	for seed := range schedules {
		r := rand.New(rand.NewPCG(uint64(seed), 41))
		p, task := nodeSchedule(m, r, fmt.Sprint("n", seed), seed)
		task.URL = m.add(task.Name, p)
		task.Loop = []string{"calls", "turns"}[r.IntN(2)]
		if !p.anthropic && !task.Eager && !p.quick && r.IntN(2) == 0 {
			task.Loop = "ai-sdk"
		}
		if task.Loop == "turns" {
			task.SDK = 0
		}
		tasks = append(tasks, task)
	}
	checkSchedules(t, m, tasks, runNode(t, tasks))
}

// nodeSchedule returns a random schedule, and its task without a URL.
func nodeSchedule(m *model, r *rand.Rand, name string, seed int) (*play, nodeTask) {
	p := &play{r: r, anthropic: r.IntN(2) == 0, texts: r.IntN(2) == 0, faults: r.IntN(7), payments: r.IntN(4), ids: r.IntN(3)}
	task := nodeTask{
		Name: name, Wire: "chat", Seed: &seed, Closed: m.closed, Eager: r.IntN(3) == 0, Declared: r.IntN(2) == 0,
		Effect: []string{"unknown", "non_idempotent"}[r.IntN(2)],
	}
	if p.anthropic {
		task.Wire = "messages"
	}
	if p.quick = r.IntN(5) == 0; p.quick {
		task.Quick, task.SDK = true, 2
	}
	return p, task
}

// checkSchedules checks that nothing was paid twice, that each repetition was asked for, that budgets and waits were kept, and that
// no more was asked than in [TestSchedules].
func checkSchedules(t *testing.T, m *model, tasks []nodeTask, results []nodeResult) {
	t.Helper()
	all := map[string]*asks{}
	var recorded, others asks
	asked, completed := 0, 0
	for i, got := range results {
		m.mu.Lock()
		log := strings.Join(m.plays[got.Name].log, "\n")
		m.mu.Unlock()
		for invoice, times := range got.Paid {
			assert.LessOrEqual(t, times, 1, "%+v pays invoice %s %d times: %s\n%s", tasks[i], invoice, times, got.Error, log)
		}
		assert.Zero(t, got.Unasked, "%+v did not ask\n%s", tasks[i], log)
		assert.Zero(t, got.Early, "%+v did not wait\n%s", tasks[i], log)
		assert.LessOrEqual(t, got.Most, got.Attempts, "%+v", tasks[i])
		asked += got.Asked
		if got.Error == "" {
			completed++
		}
		sum := asks{schedules: 1, asked: got.Asked, due: got.Due, unknown: got.Unknown}
		kind := fmt.Sprintf("%s, eager %t, recorded %t", tasks[i].Loop, tasks[i].Eager, tasks[i].Declared)
		if all[kind] == nil {
			all[kind] = &asks{}
		}
		all[kind].add(&sum, errorOf(got.Error))
		if tasks[i].Declared {
			recorded.add(&sum, errorOf(got.Error))
		} else {
			others.add(&sum, errorOf(got.Error))
		}
		if t.Failed() {
			break
		}
	}
	for kind, sum := range all {
		t.Logf("%-40s %v", kind, sum)
	}
	t.Logf("%d schedules: %d completed, asked %d times", len(results), completed, asked)
	t.Logf("recorded: %v", &recorded)
	t.Logf("not recorded: %v", &others)
	assert.Positive(t, asked)
	assert.Greater(t, completed, len(results)/4)
	for _, sum := range []*asks{&recorded, &others} {
		if !sample.Only() { // few schedules may have more
			assert.LessOrEqual(t, float64(sum.asked), 1.05*float64(sum.due+sum.unknown)+1, "questions: %v", sum)
		}
	}
}

// errorOf is an error with this text, or nil.
func errorOf(text string) error {
	if text == "" {
		return nil
	}
	return errors.New(text)
}
