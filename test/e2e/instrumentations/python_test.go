package instrumentations

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
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/semconv"
	"github.com/otelllm/otelllm-go/test/built"
	"github.com/otelllm/otelllm-go/test/faultyllm"
	"github.com/otelllm/otelllm-go/test/nodeagent"
)

// pythonAgents are the agents of examples/python and the Python that runs them.
type pythonAgents struct {
	python, dir string
	otelllm     string // the program for live verdicts, or ""

	mu   sync.Mutex
	live map[string]json.RawMessage // guarded by mu: the verdicts that the agents got while their runs went on, by the tasks' names
}

// findPython returns the agents, or skips the test. The Python is PYTHON, or else the first
// one that has httpx and aiohttp: a system's packages are those of its own Python.
func findPython(t *testing.T) *pythonAgents {
	t.Helper()
	a := &pythonAgents{live: make(map[string]json.RawMessage), dir: filepath.Join(built.Root(t), "examples", "python")}
	candidates := []string{"python3", "/usr/bin/python3"}
	if python := os.Getenv("PYTHON"); python != "" {
		candidates = []string{python}
	}
	for _, python := range candidates {
		path, err := exec.LookPath(python)
		if err != nil {
			continue
		}
		if exec.CommandContext(t.Context(), path, "-c", "import sys, httpx, aiohttp; assert sys.version_info >= (3, 11)").Run() == nil {
			a.python = path
			return a
		}
	}
	why := "there is no Python from 3.11 on with httpx and aiohttp; `apt-get install python3-httpx python3-aiohttp` installs them"
	if os.Getenv("REQUIRE_PYTHON") != "" {
		require.FailNow(t, "REQUIRE_PYTHON is set: "+why)
	}
	t.Skip("LEFT OUT: " + why)
	return nil
}

// Run runs the tasks concurrently in one process, over one client of examples/python.
func (a *pythonAgents) Run(ctx context.Context, client string, _ bool, endpoint string, tasks []nodeagent.Task) (nodeagent.Report, error) {
	report := nodeagent.Report{Results: make(map[string]nodeagent.Result, len(tasks))}
	file, err := os.CreateTemp("", "tasks-*.json")
	if err != nil {
		return report, err
	}
	defer os.Remove(file.Name())
	if err := errors.Join(json.NewEncoder(file).Encode(tasks), file.Close()); err != nil {
		return report, err
	}
	cmd := exec.CommandContext(ctx, a.python, "-X", "dev", "-W", "ignore::ResourceWarning", "run.py", client, file.Name())
	cmd.Dir = a.dir
	cmd.Env = append(os.Environ(), "OTEL_EXPORTER_OTLP_ENDPOINT="+endpoint, "OTEL_SERVICE_NAME="+client, "OTEL_BSP_SCHEDULE_DELAY=200",
		"OTELLLM_BIN="+a.otelllm, "PYTHONDONTWRITEBYTECODE=1")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return report, fmt.Errorf("the agents over %s: %w\n%.4000s", client, err, stderr.Bytes())
	}
	lines := bufio.NewScanner(&stdout)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var line struct {
			nodeagent.Result
			Live json.RawMessage `json:"live"`
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			return report, fmt.Errorf("the agents over %s: %q is not a result: %w", client, lines.Text(), err)
		}
		report.Results[line.Name] = line.Result
		a.mu.Lock()
		a.live[line.Name] = line.Live
		a.mu.Unlock()
	}
	report.Unhandled = strings.Contains(stderr.String(), "never retrieved") || strings.Contains(stderr.String(), "Traceback")
	if len(report.Results) != len(tasks) {
		return report, fmt.Errorf("the agents over %s: %d results of %d tasks\n%.4000s", client, len(report.Results), len(tasks), stderr.Bytes())
	}
	return report, lines.Err()
}

// pythonClients are the columns of Python's matrix: the helper over each client.
func pythonClients() []producer {
	var all []producer
	for _, client := range []struct{ file, title string }{{"httpx", "httpx, asyncio"}, {"httpx-sync", "httpx, threads"}, {"aiohttp", "aiohttp"}} {
		for _, w := range []faultyllm.Wire{faultyllm.Chat, faultyllm.Responses, faultyllm.Anthropic} {
			all = append(all, producer{file: client.file, title: "`otelllm_facts.py`", wire: w, facts: true, client: client.title})
		}
	}
	return all
}

