//go:build unix

package agents

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/semconv"
	"github.com/otelllm/otelllm-go/test/built"
	"github.com/otelllm/otelllm-go/test/faultyllm"
)

// codex117 is the Codex of the report in which the output of a tool was lost.
var codex117 = func() agent {
	a := agents[0]
	a.label, a.program = "codex-0.117.0", "codex-0.117-linux-x64/vendor/x86_64-unknown-linux-musl/codex/codex"
	return a
}()

// story is one of the incidents for which the project was founded, as a real agent plays it.
type story struct {
	name, title string
	agents      []*agent
	fault       fault
	runs        bool   // the tool
	want        string // what `otelllm run` has to print
}

func stories() []story {
	opencode := agentOf("opencode-chat")
	open := func(end faultyllm.Step) func(*script, int, bool) faultyllm.Exchange {
		return func(s *script, _ int, _ bool) faultyllm.Exchange {
			return faultyllm.Answer(faultyllm.ToolInput("call_e2e_5Yq8", s.agent.tool, `{"comm`), end).Unhurried(100 * time.Millisecond)
		}
	}
	whole := func(end faultyllm.Step) func(*script, int, bool) faultyllm.Exchange {
		return func(s *script, n int, outputs bool) faultyllm.Exchange {
			if n > 0 {
				return done()
			}
			return wholeCall(faultyllm.Pause(time.Second), end)(s, n, outputs) // the tool has time to run, and Codex is patient for 2 s
		}
	}
	behindDone := func(steps ...faultyllm.Step) func(*script, int, bool) faultyllm.Exchange {
		return always(func(*script) faultyllm.Exchange {
			return faultyllm.Answer(append(steps, faultyllm.Done(), faultyllm.CleanEnd())...)
		})
	}
	truncated := []semconv.Cause{semconv.CauseBodyTruncated}
	upstream := faultyllm.InBand(faultyllm.Failure{Trouble: faultyllm.ServerError})
	return []story{
		{
			name: "cut-input-fin", title: "The connection is closed within the arguments of a call", agents: []*agent{&codex117, &agents[0]},
			fault: fault{name: "cut-input-fin", classes: interrupted, causes: truncated, answer: open(faultyllm.Truncate())},
			want:  "had not run",
		},
		{
			name: "cut-input-rst", title: "The connection is reset within the arguments of a call", agents: []*agent{&codex117, &agents[0]},
			fault: fault{name: "cut-input-rst", classes: interrupted, causes: wasReset, answer: open(faultyllm.Reset())},
			want:  "had not run",
		},
		{
			name: "forgotten-call-fin", title: "A tool runs on a whole call, the connection is closed, and the retry knows neither call nor output",
			agents: []*agent{&codex117, opencode},
			fault:  fault{name: "forgotten-call-fin", heals: true, once: true, races: true, classes: interrupted, causes: truncated, answer: whole(faultyllm.Truncate())},
			runs:   true,
			want:   `recovered .*The retry did not know of (exec_command|bash), which may have run\.`,
		},
		{
			name: "forgotten-call-rst", title: "The same, and the connection is reset", agents: []*agent{&codex117, opencode},
			fault: fault{name: "forgotten-call-rst", heals: true, once: true, races: true, classes: interrupted, causes: wasReset, answer: whole(faultyllm.Reset())},
			runs:  true,
			want:  `recovered .*The retry did not know of (exec_command|bash), which may have run\.`,
		},
		{
			name: "error-before-done", title: "An upstream's error comes within the stream, and then [DONE]", agents: []*agent{&codex117, &agents[0], opencode},
			fault: fault{name: "error-before-done", classes: provider, causes: broken, answer: behindDone(upstream)},
			want:  "provider_error / server_error",
		},
		{
			name: "error-behind-done", title: "A gateway hides the upstream's error: [DONE] comes after nothing", agents: []*agent{&codex117, &agents[0], opencode},
			fault: fault{
				name: "error-behind-done", answer: behindDone(faultyllm.Begin()),
				// Nothing but the empty answer shows it, which may have another reason.
				classes: []semconv.Class{semconv.ClassEmptyCompletion, semconv.ClassStreamInterrupted},
				causes:  []semconv.Cause{semconv.CauseNoContent, semconv.CauseCleanEOF},
			},
			want: "failed / (empty_completion / no_content|stream_interrupted / clean_eof)",
		},
	}
}

