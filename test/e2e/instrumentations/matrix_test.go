package instrumentations

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/otelllm/otelllm-go/cmd/otelllm/report"
	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
	"github.com/otelllm/otelllm-go/test/built"
	"github.com/otelllm/otelllm-go/test/nodeagent"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write docs/instrumentations.md and docs/instrumentations/ instead of comparing them")

// patience is the timeout for the agents of one process. A loaded machine needs some
// seconds.
const patience = 90 * time.Second

// cell is the result of one fault under one producer.
type cell struct {
	fault    *fault
	producer *producer
	saw      []string // what the application saw
	ran      bool     // whether the tool apply_patch began
	spans    []span
}

func TestMatrix(t *testing.T) {
	t.Parallel()
	agents := find(t)
	comparePages(t, "make node-matrix UPDATE=1", func() map[string]string {
		m := runMatrix(t, agents, producers())
		m.check(t)
		if !m.whole {
			return nil
		}
		pages := m.pages()
		files, err := os.ReadDir(filepath.Join(built.Root(t), "docs", folder))
		require.NoError(t, err)
		for _, file := range files {
			if name := folder + "/" + file.Name(); name != pythonPage {
				assert.Contains(t, pages, name, "no instrumentation has this page")
			}
		}
		return pages
	})
}

// check holds each verdict against what was done.
func (m *matrix) check(t *testing.T) {
	t.Helper()
	for i := range m.cells {
		c := &m.cells[i]
		t.Run(c.producer.key()+"/"+c.fault.key, func(t *testing.T) {
			if c.fault.run.class == semconv.ClassUnset && c.fault.goesOn == nil {
				assert.Empty(t, c.saw, "the agent itself failed")
			}
			for _, wrong := range c.wrong() {
				t.Error(wrong)
			}
			if c.fault.ran {
				assert.True(t, c.ran, "the tool did not run")
			}
			if c.producer.facts {
				for _, missing := range c.incomplete() {
					t.Error(missing)
				}
			}
			for _, words := range content {
				assert.NotContains(t, c.text(), words, "content is recorded")
			}
			if t.Failed() || testing.Verbose() {
				t.Logf("saw %q\nrecorded %s\nverdicts:\n%s", c.saw, c.recorded(), c.verdicts())
			}
		})
	}
}

// attempts is how many runs of a matrix may give other pages than those in docs. What a process records can depend on
// how its threads are scheduled: only if the pages differ after each run are those in docs stale. Verdicts have to be true
// in every run.
const attempts = 3

// comparePages compares the pages that play returns, by their names in docs, with those in docs, or writes them. A nil
// map means that this machine cannot make every fault of the pages.
func comparePages(t *testing.T, again string, play func() map[string]string) {
	t.Helper()
	for attempt := 1; attempt <= attempts; attempt++ {
		pages, stale := play(), false
		if pages == nil {
			t.Log("LEFT OUT: the pages; this machine cannot make every fault of them")
		}
		for name, now := range pages {
			path := filepath.Join(built.Root(t), "docs", filepath.FromSlash(name))
			if *update {
				require.NoError(t, os.WriteFile(path, []byte(now), 0o644))
				continue
			}
			raw, err := os.ReadFile(path)
			require.NoError(t, err)
			then := string(raw)
			switch {
			case now == then:
				continue
			case attempt < attempts:
				t.Logf("docs/%s differs in run %d of %d:\n%s", name, attempt, attempts, otherLines(then, now))
			default:
				assert.Equal(t, then, now, "docs/%s is stale: `%s` writes it again", name, again)
			}
			stale = true
		}
		if !stale {
			return
		}
	}
}

// otherLines returns the lines of now that are not in then.
func otherLines(then, now string) string {
	known := make(map[string]bool)
	for line := range strings.Lines(then) {
		known[line] = true
	}
	var b strings.Builder
	for line := range strings.Lines(now) {
		if !known[line] {
			b.WriteString(line)
		}
	}
	return b.String()
}

