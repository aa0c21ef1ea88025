package live_test

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/processor/llmclassify/live"
	"github.com/otelllm/otelllm-go/semconv"
)

func id(n int) (id pcommon.SpanID) {
	binary.BigEndian.PutUint64(id[:], uint64(n)) //nolint:gosec // small and positive
	return id
}

// part is a part of run 1; attrs are pairs of a key and a value.
func part(kind live.Kind, n int, open bool, attrs ...any) live.Span {
	span := ptrace.NewSpan()
	span.SetSpanID(id(n))
	span.SetStartTimestamp(pcommon.Timestamp(1_700_000_000_000_000_000 + int64(n)*1e9))
	if !open {
		span.SetEndTimestamp(span.StartTimestamp() + 1e9)
	}
	if kind != live.KindRun {
		span.Attributes().PutStr(string(semconv.RunIDKey), id(1).String())
	}
	for i := 0; i < len(attrs); i += 2 {
		if err := span.Attributes().PutEmpty(attrs[i].(string)).FromRaw(attrs[i+1]); err != nil {
			panic(err)
		}
	}
	return live.Span{Span: span, Kind: kind, Open: open}
}

// cut is a request that was cut before any output.
func cut(n int) live.Span {
	return part(live.KindRequest, n, false, "llm.stream.end", "read_error", "llm.transport.cause", "connection_reset", "llm.stream.phase", "response_started",
		"llm.stream.text_chunks", 0, "llm.stream.tool_inputs_started", 0, "llm.stream.tool_inputs_completed", 0, "llm.stream.tool_calls", 0,
		"llm.request.provider_tools", []any{}, "llm.history.tool_calls", []any{}, "llm.history.tool_outputs", []any{})
}

func judge(t *testing.T, trace *live.Trace) live.Verdict {
	t.Helper()
	v, ok := trace.JudgeRun(id(1))
	require.True(t, ok)
	require.NotNil(t, v.Run)
	return v
}

// A verdict follows what is known, line by line.
func TestWhileItGoesOn(t *testing.T) {
	trace := live.NewTrace()
	assert.Equal(t, live.KindRun, trace.Set(part(live.KindRun, 1, true, "llm.run.tools", 0)))
	assert.False(t, judge(t, trace).Run.Failed())

	trace.Set(part(live.KindRequest, 2, true, "llm.stream.phase", "text", "llm.stream.text_chunks", 3))
	assert.False(t, judge(t, trace).Run.Failed(), "an open request has not failed")

	trace.Set(cut(2))
	v := judge(t, trace)
	assert.Equal(t, semconv.RetrySafetySafeAutoRetry, v.Run.Retry.Safety)
	assert.Equal(t, semconv.RetrySafetySafeAutoRetry, v.Parts[id(2)].Retry.Safety)

	trace.Set(part(live.KindTool, 3, true, "llm.tool.effect", "non_idempotent"))
	assert.Equal(t, semconv.RetrySafetyUserConfirmedRetry, judge(t, trace).Run.Retry.Safety, "a tool that runs may act")

	trace.Set(part(live.KindRun, 1, false, "llm.run.requests", 1, "llm.run.tools", 1))
	v = judge(t, trace)
	assert.Equal(t, semconv.RunOutcomeFailed, v.Run.Outcome)
	attrs := live.RunAttributes(v.Run)
	outcome, _ := attrs.Get(string(semconv.RunOutcomeKey))
	assert.Equal(t, "failed", outcome.Str())
	by, _ := attrs.Get(string(semconv.ClassificationTriggerKey))
	assert.Equal(t, "client", by.Str())
	assert.Zero(t, live.PartAttributes(nil).Len())
	_, ok := trace.JudgeRun(id(99))
	assert.False(t, ok)
	assert.Equal(t, live.KindOther, trace.Set(live.Span{Span: ptrace.NewSpan(), Kind: live.KindTool}), "a span without an id")
}

// What is forgotten makes verdicts careful, and memory does not grow.
func TestTooManyParts(t *testing.T) {
	trace := live.NewTrace()
	trace.Set(part(live.KindRun, 1, true, "llm.run.tools", 0))
	trace.Set(part(live.KindTool, 2, false, "llm.tool.effect", "non_idempotent", "llm.tool.outcome", "succeeded"))
	for n := 3; trace.Parts() < live.MaxParts; n++ {
		trace.Set(cut(n))
	}
	full := trace.Bytes()
	require.False(t, trace.Incomplete())
	trace.Set(cut(10_000)) // the tool goes
	assert.True(t, trace.Incomplete())
	assert.Equal(t, live.MaxParts, trace.Parts())
	assert.InDelta(t, full, trace.Bytes(), 2000)
	v := judge(t, trace)
	assert.NotEqual(t, semconv.RetrySafetySafeAutoRetry, v.Run.Retry.Safety)
	assert.NotEqual(t, semconv.RetrySafetySafeAutoRetry, v.Parts[id(10_000)].Retry.Safety)
}

// Names and parents that lead in a circle end.
func TestCircles(t *testing.T) {
	trace := live.NewTrace()
	for n := 1; n <= 3; n++ {
		s := part(live.KindRun, n, false)
		s.Attributes().PutStr(string(semconv.RunIDKey), id(n%3+1).String())
		s.SetParentSpanID(id(n%3 + 1))
		trace.Set(s)
		q := part(live.KindRequest, 10+n, false)
		q.Attributes().Remove(string(semconv.RunIDKey))
		q.SetParentSpanID(id(10 + n%3 + 1))
		trace.Set(q)
	}
	assert.NotEmpty(t, trace.Judge())
}
