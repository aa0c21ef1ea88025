package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
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
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/otelllm/otelllm-go/examples/faultyllm"
	"github.com/otelllm/otelllm-go/examples/internal/acceptance"
	"github.com/otelllm/otelllm-go/examples/internal/backend"
	"github.com/otelllm/otelllm-go/examples/internal/built"
	"github.com/otelllm/otelllm-go/examples/internal/process"
	"github.com/otelllm/otelllm-go/semconv"
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

// diagnose runs the command.
func diagnose(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	out, err := os.Create(filepath.Join(t.TempDir(), "stdout"))
	require.NoError(t, err)
	defer out.Close()
	var errs bytes.Buffer
	status = command(t.Context(), args, strings.NewReader(""), out, &errs)
	raw, err := os.ReadFile(out.Name())
	require.NoError(t, err)
	return status, string(raw), errs.String()
}

// Old traces get the same verdicts as new ones.
func TestOldTracesAreJudged(t *testing.T) {
	collector := built.Collector(t)
	path, r := record(t, nil)
	status, stdout, stderr := diagnose(t, "-collector", collector, "-json", path)
	require.Equal(t, statusOK, status, stderr)
	assert.Contains(t, stderr, "go through the Collector")
	runs := make(map[string]runJSON)
	for line := range strings.Lines(stdout) {
		var run runJSON
		require.NoError(t, json.Unmarshal([]byte(line), &run))
		runs[run.TraceID] = run
	}
	require.Greater(t, len(r.cases), 20)
	for _, c := range r.cases {
		run := runs[c.trace.String()]
		assert.Equal(t, c.Want.Outcome.String(), run.Outcome, c.Label())
		assert.Equal(t, c.Want.Run.Class.String(), run.Class, c.Label())
		if c.Want.Run.Class != semconv.ClassUnset && assert.NotNil(t, run.Retry, c.Label()) {
			assert.Equal(t, c.Want.Run.Safety.String(), run.Retry.Safety, c.Label())
			assert.NotEmpty(t, run.Evidence, c.Label())
		}
		assert.Len(t, run.Requests, len(c.Want.Requests), c.Label())
	}

	t.Run("as people read them", func(t *testing.T) {
		id := r.cases[0].trace.String()
		status, stdout, stderr := diagnose(t, "-collector", collector, "-trace", id, path)
		require.Equal(t, statusOK, status, stderr)
		assert.Contains(t, stdout, runs[id].Class)
		assert.NotEmpty(t, runs[id].Summary)
		assert.Contains(t, strings.Join(strings.Fields(stdout), " "), runs[id].Summary, "the summary is printed, wrapped into lines")
		assert.Contains(t, stdout, "1 run in 1 trace, 1 with a failure.")
	})
}