// TestFactsNeverInterfere runs the helper's own tests.
func TestFactsNeverInterfere(t *testing.T) {
	agents := nodeagent.Find(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	out, err := agents.Test(ctx, "otelllm-facts.test.mjs")
	require.NoError(t, err, out)
	require.Regexp(t, `pass [1-9]`, out)
}

// find returns the agents. If they are required, so is the Collector.
func find(t *testing.T) *nodeagent.Agents {
	t.Helper()
	agents := nodeagent.Find(t)
	if os.Getenv("REQUIRE_NODE") != "" {
		require.NotEmpty(t, os.Getenv("OTELCOL_BIN"), "REQUIRE_NODE is set, and OTELCOL_BIN names no Collector")
	}
	return agents
}

// runner runs agents in one process, under one producer.
type runner interface {
	Run(ctx context.Context, producer string, httpSpans bool, endpoint string, tasks []nodeagent.Task) (nodeagent.Report, error)
}

// matrix holds the results of all faults under all producers.
type matrix struct {
	faults    []fault
	producers []producer

	whole     bool            // this machine can make every fault
	cells     []cell          // ordered by fault, then by producer
	unhandled map[string]bool // by the file of a producer
}

// runMatrix runs all agents under the producers, those of one producer's file in one process, through a Collector of their
// own, and waits for its verdicts.
func runMatrix(t *testing.T, agents runner, producers []producer) *matrix {
	t.Helper()
	c, w := startCollector(t), newWorld(t)
	m := &matrix{faults: faults(), producers: producers, whole: w.full != nil, unhandled: make(map[string]bool)}
	type process struct {
		file string
		http bool
	}
	tasks := make(map[process][]nodeagent.Task)
	var order []process
	for i := range m.producers {
		p := &m.producers[i]
		of := process{p.file, p.http}
		if tasks[of] == nil {
			order = append(order, of)
		}
		for j := range m.faults {
			f := &m.faults[j]
			if !p.has(f) {
				continue
			}
			base := w.baseURL(f, p)
			if base == "" {
				continue
			}
			task := nodeagent.Task{Name: p.key() + "/" + f.key, API: api(p.wire), BaseURL: base}
			if f.task != nil {
				f.task(&task)
			}
			tasks[of] = append(tasks[of], task)
		}
	}

	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var (
		all     sync.WaitGroup
		mu      sync.Mutex
		results = make(map[string]nodeagent.Result) // guarded by mu
		errs    []error                             // guarded by mu
	)
	slots := make(chan struct{}, 2)
	for _, of := range order {
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			left, err := agents.Run(ctx, of.file, of.http, c.endpoint, tasks[of])
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, err)
			m.unhandled[of.file] = m.unhandled[of.file] || left.Unhandled
			maps.Copy(results, left.Results)
		})
	}
	all.Wait()
	require.NoError(t, errors.Join(errs...))
	c.drained(t)
	for i := range m.faults {
		for j := range m.producers {
			f, p := &m.faults[i], &m.producers[j]
			r, ok := results[p.key()+"/"+f.key]
			if !ok {
				continue
			}
			if f.goesOn != nil && w.server.Started(p.key()+"-"+f.key) == len(f.script) {
				on := *f.goesOn
				on.key, on.title = f.key, f.title
				f = &on
			}
			m.cells = append(m.cells, cell{f, p, r.Saw, r.Ran, c.sink.trace(t, r.Trace)})
		}
	}
	return m
}

// content holds text of users and models, and inputs and outputs of tools. It must not
// be recorded: recording of content is off everywhere.
var content = []string{"Fix the bug", "The bug ", "main.go", "patched"}

// text returns everything that the spans contain in names, attributes and events.
func (c *cell) text() string {
	var b strings.Builder
	for _, s := range c.spans {
		fmt.Fprintln(&b, s.Name(), s.Attributes().AsRaw(), s.Status().Message())
		for _, e := range s.Events().All() {
			fmt.Fprintln(&b, e.Name(), e.Attributes().AsRaw())
		}
	}
	return b.String()
}

// judged returns the spans with a verdict, and their verdicts; those of runs come
// first.
func (c *cell) judged() (spans []span, verdicts []report.Verdict) {
	for _, carrier := range [...]bool{true, false} {
		for _, s := range c.spans {
			v := report.ReadVerdict(s.Attributes())
			if (v.Outcome != semconv.RunOutcomeUnset) == carrier && (carrier || v.Failed()) {
				spans, verdicts = append(spans, s), append(verdicts, v)
			}
		}
	}
	return spans, verdicts
}

