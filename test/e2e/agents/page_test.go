//go:build unix

package agents

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the pages: cells that were not played stay as they are")

// The ways in which verdicts on an agent come about.
const (
	byProxy = "through `otelllm`"
	bySpans = "its spans"
	byLogs  = "its spans and logs"
)

var ways = []string{byProxy, bySpans, byLogs}

// result is what became of one agent, with one fault, in one way.
type result struct {
	Agent string   `json:"agent"`
	Fault string   `json:"fault"`
	Way   string   `json:"way"`
	Mark  mark     `json:"mark"`
	Did   string   `json:"did"`            // what the agent did
	Side  int      `json:"side,omitempty"` // requests beside the prompt, as for a title
	Said  []string `json:"said"`           // the verdicts
}

func (r *result) cell() [3]string { return [3]string{r.Agent, r.Fault, r.Way} }

// results are those of all tests.
var results struct {
	mu   sync.Mutex
	list []result // guarded by mu
}

// note assesses what was played in one way, and keeps it for the pages.
func note(t *testing.T, a *agent, f *fault, way, did string, o *outcome) {
	t.Helper()
	r := result{Agent: a.title(), Fault: f.name, Way: way, Did: did, Side: o.side, Said: saidOf(o.records)}
	require.NoError(t, r.assess())
	t.Logf("%s: %s: %s", way, r.Mark, strings.Join(r.Said, "; "))
	assert.NotContains(t, []mark{wrong, unsafe}, r.Mark, "%s: %s", way, r.Said)
	results.mu.Lock()
	defer results.mu.Unlock()
	results.list = append(results.list, r)
}

// assess sets the mark of what was played, now or before.
func (r *result) assess() error {
	f := faultOf(r.Agent, r.Fault)
	if f == nil {
		return fmt.Errorf("%s: no such fault: %s", r.Agent, r.Fault)
	}
	w, err := wentOf(r.Did, r.Side)
	if err == nil {
		r.Mark, err = f.assess(w, r.Said)
	}
	return err
}

// unreadWords are in the words of what an agent did that could not read its answers.
const unreadWords = ", answers that it cannot read"

// did says in words what an agent did.
func (o *outcome) did() string {
	words := fmt.Sprintf("%d requests", o.main)
	if o.main == 1 {
		words = "1 request"
	}
	if o.toolRuns > 0 {
		words += ", the tool ran"
	}
	if o.plain {
		words += ", no answer compressed"
	}
	if o.unread {
		words += unreadWords
	}
	if o.killed {
		return words + ", interrupted"
	}
	return fmt.Sprintf("%s, exit %d", words, o.exit)
}

var signs = map[mark]string{right: "●", careful: "◐", nothing: "○", wrong: "✗", unsafe: "✗✗"}

//go:embed page.md
var pageHead string

