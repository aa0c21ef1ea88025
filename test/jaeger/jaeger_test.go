package main

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/otelllm/otelllm-go/cmd/otelllm/backend"
	"github.com/otelllm/otelllm-go/cmd/otelllm/report"
	"github.com/otelllm/otelllm-go/semconv"
	"github.com/otelllm/otelllm-go/test/built"
	"github.com/otelllm/otelllm-go/test/faultyllm"
	"github.com/otelllm/otelllm-go/test/internal/acceptance"
	"github.com/otelllm/otelllm-go/test/internal/process"
)

// Everything that the demo's agents record goes through the built Collector into a real
// Jaeger. It can be found over Jaeger's HTTP API by the Collector's verdicts, complete and
// with every fact behind the verdicts.
func TestJaegerHasVerdictsAndEvidence(t *testing.T) {
	o := &options{
		root: built.Root(t), jaeger: built.Jaeger(t), config: "test/jaeger/jaeger.yaml",
		out: t.TempDir(),
	}
	collector := built.Collector(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()

	j, err := startJaeger(ctx, o)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, j.process.Stop(stopPatience)) })
	written := classified(ctx, t, collector, j.otlp)

	var spans report.Spans
	spans.Add(written)
	runs := spans.All()
	require.Greater(t, len(runs), 50, "the acceptance cases")
	require.NoError(t, j.arrived(ctx, runs))

	t.Run("search", func(t *testing.T) {
		for _, key := range []string{
			string(semconv.FailureClassKey), string(semconv.RetrySafetyKey), string(semconv.RunOutcomeKey),
		} {
			for value, want := range tracesBy(written, key) {
				found, err := j.api.Search(ctx, service, map[string]string{key: value}, len(runs)+1)
				require.NoError(t, err)
				assert.ElementsMatch(t, want, found, "%s=%s", key, value)
			}
		}
		classes := tracesBy(written, string(semconv.FailureClassKey))
		assert.Contains(t, classes, semconv.ClassStreamInterrupted.String())
		assert.Contains(t, classes, semconv.ClassToolOutputLost.String())
		safeties := tracesBy(written, string(semconv.RetrySafetyKey))
		assert.Len(t, safeties, len(semconv.RetrySafetyValues()), "the cases cover every value")

		// Both tags have to be on one span.
		both := map[string]string{
			string(semconv.FailureClassKey): semconv.ClassStreamInterrupted.String(),
			string(semconv.RetrySafetyKey):  semconv.RetrySafetySafeAutoRetry.String(),
		}
		found, err := j.api.Search(ctx, service, both, len(runs)+1)
		require.NoError(t, err)
		assert.NotEmpty(t, found)
		assert.Less(t, len(found), len(classes[semconv.ClassStreamInterrupted.String()]))
	})
	t.Run("whole traces", func(t *testing.T) {
		compared := 0
		for id, want := range byTrace(written) {
			td, err := j.api.Trace(ctx, id)
			require.NoError(t, err)
			got := byTrace(td)[id]
			assert.Len(t, got, len(want))
			for span, c := range want {
				assert.Equal(t, asKept(c), got[span])
			}
			compared += len(want)
		}
		assert.Equal(t, written.SpanCount(), compared)
	})
	t.Run("an unknown trace", func(t *testing.T) {
		_, err := j.api.Trace(ctx, pcommon.TraceID{1})
		require.ErrorIs(t, err, backend.ErrNotFound)
	})
	t.Run("services", func(t *testing.T) {
		services, err := j.api.Services(ctx)
		require.NoError(t, err)
		assert.Contains(t, services, service)
	})
	t.Run("links", func(t *testing.T) {
		var out bytes.Buffer
		require.NoError(t, j.links(ctx, runs, &out))
		assert.Contains(t, out.String(), "Jaeger has all")
		assert.GreaterOrEqual(t, strings.Count(out.String(), "    http://"), 6)
		pages, err := j.hasPages(ctx)
		require.NoError(t, err)
		assert.Equal(t, !pages, strings.Contains(out.String(), "has no web pages"))
	})
}

const service = "agent"