// Every fact that -check calls needed matters: without any one of them no verdict
// allows more, and at least one is less confident or more careful.
func TestNeededFactsAreNeeded(t *testing.T) {
	collector := built.Collector(t)
	path, r := record(t, nil)
	whole := verdicts(t, collector, path)
	for _, key := range []string{
		string(semconv.StreamEndKey), string(semconv.TransportCauseKey), string(semconv.ProviderErrorKindKey),
		string(semconv.StreamTextChunksKey), string(semconv.RequestProviderToolsKey),
		string(semconv.ToolEffectKey),
	} {
		t.Run(key, func(t *testing.T) {
			path, _ := record(t, func(span ptrace.Span) { span.Attributes().Remove(key) })
			status, stdout, _ := diagnose(t, "-check", path)
			assert.Equal(t, statusCheck, status)
			assert.Contains(t, stdout, "MISSING        "+key)
			without, changed := verdicts(t, collector, path), 0
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
func verdicts(t *testing.T, collector, path string) map[pcommon.TraceID]runVerdicts {
	t.Helper()
	status, stdout, stderr := diagnose(t, "-collector", collector, "-json", path)
	require.Equal(t, statusOK, status, stderr)
	found := make(map[pcommon.TraceID]runVerdicts)
	for line := range strings.Lines(stdout) {
		var run runJSON
		require.NoError(t, json.Unmarshal([]byte(line), &run))
		id, err := backend.ParseTraceID(run.TraceID)
		require.NoError(t, err)
		c := found[id]
		c.text += run.Outcome + " " + run.Class + " " + run.Cause + " " + run.Confidence
		if run.Retry != nil {
			safety, ok := semconv.ParseRetrySafety(run.Retry.Safety)
			require.True(t, ok)
			c.safety = max(c.safety, safety)
			c.text += " " + run.Retry.Reason
		}
		for _, q := range run.Requests {
			c.text += " / " + q.Class + " " + q.Cause + " " + q.Confidence
		}
		found[id] = c
	}
	return found
}

// The spans of the project's own client have every fact, without contradictions.
func TestClientRecordsEveryNeededFact(t *testing.T) {
	path, r := record(t, nil)
	status, stdout, stderr := diagnose(t, "-check", path)
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
			status, stdout, stderr := diagnose(t, "-check", path)
			assert.Equal(t, statusCheck, status, stderr)
			assert.Contains(t, stdout, tt.says)

			status, stdout, _ = diagnose(t, "-check", "-json", path)
			assert.Equal(t, statusCheck, status)
			for line := range strings.Lines(stdout) {
				var f finding
				require.NoError(t, json.Unmarshal([]byte(line), &f))
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
		status, stdout, _ := diagnose(t, "-check", path)
		assert.Equal(t, statusOK, status, "nothing is missing")
		assert.Contains(t, stdout, "NO SUCH FACT   llm.stream.ended llm.tool.effect (of a tool)\n")
		assert.Contains(t, stdout, "NO SUCH FACT   llm.stream.ended\n", "on a tool")
		assert.NotContains(t, stdout, "llm.request.type")
		assert.NotContains(t, stdout, "llm.run.outcome")
	})
	t.Run("nothing to check", func(t *testing.T) {
		path, _ := record(t, func(span ptrace.Span) { span.Attributes().Clear() })
		status, stdout, _ := diagnose(t, "-check", path)
		assert.Equal(t, statusCheck, status)
		assert.Contains(t, stdout, "is a model call, a tool or an agent's run")
		status, stdout, stderr := diagnose(t, path, "-check", "-json")
		assert.Equal(t, statusCheck, status)
		assert.Empty(t, stdout, "JSON or nothing")
		assert.Contains(t, stderr, "is a model call, a tool or an agent's run")
	})
}

func TestInput(t *testing.T) {
	one := ptrace.NewTraces()
	span := one.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans().AppendEmpty()
	span.SetTraceID(pcommon.TraceID{1})
	span.SetSpanID(pcommon.SpanID{2})
	span.SetName("chat gpt")
	span.Attributes().PutStr("gen_ai.operation.name", "chat")
	encoder := ptrace.JSONMarshaler{}
	raw, err := encoder.MarshalTraces(one)
	require.NoError(t, err)
	var pretty bytes.Buffer
	require.NoError(t, json.Indent(&pretty, raw, "", "  "))
	inner := strings.TrimSuffix(strings.TrimPrefix(string(raw), `{"resourceSpans":`), "}")
	tempo := strings.NewReplacer(`"01000000000000000000000000000000"`, `"AQAAAAAAAAAAAAAAAAAAAA=="`, `"0200000000000000"`, `"AgAAAAAAAAA="`).Replace(inner)

	for _, tt := range []struct {
		name, input, fails string
		spans              int
	}{
		{name: "a line", input: string(raw) + "\n", spans: 1},
		{name: "without its newline, and twice", input: string(raw) + "\n\n" + string(raw), spans: 1},
		{name: "over many lines", input: pretty.String(), spans: 1},
		{name: "Jaeger's API v3", input: `{"result":` + string(raw) + `}`, spans: 1},
		{name: "Tempo's API", input: `{"batches":` + tempo + `}`, spans: 1},
		{name: "Tempo's API v2", input: `{"trace":{"resourceSpans":` + tempo + `}}`, spans: 1},
		{name: "empty", fails: "in.json: it contains no spans"},
		{name: "no span", input: `{"resourceSpans":[]}`, fails: "it contains no spans"},
		{name: "invalid JSON in line 2", input: string(raw) + "\n{oops}\n", fails: "in.json, line 2: not JSON: invalid character 'o'"},
		{name: "cut off", input: string(raw) + "\n" + string(raw[:40]), fails: "line 2: not JSON: the document is cut off"},
		{name: "another object", input: `{"spans":[]}`, fails: "line 1: a JSON object without resourceSpans is not OTLP"},
		{name: "no object", input: "\n\n[1]", fails: "line 3: not OTLP: expected an object with resourceSpans"},
		{name: "Jaeger's own", input: `{"data":[{"traceID":"1"}]}`, fails: "read the trace with -jaeger URL -trace ID"},
		{name: "logs", input: `{"resourceLogs":[]}`, fails: "traces are needed"},
		{name: "not an id", input: strings.Replace(string(raw), "0200000000000000", "zz", 1), fails: "line 1: not OTLP JSON"},
		{name: "gzip", input: "\x1f\x8b\x08", fails: "gunzip it first"},
		{name: "zstd", input: "\x28\xb5\x2f\xfd", fails: "unzstd it first"},
		{name: "protobuf", input: "\n\x00\x01", fails: "the file is binary"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "in.json")
			require.NoError(t, os.WriteFile(path, []byte(tt.input), 0o600))
			status, stdout, stderr := diagnose(t, "-check", "-json", path)
			if tt.fails != "" {
				assert.Equal(t, statusError, status)
				assert.Contains(t, stderr, tt.fails)
				assert.Empty(t, stdout)
				return
			}
			assert.Equal(t, statusCheck, status, stderr)
			assert.Equal(t, tt.spans, strings.Count(stdout, "\n"))
			assert.Contains(t, stdout, `"trace_id":"01000000000000000000000000000000","span_id":"0200000000000000"`)
		})
	}
}

func TestArguments(t *testing.T) {
	path, _ := record(t, nil)
	for _, tt := range []struct {
		name string
		args []string
		says string
	}{
		{"nothing", nil, "nothing to read"},
		{"an unknown flag", []string{"-wat"}, "flag provided but not defined: -wat"},
		{"two sources", []string{"-jaeger", "http://127.0.0.1:1", path}, "exclude each other"},
		{"no trace", []string{"-tempo", "http://127.0.0.1:1"}, "name it with -trace"},
		{"no id", []string{"-tempo", "http://127.0.0.1:1", "-trace", "x"}, "is not a trace id"},
		{"no address", []string{"-jaeger", "localhost:16686", "-trace", "1"}, "not the address of a Jaeger"},
		{"no server", []string{"-jaeger", "http://127.0.0.1:1", "-trace", "1"}, "ask Jaeger"},
		{"no file", []string{"no.jsonl"}, "no.jsonl: no such file"},
		{"not in the file", []string{"-trace", "ff", path}, "is not in the input"},
		{"no Collector", []string{"-collector", "build/no-such", path}, "build it with `make collector`"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			status, stdout, stderr := diagnose(t, tt.args...)
			assert.Equal(t, statusError, status)
			assert.Contains(t, stderr, tt.says)
			assert.Empty(t, stdout)
		})
	}
}