// TestMain writes the pages after the tests.
func TestMain(m *testing.M) {
	code := m.Run()
	if *update {
		if err := errors.Join(writePages(), writeFounding(), writeUnreachable()); err != nil {
			fmt.Fprintln(os.Stderr, "write the pages:", err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}

// writePages writes what was played, and keeps what was not: the whole takes more than an hour.
func writePages() error {
	dir := filepath.Join("..", "..", "..", "docs", "agents-matrix")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	file := filepath.Join(dir, "results.jsonl")
	before, err := readResults(file)
	if err != nil {
		return err
	}
	m := newTable(append(before, results.list...))
	if err := m.writeResults(file); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "README.md"), []byte(pageHead+m.overview()), 0o644); err != nil {
		return err
	}
	for _, agent := range m.agents {
		if err := os.WriteFile(filepath.Join(dir, agent+".md"), []byte(m.page(agent)), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func readResults(file string) (list []result, err error) {
	raw, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for line := range bytes.Lines(raw) {
		var r result
		if err := json.Unmarshal(line, &r); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if err := r.assess(); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		list = append(list, r)
	}
	return list, nil
}

func (m *table) writeResults(file string) error {
	var b bytes.Buffer
	for _, a := range m.agents {
		for _, f := range m.faults {
			for _, way := range ways {
				r, ok := m.cells[[3]string{a, f, way}]
				if !ok {
					continue
				}
				line, err := json.Marshal(r)
				if err != nil {
					return err
				}
				b.Write(append(line, '\n'))
			}
		}
	}
	return os.WriteFile(file, b.Bytes(), 0o644)
}

// table has the results by agent, fault and way.
type table struct {
	agents, faults []string // in the order in which they are listed
	cells          map[[3]string]result
}

func newTable(list []result) *table {
	m := &table{cells: make(map[[3]string]result)}
	for i := range agents {
		m.agents = append(m.agents, agents[i].title())
	}
	m.agents = append(m.agents, codexWS.title())
	for i := range programs {
		m.agents = append(m.agents, programs[i].title())
	}
	for i := range faults {
		m.faults = append(m.faults, faults[i].name)
	}
	for i := range wsFaults {
		if !slices.Contains(m.faults, wsFaults[i].name) {
			m.faults = append(m.faults, wsFaults[i].name)
		}
	}
	there := make(map[string]bool)
	for _, r := range list {
		m.cells[r.cell()] = r
		there[r.Agent] = true
	}
	m.agents = slices.DeleteFunc(m.agents, func(a string) bool { return !there[a] })
	return m
}

// overview is one table: a row a fault, a column an agent, and in each cell a sign a way.
func (m *table) overview() string {
	var b strings.Builder
	b.WriteString("\n| fault |")
	for _, a := range m.agents {
		_, _ = fmt.Fprintf(&b, " [%s](%s.md) |", a, a)
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(m.agents)) + "\n")
	counts := make(map[[2]string]int)
	for _, f := range m.faults {
		_, _ = fmt.Fprintf(&b, "| %s |", strings.ReplaceAll(f, "_", " "))
		for _, a := range m.agents {
			var cell []string
			for _, way := range ways {
				if r, ok := m.cells[[3]string{a, f, way}]; ok {
					cell = append(cell, signs[r.Mark])
					counts[[2]string{way, string(r.Mark)}]++
				}
			}
			_, _ = fmt.Fprintf(&b, " %s |", cmp.Or(strings.Join(cell, ""), "·"))
		}
		b.WriteString("\n")
	}
	b.WriteString("\n| way | ● right | ◐ careful | ○ nothing | ✗ wrong | ✗✗ unsafe |\n|---|---|---|---|---|---|\n")
	for _, way := range ways {
		_, _ = fmt.Fprintf(&b, "| %s |", way)
		for _, of := range []mark{right, careful, nothing, wrong, unsafe} {
			_, _ = fmt.Fprintf(&b, " %d |", counts[[2]string{way, string(of)}])
		}
		b.WriteString("\n")
	}
	if s := m.share(); s.of > 0 {
		_, _ = fmt.Fprintf(&b, "\nBy everything that an agent exports, %d of %d cells are right in which it records what happened, %d %%. The aim is three quarters.\n"+
			"Left out are faults of which an agent records less in all of its signals:\n\n%s", s.right, s.of, 100*s.right/s.of, m.reasons())
	}
	return b.String()
}

// page has the details of one agent.
func (m *table) page(agent string) string {
	var b strings.Builder
	_, _ = fmt.Fprintf(&b, "# %s, fault by fault\n\n<!-- Generated by test/e2e/agents: `make agents-matrix UPDATE=1`. Do not edit. -->\n\n", agent)
	b.WriteString("The signs are those of [the overview](README.md).\n")
	for _, f := range m.faults {
		var rows strings.Builder
		for _, way := range ways {
			r, ok := m.cells[[3]string{agent, f, way}]
			if !ok {
				continue
			}
			_, _ = fmt.Fprintf(&rows, "| %s | %s | %s | %s |\n", way, r.Did, signs[r.Mark], cmp.Or(strings.Join(times(r.Said), "<br>"), "nothing"))
		}
		if rows.Len() > 0 {
			_, _ = fmt.Fprintf(&b, "\n## %s\n\n| way | the agent did | | said |\n|---|---|---|---|\n%s", strings.ReplaceAll(f, "_", " "), rows.String())
		}
	}
	return b.String()
}

// times counts the same words once, in the order of their first occurrence.
func times(words []string) (list []string) {
	count := make(map[string]int)
	for _, w := range words {
		if count[w]++; count[w] == 1 {
			list = append(list, w)
		}
	}
	for i, w := range list {
		if n := count[w]; n > 1 {
			list[i] = fmt.Sprintf("%d × %s", n, w)
		}
	}
	return list
}

// The overview has a cell for each way, and counts them.
func TestOverview(t *testing.T) {
	const failed = "run, failed, stream_interrupted, unknown, user_confirmed_retry"
	list := []result{
		{Agent: "codex", Fault: "ok_tool", Way: byProxy, Did: "2 requests, exit 0", Said: []string{"run, succeeded"}},
		{Agent: "codex", Fault: "ok_tool", Way: bySpans, Did: "2 requests, exit 0"},
		{Agent: "codex", Fault: "reset_text_once", Way: byLogs, Did: "2 requests, exit 0", Said: []string{"run, succeeded"}},
		{Agent: "pi", Fault: "reset_text", Way: byProxy, Did: "2 requests, exit 1", Said: []string{"run, succeeded"}},
	}
	for i := range list {
		require.NoError(t, list[i].assess())
	}
	m := newTable(list)
	text := m.overview()
	require.Contains(t, text, "| fault | [codex](codex.md) | [pi](pi.md) |")
	require.Contains(t, text, "| ok tool | ●○ | · |")
	require.Contains(t, text, "| reset text once | ◐ | · |")
	require.Contains(t, text, "| reset text | · | ✗ |")
	require.Contains(t, text, "| through `otelllm` | 1 | 0 | 0 | 1 | 0 |")
	require.Contains(t, m.page("codex"), "## ok tool")
	require.Equal(t, []string{"2 × a", "b"}, times([]string{"a", "b", "a"}))

	// What was played before stays, unless it was played again.
	file := filepath.Join(t.TempDir(), "results.jsonl")
	require.NoError(t, m.writeResults(file))
	before, err := readResults(file)
	require.NoError(t, err)
	require.Equal(t, wrong, before[len(before)-1].Mark)
	again := newTable(append(before, result{Agent: "pi", Fault: "reset_text", Way: byProxy, Mark: right, Said: []string{failed}}))
	require.Len(t, again.cells, len(m.cells))
	require.Contains(t, again.overview(), "| through `otelllm` | 2 | 0 | 0 | 0 | 0 |")
}

// The page for agents' own telemetry has the settings with which they are played.
func TestSettingsAreDocumented(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "agents-in-your-collector.md"))
	require.NoError(t, err)
	for i := range agents {
		settings := slices.Clone(agents[i].otlp.env)
		for _, text := range agents[i].otlp.more {
			settings = append(settings, strings.Split(strings.TrimSpace(text), "\n")...)
		}
		for _, setting := range settings {
			if setting == `environment = "test"` {
				continue
			}
			name, value, _ := strings.Cut(setting, "=")
			switch value = strings.ReplaceAll(value, "{OTLP}", "http://127.0.0.1:4318"); {
			case strings.Contains(value, "{CONTENT}"):
				assert.Contains(t, string(page), strings.TrimSpace(name), agents[i].name)
			case strings.HasPrefix(value, "{"):
				assert.Contains(t, string(page), name+"='"+value+"'", agents[i].name)
			default:
				assert.Contains(t, string(page), strings.TrimSuffix(name+"="+value, "="), agents[i].name)
			}
		}
	}
}
