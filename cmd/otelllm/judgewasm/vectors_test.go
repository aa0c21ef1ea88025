package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/judge"
	"github.com/otelllm/otelllm-go/internal/sample"
	"github.com/otelllm/otelllm-go/semconv"
)

// vectors is a source of random facts.
type vectors struct{ *rand.Rand }

// one returns one of some values.
func one[T any](v vectors, of ...T) T { return of[v.IntN(len(of))] }

// maybe sets a fact, most of the time.
func (v vectors) maybe(line map[string]any, key string, value any) {
	if v.IntN(8) > 0 {
		line[key] = value
	}
}

// request returns the facts of a request, which need not fit each other.
func (v vectors) request(at float64, calls, outputs []string) map[string]any {
	line := map[string]any{"kind": "request", "start": at, "end": at + v.Float64()*10}
	started := v.IntN(3)
	completed := v.IntN(started + 1)
	status := one(v, 200, 200, 200, 400, 401, 429, 500, 503, 529)
	v.maybe(line, string(semconv.StreamEndKey), one(v, "terminal_event", "eof", "read_error", "http_error", "no_response", "cancelled", "consumer_closed", "watchdog", "abandoned"))
	v.maybe(line, string(semconv.StreamPhaseKey), one(v, "before_connection", "connecting", "awaiting_response", "response_started", "text", "reasoning", "tool_input", "tool_call_ready", "stream_end"))
	v.maybe(line, string(semconv.StreamTextChunksKey), v.IntN(2)*v.IntN(9))
	v.maybe(line, string(semconv.StreamToolInputsStartedKey), started)
	v.maybe(line, string(semconv.StreamToolInputsCompletedKey), completed)
	v.maybe(line, string(semconv.StreamToolCallsKey), completed)
	v.maybe(line, string(semconv.RequestProviderToolsKey), one(v, []string{}, []string{"web_search"}, []string{"code_interpreter"}))
	v.maybe(line, string(semconv.HistoryToolCallsKey), calls)
	v.maybe(line, string(semconv.HistoryToolOutputsKey), outputs)
	v.maybe(line, "http.response.status_code", status)
	v.maybe(line, "gen_ai.request.model", one(v, "m", "größe-2", "<model> & co"))
	ids := []string{"call_1", "call_2"}[:completed]
	v.maybe(line, string(semconv.StreamToolCallIDsKey), ids)
	switch v.IntN(5) {
	case 0:
		line[string(semconv.TransportCauseKey)] = one(v, "connection_reset", "body_truncated", "connect_refused", "dns_not_found", "tls", "clean_eof", "malformed_event", "no such cause")
	case 1:
		line[string(semconv.ProviderErrorKindKey)] = one(v, "rate_limited", "overloaded", "quota_exhausted", "invalid_request", "context_length_exceeded", "server_error", "unknown")
		line[string(semconv.RetryAfterKey)] = v.Float64() * 90
	case 2:
		line[string(semconv.AbortSourceKey)] = one(v, "user", "application", "shutdown", "deadline", "unknown")
	case 3:
		line["gen_ai.response.finish_reasons"] = []string{one(v, "stop", "length", "tool_calls", "content_filter", "error")}
	}
	if v.IntN(3) > 0 {
		line["error.type"] = one(v, "ECONNRESET", "APIError", "TypeError")
	}
	return line
}

// tool returns the facts of a tool.
func (v vectors) tool(at float64, id string) map[string]any {
	line := map[string]any{"kind": "tool", "gen_ai.tool.call.id": id, "gen_ai.tool.name": one(v, "pay", "read_file"), "start": at}
	v.maybe(line, string(semconv.ToolEffectKey), one(v, "read_only", "idempotent", "non_idempotent", "unknown"))
	if v.IntN(5) == 0 {
		line["state"] = "begun"
		return line
	}
	line["end"] = at + v.Float64()
	v.maybe(line, string(semconv.ToolOutcomeKey), one(v, "succeeded", "failed", "timed_out", "interrupted", "rejected", "invalid_input"))
	v.maybe(line, string(semconv.ToolOutputDeliveryKey), one(v, "pending", "sent", "failed", "cached"))
	return line
}