// classified runs every acceptance case through the Collector into Jaeger, and returns the
// Collector's output.
func classified(ctx context.Context, t *testing.T, collector, jaeger string) ptrace.Traces {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "traces.jsonl")
	configs := filepath.Join(built.Root(t), "deploy", "collector")
	var otlp string
	col, err := process.StartOnFreePorts(ctx, 3, func(free []string) process.Spec {
		otlp = free[0]
		return process.Spec{
			Name: "the Collector", Path: collector,
			Args: []string{"--config", "file:" + filepath.Join(configs, "config-demo.yaml"), "--config", "file:" + filepath.Join(configs, "config-forward.yaml")},
			Env: []string{
				"OTLP_HTTP_ENDPOINT=" + free[0], "OTLP_GRPC_ENDPOINT=" + free[1], "HEALTH_ENDPOINT=" + free[2],
				"OUT_FILE=" + file, "FORWARD_ENDPOINT=" + jaeger,
			},
			Log: filepath.Join(dir, "collector.log"), Health: "http://" + free[2], Wait: process.NewCollector,
		}
	})
	require.NoError(t, err)

	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpoint(otlp), otlptracehttp.WithInsecure())
	require.NoError(t, err)
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter, sdktrace.WithMaxQueueSize(1<<14)),
		sdktrace.WithResource(resource.NewSchemaless(otelsemconv.ServiceName(service))))
	world, err := acceptance.NewWorld(provider)
	require.NoError(t, err)
	var all sync.WaitGroup
	slots := make(chan struct{}, 8)
	// The demo's cases without sessions over a WebSocket, whose traces look the same.
	cases := slices.DeleteFunc(acceptance.Cases(), func(c acceptance.Case) bool {
		return c.Wire != faultyllm.Chat && c.Wire != faultyllm.Responses && c.Wire != faultyllm.Anthropic
	})
	for i := range slices.Backward(cases) { // the longest one is last
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			_, err := world.Run(ctx, &cases[i], provider)
			assert.NoError(t, err, cases[i].Label())
		})
	}
	all.Wait()
	require.NoError(t, world.Close())
	require.NoError(t, provider.Shutdown(context.WithoutCancel(ctx)))
	require.NoError(t, col.Stop(20*time.Second)) // it judges and forwards the rest
	assert.NotContains(t, process.LogTail(col.Log(), 1000), "Exporting failed")

	raw, err := os.ReadFile(file)
	require.NoError(t, err)
	td := ptrace.NewTraces()
	var decoder ptrace.JSONUnmarshaler
	for line := range bytes.Lines(raw) {
		part, err := decoder.UnmarshalTraces(line)
		require.NoError(t, err)
		part.ResourceSpans().MoveAndAppendTo(td.ResourceSpans())
	}
	return td
}

// spansOf yields the spans of td.
func spansOf(td ptrace.Traces) func(yield func(ptrace.Span) bool) {
	return func(yield func(ptrace.Span) bool) {
		for _, rs := range td.ResourceSpans().All() {
			for _, ss := range rs.ScopeSpans().All() {
				for _, span := range ss.Spans().All() {
					if !yield(span) {
						return
					}
				}
			}
		}
	}
}

// tracesBy returns the traces with a span that has an attribute, by the attribute's value.
func tracesBy(td ptrace.Traces, key string) map[string][]pcommon.TraceID {
	found := make(map[string][]pcommon.TraceID)
	for span := range spansOf(td) {
		if v, ok := span.Attributes().Get(key); ok && !slices.Contains(found[v.Str()], span.TraceID()) {
			found[v.Str()] = append(found[v.Str()], span.TraceID())
		}
	}
	return found
}

// content is everything that a span contains.
type content struct {
	Name       string
	Parent     pcommon.SpanID
	Kind       ptrace.SpanKind
	Start, End pcommon.Timestamp
	Status     ptrace.StatusCode
	Attributes map[string]any
	Events     []event
}

type event struct {
	Name       string
	At         pcommon.Timestamp
	Attributes map[string]any
}

// asKept returns what Jaeger stores of a span: it treats a span without duration, such as
// llm.run.abandoned, as an error, makes it a nanosecond long and adds a warning.
func asKept(c content) content {
	if c.Start == c.End {
		at := func(ns pcommon.Timestamp) string { return ns.AsTime().String() }
		c.Attributes = maps.Clone(c.Attributes)
		c.Attributes["@jaeger@warnings"] = []any{"Negative duration detected, sanitizing end timestamp. Original end timestamp: " +
			at(c.End) + ", adjusted to: " + at(c.End+1)}
		c.End++
	}
	return c
}

// byTrace returns the content of all spans by trace and span.
func byTrace(td ptrace.Traces) map[pcommon.TraceID]map[pcommon.SpanID]content {
	all := make(map[pcommon.TraceID]map[pcommon.SpanID]content)
	for span := range spansOf(td) {
		if all[span.TraceID()] == nil {
			all[span.TraceID()] = make(map[pcommon.SpanID]content)
		}
		c := content{
			span.Name(), span.ParentSpanID(), span.Kind(), span.StartTimestamp(), span.EndTimestamp(), span.Status().Code(),
			span.Attributes().AsRaw(), nil,
		}
		for _, e := range span.Events().All() {
			c.Events = append(c.Events, event{e.Name(), e.Timestamp(), e.Attributes().AsRaw()})
		}
		all[span.TraceID()][span.SpanID()] = c
	}
	return all
}