// wrong lists the statements of the verdicts that are not true.
func (c *cell) wrong() (list []string) {
	spans, verdicts := c.judged()
	for i := range verdicts {
		v := &verdicts[i]
		say := func(format string, args ...any) {
			list = append(list, fmt.Sprintf("span %s: ", spans[i].Name())+fmt.Sprintf(format, args...))
		}
		if v.Trigger == semconv.TriggerShutdown {
			say("judged only because the Collector stopped")
		}
		if len(v.Unknown) > 0 {
			say("not of the vocabulary: %v", v.Unknown)
		}
		if v.Outcome != semconv.RunOutcomeUnset && !c.fault.trueOutcome(v) {
			say("outcome %s", v.Outcome)
		}
		if !v.Failed() {
			continue
		}
		truths := append([]truth{c.fault.run}, c.fault.also...)
		if v.Outcome == semconv.RunOutcomeUnset {
			truths = append(truths, c.fault.parts...)
		}
		if !slices.ContainsFunc(truths, func(t truth) bool { return t.allows(v) }) {
			say("%s / %s, origin %s, %s", v.Class, v.Cause, v.Origin, v.Safety)
		}
		if cautious(v) && len(v.MissingEvidence) == 0 {
			say("%s, and nothing says which evidence is missing", v.Class)
		}
	}
	return list
}

// trueOutcome reports whether the outcome is correct. A verdict on incomplete evidence
// may leave it open if the run broke, but that is not a success, and one that did not break
// is not a failure and not incomplete.
func (f *fault) trueOutcome(v *report.Verdict) bool {
	if slices.Contains(f.outcomes, v.Outcome) {
		return true
	}
	if v.Outcome == semconv.RunOutcomeIncomplete {
		return f.run.class != semconv.ClassUnset // a false alarm otherwise
	}
	return f.run.class != semconv.ClassUnset && cautious(v) && v.Outcome == semconv.RunOutcomeFailed
}

// cautious reports whether the verdict says nothing about what failed.
func cautious(v *report.Verdict) bool {
	return v.Class == semconv.ClassUnclassified || v.Class == semconv.ClassRunAbandoned
}

// allows reports whether the verdict says nothing but this truth.
func (t *truth) allows(v *report.Verdict) bool {
	unknown := v.Origin == semconv.OriginUnknown || v.Origin == semconv.OriginUnset
	if v.Safety < t.least && (v.Safety == classify.SafeAutoRetry || v.Confidence == semconv.ConfidenceHigh) {
		return false // without the evidence against a retry, the verdict has to ask and must not be complete
	}
	if cautious(v) {
		return unknown && v.Safety > classify.SafeAutoRetry && (t.class != semconv.ClassUnset || v.Outcome == semconv.RunOutcomeIncomplete)
	}
	return v.Class == t.class && (unknown || v.Origin == t.origin) &&
		(v.Cause == semconv.CauseUnknown || slices.Contains(t.causes, v.Cause))
}

// incomplete lists what the verdict on the run leaves out, for a producer that records
// all facts.
func (c *cell) incomplete() (list []string) {
	v, ok := c.run()
	say := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	want := c.fault.run
	if !ok || !slices.Contains(c.fault.outcomes[:1], v.Outcome) {
		say("outcome %s, not %s", v.Outcome, c.fault.outcomes[0])
	}
	if v.Class != want.class || v.Origin != want.origin {
		say("%s, origin %s, not %s, origin %s", v.Class, v.Origin, want.class, want.origin)
	}
	if want.class == semconv.ClassUnset {
		return list
	}
	if v.Cause != want.causes[0] {
		say("cause %s, not %s", v.Cause, want.causes[0])
	}
	if v.Safety != want.least {
		say("%s, where %s is safe", v.Safety, want.least)
	}
	if v.Confidence != semconv.ConfidenceHigh {
		say("confidence %s", v.Confidence)
	}
	return list
}

// run returns the verdict on the run: that of the outermost span that has one.
func (c *cell) run() (v report.Verdict, ok bool) {
	_, verdicts := c.judged()
	if len(verdicts) == 0 || verdicts[0].Outcome == semconv.RunOutcomeUnset {
		return report.Verdict{}, false
	}
	return verdicts[0], true
}
