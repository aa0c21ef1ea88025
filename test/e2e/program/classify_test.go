// Package program tests the program otelllm on the spans of real agents.
package program

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
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
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/otelllm/otelllm-go/cmd/otelllm/backend"
	"github.com/otelllm/otelllm-go/semconv"
	"github.com/otelllm/otelllm-go/test/built"
	"github.com/otelllm/otelllm-go/test/faultyllm"
	"github.com/otelllm/otelllm-go/test/internal/acceptance"
	"github.com/otelllm/otelllm-go/test/internal/process"
)

// recorded records the quick acceptance cases: the spans of real agents over real
// streams that break, before any Collector.
var recorded = sync.OnceValues(func() (*recording, error) {
	r := &recording{td: ptrace.NewTraces()}
	var mu sync.Mutex
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		var body bytes.Buffer
		_, _ = body.ReadFrom(req.Body)
		export := ptraceotlp.NewExportRequest()
		if err := export.UnmarshalProto(body.Bytes()); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		export.Traces().ResourceSpans().MoveAndAppendTo(r.td.ResourceSpans())
	}))
	defer srv.Close()
	ctx := context.Background()
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(srv.URL+"/v1/traces"))
	if err != nil {
		return nil, err
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter, sdktrace.WithMaxQueueSize(1<<14)))
	world, err := acceptance.NewWorld(provider)
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, c := range acceptance.Cases() {
		if !slices.Contains(faultyllm.Wires(), c.Wire) || !slices.Contains([]int{1, 2, 4, 5, 6, 8, 9, 13, 14, 15, 16, 18, 20, 21}, c.Number) {
			continue
		}
		result, err := world.Run(ctx, &c, provider)
		errs = append(errs, err)
		r.cases = append(r.cases, recordedCase{c, pcommon.TraceID(result.TraceID)})
	}
	errs = append(errs, world.Close(), provider.Shutdown(ctx))
	return r, errors.Join(errs...)
})

type recording struct {
	td    ptrace.Traces
	cases []recordedCase
}

type recordedCase struct {
	acceptance.Case
	trace pcommon.TraceID
}

// record writes the recorded spans to a file, after change if it is not nil.
func record(t *testing.T, change func(ptrace.Span)) (string, *recording) {
	t.Helper()
	r, err := recorded()
	require.NoError(t, err)
	td := ptrace.NewTraces()
	r.td.CopyTo(td)
	if change != nil {
		for _, rs := range td.ResourceSpans().All() {
			for _, ss := range rs.ScopeSpans().All() {
				for _, span := range ss.Spans().All() {
					change(span)
				}
			}
		}
	}
	return save(t, td), r
}

// save writes one document per resource, so that a trace is spread over many lines.
func save(t *testing.T, td ptrace.Traces) string {
	t.Helper()
	var file bytes.Buffer
	var encoder ptrace.JSONMarshaler
	for _, rs := range td.ResourceSpans().All() {
		one := ptrace.NewTraces()
		rs.CopyTo(one.ResourceSpans().AppendEmpty())
		line, err := encoder.MarshalTraces(one)
		require.NoError(t, err)
		file.Write(append(line, '\n'))
	}
	path := filepath.Join(t.TempDir(), "traces.jsonl")
	require.NoError(t, os.WriteFile(path, file.Bytes(), 0o600))
	return path
}

// The exit status of the program.
const (
	statusOK    = 0
	statusCheck = 1
	statusError = 2
)

// binary builds the program.
var binary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "otelllm")
	if err != nil {
		return "", err
	}
	bin := filepath.Join(dir, "otelllm")
	build := exec.Command("go", "build", "-o", bin, ".")
	build.Dir = filepath.Join("..", "..", "..", "cmd", "otelllm")
	build.Env = append(os.Environ(), "GOWORK=off")
	out, err := build.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build otelllm: %w: %s", err, out)
	}
	return bin, nil
})

func TestMain(m *testing.M) {
	status := m.Run()
	if bin, err := binary(); err == nil {
		_ = os.RemoveAll(filepath.Dir(bin))
	}
	os.Exit(status)
}

