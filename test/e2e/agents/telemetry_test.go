//go:build unix

package agents

import (
	"bytes"
	"compress/gzip"
	"context"
	"flag"
	"fmt"
	"io"
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
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/connector"
	"go.opentelemetry.io/collector/connector/connectortest"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"

	"github.com/otelllm/otelllm-go/cmd/otelllm/engine"
	"github.com/otelllm/otelllm-go/cmd/otelllm/report"
	"github.com/otelllm/otelllm-go/connector/llmagentlogs"
	"github.com/otelllm/otelllm-go/semconv"
	"github.com/otelllm/otelllm-go/test/faultyllm"
)

var (
	recordTo   = flag.String("record", "", "a `folder` for what the agents export, as OTLP JSON")
	replayFrom = flag.String("replay", "", "a `folder` that -record wrote: its recordings are judged in place of what was played")
)

// TestTelemetry judges agents by nothing but what they export themselves.
func TestTelemetry(t *testing.T) {
	t.Parallel() // what waits in one, such as an agent that backs off, takes no time of the others
	srv, err := faultyllm.Start()
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, srv.Close()) })
	for i := range agents {
		a := &agents[i]
		if !a.otlp.any() {
			continue
		}
		t.Run(a.name, func(t *testing.T) {
			argv := a.command(t)
			t.Parallel()
			for j := range faults {
				f := &faults[j]
				if !f.concerns(a) || f.stop != nil || testing.Short() && !f.short {
					continue
				}
				t.Run(f.name, func(t *testing.T) {
					export(t, a, f, argv, func(key string, s *script) string {
						srv.Choose(key, s.choose)
						return a.base(srv, key)
					})
				})
			}
		})
	}
}

// export plays a fault to an agent that exports its telemetry, and judges that.
func export(t *testing.T, a *agent, f *fault, argv []string, serve serving) {
	t.Helper()
	out := newReceiver(t)
	did := play(t, a, f, argv, way{otlp: out.url}, serve)
	out.save(t, a.title(), f.name)
	t.Logf("%s; %d spans, %d log records", did.did(), count(out.traces, ptrace.Traces.SpanCount), count(out.logs, plog.Logs.LogRecordCount))
	if a.otlp.logs && f.name == "ok_tool" && *recordTo == "" {
		assert.True(t, out.hasPrompt(t), "content is exported, for nothing of it to be copied")
	}
	judgeExports(t, a, f, out, did.did(), did)
}

// judgeExports judges what an agent exported, from its spans and from its logs, too.
func judgeExports(t *testing.T, a *agent, f *fault, out *receiver, did string, o outcome) {
	t.Helper()
	for way, logs := range map[string][]plog.Logs{bySpans: nil, byLogs: out.logs} {
		if way == byLogs && !a.otlp.logs {
			continue
		}
		o.records = classified(t, out.traces, logs)
		private(t, o)
		note(t, a, f, way, did, &o)
	}
}

// TestReplay judges recordings. What the agent did is what it did when the cell was played.
func TestReplay(t *testing.T) {
	if *replayFrom == "" {
		t.Skip("-replay names no folder")
	}
	played := storedResults(t)
	all := []*agent{&codexWS}
	for i := range agents {
		all = append(all, &agents[i])
	}
	for _, a := range all {
		for _, name := range played.faults {
			r, ok := played.cells[[3]string{a.title(), name, bySpans}]
			path := filepath.Join(*replayFrom, a.title(), name)
			if _, err := os.Stat(path + ".traces.jsonl"); err != nil || !ok {
				continue
			}
			t.Run(a.title()+"/"+name, func(t *testing.T) {
				out := &receiver{}
				out.load(t, path)
				judgeExports(t, a, faultOf(r.Agent, name), out, r.Did, outcome{side: r.Side})
			})
		}
	}
}

// load reads what save wrote.
func (r *receiver) load(t *testing.T, path string) {
	t.Helper()
	for _, signal := range []string{"traces", "logs"} {
		raw, err := os.ReadFile(path + "." + signal + ".jsonl")
		require.NoError(t, err)
		for line := range bytes.Lines(raw) {
			require.NoError(t, r.take("/v1/"+signal, line, true))
		}
	}
}

func count[D any](data []D, of func(D) int) (n int) {
	for _, d := range data {
		n += of(d)
	}
	return n
}

// receiver takes what an agent exports over OTLP/HTTP.
type receiver struct {
	url string

	mu     sync.Mutex
	traces []ptrace.Traces
	logs   []plog.Logs
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{}
	srv := httptest.NewServer(r)
	t.Cleanup(srv.Close)
	r.url = srv.URL
	return r
}

// ServeHTTP implements http.Handler.
func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	var body io.Reader = req.Body
	if req.Header.Get("Content-Encoding") == "gzip" {
		zipped, err := gzip.NewReader(body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		body = zipped
	}
	raw, err := io.ReadAll(body)
	if err == nil {
		err = r.take(req.URL.Path, raw, strings.HasPrefix(req.Header.Get("Content-Type"), "application/json"))
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
	}
}