func agentOf(title string) *agent {
	for i := range agents {
		if agents[i].title() == title {
			return &agents[i]
		}
	}
	panic(title)
}

// telling is what became of a story with one agent.
type telling struct {
	Story    string   `json:"story"`
	Agent    string   `json:"agent"`
	Did      string   `json:"did"`
	ToolRuns int      `json:"tool_runs"`
	Requests []string `json:"requests"` // what each request of the main loop had of the call
	Said     []string `json:"said"`     // the verdicts
	Printed  string   `json:"printed"`  // by otelllm run
}

func (r *telling) key() [2]string { return [2]string{r.Story, r.Agent} }

// ran says how often the tool ran.
func (r *telling) ran() string {
	switch r.ToolRuns {
	case 0:
		return "The tool did not run."
	case 1:
		return "The tool ran once."
	default:
		return fmt.Sprintf("The tool ran %d times.", r.ToolRuns)
	}
}

var tellings struct {
	mu   sync.Mutex
	list []telling // guarded by mu
}

// TestFounding plays the stories, under `otelllm run`.
func TestFounding(t *testing.T) {
	bin := built.Otelllm(t)
	srv, err := faultyllm.Start()
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, srv.Close()) })
	all := stories()
	for i := range all {
		for _, a := range all[i].agents {
			t.Run(all[i].name+"/"+a.title(), func(t *testing.T) {
				argv := a.command(t)
				t.Parallel()
				all[i].play(t, a, argv, bin, srv)
			})
		}
	}
}

func (s *story) play(t *testing.T, a *agent, argv []string, bin string, srv *faultyllm.Server) {
	t.Helper()
	var carried []string
	o := play(t, a, &s.fault, argv, way{bin: bin}, func(key string, script *script) string {
		srv.Choose(key, func(r faultyllm.Request) faultyllm.Exchange {
			main := script.requests()
			e := script.choose(r)
			if script.requests() > main {
				carried = append(carried, carriedBy(r.Body))
			}
			return e
		})
		return a.base(srv, key)
	})
	r := telling{
		Story: s.name, Agent: a.title(), Did: o.did(), ToolRuns: o.toolRuns, Requests: carried,
		Said: saidOf(o.records), Printed: printed(o.stderr),
	}
	t.Logf("%+v\n%s", r, r.Printed)
	judge(t, &s.fault, o)
	private(t, o)
	s.check(t, &r)
	if t.Failed() {
		return // the page has what was right
	}
	tellings.mu.Lock()
	defer tellings.mu.Unlock()
	tellings.list = append(tellings.list, r)
}

func (s *script) requests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.main
}

// carriedBy says what a request has of the call and its output.
func carriedBy(body []byte) string {
	call := bytes.Contains(body, []byte("call_e2e_5Yq8"))
	output := false
	for _, mark := range outputs {
		output = output || bytes.Contains(body, []byte(mark))
	}
	switch {
	case call && output:
		return "call and output"
	case call:
		return "call"
	default:
		return "neither"
	}
}

// printed is what otelllm printed at the end, without what differs between two runs.
func printed(stderr string) string {
	var lines []string
	for line := range strings.SplitSeq(stderr, "\n") {
		switch {
		case strings.HasPrefix(line, "otelllm: "):
			lines = append(lines, line)
		case strings.HasPrefix(line, "  ") && len(lines) > 0:
			lines = append(lines, strings.TrimRight(line, " "))
		}
	}
	text := durations.ReplaceAllString(strings.Join(lines, "\n"), "N s")
	text = idsAndPaths.ReplaceAllString(text, "${1}…")
	return clocks.ReplaceAllString(text, "${1}HH:MM:SS")
}