// A trace that already has its verdicts is printed as it is and needs no Collector.
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
	status, stdout, stderr := diagnose(t, "-collector", "none", "-trace", id, path)
	require.Equal(t, statusOK, status, stderr)
	assert.Contains(t, stdout, "recovered")

	path, _ = record(t, change(semconv.TriggerClient)) // the client's own verdict does not count
	status, _, stderr = diagnose(t, "-collector", "none", "-trace", id, path)
	assert.Equal(t, statusError, status)
	assert.Contains(t, stderr, "there is no ../none")
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
			Name: "Jaeger", Path: bin, Args: []string{"--config", "file:" + filepath.Join(built.Root(t), "examples", "jaeger", "jaeger.yaml")},
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
	status, fromJaeger, stderr := diagnose(t, "-jaeger", api, "-trace", id, "-check", "-json")
	require.Equal(t, statusOK, status, stderr)
	status, fromFile, stderr := diagnose(t, "-trace", id, "-check", "-json", save(t, r.td))
	require.Equal(t, statusOK, status, stderr)
	assert.Equal(t, fromFile, fromJaeger)
	status, _, stderr = diagnose(t, "-jaeger", api, "-trace", "ff")
	assert.Equal(t, statusError, status)
	assert.Contains(t, stderr, backend.ErrNotFound.Error())
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
	status, stdout, stderr := diagnose(t, "-tempo", srv.URL, "-trace", r.cases[0].trace.String(), "-check")
	assert.Equal(t, statusOK, status, stderr)
	assert.Equal(t, 1, strings.Count(stdout, "trace "+r.cases[0].trace.String()))
}

func TestPrometheusText(t *testing.T) {
	n, err := sum(strings.NewReader("# HELP a_b x\na_b 3\na_b{x=\"} 1\"} 4\na_b{y=\"z\"} 5 1700000000\nother 7\n"), "a_b")
	require.NoError(t, err)
	assert.Equal(t, 12, n)
	_, err = sum(strings.NewReader("a_b oops\n"), "a_b")
	require.ErrorContains(t, err, "a_b oops")
}

func FuzzReadDocuments(f *testing.F) {
	f.Add([]byte(`{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"01000000000000000000000000000000","spanId":"0200000000000000"}]}]}]}`))
	f.Add([]byte(`{"batches":[{"scopeSpans":[{"spans":[{"traceId":"AQAAAAAAAAAAAAAAAAAAAA=="}]}]}]}`))
	f.Add([]byte("{\"trace\":{\"trace\":{}}}\n{"))
	f.Add([]byte(`{"result":7}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var all collection
		if err := readDocuments("in", raw, all.add); err == nil && len(all.list) == 0 {
			t.Fatal("no spans and no error")
		}
		var out bytes.Buffer
		if _, err := check(all.list, false, &out, &out); err != nil {
			t.Fatal(err)
		}
	})
}
