package check

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/cmd/otelllm/engine"
	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/input"
	"github.com/otelllm/otelllm-go/cmd/otelllm/report"
)

var update = flag.Bool("update", false, "write what is generated into docs/instrument-any-language.md")

// root is the root of the repository.
var root = filepath.Join("..", "..", "..", "..")

// examplesOf returns the folder of the page's two traces.
func examplesOf() string { return filepath.Join(root, "docs", "instrument-any-language") }

// read reads the traces of a file.
func read(t *testing.T, path string) []*input.Trace {
	t.Helper()
	all, err := input.Read(t.Context(), []string{path}, input.Options{Report: func(p *input.Problem) { t.Error(p) }})
	require.NoError(t, err)
	return all.List
}

// The page's complete example has all facts, and the sparse one lacks those that the
// page lists.
func TestExamplesOfThePage(t *testing.T) {
	printed := func(name string) string {
		findings, others := Traces(read(t, filepath.Join(examplesOf(), name)))
		var out strings.Builder
		Print(&out, findings, others)
		return out.String()
	}
	complete := printed("complete.json")
	for _, word := range []string{"MISSING", "CONTRADICTION", "could be added", "NO SUCH FACT"} {
		assert.NotContains(t, complete, word)
	}
	assert.Contains(t, complete, "4 spans: 4 have all that a verdict needs, 0 lack some of it, 0 contradict themselves.")
	assert.Contains(t, printed("sparse.json"), "4 spans: 0 have all that a verdict needs, 4 lack some of it, 0 contradict themselves.")
}

// The page quotes the verdicts word for word: on the complete
// example, on the sparse one, and without each fact.
func TestPage(t *testing.T) {
	complete := exampleRun(t, "complete.json")
	require.Len(t, complete.Requests, 2)
	cutRequest := complete.Requests[1]
	assert.Equal(t, "high", complete.Confidence)
	assert.Equal(t, "high", cutRequest.Confidence)
	assert.Equal(t, "safe_auto_retry", cutRequest.Retry.Safety)
	assert.Equal(t, "user_confirmed_retry", complete.Retry.Safety)
	assert.Empty(t, complete.MissingEvidence)
	sparse := exampleRun(t, "sparse.json")
	assert.NotEqual(t, "high", sparse.Confidence)
	assert.NotEqual(t, "safe_auto_retry", sparse.Retry.Safety)
	assert.NotEmpty(t, sparse.MissingEvidence)

	example, err := os.ReadFile(filepath.Join(examplesOf(), "complete.json"))
	require.NoError(t, err)
	sections := map[string]string{
		"request facts": factTable(t, kindRequest, complete),
		"tool facts":    factTable(t, kindTool, complete),
		"run facts":     factTable(t, kindRun, complete),
		"example":       "```json\n" + string(example) + "```\n",
		"verdict":       verdictBlock(complete),
		"less":          verdictBlock(sparse),
	}
	path := filepath.Join(root, "docs", "instrument-any-language.md")
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	page := string(raw)
	for name, want := range sections {
		begin, end := "<!-- generated: "+name+" -->\n", "<!-- end of "+name+" -->\n"
		before, rest, ok := strings.Cut(page, begin)
		require.True(t, ok, "the page has no %s", begin)
		is, after, ok := strings.Cut(rest, end)
		require.True(t, ok, "the page has no %s", end)
		if *update {
			page = before + begin + want + end + after
			continue
		}
		assert.Equal(t, want, is, "stale: `cd cmd/otelllm && go test ./internal/check -run TestPage -update`")
	}
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(page), 0o600))
	}
}

// exampleRun returns the one run of an example with its verdict.
func exampleRun(t *testing.T, name string) runJSON {
	t.Helper()
	runs := judgedRuns(t, filepath.Join(examplesOf(), name))
	require.Len(t, runs, 1)
	return runs[0]
}

func judgedRuns(t *testing.T, path string) (runs []runJSON) {
	t.Helper()
	return judged(t, read(t, path))
}

func judged(t *testing.T, traces []*input.Trace) (runs []runJSON) {
	t.Helper()
	all := make([]ptrace.Traces, len(traces))
	for i, trace := range traces {
		all[i] = trace.Data
	}
	var spans report.Spans
	require.NoError(t, engine.Judge(t.Context(), false, all, spans.Add))
	for _, run := range spans.All() {
		runs = append(runs, runJSON{run.TraceID.String(), spanJSON{run.ID.String(), verdictOf(&run.Span)}, nil})
		for i := range run.Requests {
			last := &runs[len(runs)-1]
			last.Requests = append(last.Requests, spanJSON{run.Requests[i].ID.String(), verdictOf(&run.Requests[i])})
		}
	}
	return runs
}

// runJSON is a run, and spanJSON a request or the run itself, with the verdict.
type (
	runJSON struct {
		TraceID string
		spanJSON
		Requests []spanJSON
	}
	spanJSON struct {
		SpanID string
		verdictJSON
	}
	verdictJSON struct {
		Class, Cause, Phase, Origin, Confidence, Summary string
		MissingEvidence                                  []string
		Retry                                            *retryJSON
	}
	retryJSON struct{ Safety, Reason string }
)

