package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/internal/sample"
	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/test/built"
	llm "github.com/otelllm/otelllm-go/test/faultyllm"
)

// runPython runs tasks in Python, several at a time, with the package's modules as scripts/packages puts them together. Its
// judge is the program otelllm: wasmtime is not among Debian's packages.
func runPython(t *testing.T, tasks []nodeTask) []nodeResult {
	t.Helper()
	python := ""
	for _, name := range []string{"python3", "/usr/bin/python3"} {
		if exec.CommandContext(t.Context(), name, "-c", "import sys, httpx; assert sys.version_info >= (3, 10)").Run() == nil {
			python = name
			break
		}
	}
	if python == "" {
		t.Skip("LEFT OUT: there is no Python from 3.10 on with httpx; `apt-get install python3-httpx` installs it")
	}
	dir, root := t.TempDir(), built.Root(t)
	helper := filepath.Join(root, "examples", "python")
	require.NoError(t, os.CopyFS(filepath.Join(dir, "otelllm"), os.DirFS(filepath.Join(root, "packages", "python", "otelllm", "src", "otelllm"))))
	require.NoError(t, os.CopyFS(filepath.Join(dir, "lib"), os.DirFS(filepath.Join(helper, "lib"))))
	for from, to := range map[string]string{
		"otelllm_facts.py": "otelllm/facts.py", "otelllm_catalogue.py": "otelllm/otelllm_catalogue.py", "retry_agent.py": "retry_agent.py",
	} {
		data, err := os.ReadFile(filepath.Join(helper, from))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, filepath.FromSlash(to)), data, 0o600))
	}
	program := filepath.Join(dir, "otelllm-program")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-buildvcs=false", "-o", program, ".")
	build.Dir = filepath.Join(root, "cmd", "otelllm")
	build.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))

	var in, stderr bytes.Buffer
	for i := range tasks {
		require.NoError(t, json.NewEncoder(&in).Encode(&tasks[i]))
	}
	cmd := exec.CommandContext(t.Context(), python, "-W", "ignore::ResourceWarning", "retry_agent.py")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "OTELLLM_BIN="+program, "OTEL_TRACES_EXPORTER=none", "PYTHONDONTWRITEBYTECODE=1")
	cmd.Stdin, cmd.Stderr = &in, &stderr
	got, err := cmd.Output()
	require.NoError(t, err, stderr.String())
	return nodeResults(t, got, len(tasks), stderr.String())
}

// carefulInPython reports whether Python asks after a fault and Go does not, as [carefulInNode].
func carefulInPython(fault, _ string) bool {
	return fault == "clean end in a call" || fault == "a page"
}

// Each fault of one model call has the same verdict in Python, under httpx with and without asyncio, as in Go, or a more careful
// one.
func TestPythonVerdictsAreThoseOfGo(t *testing.T) {
	srv, err := llm.Start()
	require.NoError(t, err)
	defer func() { assert.NoError(t, srv.Close()) }()
	var tasks []nodeTask
	var want []classify.Diagnosis
	for name, exchange := range nodeFaults() {
		for wire, at := range map[string]llm.Wire{"chat": llm.Chat, "chat-async": llm.Chat, "messages": llm.Anthropic, "messages-async": llm.Anthropic} {
			key := fmt.Sprint("cell", len(tasks))
			srv.Play(key, exchange, exchange)
			url := srv.BaseURL(key, at)
			tasks = append(tasks, nodeTask{Name: name + ", " + wire, URL: strings.TrimSuffix(url, "/"), Wire: wire})
			want = append(want, askInGo(t, url, at))
		}
	}
	compareVerdicts(t, runPython(t, tasks), want, carefulInPython)
}

// Random schedules of faults, as those of [TestSchedules], for agents in Python.
func TestPythonSchedules(t *testing.T) {
	t.Parallel()
	schedules := 1000 / sample.Every(40)
	m := startModel(t)
	var tasks []nodeTask
	for seed := range schedules {
		r := rand.New(rand.NewPCG(uint64(seed), 43))
		p, task := nodeSchedule(m, r, fmt.Sprint("p", seed), seed)
		task.URL = m.add(task.Name, p)
		if !p.anthropic {
			task.URL += "/v1"
		}
		if r.IntN(3) == 0 {
			task.Wire += "-async"
		}
		if task.Loop = []string{"calls", "turns"}[r.IntN(2)]; task.Loop == "turns" {
			task.SDK = 0
		}
		tasks = append(tasks, task)
	}
	checkSchedules(t, m, tasks, runPython(t, tasks))
}
