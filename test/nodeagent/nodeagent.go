// Package nodeagent runs the agents of examples/node for tests. Without Node, or without
// their packages, a test is skipped and says how to install them, unless REQUIRE_NODE is
// set: then it fails.
package nodeagent

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/test/built"
)

// Task is one run of an agent, as examples/node/lib/agent.mjs describes it. Times are
// in milliseconds.
type Task struct {
	Name             string    `json:"name"`
	BaseURL          string    `json:"baseURL"`
	API              string    `json:"api"` // chat, responses, messages
	Prompt           string    `json:"prompt,omitempty"`
	MaxRetries       int       `json:"maxRetries,omitempty"`
	Timeouts         *Timeouts `json:"timeouts,omitempty"`
	AbortOn          string    `json:"abortOn,omitempty"` // text, tool
	Deadline         int       `json:"deadline,omitempty"`
	StopReading      bool      `json:"stopReading,omitempty"`
	Tool             string    `json:"tool,omitempty"` // throws, waits
	EndOnToolFailure bool      `json:"endOnToolFailure,omitempty"`
}

// Timeouts are undici's timeouts; 0 is undici's default.
type Timeouts struct {
	Connect int `json:"connect,omitempty"`
	Headers int `json:"headers,omitempty"`
	Body    int `json:"body,omitempty"`
}

// Result is the result of a run.
type Result struct {
	Name  string   `json:"name"`
	Trace string   `json:"trace"` // id, in hexadecimal digits
	Saw   []string `json:"saw"`   // names and codes of the error that the application saw, outermost first; empty if there was none
	Ran   bool     `json:"ran"`   // whether the tool apply_patch began
}

// Report is the result of a process.
type Report struct {
	Results map[string]Result // by the task's name
	// Unhandled is set if a promise of the instrumentation or the client was rejected
	// and no handler saw it. That ends a Node process that does not handle the event.
	Unhandled bool
}

// Agents are the agents of examples/node and the Node that runs them.
type Agents struct {
	node, dir string
}

// Find returns the agents, or skips the test.
func Find(tb testing.TB) *Agents {
	tb.Helper()
	a := &Agents{dir: filepath.Join(built.Root(tb), "examples", "node")}
	if _, err := os.Stat(filepath.Join(a.dir, "node_modules", ".package-lock.json")); err != nil {
		leaveOut(tb, "the packages of examples/node are not installed; `make node-packages` installs them")
	}
	arch := map[string]string{"amd64": "x64"}[runtime.GOARCH]
	if arch == "" {
		arch = runtime.GOARCH
	}
	a.node = filepath.Join(a.dir, "node_modules", "node-"+runtime.GOOS+"-"+arch, "bin", "node")
	if _, err := os.Stat(a.node); err == nil {
		return a
	}
	node, err := exec.LookPath("node")
	if err != nil {
		leaveOut(tb, "there is no node; install Node 24")
	}
	a.node = node
	return a
}

func leaveOut(tb testing.TB, why string) {
	tb.Helper()
	if os.Getenv("REQUIRE_NODE") != "" {
		require.FailNow(tb, "REQUIRE_NODE is set: "+why)
	}
	tb.Skip("LEFT OUT: " + why)
}

// Run runs the tasks concurrently in one process, under one producer of
// examples/node/producers. When it returns, their spans have been sent to endpoint, a
// URL for OTLP over HTTP. With httpSpans the process's HTTP client is traced, too.
func (a *Agents) Run(ctx context.Context, producer string, httpSpans bool, endpoint string, tasks []Task) (Report, error) {
	file, err := os.CreateTemp("", "tasks-*.json")
	if err != nil {
		return Report{}, fmt.Errorf("write the tasks of %s: %w", producer, err)
	}
	defer os.Remove(file.Name())
	if err := errors.Join(json.NewEncoder(file).Encode(tasks), file.Close()); err != nil {
		return Report{}, fmt.Errorf("write the tasks of %s: %w", producer, err)
	}
	cmd := a.Command(ctx, "run.mjs", producer, file.Name())
	cmd.Env = append(os.Environ(), "OTEL_EXPORTER_OTLP_ENDPOINT="+endpoint)
	if httpSpans {
		cmd.Env = append(cmd.Env, "NODE_HTTP_SPANS=1")
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return Report{}, fmt.Errorf("the agents under %s: %w\n%.4000s", producer, err, stderr.Bytes())
	}
	report := Report{Results: make(map[string]Result, len(tasks))}
	lines := bufio.NewScanner(&stdout)
	for lines.Scan() {
		var line struct {
			Result
			Unhandled bool `json:"unhandled"`
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			return report, fmt.Errorf("the agents under %s: %q is not a result: %w", producer, lines.Text(), err)
		}
		if line.Unhandled {
			report.Unhandled = true
			continue
		}
		report.Results[line.Name] = line.Result
	}
	if len(report.Results) != len(tasks) {
		return report, fmt.Errorf("the agents under %s: %d results of %d tasks\n%.4000s", producer, len(report.Results), len(tasks), stderr.Bytes())
	}
	return report, lines.Err()
}

// Command returns the command that runs a program of examples/node.
func (a *Agents) Command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, a.node, args...)
	cmd.Dir = a.dir
	return cmd
}

// Test runs the tests of a file of examples/node and returns Node's output.
func (a *Agents) Test(ctx context.Context, file string) (string, error) {
	out, err := a.Command(ctx, "--test", file).CombinedOutput()
	return string(out), err
}