func verdictOf(s *report.Span) verdictJSON {
	v := &s.Verdict
	out := verdictJSON{v.Class.String(), v.Cause.String(), v.Phase.String(), v.Origin.String(), v.Confidence.String(), v.Summary, v.MissingEvidence, nil}
	if safety := v.Safety.String(); safety != "" {
		out.Retry = &retryJSON{safety, v.Reason.String()}
	}
	return out
}

// factTable returns a table with a line for each fact of a kind of span: what it
// answers, and how the verdict on the complete example changes without it.
func factTable(t *testing.T, k kind, complete runJSON) string {
	t.Helper()
	facts, _ := factsOf(k)
	raw, err := os.ReadFile(filepath.Join(examplesOf(), "complete.json"))
	require.NoError(t, err)
	all := ptrace.NewTraces()
	has := make([]bool, len(facts))
	id := func(i int) pcommon.TraceID { return pcommon.TraceID{0: byte(k), 15: byte(i + 1)} }
	for i, fact := range facts {
		td, err := (&ptrace.JSONUnmarshaler{}).UnmarshalTraces(raw)
		require.NoError(t, err)
		for _, span := range td.ResourceSpans().At(0).ScopeSpans().At(0).Spans().All() {
			if s := readFacts(span); s.kind == k {
				has[i] = span.Attributes().Remove(fact.key) || has[i]
			}
			span.SetTraceID(id(i))
		}
		td.ResourceSpans().MoveAndAppendTo(all.ResourceSpans())
	}
	without := make(map[string]runJSON)
	var traces input.Traces
	traces.Add(all)
	for _, r := range judged(t, traces.List) {
		if _, known := without[r.TraceID]; !known {
			without[r.TraceID] = r
		}
	}
	var b strings.Builder
	b.WriteString("| | fact | unknown without it | the example's verdict without it |\n|---|---|---|---|\n")
	for i, fact := range facts {
		need, becomes := "", "–"
		if fact.needed {
			need = "needed"
			if fact.due != nil {
				need = "needed, where due"
			}
		}
		if has[i] {
			becomes = "no run is judged"
			if is, ok := without[id(i).String()]; ok {
				becomes = differences(complete, is)
			}
		}
		fmt.Fprintf(&b, "| %s | `%s` | %s | %s |\n", need, fact.key, fact.why, becomes)
	}
	return b.String()
}

// differences returns what differs in the verdict on the run, or on the request that
// was cut.
func differences(was, is runJSON) string {
	var list []string
	say := func(of, was, is string) {
		if was != is {
			list = append(list, strings.TrimSpace(of+" `"+is+"`"))
		}
	}
	request := func(r runJSON) spanJSON {
		for _, q := range r.Requests {
			if q.SpanID == was.Requests[1].SpanID {
				return q
			}
		}
		return spanJSON{}
	}
	what := func(v *verdictJSON) string { return v.Class + " / " + v.Cause + " at " + v.Phase }
	retry := func(v *verdictJSON) string {
		if v.Retry == nil {
			return "none"
		}
		return v.Retry.Safety + ", " + v.Retry.Reason
	}
	q, p := request(was), request(is)
	if p.Class == "" {
		list = append(list, "request: no verdict")
	} else {
		say("request:", what(&q.verdictJSON), what(&p.verdictJSON))
		say("request:", retry(&q.verdictJSON), retry(&p.verdictJSON))
		say("request: confidence", q.Confidence, p.Confidence)
	}
	say("run:", what(&was.verdictJSON), what(&is.verdictJSON))
	say("run:", retry(&was.verdictJSON), retry(&is.verdictJSON))
	say("run: confidence", was.Confidence, is.Confidence)
	if len(list) == 0 {
		return "the same"
	}
	return strings.Join(list, "; ")
}

// verdictBlock formats the verdict on a run and on its requests.
func verdictBlock(r runJSON) string {
	var b strings.Builder
	line := func(what string, v *verdictJSON) {
		fmt.Fprintf(&b, "%-9s %s / %s at %s, origin %s, confidence %s\n", what, v.Class, v.Cause, v.Phase, v.Origin, v.Confidence)
		fmt.Fprintf(&b, "          %s, because of %s\n", v.Retry.Safety, v.Retry.Reason)
		fmt.Fprintf(&b, "          %s\n", v.Summary)
		if len(v.MissingEvidence) > 0 {
			fmt.Fprintf(&b, "          not known: %s\n", strings.Join(v.MissingEvidence, ", "))
		}
	}
	b.WriteString("```\n")
	line("run", &r.verdictJSON)
	for i := range r.Requests {
		if r.Requests[i].Class != "" {
			line(fmt.Sprintf("request %d", i+1), &r.Requests[i].verdictJSON)
		}
	}
	b.WriteString("```\n")
	return b.String()
}
