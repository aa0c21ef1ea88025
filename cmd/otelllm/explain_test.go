package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/explain"
	"github.com/otelllm/otelllm-go/cmd/otelllm/report"
)

// TestExplain explains one run from each of the forms that this program writes.
func TestExplain(t *testing.T) {
	source := examples + "complete.json"
	document, err := os.ReadFile(source)
	require.NoError(t, err)
	_, lines, _ := runCommand(t, "", "classify", "--json", source)
	dir := t.TempDir()
	records := filepath.Join(dir, "runs.jsonl")
	require.NoError(t, os.WriteFile(records, []byte(lines+`{"kind":"run","trace`), 0o600)) // cut
	kept := filepath.Join(dir, "kept")
	require.NoError(t, os.Mkdir(kept, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(kept, "1.jsonl"), document, 0o600))
	var want string
	for _, from := range []string{source, records, kept, "-"} {
		for _, id := range []string{"5b8efff7", "5b8efff798038103d269b633813fc60c", "00000000000000a1", "00000000000000B2", "last"} {
			status, out, errs := runCommand(t, string(document), "explain", "--json", id, from)
			require.Equal(t, 0, status, "%s %s: %s", id, from, errs)
			var e explain.Explanation
			require.NoError(t, json.Unmarshal([]byte(out), &e))
			assert.Equal(t, "connection_reset", e.Verdict.Cause)
			assert.Contains(t, e.Verdict.Evidence, "llm.abort.source=none")
			if want == "" {
				want = out
			}
			assert.Equal(t, want, out, "%s %s", id, from)
		}
	}
	var e explain.Explanation
	require.NoError(t, json.Unmarshal([]byte(want), &e))
	assert.Equal(t, "+2.900s request 2: stream_interrupted (connection_reset) at tool_input", e.Timeline[len(e.Timeline)-2])
	require.Len(t, e.Parts, 4)
	failed := e.Parts[3]
	assert.Equal(t, "request 2", failed.Label)
	assert.Equal(t, "UND_ERR_SOCKET", failed.Codes["llm.transport.code"])
	assert.Equal(t, []string{
		"llm.abort.source=none", "llm.watchdog.kind=none", "llm.provider_error.kind=none", "llm.stream.text_chunks=0", "llm.stream.reasoning_chunks=0",
		"llm.stream.tool_inputs_completed=0", "llm.stream.tool_calls=0", "llm.stream.provider_tools_started=0",
	}, failed.Negative)
	assert.Empty(t, failed.NotObserved)
	assert.NotContains(t, failed.Facts, "llm.failure.class")

	status, out, _ := runCommand(t, "", "explain", "last", records)
	assert.Equal(t, 0, status)
	for _, text := range []string{"Ask before retrying", "+2.900s request 2: stream_interrupted", "llm.transport.code=UND_ERR_SOCKET", "llm.abort.source=none"} {
		assert.Contains(t, out, text)
	}
	for id, message := range map[string]string{"ffff": "run ffff is not in the input; it has 1 run", "5b8": "is not in the input"} {
		status, _, errs := runCommand(t, "", "explain", id, records)
		assert.Equal(t, 2, status)
		assert.Contains(t, errs, message)
	}
	status, _, errs := runCommand(t, "", "explain", "last", filepath.Join(dir, "missing"))
	assert.Equal(t, 2, status)
	assert.Contains(t, errs, "missing")
}