// findCollectorToo requires a Collector where Python is required.
func findCollectorToo(t *testing.T) *pythonAgents {
	t.Helper()
	agents := findPython(t)
	if os.Getenv("REQUIRE_PYTHON") != "" {
		require.NotEmpty(t, os.Getenv("OTELCOL_BIN"), "REQUIRE_PYTHON is set, and OTELCOL_BIN names no Collector")
	}
	return agents
}

// TestPythonMatrix is TestMatrix for otelllm_facts.py.
func TestPythonMatrix(t *testing.T) {
	t.Parallel()
	agents := findCollectorToo(t)
	comparePages(t, "make python-matrix UPDATE=1", func() map[string]string {
		m := runMatrix(t, agents, pythonClients())
		m.check(t)
		for file, unhandled := range m.unhandled {
			assert.False(t, unhandled, "%s: an error of the recording came up", file)
		}
		if !m.whole {
			return nil
		}
		return map[string]string{pythonPage: m.pythonPage()}
	})
}

// TestPythonHelper runs the helper's own tests, with live verdicts if OTELLLM_BIN names the program.
func TestPythonHelper(t *testing.T) {
	t.Parallel()
	agents := findPython(t)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, agents.python, "-X", "dev", "-W", "ignore::ResourceWarning", "-m", "unittest", "-v")
	cmd.Dir = agents.dir
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	require.Regexp(t, `Ran [1-9][0-9]* tests`, string(out))
	assert.NotContains(t, string(out), "Traceback")
}

// TestPythonAcceptance is TestAcceptance for otelllm_facts.py.
func TestPythonAcceptance(t *testing.T) {
	agents := findCollectorToo(t)
	for _, client := range []string{"httpx", "httpx-sync", "aiohttp"} {
		t.Run(client, func(t *testing.T) {
			testAcceptance(t, agents, client)
		})
	}
}

// TestPythonLive checks that the verdict that `otelllm judge` gives while the run goes on is
// the Collector's after it.
func TestPythonLive(t *testing.T) {
	t.Parallel()
	agents := findPython(t)
	agents.otelllm = built.Otelllm(t)
	m := runMatrix(t, agents, pythonClients()[:1])
	compared := 0
	for i := range m.cells {
		c := &m.cells[i]
		after, ok := c.run()
		require.True(t, ok, c.fault.key)
		var live struct {
			Class  string `json:"llm.failure.class"`
			Safety string `json:"llm.retry.safety"`
		}
		verdict := agents.live[c.producer.key()+"/"+c.fault.key]
		require.NotEmpty(t, verdict, "%s: no live verdict", c.fault.key)
		require.NoError(t, json.Unmarshal(verdict, &live))
		if c.fault.parts != nil && c.fault.run.class == semconv.ClassUnset || after.Class == semconv.ClassLocalAbort {
			continue // the run's end says more: that it went well, or who stopped it
		}
		compared++
		assert.Equal(t, strings.ReplaceAll(after.Class.String(), "unset", ""), live.Class, c.fault.key)
		if after.Failed() {
			assert.GreaterOrEqual(t, slices.Index(safeties, live.Safety), slices.Index(safeties, after.Safety.String()), "%s: %s live, %s after", c.fault.key, live.Safety, after.Safety)
		}
	}
	assert.Greater(t, compared, 15)
}

// safeties are the levels, the safest first.
var safeties = []string{"safe_auto_retry", "user_confirmed_retry", "no_retry"}

// pythonPage is the page of otelllm_facts.py.
const pythonPage = folder + "/python.md"

func (m *matrix) pythonPage() string {
	var b strings.Builder
	b.WriteString("# otelllm_facts.py: spans and verdicts\n\n" + strings.Replace(generated, "node-matrix", "python-matrix", 1) + "\n\n" +
		"Agents in Python run with [otelllm_facts.py](../../examples/python/README.md) against a model server that breaks, through a Collector with\n" +
		"`llm_classify`. They read the streams with a minimal reader that behaves as the OpenAI and Anthropic SDKs for Python do, over the same\n" +
		"httpx, and over aiohttp. How this is measured and what the signs mean: [What you get with which instrumentation](../instrumentations.md).\n")
	for i := range m.producers {
		m.section(&b, &m.producers[i])
	}
	return b.String()
}