var (
	durations = regexp.MustCompile(`\b[0-9.]+ ?m?s\b`)
	// Ids of requests and sessions, and the file of --json.
	idsAndPaths = regexp.MustCompile(`((?:\breq_|--plan |explain last ))\S+`)
	clocks      = regexp.MustCompile(`(?m)^(  )[0-9]{2}:[0-9]{2}:[0-9]{2}\b`)
)

// check holds what was printed against what has to be.
func (s *story) check(t *testing.T, r *telling) {
	t.Helper()
	is := regexp.MustCompile(s.want).MatchString(strings.Join(strings.Fields(r.Printed), " "))
	assert.True(t, is, "%s: %q is not printed:\n%s", r.key(), s.want, r.Printed)
	assert.False(t, strings.Contains(r.Printed, "had not run") && r.ToolRuns > 0, "%s: the tool ran", r.key())
	assert.Equal(t, s.runs, r.ToolRuns == 1, "%s: the tool ran %d times", r.key(), r.ToolRuns)
	assert.NotRegexp(t, "; ok$", r.Printed, "%s: something failed", r.key())
	for _, said := range r.Said {
		assert.False(t, strings.Contains(said, "safe_auto_retry") && r.ToolRuns > 0, "%s: %s", r.key(), said)
	}
}

var (
	foundingFile = filepath.Join("testdata", "founding.jsonl")
	foundingPage = filepath.Join("..", "..", "..", "docs", "founding-incidents.md")
)

func readTellings() (list []telling, err error) {
	raw, err := os.ReadFile(foundingFile)
	if err != nil {
		return nil, err
	}
	for line := range bytes.Lines(raw) {
		var r telling
		if err := json.Unmarshal(line, &r); err != nil {
			return nil, fmt.Errorf("%s: %w", foundingFile, err)
		}
		list = append(list, r)
	}
	return list, nil
}

// writeFounding writes what was played to the recordings, keeps what was not, and writes the
// page.
func writeFounding() error {
	list, err := readTellings()
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	known := map[[2]string]telling{}
	for _, r := range append(list, tellings.list...) {
		known[r.key()] = r
	}
	var b bytes.Buffer
	for _, s := range stories() {
		for _, a := range s.agents {
			r, ok := known[[2]string{s.name, a.title()}]
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
	if err := os.WriteFile(foundingFile, b.Bytes(), 0o644); err != nil {
		return err
	}
	page, err := foundingText()
	if err != nil {
		return err
	}
	return os.WriteFile(foundingPage, []byte(page), 0o644)
}

//go:embed founding.md
var foundingHead string

func foundingText() (string, error) {
	list, err := readTellings()
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString(foundingHead)
	for _, s := range stories() {
		_, _ = fmt.Fprintf(&b, "\n## %s\n", s.title)
		for i := range list {
			r := &list[i]
			if r.Story != s.name {
				continue
			}
			_, _ = fmt.Fprintf(&b, "\n%s: %s. %s The requests had of the call and its output: %s.\n\n```\n%s\n```\n",
				r.Agent, r.Did, r.ran(), strings.Join(r.Requests, ", "), r.Printed)
		}
	}
	return b.String(), nil
}

// The page is what was recorded, and what was recorded is right.
func TestFoundingPage(t *testing.T) {
	if *update {
		t.Skip("it is about to be written")
	}
	want, err := foundingText()
	require.NoError(t, err)
	got, err := os.ReadFile(foundingPage)
	require.NoError(t, err)
	assert.Equal(t, want, string(got), "make agents-matrix-pages writes it")
	list, err := readTellings()
	require.NoError(t, err)
	told := map[[2]string]*telling{}
	for i := range list {
		told[list[i].key()] = &list[i]
	}
	for _, s := range stories() {
		for _, a := range s.agents {
			r := told[[2]string{s.name, a.title()}]
			if assert.NotNil(t, r, "%s is not recorded with %s", s.name, a.title()) {
				s.check(t, r)
			}
		}
	}
}