// TestExplainBounds explains a long run: the timeline keeps its ends and what failed. Of a request
// of which nothing was recorded nothing is denied.
func TestExplainBounds(t *testing.T) {
	begin := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	run := report.Record{Kind: report.RecordRun, TraceID: "0123456789abcdef", SpanID: "aaaa", Start: begin, End: begin.Add(time.Hour), Attributes: map[string]any{"llm.run.outcome": "failed"}}
	for i := range 500 {
		r := report.Record{Kind: report.RecordRequest, SpanID: strconv.Itoa(i), Start: begin.Add(time.Duration(i) * time.Second), End: begin.Add(time.Duration(i)*time.Second + time.Second/2)}
		if i == 250 {
			r.Attributes = map[string]any{"llm.failure.class": "stream_interrupted", "llm.failure.cause": "connection_reset"}
		}
		run.Requests = append(run.Requests, r)
	}
	e := explain.Of(&run)
	assert.LessOrEqual(t, len(e.Timeline), 200)
	assert.Equal(t, "+0.000s request 1: began", e.Timeline[0])
	assert.Equal(t, "+3600.000s run: ended, failed", e.Timeline[len(e.Timeline)-1])
	assert.Contains(t, e.Timeline, "+250.500s request 251: stream_interrupted (connection_reset)")
	assert.Contains(t, strings.Join(e.Timeline, "\n"), "\n… 900 more …\n")
	assert.Empty(t, e.Parts[1].Negative)
	assert.Contains(t, e.Parts[1].NotObserved, "llm.abort.source")

	for i := range run.Requests {
		run.Requests[i].Attributes = map[string]any{"llm.failure.class": "provider_error", "llm.failure.cause": "overloaded"}
	}
	e = explain.Of(&run)
	assert.Len(t, e.Timeline, 200)
}

// TestClassifyByAgent compares the versions of two agents.
func TestClassifyByAgent(t *testing.T) {
	run := func(agent, userAgent, outcome, class string) report.Record {
		r := report.Record{Kind: report.RecordRun, Attributes: map[string]any{"llm.run.outcome": outcome}}
		if agent != "" {
			r.Attributes["gen_ai.agent.name"] = agent
		}
		if class != "" {
			r.Attributes["llm.failure.class"], r.Attributes["llm.failure.cause"] = class, "unknown"
		}
		r.Requests = []report.Record{{Kind: report.RecordRequest}, {Kind: report.RecordRequest, Attributes: map[string]any{"user_agent.original": userAgent}}}
		return r
	}
	records := []report.Record{
		run("codex", "codex_exec/0.169.0", "succeeded", ""), run("codex", "codex_exec/0.169.0", "recovered", ""),
		run("codex", "codex_exec/0.117.0", "failed", "tool_output_lost"), run("codex", "codex_exec/0.117.0", "succeeded", ""), run("codex", "codex_exec/0.117.0", "aborted", "local_abort"),
		run("", "opencode/1.18.33", "failed", "stream_interrupted"),
		{Kind: report.RecordRequest, Service: "svc", Attributes: map[string]any{"llm.failure.class": "provider_error", "llm.failure.cause": "overloaded"}},
	}
	var out strings.Builder
	require.NoError(t, printAgents(&out, records, false))
	assert.Equal(t, `agent     version  runs  ok         failed     other     most frequent failures
codex     0.117.0  3     1 (33 %)   1 (33 %)   1 (33 %)  local_abort/unknown 1, tool_output_lost/unknown 1
codex     0.169.0  2     2 (100 %)  0          0         
opencode  1.18.33  1     0          1 (100 %)  0         stream_interrupted/unknown 1
svc       -        0     0          0          0         provider_error/overloaded 1
`, out.String())
	out.Reset()
	require.NoError(t, printAgents(&out, records[:1], true))
	assert.JSONEq(t, `{"agent":"codex","version":"0.169.0","runs":1,"outcomes":{"succeeded":1}}`, out.String())

	status, text, errs := runCommand(t, "", "classify", "--by", "agent", examples+"complete.json")
	assert.Equal(t, 0, status, errs)
	assert.Contains(t, text, "coder  -        1     0   1 (100 %)  0      stream_interrupted/connection_reset 1")
	status, _, errs = runCommand(t, "", "classify", "--by", "moon", examples+"complete.json")
	assert.Equal(t, 2, status)
	assert.Contains(t, errs, "--by moon is not known")
}
