package collector

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/semconv"
)

// The batch is one call of 128 traces with 1,662 spans and 8 attributes per span.
const (
	tracesPerBatch = 128
	spansPerBatch  = 1662
	attrsPerSpan   = 8
)

// mix selects the LLM spans of the batch. If a trace has any, its last span is the
// run's span, which names the run's requests and tools: the run is complete with the
// batch.
type mix struct {
	name string
	llm  func(i int) bool
	// apart sends the runs' own spans in a separate call after the others, so that the
	// others have to be held.
	apart bool
}

var mixes = []mix{
	{name: "every span, whole", llm: everySpan},
	{name: "every span, held apart", llm: everySpan, apart: true},
	{name: "one in ten, whole", llm: oneInTen},
	{name: "one in ten, held apart", llm: oneInTen, apart: true},
	{name: "none", llm: func(int) bool { return false }},
}

func everySpan(int) bool  { return true }
func oneInTen(i int) bool { return i%10 == 0 }

// batch returns one call, marshaled, and the number of its LLM spans. With open, the
// runs' own spans are left out, so that no run is complete.
func (m mix) batch(tb testing.TB, open bool) (data []byte, spans, llm int) {
	tb.Helper()
	td := ptrace.NewTraces()
	rs := td.ResourceSpans().AppendEmpty()
	rs.Resource().Attributes().PutStr("service.name", "agent")
	ss := rs.ScopeSpans().AppendEmpty()
	ss.Scope().SetName("bench")
	ordinal := 0
	for trace := range tracesPerBatch {
		n := spansPerBatch / tracesPerBatch
		if trace < spansPerBatch%tracesPerBatch {
			n++
		}
		run := pcommon.SpanID{0xbb, 6: byte(trace), 7: 255}
		requests := 0
		for i := range n {
			isRun := i == n-1 && requests > 0
			if isRun && open {
				continue
			}
			span := ss.Spans().AppendEmpty()
			span.SetTraceID(pcommon.TraceID{0xaa, 15: byte(trace)})
			span.SetSpanID(pcommon.SpanID{0xbb, 6: byte(trace), 7: byte(i)})
			span.SetStartTimestamp(pcommon.Timestamp(1_790_000_000_000_000_000 + i*1_000_000))
			span.SetEndTimestamp(span.StartTimestamp() + 900_000)
			a := span.Attributes()
			switch {
			case isRun:
				span.SetSpanID(run)
				span.SetName("invoke_agent coder")
				a.PutStr("gen_ai.operation.name", "invoke_agent")
				a.PutStr("gen_ai.agent.name", "coder")
				a.PutInt(string(semconv.RunRequestsKey), int64(requests))
				a.PutInt(string(semconv.RunToolsKey), 0)
			case m.llm(ordinal):
				requests++
				span.SetName("chat gpt-5")
				span.SetKind(ptrace.SpanKindClient)
				span.SetParentSpanID(run)
				a.PutStr("gen_ai.operation.name", "chat")
				a.PutStr("gen_ai.provider.name", "openai")
				a.PutStr("gen_ai.request.model", "gpt-5")
				a.PutStr(string(semconv.RunIDKey), run.String())
				a.PutStr(string(semconv.StreamEndKey), semconv.StreamEndTerminalEvent.String())
				a.PutStr(string(semconv.StreamPhaseKey), semconv.PhaseStreamEnd.String())
				a.PutInt("http.response.status_code", 200)
			default:
				span.SetName("SELECT orders")
				span.SetKind(ptrace.SpanKindClient)
				a.PutStr("db.system.name", "postgresql")
			}
			if isRun || m.llm(ordinal) {
				llm++
			}
			ordinal++
			for k := a.Len(); k < attrsPerSpan; k++ {
				a.PutStr(fmt.Sprintf("app.attribute.%d", k), "a value as long as most of them")
			}
		}
	}
	data, err := (&ptrace.ProtoMarshaler{}).MarshalTraces(td)
	require.NoError(tb, err)
	return data, td.SpanCount(), llm
}

// fresh unmarshals data n times. No two results share a trace ID with each other or
// with an earlier result.
func fresh(tb testing.TB, data []byte, n int) []ptrace.Traces {
	tb.Helper()
	all := make([]ptrace.Traces, n)
	for i := range all {
		td, err := (&ptrace.ProtoUnmarshaler{}).UnmarshalTraces(data)
		require.NoError(tb, err)
		generation++
		for _, span := range td.ResourceSpans().At(0).ScopeSpans().At(0).Spans().All() {
			id := span.TraceID()
			binary.BigEndian.PutUint64(id[:], generation)
			span.SetTraceID(id)
		}
		all[i] = td
	}
	return all
}

var generation uint64

// calls returns n batches as the sequence of calls that sends them.
func (m mix) calls(tb testing.TB, data []byte, n int) []ptrace.Traces {
	tb.Helper()
	batches := fresh(tb, data, n)
	if !m.apart {
		return batches
	}
	calls := make([]ptrace.Traces, 0, 2*n)
	for _, td := range batches {
		runs := ptrace.NewTraces()
		rs := td.ResourceSpans().At(0)
		to := runs.ResourceSpans().AppendEmpty()
		rs.Resource().CopyTo(to.Resource())
		rs.ScopeSpans().At(0).Scope().CopyTo(to.ScopeSpans().AppendEmpty().Scope())
		rs.ScopeSpans().At(0).Spans().RemoveIf(func(span ptrace.Span) bool {
			if _, is := span.Attributes().Get(string(semconv.RunRequestsKey)); !is {
				return false
			}
			span.MoveTo(to.ScopeSpans().At(0).Spans().AppendEmpty())
			return true
		})
		calls = append(calls, td, runs)
	}
	return calls
}