// facts returns a run, with a question about it or its end, and now and then with something that is not valid.
func (v vectors) facts() []map[string]any {
	at := 1.7e9 + float64(v.IntN(1e6))
	begun := map[string]any{"kind": "run", "state": "begun", "start": at}
	if v.IntN(2) == 0 {
		begun[string(semconv.RunToolsKey)] = 0
	}
	lines := []map[string]any{begun}
	requests, calls := []string{}, []string{}
	for i := range 1 + v.IntN(5) {
		at++
		id := fmt.Sprintf("p%d", i)
		var line map[string]any
		if v.IntN(3) == 0 {
			call := one(v, "call_1", "call_2", "call_3")
			line, calls = v.tool(at, call), append(calls, call)
		} else {
			line, requests = v.request(at, calls, calls[:v.IntN(len(calls)+1)]), append(requests, id)
		}
		line["id"] = id
		lines = append(lines, line)
	}
	switch n := v.IntN(6); {
	case n < 2 && len(requests) > 0:
		lines = append(lines, map[string]any{"call": requests[v.IntN(len(requests)):]})
	case n < 4:
		lines = append(lines, map[string]any{"kind": "run", "start": at, "end": at + 20, "llm.run.requests": len(requests), "llm.run.tools": len(calls)})
	case n == 4 && v.IntN(4) == 0:
		lines = append(lines, map[string]any{one(v, "kind", "state", "status", "call", "start"): one[any](v, "x", 7, nil, []string{})})
	default:
		lines = append(lines, one(v, map[string]any{}, map[string]any{"since": at - 1}))
	}
	for _, line := range lines {
		line["run"] = "r"
	}
	return lines
}

// compiled returns a folder with the module and the helpers that run it in Node and in Python.
func compiled(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	root := filepath.Join("..", "..", "..")
	cmd := exec.CommandContext(t.Context(), filepath.Join("scripts", "build-wasm"), filepath.Join(dir, "judge.wasm"))
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	for name, from := range map[string]string{"otelllm-judge.mjs": "examples/node/otelllm-judge.mjs", "_judge.py": "packages/python/otelllm/src/otelllm/_judge.py"} {
		helper, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(from)))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), helper, 0o600))
	}
	return dir
}

// answered returns vectors, a line each, and the answers of the judge in Go.
func answered(t *testing.T) (in, want bytes.Buffer) {
	t.Helper()
	n := 10_000
	if sample.Only() {
		n = 300
	}
	v := vectors{rand.New(rand.NewPCG(41, 2))}
	safeties, problems := map[any]int{}, 0
	for range n {
		raw, err := json.Marshal(v.facts())
		require.NoError(t, err)
		in.Write(append(raw, '\n'))
		out := judge.Once(raw)
		want.Write(append(out, '\n'))
		var answer struct {
			Verdict map[string]any
			Error   string
		}
		require.NoError(t, json.Unmarshal(out, &answer))
		if answer.Error != "" {
			problems++
		}
		safeties[answer.Verdict[string(semconv.RetrySafetyKey)]]++
	}
	t.Log(safeties, problems, "not valid")
	assert.Len(t, safeties, 4, "each level, and no failure")
	assert.Positive(t, problems)
	return in, want
}

// compare runs a command with the vectors as its input, and compares its answers byte for byte.
func compare(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	in, want := answered(t)
	cmd.Stdin = &in
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	got, err := cmd.Output()
	require.NoError(t, err, stderr.String())
	wanted := bytes.Split(want.Bytes(), []byte("\n"))
	given := bytes.Split(got, []byte("\n"))
	require.Len(t, given, len(wanted))
	for i := range wanted {
		require.Equal(t, string(wanted[i]), string(given[i]), "vector %d", i)
	}
}

// The module in Node answers as the judge in Go does, byte for byte.
func TestVectors(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("LEFT OUT: there is no node")
	}
	compare(t, exec.CommandContext(t.Context(), node, filepath.Join("testdata", "vectors.mjs"), compiled(t)))
}

// The same under the Python package, by wasmtime.
func TestVectorsInPython(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil || exec.CommandContext(t.Context(), python, "-c", "import wasmtime").Run() != nil {
		t.Skip("LEFT OUT: there is no Python with wasmtime; `pip install wasmtime` installs it")
	}
	compare(t, exec.CommandContext(t.Context(), python, filepath.Join("testdata", "vectors.py"), compiled(t)))
}
