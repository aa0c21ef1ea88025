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
	attrs := live.RunAttributes(v.Run, &v.Plan)
	outcome, _ := attrs.Get(string(semconv.RunOutcomeKey))
	assert.Equal(t, "failed", outcome.Str())
	by, _ := attrs.Get(string(semconv.ClassificationTriggerKey))
	assert.Equal(t, "client", by.Str())
	send, _ := attrs.Get(string(semconv.ResumeSendKey))
	assert.Equal(t, v.Plan.Send.String(), send.Str())
	may, _ := attrs.Get(string(semconv.ResumeMayHaveRunIDsKey))
	assert.Equal(t, len(v.Plan.MayHaveRun), may.Slice().Len())
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
// TestTooManyLinks checks that nothing is taken for complete when the parents of spans are not
// all kept: a tool beneath one of them may be of any run.
func TestTooManyLinks(t *testing.T) {
	other := func(n, parent int) live.Span {
		span := ptrace.NewSpan()
		span.SetSpanID(id(n))
		span.SetParentSpanID(id(parent))
		return live.Span{Span: span}
	}
	trace := live.NewTrace()
	trace.Set(part(live.KindRun, 1, true, "llm.run.tools", 0))
	for n := range live.MaxParts {
		trace.Set(other(100_000+n, 1))
		trace.Set(other(100_000, 1)) // again
	}
	require.False(t, trace.Incomplete())
	trace.Set(other(200_000, 1))
	assert.True(t, trace.Incomplete())
	tool := part(live.KindTool, 2, false, "llm.tool.effect", "non_idempotent", "llm.tool.outcome", "succeeded")
	tool.Attributes().Remove(string(semconv.RunIDKey))
	tool.SetParentSpanID(id(200_000))
	trace.Set(tool)
	trace.Set(cut(3))
	assert.NotEqual(t, semconv.RetrySafetySafeAutoRetry, judge(t, trace).Run.Retry.Safety)
}

// TestTooManyExchanges is the same for the spans of HTTP clients.
func TestTooManyExchanges(t *testing.T) {
	trace := live.NewTrace()
	for n := range live.MaxParts + 1 {
		require.False(t, trace.Incomplete())
		span := ptrace.NewSpan()
		span.SetSpanID(id(300_000 + n))
		span.SetParentSpanID(id(400_000 + n))
		span.SetKind(ptrace.SpanKindClient)
		span.Attributes().PutStr("http.request.method", "POST")
		span.Attributes().PutInt("http.response.status_code", 200)
		trace.Set(live.Span{Span: span})
	}
	assert.True(t, trace.Incomplete())
}

// TestOnlyEnded checks that a tool which has ended does not show that none is running, where
// spans are reported once they have ended: of two calls, one has been executed, and the other
// one may be under way.
func TestOnlyEnded(t *testing.T) {
	for name, tt := range map[string]struct {
		open bool
		want semconv.RetrySafety
	}{
		"ended spans alone":   {false, semconv.RetrySafetyUserConfirmedRetry},
		"open ones were seen": {true, semconv.RetrySafetySafeAutoRetry},
	} {
		t.Run(name, func(t *testing.T) {
			trace := live.NewTrace()
			recognised := func(s live.Span, operation string) live.Span {
				s.Kind, s.Scope = live.KindOther, "github.com/otelllm/otelllm-go/otelllm"
				s.Attributes().PutStr("gen_ai.operation.name", operation)
				return s
			}
			tool := func(open bool) live.Span {
				return recognised(part(live.KindTool, 2, open, "llm.tool.effect", "read_only", "llm.tool.outcome", "succeeded", "gen_ai.tool.call.id", "a"), "execute_tool")
			}
			if tt.open {
				trace.Set(tool(true))
			}
			require.Equal(t, live.KindTool, trace.Set(tool(false)))
			calls := recognised(part(live.KindRequest, 1, false, "llm.stream.end", "terminal_event", "llm.stream.phase", "stream_end", "gen_ai.response.finish_reasons", []any{"tool_calls"},
				"llm.stream.text_chunks", 0, "llm.stream.tool_inputs_started", 2, "llm.stream.tool_inputs_completed", 2, "llm.stream.tool_calls", 2,
				"llm.stream.tool_call_ids", []any{"a", "b"}, "llm.request.provider_tools", []any{}, "llm.history.tool_calls", []any{}, "llm.history.tool_outputs", []any{}), "chat")
			calls.SetSpanID(id(9))
			require.Equal(t, live.KindRequest, trace.Set(calls))
			request := recognised(cut(5), "chat")
			for _, key := range []string{"llm.history.tool_calls", "llm.history.tool_outputs"} {
				request.Attributes().PutEmptySlice(key).AppendEmpty().SetStr("a")
			}
			require.Equal(t, live.KindRequest, trace.Set(request))
			assert.Equal(t, tt.want, judge(t, trace).Run.Retry.Safety)
		})
	}
}

// What is too far beneath a run to be found may have shown text.
func TestDeepChain(t *testing.T) {
	for _, between := range []int{100, 127, 128, 1000} {
		trace := live.NewTrace()
		trace.Set(part(live.KindRun, 1, false, "llm.run.tools", 0))
		trace.Set(cut(2))
		require.Equal(t, semconv.RetrySafetySafeAutoRetry, judge(t, trace).Run.Retry.Safety)
		above := id(1)
		for n := range between {
			other := part(live.KindOther, 1000+n, false)
			other.SetParentSpanID(above)
			trace.Set(other)
			above = other.SpanID()
		}
		text := cut(3)
		text.Attributes().Remove(string(semconv.RunIDKey))
		text.Attributes().PutInt("llm.stream.text_chunks", 3)
		text.SetParentSpanID(above)
		trace.Set(text)
		assert.Equal(t, semconv.RetrySafetyUserConfirmedRetry, judge(t, trace).Run.Retry.Safety, between)
	}
}

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
