package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/cmd/otelllm/engine"
	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/input"
	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/yamltraces"
	"github.com/otelllm/otelllm-go/cmd/otelllm/report"
	"github.com/otelllm/otelllm-go/internal/sample"
)

// runCommand runs a command line.
func runCommand(t *testing.T, stdin string, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := newCommand()
	cmd.SetArgs(args)
	cmd.SetIn(strings.NewReader(stdin))
	cmd.SetOut(&out)
	cmd.SetErr(&errs)
	err := cmd.ExecuteContext(t.Context())
	if status = exitStatus(err); err != nil {
		errs.WriteString(err.Error())
	}
	return status, out.String(), errs.String()
}

const examples = "../../docs/instrument-any-language/"

func TestClassify(t *testing.T) {
	complete, err := os.ReadFile(examples + "complete.json")
	require.NoError(t, err)
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		return path
	}

	status, out, errs := runCommand(t, "", "classify", examples+"complete.json")
	assert.Equal(t, 0, status, errs)
	assert.Empty(t, errs)
	for _, want := range []string{
		"my-agent  invoke_agent coder  gpt-5.5  5b8efff7  failed   stream_interrupted", "service   my-agent", "agent     coder", "model     gpt-5.5",
		"request   req_2", "next      ask a person before retrying", "1 run in 1 trace, 1 with a failure.",
	} {
		assert.Contains(t, out, want)
	}

	status, out, errs = runCommand(t, string(complete), "classify", "-", "--json")
	assert.Equal(t, 0, status, errs)
	var r report.Record
	require.NoError(t, json.Unmarshal([]byte(out), &r), "one line")
	assert.Equal(t, report.RecordRun, r.Kind)
	assert.Equal(t, "failed", r.Attributes["llm.run.outcome"])
	assert.Len(t, r.Requests, 2)
	assert.Len(t, r.Tools, 1)

	bad, empty, half := write("bad.json", "{oops}\n"), write("empty.json", ""), write("half.json", string(complete)[:len(complete)/2])
	page := filepath.Join(dir, "page.html")
	status, out, errs = runCommand(t, "", "classify", bad, empty, half, examples+"complete.json", "--report", page)
	assert.Equal(t, 2, status, "a part of the input was bad")
	assert.Contains(t, out, "1 run in 1 trace, 1 with a failure.", "the rest is judged")
	assert.Contains(t, errs, bad+", line 1: not JSON")
	assert.Contains(t, errs, empty+": it has no spans; skipped")
	assert.Contains(t, errs, half+", line 1: the document is cut off")
	html, err := os.ReadFile(page)
	require.NoError(t, err)
	assert.Contains(t, string(html), "5b8efff798038103d269b633813fc60c")
	info, err := os.Stat(page)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())

	status, _, errs = runCommand(t, "", "classify", empty, half, examples+"complete.json")
	assert.Equal(t, 0, status, "nothing but skipped: %s", errs)

	for says, args := range map[string][]string{
		"requires at least 1 arg":              {"classify"},
		"there is no span in the input":        {"classify", empty},
		"trace 000000000000000000000000000000": {"classify", "--trace", "ff", examples + "complete.json"},
		"is not a trace id":                    {"classify", "--trace", "x", examples + "complete.json"},
		"unknown flag: --wat":                  {"classify", "--wat", "x"},
		"--max-mib must be greater than 0":     {"classify", "--max-mib", "0", "x"},
		"write the report":                     {"classify", "--report", dir, examples + "complete.json"},
	} {
		status, out, errs := runCommand(t, "", args...)
		assert.Equal(t, 2, status, says)
		assert.Contains(t, errs, says)
		assert.Empty(t, out)
	}
}