func (r *receiver) take(path string, raw []byte, asJSON bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case strings.HasSuffix(path, "/traces"):
		in := ptraceotlp.NewExportRequest()
		read := in.UnmarshalProto
		if asJSON {
			read = in.UnmarshalJSON
		}
		if err := read(raw); err != nil {
			return err
		}
		r.traces = append(r.traces, in.Traces())
	case strings.HasSuffix(path, "/logs"):
		in := plogotlp.NewExportRequest()
		read := in.UnmarshalProto
		if asJSON {
			read = in.UnmarshalJSON
		}
		if err := read(raw); err != nil {
			return err
		}
		r.logs = append(r.logs, in.Logs())
	}
	return nil
}

// save writes what was exported to the folder that -record names.
func (r *receiver) save(t *testing.T, agent, fault string) {
	t.Helper()
	if *recordTo == "" {
		return
	}
	dir := filepath.Join(*recordTo, agent)
	require.NoError(t, os.MkdirAll(dir, 0o755))
	var traces, logs strings.Builder
	for _, td := range r.traces {
		raw, err := (&ptrace.JSONMarshaler{}).MarshalTraces(td)
		require.NoError(t, err)
		_, _ = fmt.Fprintf(&traces, "%s\n", raw)
	}
	for _, ld := range r.logs {
		raw, err := (&plog.JSONMarshaler{}).MarshalLogs(ld)
		require.NoError(t, err)
		_, _ = fmt.Fprintf(&logs, "%s\n", raw)
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, fault+".traces.jsonl"), []byte(traces.String()), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, fault+".logs.jsonl"), []byte(logs.String()), 0o600))
}

// hasPrompt reports whether the prompt is in the logs.
func (r *receiver) hasPrompt(t *testing.T) bool {
	t.Helper()
	return slices.ContainsFunc(r.logs, func(ld plog.Logs) bool {
		text, err := (&plog.JSONMarshaler{}).MarshalLogs(ld)
		require.NoError(t, err)
		return bytes.Contains(text, []byte("canary-prompt-7f3a"))
	})
}

// classified returns the verdicts on what was exported, in the order in which it came. Of
// logs, the connector makes spans first.
func classified(t *testing.T, traces []ptrace.Traces, logs []plog.Logs) (records []report.Record) {
	t.Helper()
	var mu sync.Mutex
	var judged report.Spans
	var ids []pcommon.TraceID
	e, err := engine.Start(t.Context(), engine.Config{}, func(_ context.Context, td ptrace.Traces) error {
		mu.Lock()
		defer mu.Unlock()
		judged.Add(td)
		ids = append(ids, traceIDs([]ptrace.Traces{td})...)
		return nil
	})
	require.NoError(t, err)
	made := make(chan struct{}, 1)
	takes, err := consumer.NewTraces(func(ctx context.Context, td ptrace.Traces) error {
		text, err := (&ptrace.JSONMarshaler{}).MarshalTraces(td)
		if err != nil {
			return err
		}
		assert.NotContains(t, string(text), "canary", "made of logs")
		for _, span := range spansOf(td) {
			if run, ok := span.Attributes().Get(string(semconv.RunEndKey)); ok && run.Str() != "" {
				select {
				case made <- struct{}{}:
				default:
				}
			}
		}
		return e.ConsumeTraces(ctx, td)
	})
	require.NoError(t, err)
	fromLogs := startLogs(t, takes)
	for _, td := range traces {
		copied := ptrace.NewTraces()
		td.CopyTo(copied)
		require.NoError(t, e.ConsumeTraces(t.Context(), copied))
	}
	for _, ld := range logs {
		require.NoError(t, fromLogs.ConsumeLogs(t.Context(), ld))
	}
	if len(logs) > 0 {
		select { // a turn of which the end is not certain is over when it is silent, or never
		case <-made:
		case <-time.After(2 * quiet):
		}
	}
	require.NoError(t, fromLogs.Shutdown(t.Context()))
	require.NoError(t, e.Shutdown(t.Context()))
	slices.SortFunc(ids, func(a, b pcommon.TraceID) int { return bytes.Compare(a[:], b[:]) })
	for _, id := range slices.Compact(ids) {
		records = append(records, judged.Records(id)...)
	}
	return records
}

// quiet is how long a turn may be silent here. The agents have ended: nothing more comes.
const quiet = 500 * time.Millisecond

// startLogs starts the connector that makes spans of logs.
func startLogs(t *testing.T, next consumer.Traces) connector.Logs {
	t.Helper()
	factory := llmagentlogs.NewFactory()
	cfg := factory.CreateDefaultConfig().(*llmagentlogs.Config)
	cfg.Settle, cfg.Quiet, cfg.MaxAge = quiet/5, quiet, quiet
	set := connectortest.NewNopSettings(factory.Type())
	c, err := factory.CreateLogsToTraces(t.Context(), set, cfg, next)
	require.NoError(t, err)
	require.NoError(t, c.Start(t.Context(), componenttest.NewNopHost()))
	return c
}

func spansOf(td ptrace.Traces) (all []ptrace.Span) {
	for _, rs := range td.ResourceSpans().All() {
		for _, ss := range rs.ScopeSpans().All() {
			for _, span := range ss.Spans().All() {
				all = append(all, span)
			}
		}
	}
	return all
}

// traceIDs are the traces, in the order in which they came.
func traceIDs(traces []ptrace.Traces) (ids []pcommon.TraceID) {
	for _, td := range traces {
		for _, span := range spansOf(td) {
			if id := span.TraceID(); !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
	}
	return ids
}