// After Ctrl-C, while the demo runs or while Jaeger is open, no process is left.
func TestInterrupted(t *testing.T) {
	quickstart := os.Getenv("QUICKSTART_BIN")
	if quickstart == "" {
		t.Skip("LEFT OUT: QUICKSTART_BIN names no quickstart; `make e2e` builds one")
	}
	if _, err := os.Stat("/proc/self/environ"); err != nil {
		t.Skip("LEFT OUT: this system does not list its processes")
	}
	for _, tt := range []struct {
		name string
		// at reports whether to press the key now.
		at   func(out string, processes []string) bool
		want string
	}{
		{"while the demo runs", func(_ string, processes []string) bool {
			return slices.ContainsFunc(processes, func(p string) bool { return strings.Contains(p, "-otlp") })
		}, ""},
		{"while Jaeger is looked at", func(out string, _ []string) bool {
			return strings.Contains(out, "until you press Ctrl-C")
		}, "Jaeger stops, and the traces are gone"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			ctx, interrupt := context.WithCancel(ctx)
			dir := t.TempDir()
			var out lockedBuffer
			pressed := make(chan bool, 1)
			go func() {
				tick := time.NewTicker(20 * time.Millisecond)
				defer tick.Stop()
				for ctx.Err() == nil {
					if tt.at(out.String(), processesWith(t, dir)) {
						interrupt()
						pressed <- true
					}
					<-tick.C
				}
				close(pressed)
			}()
			err := run(ctx, &options{
				root: built.Root(t), jaeger: built.Jaeger(t), config: "test/jaeger/jaeger.yaml", quickstart: quickstart, out: dir,
			}, &out)
			interrupt()
			require.True(t, <-pressed)
			if tt.want == "" {
				require.ErrorIs(t, err, context.Canceled)
			} else {
				require.NoError(t, err)
			}
			assert.Contains(t, out.String(), tt.want)
			assert.Empty(t, processesWith(t, dir), "still there")
		})
	}
}

type lockedBuffer struct {
	mu  sync.Mutex
	all bytes.Buffer // guarded by mu
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all.String()
}

// processesWith returns the programs with this text in their arguments, in their
// environment or in the name of their log.
func processesWith(t *testing.T, text string) (found []string) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	assert.NoError(t, err)
	for _, file := range files {
		dir := filepath.Dir(file)
		if dir == "/proc/"+strconv.Itoa(os.Getpid()) {
			continue
		}
		environ, _ := os.ReadFile(file) // fails if the process has ended
		arguments, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		stdout, _ := os.Readlink(filepath.Join(dir, "fd", "1")) // its log
		if strings.Contains(string(environ)+string(arguments)+stdout, text) {
			found = append(found, dir+": "+strings.ReplaceAll(string(arguments), "\x00", " "))
		}
	}
	return found
}

func TestMissingFilesAreErrors(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	good := func() *options {
		return &options{root: t.TempDir(), jaeger: self, config: self, quickstart: self, out: "out", once: true}
	}
	for _, tt := range []struct {
		name   string
		change func(*options)
		says   string
	}{
		{"Jaeger", func(o *options) { o.jaeger = "build/jaeger" }, "jaeger: build it with `make demo-jaeger`"},
		{"configuration", func(o *options) { o.config = "no.yaml" }, "no.yaml: -config names it"},
		{"quickstart", func(o *options) { o.quickstart = "build/quickstart" }, "quickstart: build it with `make demo`"},
		{"a folder for Jaeger", func(o *options) { o.jaeger = o.root }, "is a folder"},
		{"a program that is not Jaeger", func(o *options) { o.jaeger = "/bin/true" }, "Jaeger did not get ready: it has ended"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := good()
			tt.change(o)
			require.ErrorContains(t, run(t.Context(), o, t.Output()), tt.says)
		})
	}
}

// A link is printed only if it leads to something.
func TestEmptyLinksAreErrors(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html><script></script>")) })
	mux.HandleFunc("GET /search", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"data":[]}`)) })
	srv := httptest.NewServer(mux)
	defer srv.Close()
	api, err := backend.NewJaeger(srv.URL)
	require.NoError(t, err)
	j := &jaeger{api: api}
	span := report.Span{Service: service, Attributes: pcommon.NewMap()}
	span.Attributes.PutStr(string(semconv.RunOutcomeKey), semconv.RunOutcomeRecovered.String())

	var out bytes.Buffer
	err = j.links(t.Context(), []report.Run{{Span: span}}, &out)
	require.ErrorContains(t, err, "the link to runs that recovered, llm.run.outcome=recovered does not open: there is nothing at "+srv.URL+"/search?")
	assert.Empty(t, out.String())
	pages, err := j.hasPages(t.Context())
	require.NoError(t, err)
	assert.True(t, pages)
	require.Error(t, errors.Join(opens(t.Context(), srv.URL+"/none")))
}