// otelllm runs the program.
func otelllm(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	bin, err := binary()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), bin, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	if _, exited := errors.AsType[*exec.ExitError](err); !exited {
		require.NoError(t, err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// recordJSON is a run, a request or a tool, as --json prints it.
type recordJSON struct {
	Kind       string         `json:"kind"`
	TraceID    string         `json:"trace_id"`
	SpanID     string         `json:"span_id"`
	Attributes map[string]any `json:"attributes"`
	Requests   []recordJSON   `json:"requests"`
	Tools      []recordJSON   `json:"tools"`
}

func (r *recordJSON) text(key attribute.Key) string {
	text, _ := r.Attributes[string(key)].(string)
	return text
}

// runsOf parses the runs in the output of --json.
func runsOf(t *testing.T, stdout string) (runs []recordJSON) {
	t.Helper()
	for line := range strings.Lines(stdout) {
		var r recordJSON
		require.NoError(t, json.Unmarshal([]byte(line), &r))
		if r.Kind == "run" {
			runs = append(runs, r)
		}
	}
	return runs
}

// Old traces get the same verdicts as new ones.
func TestOldTracesAreJudged(t *testing.T) {
	path, r := record(t, nil)
	status, stdout, stderr := otelllm(t, "classify", "--json", path)
	require.Equal(t, statusOK, status, stderr)
	runs := make(map[string]recordJSON)
	for _, run := range runsOf(t, stdout) {
		runs[run.TraceID] = run
	}
	require.Greater(t, len(r.cases), 20)
	for _, c := range r.cases {
		run := runs[c.trace.String()]
		assert.Equal(t, c.Want.Outcome.String(), run.text(semconv.RunOutcomeKey), c.Label())
		assert.Equal(t, c.Want.Run.Class.String(), run.text(semconv.FailureClassKey), c.Label())
		if c.Want.Run.Class != semconv.ClassUnset {
			assert.Equal(t, c.Want.Run.Safety.String(), run.text(semconv.RetrySafetyKey), c.Label())
			assert.NotEmpty(t, run.Attributes[string(semconv.FailureEvidenceKey)], c.Label())
		}
		assert.Len(t, run.Requests, len(c.Want.Requests), c.Label())
	}

	t.Run("as people read them", func(t *testing.T) {
		id := r.cases[0].trace.String()
		status, stdout, stderr := otelllm(t, "classify", "--trace", id, path)
		require.Equal(t, statusOK, status, stderr)
		run := runs[id]
		assert.Contains(t, stdout, run.text(semconv.FailureClassKey))
		summary := run.text(semconv.FailureSummaryKey)
		assert.NotEmpty(t, summary)
		assert.Contains(t, strings.Join(strings.Fields(stdout), " "), summary, "the summary is printed, wrapped into lines")
		assert.Contains(t, stdout, "1 run in 1 trace, 1 with a failure.")
	})
}

// Every fact that -check calls needed matters: without any one of them no verdict
// allows more, and at least one is less confident or more careful.
func TestNeededFactsAreNeeded(t *testing.T) {
	path, r := record(t, nil)
	whole := verdicts(t, path)
	for _, key := range []string{
		string(semconv.StreamEndKey), string(semconv.TransportCauseKey), string(semconv.ProviderErrorKindKey),
		string(semconv.StreamTextChunksKey), string(semconv.RequestProviderToolsKey),
		string(semconv.ToolEffectKey),
	} {
		t.Run(key, func(t *testing.T) {
			path, _ := record(t, func(span ptrace.Span) { span.Attributes().Remove(key) })
			status, stdout, _ := otelllm(t, "check", path)
			assert.Equal(t, statusCheck, status)
			assert.Contains(t, stdout, "MISSING        "+key)
			without, changed := verdicts(t, path), 0
			for _, c := range r.cases {
				was, is := whole[c.trace], without[c.trace]
				assert.GreaterOrEqual(t, is.safety, was.safety, "%s: %+v became %+v", c.Label(), was, is)
				if is != was {
					changed++
				}
			}
			assert.Positive(t, changed, "no verdict depends on it")
		})
	}
}

// runVerdicts summarizes the verdicts on the runs of a trace.
type runVerdicts struct {
	safety semconv.RetrySafety
	text   string // everything else
}

// verdicts returns the verdicts on the runs of a file, by trace. A trace with several
// runs gets the most careful safety of them.
func verdicts(t *testing.T, path string) map[pcommon.TraceID]runVerdicts {
	t.Helper()
	status, stdout, stderr := otelllm(t, "classify", "--json", path)
	require.Equal(t, statusOK, status, stderr)
	found := make(map[pcommon.TraceID]runVerdicts)
	for _, run := range runsOf(t, stdout) {
		id, err := backend.ParseTraceID(run.TraceID)
		require.NoError(t, err)
		c := found[id]
		safety, ok := semconv.ParseRetrySafety(run.text(semconv.RetrySafetyKey))
		c.safety = max(c.safety, safety)
		for _, key := range []attribute.Key{semconv.RunOutcomeKey, semconv.FailureClassKey, semconv.FailureCauseKey, semconv.FailureConfidenceKey, semconv.RetryReasonKey} {
			c.text += " " + run.text(key)
		}
		require.Equal(t, run.text(semconv.RetrySafetyKey) != "", ok)
		for _, q := range run.Requests {
			c.text += " / " + q.text(semconv.FailureClassKey) + " " + q.text(semconv.FailureCauseKey) + " " + q.text(semconv.FailureConfidenceKey)
		}
		found[id] = c
	}
	return found
}

// The spans of the project's own client have every fact, without contradictions.
func TestClientRecordsEveryNeededFact(t *testing.T) {
	path, r := record(t, nil)
	status, stdout, stderr := otelllm(t, "check", path)
	assert.Equal(t, statusOK, status, "%s%s", stdout, stderr)
	assert.NotContains(t, stdout, "MISSING")
	assert.NotContains(t, stdout, "CONTRADICTION")
	assert.NotContains(t, stdout, "NO SUCH FACT")
	assert.Contains(t, stdout, " 0 lack some of it, 0 contradict themselves.")
	assert.GreaterOrEqual(t, strings.Count(stdout, "\ntrace "), len(r.cases)-1)
}

func TestCheck(t *testing.T) {
	set := func(key string, value any) func(ptrace.Span) {
		return func(span ptrace.Span) {
			if span.Name() == "chat gpt-5.5" {
				if err := span.Attributes().PutEmpty(key).FromRaw(value); err != nil {
					panic(err)
				}
			}
		}
	}
	for _, tt := range []struct {
		name   string
		change func(ptrace.Span)
		says   string
	}{
		{"not a value of the vocabulary", set("llm.stream.end", "exploded"), `llm.stream.end is "exploded", which is not a value of the vocabulary`},
		{"a number as a string", set("llm.stream.text_chunks", "7"), "llm.stream.text_chunks has to be an int, 0 or above, is a string"},
		{"a count below 0", set("llm.stream.events", -1), "llm.stream.events has to be an int, 0 or above, is the Int -1"},
		{"milliseconds", set("llm.stream.time_to_headers", 412.0), "llm.stream.time_to_headers=412s is longer than the span"},
		{"seconds as an int", set("llm.stream.longest_gap", 1), "llm.stream.longest_gap has to be a double"},
		{"more calls than inputs", set("llm.stream.tool_calls", 70), "llm.stream.tool_calls=70 is more than llm.stream.tool_inputs_started"},
		{"not an id", set("llm.run.id", "run-1"), "llm.run.id has to be a span id of 16 hexadecimal digits"},
		{"a run that is not in the trace", set("llm.run.id", "00000000000000ff"), "the span of the run: not known without it: named by llm.run.id but not in the trace"},
		{"a part of a run that hangs elsewhere and names no run", func(span ptrace.Span) {
			if span.Attributes().Remove("llm.run.id") {
				span.SetParentSpanID(pcommon.SpanID{9})
			}
		}, "MISSING        llm.run.id: not known without it: which run it belongs to"},
		{"more requests than announced", func(span ptrace.Span) {
			if span.Name() == "invoke_agent coder" {
				span.Attributes().PutInt("llm.run.requests", 0)
			}
		}, "llm.run.requests=0, but "},
		{"requests that are not in the trace", func(span ptrace.Span) {
			if span.Name() == "invoke_agent coder" {
				span.Attributes().PutInt("llm.run.requests", 9)
			}
		}, " of 9 request spans: not known without it: announced by llm.run.requests"},
		{"a phase beyond a request", set("llm.stream.phase", "tool_execution"), "this phase is not a phase of a request"},
		{"not an error", set("http.response.status_code", 500), "llm.stream.end=terminal_event, and http.response.status_code=500"},
		{"no error where there was one", func(span ptrace.Span) { span.Status().SetCode(ptrace.StatusCodeUnset) }, "llm.stream.end=read_error, but the span's status is not ERROR"},
		{"a span without an id", func(span ptrace.Span) { span.SetSpanID(pcommon.SpanID{}) }, "the span has no id"},
		{"a span without a start", func(span ptrace.Span) { span.SetStartTimestamp(0) }, "the span has no start"},
		{"a span that ends before it starts", func(span ptrace.Span) { span.SetEndTimestamp(span.StartTimestamp() - 1) }, "the span ends before it starts"},
		{"a tool that succeeded and failed", func(span ptrace.Span) {
			if strings.HasPrefix(span.Name(), "execute_tool") {
				span.Attributes().PutStr("llm.tool.outcome", "succeeded")
				span.Status().SetCode(ptrace.StatusCodeError)
			}
		}, "llm.tool.outcome=succeeded, but the span's status is ERROR"},
		{"not recognised", func(span ptrace.Span) {
			if span.Name() == "chat gpt-5.5" {
				span.Attributes().Remove("gen_ai.operation.name")
			}
		}, "MISSING        gen_ai.operation.name: not known without it: the span is not recognised at all"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path, _ := record(t, tt.change)
			status, stdout, stderr := otelllm(t, "check", path)
			assert.Equal(t, statusCheck, status, stderr)
			assert.Contains(t, stdout, tt.says)

			status, stdout, _ = otelllm(t, "check", "--json", path)
			assert.Equal(t, statusCheck, status)
			for line := range strings.Lines(stdout) {
				assert.True(t, json.Valid([]byte(line)), line)
			}
		})
	}
	t.Run("unknown names", func(t *testing.T) {
		path, _ := record(t, func(span ptrace.Span) {
			if _, ok := span.Attributes().Get("gen_ai.operation.name"); !ok {
				return
			}
			span.Attributes().PutStr("llm.stream.ended", "eof")    // misspelled
			span.Attributes().PutStr("llm.tool.effect", "unknown") // a fact of tools, here on every span
			span.Attributes().PutStr("llm.request.type", "chat")   // OpenLLMetry's
			span.Attributes().PutStr("llm.run.outcome", "failed")  // a verdict
		})
		status, stdout, _ := otelllm(t, "check", path)
		assert.Equal(t, statusOK, status, "nothing is missing")
		assert.Contains(t, stdout, "NO SUCH FACT   llm.stream.ended llm.tool.effect (of a tool)\n")
		assert.Contains(t, stdout, "NO SUCH FACT   llm.stream.ended\n", "on a tool")
		assert.NotContains(t, stdout, "llm.request.type")
		assert.NotContains(t, stdout, "llm.run.outcome")
	})
	t.Run("nothing to check", func(t *testing.T) {
		path, _ := record(t, func(span ptrace.Span) { span.Attributes().Clear() })
		status, stdout, _ := otelllm(t, "check", path)
		assert.Equal(t, statusCheck, status)
		assert.Contains(t, stdout, "is a model call, a tool or an agent's run")
		status, stdout, stderr := otelllm(t, "check", path, "--json")
		assert.Equal(t, statusCheck, status)
		assert.Empty(t, stdout, "JSON or nothing")
		assert.Contains(t, stderr, "is a model call, a tool or an agent's run")
	})
}

// A trace that has its verdicts from a Collector is printed as it is, unless it is to be judged
// again.
func TestJudgedTracesAreUnchanged(t *testing.T) {
	change := func(by semconv.Trigger) func(ptrace.Span) {
		return func(span ptrace.Span) {
			if span.Name() == "invoke_agent coder" {
				span.Attributes().PutStr(string(semconv.RunOutcomeKey), semconv.RunOutcomeRecovered.String())
				span.Attributes().PutStr(string(semconv.ClassificationTriggerKey), by.String())
			}
		}
	}
	path, r := record(t, change(semconv.TriggerComplete))
	id := r.cases[0].trace.String()
	outcome := func(args ...string) string {
		status, stdout, stderr := otelllm(t, append([]string{"classify", "--json", "--trace", id}, args...)...)
		require.Equal(t, statusOK, status, stderr)
		runs := runsOf(t, stdout)
		require.Len(t, runs, 1)
		return runs[0].text(semconv.RunOutcomeKey)
	}
	assert.Equal(t, "recovered", outcome(path))
	assert.Equal(t, r.cases[0].Want.Outcome.String(), outcome("--again", path))
	path, _ = record(t, change(semconv.TriggerClient)) // the client's own verdict does not count
	assert.Equal(t, r.cases[0].Want.Outcome.String(), outcome(path))
}

// A trace comes out of a real Jaeger unchanged.
func TestTraceFromJaeger(t *testing.T) {
	bin := built.Jaeger(t)
	r, err := recorded()
	require.NoError(t, err)
	var otlp, api string
	jaeger, err := process.StartOnFreePorts(t.Context(), 4, func(free []string) process.Spec {
		otlp, api = free[0], "http://"+free[1]
		return process.Spec{
			Name: "Jaeger", Path: bin, Args: []string{"--config", "file:" + filepath.Join(built.Root(t), "test", "jaeger", "jaeger.yaml")},
			Env: []string{"JAEGER_OTLP=" + otlp, "JAEGER_HTTP=" + free[1], "JAEGER_GRPC=" + free[2], "JAEGER_HEALTH=" + free[3]},
			Log: filepath.Join(t.TempDir(), "jaeger.log"), Health: "http://" + free[3] + "/status",
		}
	})
	require.NoError(t, err)
	defer func() { assert.NoError(t, jaeger.Stop(10*time.Second)) }()
	conn, err := grpc.NewClient(otlp, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer conn.Close()
	td := ptrace.NewTraces()
	r.td.CopyTo(td)
	_, err = ptraceotlp.NewGRPCClient(conn).Export(t.Context(), ptraceotlp.NewExportRequestFromTraces(td))
	require.NoError(t, err)

	id := r.cases[0].trace.String()
	status, fromJaeger, stderr := otelllm(t, "check", "--json", stored(api, id))
	require.Equal(t, statusOK, status, stderr)
	status, fromFile, stderr := otelllm(t, "check", "--trace", id, "--json", save(t, r.td))
	require.Equal(t, statusOK, status, stderr)
	assert.Equal(t, fromFile, fromJaeger)
	status, _, stderr = otelllm(t, "classify", stored(api, "ff"))
	assert.Equal(t, statusError, status)
	assert.Contains(t, stderr, backend.ErrNotFound.Error())

	// The JSON that Jaeger's pages download gives the same verdicts.
	for _, c := range r.cases {
		id := c.trace.String()
		path := filepath.Join(t.TempDir(), "jaeger.json")
		require.NoError(t, os.WriteFile(path, download(t, api+"/api/traces/"+id), 0o600))
		assert.Equal(t, verdicts(t, save(t, r.td))[c.trace], verdicts(t, path)[c.trace], c.Label())
	}
}

// stored is the URL of a trace in the Jaeger at api.
func stored(api, id string) string { return "jaeger" + strings.TrimPrefix(api, "http") + "/" + id }

func download(t *testing.T, url string) []byte {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, resp.StatusCode, string(raw))
	return raw
}

// The response is recorded from Tempo's API; no Tempo runs here.
func TestTraceFromTempo(t *testing.T) {
	r, err := recorded()
	require.NoError(t, err)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		encoder := ptrace.ProtoMarshaler{}
		body, err := encoder.MarshalTraces(r.td)
		assert.NoError(t, err)
		_, _ = w.Write(body)
	}))
	defer srv.Close()
	status, stdout, stderr := otelllm(t, "check", "tempo"+strings.TrimPrefix(srv.URL, "http")+"/"+r.cases[0].trace.String(), "--trace", r.cases[0].trace.String())
	assert.Equal(t, statusOK, status, stderr)
	assert.Equal(t, 1, strings.Count(stdout, "trace "+r.cases[0].trace.String()))
}