// A call without a run has its own verdict, and no outcome of a run.
func TestClassifyLoneCall(t *testing.T) {
	lone := `{"resourceSpans":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"gw"}}]},"scopeSpans":[{"spans":[{"traceId":"01000000000000000000000000000000",
"spanId":"0200000000000000","name":"chat m","kind":3,"startTimeUnixNano":"1700000000000000000","endTimeUnixNano":"1700000001000000000","status":{"code":2},"attributes":[
{"key":"gen_ai.operation.name","value":{"stringValue":"chat"}},{"key":"llm.stream.end","value":{"stringValue":"http_error"}},{"key":"llm.stream.phase","value":{"stringValue":"response_started"}},
{"key":"http.response.status_code","value":{"intValue":"429"}},{"key":"llm.provider_error.kind","value":{"stringValue":"rate_limited"}},{"key":"llm.retry.after","value":{"doubleValue":20}},
{"key":"llm.request.provider_tools","value":{"arrayValue":{}}},{"key":"llm.history.tool_calls","value":{"arrayValue":{}}},{"key":"llm.history.tool_outputs","value":{"arrayValue":{}}}]}]}]}]}`
	status, out, errs := runCommand(t, lone, "classify", "-")
	assert.Equal(t, 0, status, errs)
	assert.Contains(t, out, "chat m  01000000  (no run)  -        provider_error  rate_limited  response_started  safe_auto_retry")
	assert.Contains(t, out, "next      retry automatically, 20s after the failure")
	assert.Contains(t, out, "0 runs and 1 call that belong to no run in 1 trace, 1 with a failure.")
	_, out, _ = runCommand(t, lone, "classify", "-", "--json")
	var r report.Record
	require.NoError(t, json.Unmarshal([]byte(out), &r))
	assert.Equal(t, report.RecordRequest, r.Kind)
	assert.NotContains(t, r.Attributes, "llm.run.outcome")
	assert.Equal(t, "safe_auto_retry", r.Attributes["llm.retry.safety"])
	status, out, _ = runCommand(t, lone, "check", "-")
	assert.NotContains(t, out, "the span of a run", "a lone request needs none")
	assert.Equal(t, 0, status, out)
}

// recording is recorded traces, document by document as a Collector received them.
type recording struct {
	name string
	docs []ptrace.Traces
}

// recordings are those of the processor, and of published agents beside the folder that
// OTELLLM_FIXTURES names.
func recordings(t *testing.T) (list []recording) {
	t.Helper()
	paths, err := filepath.Glob("../../processor/llmclassify/testdata/traces/*/in.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	for _, path := range paths {
		td := yamltraces.Read(t, path)
		list = append(list, recording{filepath.Base(filepath.Dir(path)), []ptrace.Traces{td}})
	}
	paths, err = filepath.Glob("../../processor/llmclassify/internal/dialect/testdata/traces/*.json")
	require.NoError(t, err)
	if dir := os.Getenv("OTELLLM_FIXTURES"); dir != "" {
		agents, err := filepath.Glob(filepath.Join(dir, "..", "agents", "*", "*.traces.jsonl.gz"))
		require.NoError(t, err)
		paths = append(paths, agents...)
	}
	for _, path := range paths {
		list = append(list, recording{filepath.Base(filepath.Dir(path)) + "/" + filepath.Base(path), documents(t, path)})
	}
	return list
}

// documents reads a file with a JSON decoder alone.
func documents(t *testing.T, path string) (list []ptrace.Traces) {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	var r io.Reader = f
	if strings.HasSuffix(path, ".gz") {
		r, err = gzip.NewReader(f)
		require.NoError(t, err)
	}
	for decoder := json.NewDecoder(r); decoder.More(); {
		var doc json.RawMessage
		require.NoError(t, decoder.Decode(&doc))
		td, err := (&ptrace.JSONUnmarshaler{}).UnmarshalTraces(doc)
		require.NoError(t, err)
		list = append(list, td)
	}
	return list
}

