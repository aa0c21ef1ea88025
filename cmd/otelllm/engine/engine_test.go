package engine_test

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/otelllm/otelllm-go/cmd/otelllm/engine"
	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/yamltraces"
	"github.com/otelllm/otelllm-go/otelllm"
	"github.com/otelllm/otelllm-go/semconv"
)

// sink collects spans.
type sink struct {
	mu sync.Mutex
	td ptrace.Traces
}

func newSink() *sink { return &sink{td: ptrace.NewTraces()} }

func (s *sink) take(_ context.Context, td ptrace.Traces) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	td.ResourceSpans().MoveAndAppendTo(s.td.ResourceSpans())
	return nil
}

// verdicts returns the attributes of each span, by its id.
func verdicts(td ptrace.Traces) map[string]map[string]any {
	all := make(map[string]map[string]any)
	for _, rs := range td.ResourceSpans().All() {
		for _, ss := range rs.ScopeSpans().All() {
			for _, span := range ss.Spans().All() {
				all[span.SpanID().String()] = span.Attributes().AsRaw()
			}
		}
	}
	return all
}

// The Engine says what the processor says of its recorded traces.
func TestJudge(t *testing.T) {
	dirs, err := filepath.Glob(filepath.Join("..", "..", "..", "processor", "llmclassify", "testdata", "traces", "*"))
	require.NoError(t, err)
	require.NotEmpty(t, dirs)
	for _, dir := range dirs {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			if filepath.Base(dir) == "22_run_abandoned" {
				t.Skip("the run's timeout passes in it")
			}
			in := yamltraces.Read(t, filepath.Join(dir, "in.yaml"))
			out := yamltraces.Read(t, filepath.Join(dir, "out.yaml"))
			got := ptrace.NewTraces()
			require.NoError(t, engine.Judge(t.Context(), false, []ptrace.Traces{in}, func(td ptrace.Traces) {
				td.ResourceSpans().MoveAndAppendTo(got.ResourceSpans())
			}))
			want, have := verdicts(out), verdicts(got)
			for _, all := range []map[string]map[string]any{want, have} {
				for _, attrs := range all {
					if attrs[string(semconv.ClassificationTriggerKey)] != "complete" { // because of the time
						delete(attrs, string(semconv.ClassificationTriggerKey))
					}
				}
			}
			assert.Equal(t, want, have)
		})
	}
}

// Verdicts of a Collector give way if all is to be judged again.
func TestAgain(t *testing.T) {
	in := yamltraces.Read(t, filepath.Join("..", "..", "..", "processor", "llmclassify", "testdata", "traces", "success", "out.yaml"))
	want := verdicts(in)
	for _, rs := range in.ResourceSpans().All() {
		for _, ss := range rs.ScopeSpans().All() {
			for _, span := range ss.Spans().All() {
				if _, ok := span.Attributes().Get(string(semconv.RunOutcomeKey)); ok {
					span.Attributes().PutStr(string(semconv.RunOutcomeKey), "failed")
				}
			}
		}
	}
	got := ptrace.NewTraces()
	require.NoError(t, engine.Judge(t.Context(), true, []ptrace.Traces{in}, func(td ptrace.Traces) { td.ResourceSpans().MoveAndAppendTo(got.ResourceSpans()) }))
	assert.Equal(t, want, verdicts(got))
}

// No span is lost between the portions.
func TestManyTraces(t *testing.T) {
	var traces []ptrace.Traces
	spans := 0
	for i := range 120 {
		td := ptrace.NewTraces()
		list := td.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans()
		for n := range 1000 {
			span := list.AppendEmpty()
			span.SetTraceID([16]byte{byte(i + 1)})
			span.SetSpanID([8]byte{1, byte(n >> 8), byte(n)})
			span.Attributes().PutStr("gen_ai.operation.name", "chat")
		}
		traces, spans = append(traces, td), spans+list.Len()
	}
	got := 0
	require.NoError(t, engine.Judge(t.Context(), false, traces, func(td ptrace.Traces) { got += td.SpanCount() }))
	assert.Equal(t, spans, got)
}

// The spans of an SDK go through the Engine with their verdicts, while it runs.
func TestExporter(t *testing.T) {
	out := newSink()
	e, err := engine.Start(t.Context(), engine.Config{}, out.take)
	require.NoError(t, err)
	recorded := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(e.NewExporter()), sdktrace.WithSpanProcessor(recorded))
	i := otelllm.New(otelllm.WithTracerProvider(provider))
	ctx, run := i.StartRun(t.Context(), "coder")
	_, tool := i.StartTool(ctx, otelllm.ToolCall{ID: "c1", Name: "pay", Effect: otelllm.EffectNonIdempotent})
	tool.End(errors.New("no money"))
	run.End(errors.New("gave up"))
	require.NoError(t, provider.Shutdown(t.Context()))
	require.NoError(t, e.Shutdown(t.Context()))
	assert.Equal(t, len(recorded.Ended()), out.td.SpanCount())
	classes := map[any]int{}
	for _, attrs := range verdicts(out.td) {
		classes[attrs[string(semconv.FailureClassKey)]]++
	}
	assert.Equal(t, map[any]int{"tool_failed": 2}, classes)
	require.Error(t, e.ConsumeTraces(t.Context(), request()), "after its end")
}

func request() ptrace.Traces {
	td := ptrace.NewTraces()
	span := td.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans().AppendEmpty()
	span.SetTraceID([16]byte{1})
	span.SetSpanID([8]byte{1})
	span.Attributes().PutStr("gen_ai.operation.name", "chat")
	return td
}