// The same spans give the same verdicts: as a Collector gets them, as one file in any form,
// and in any order, over several files.
func TestSameVerdicts(t *testing.T) {
	for i, rec := range recordings(t) {
		if i%sample.Every(6) != 0 {
			continue
		}
		t.Run(rec.name, func(t *testing.T) {
			want := asCollector(t, rec.docs)
			random := rand.New(rand.NewPCG(1, 2))
			for range 3 {
				dir := t.TempDir()
				var files []string
				docs := split(rec.docs, random)
				for i, part := range [][]ptrace.Traces{docs[:len(docs)/2], docs[len(docs)/2:]} {
					path := filepath.Join(dir, string(rune('a'+i)))
					require.NoError(t, os.WriteFile(path, encode(t, part, random.IntN(3)), 0o600))
					if len(part) > 0 {
						files = append(files, path)
					}
				}
				status, out, errs := runCommand(t, "", append([]string{"classify", "--json", "--again"}, files...)...)
				require.Equal(t, 0, status, errs)
				assert.Equal(t, want, verdictsOf(t, out))
			}
		})
	}
}

// split takes the spans apart, and orders them at random.
func split(docs []ptrace.Traces, random *rand.Rand) (parts []ptrace.Traces) {
	for _, td := range docs {
		for _, rs := range td.ResourceSpans().All() {
			for _, ss := range rs.ScopeSpans().All() {
				for _, span := range ss.Spans().All() {
					one := ptrace.NewTraces()
					to := one.ResourceSpans().AppendEmpty()
					rs.Resource().CopyTo(to.Resource())
					scope := to.ScopeSpans().AppendEmpty()
					ss.Scope().CopyTo(scope.Scope())
					span.CopyTo(scope.Spans().AppendEmpty())
					parts = append(parts, one)
				}
			}
		}
	}
	random.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
	return parts
}

// encode writes documents in one of three forms.
func encode(t *testing.T, docs []ptrace.Traces, form int) []byte {
	t.Helper()
	var b bytes.Buffer
	for _, td := range docs {
		var raw []byte
		var err error
		if form == 0 {
			raw, err = (&ptrace.ProtoMarshaler{}).MarshalTraces(td)
		} else {
			raw, err = (&ptrace.JSONMarshaler{}).MarshalTraces(td)
			raw = append(raw, '\n')
		}
		require.NoError(t, err)
		b.Write(raw)
	}
	if form != 2 {
		return b.Bytes()
	}
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	_, err := w.Write(b.Bytes())
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return z.Bytes()
}

// asCollector returns the verdicts of a Collector that gets document after document and is
// stopped then, which is how this program's predecessor worked.
func asCollector(t *testing.T, docs []ptrace.Traces) map[string]map[string]any {
	t.Helper()
	var mu sync.Mutex
	var all input.Traces
	e, err := engine.Start(t.Context(), engine.Config{MaxHold: 10 * 60e9, MaxHeldBytes: 1 << 30, MaxSpansPerRun: 1e6, Again: true},
		func(_ context.Context, td ptrace.Traces) error {
			mu.Lock()
			defer mu.Unlock()
			all.Add(td)
			return nil
		})
	require.NoError(t, err)
	for _, td := range docs {
		given := ptrace.NewTraces()
		td.CopyTo(given)
		require.NoError(t, e.ConsumeTraces(t.Context(), given))
	}
	require.NoError(t, e.Shutdown(t.Context()))
	var out bytes.Buffer
	require.NoError(t, printRecords(&out, all.List))
	return verdictsOf(t, out.String())
}

// verdictsOf returns the verdicts in the output of --json, by kind and span.
func verdictsOf(t *testing.T, out string) map[string]map[string]any {
	t.Helper()
	all := make(map[string]map[string]any)
	var add func(report.Record)
	add = func(r report.Record) {
		attrs := maps.Clone(r.Attributes)
		delete(attrs, "llm.classification.trigger") // when it was judged
		all[string(r.Kind)+" "+r.TraceID+" "+r.SpanID] = attrs
		for _, part := range slices.Concat(r.Requests, r.Tools, r.Served) {
			add(part)
		}
	}
	for line := range strings.Lines(out) {
		var r report.Record
		require.NoError(t, json.Unmarshal([]byte(line), &r))
		add(r)
	}
	return all
}
